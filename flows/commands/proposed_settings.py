"""Text of a settings file that says what a proposal chose, and why."""

import re
from collections.abc import Mapping
from typing import Any

from workers.plain_text import plain_text
from workers.sources.proposal import Proposal


def as_toml(
    name: str,
    table: str,
    proposal: Proposal,
    privacy: Mapping[str, Any],
    label_state: str | Mapping[str, Any] | None = None,
) -> str:
    """Return `[[models]]` with every choice explained beside it.

    `privacy` is what is declared, if anything, `label_state` what the label's column holds.

    Columns' names and labels may be anybody's: a line break in one is written as an escape, so that
    none adds a line to the settings.
    """
    scored = proposal.checkpoints is not None
    part = "[models.labels]" if scored else "[models.scores]"
    lines = ["[[models]]", f"name = {_toml(name)}", part, f"table = {_toml(table)}"]
    for prefix, keys in (("", proposal.settings), ("# ", proposal.offered)):
        lines += [
            f"{prefix}{key} = {_toml(value)}  # {plain_text(proposal.why[key])}"
            for key, value in keys.items()
        ]
    if label_state is not None:
        lines.append(f"label_state = {_toml(label_state)}  # as you said")
    if proposal.unused:
        reasons = (f"{name} ({why})" for name, why in proposal.unused.items())
        lines.append(f"# not used: {plain_text(', '.join(reasons))}")
    if scored:
        lines += ["[models.checkpoints]", f"path = {_toml(proposal.checkpoints)}  # as you said"]
    if privacy:
        lines += ["[models.privacy]", *(f"{key} = {_toml(one)}" for key, one in privacy.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{plain_text(escaped)}"'
    if isinstance(value, Mapping):
        bare = re.compile(r"[A-Za-z0-9_-]+").fullmatch
        keys = [key if bare(key) else _toml(key) for key in value]
        pairs = ", ".join(
            f"{key} = {_toml(one)}" for key, one in zip(keys, value.values(), strict=True)
        )
        return f"{{ {pairs} }}"
    return str(value).lower() if isinstance(value, bool) else str(value)
