"""Text of a settings file that says what a proposal chose, and why."""

import pathlib
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
    *,
    folder: pathlib.Path,
) -> str:
    """Return `[[models]]` with every choice explained beside it.

    Columns' names and labels may be anybody's: a line break in one is written as an escape, so that
    none adds a line to the settings.

    Args:
        name: of the model.
        table: its first table.
        proposal: what was chosen, and why.
        privacy: what is declared, if anything.
        label_state: what the label's column holds.
        folder: of the settings file. What lies below it is named from there, so that the folder
            can be moved or shared.
    """
    part = "[models.scores]" if proposal.checkpoints is None else "[models.labels]"
    table = _from(folder, table)
    settings, offered = (
        {key: _with_table_from(folder, value) for key, value in part.items()}
        for part in (proposal.settings, proposal.offered)
    )
    lines = ["[[models]]", f"name = {_toml(name)}", part, f"table = {_toml(table)}"]
    for prefix, keys in (("", settings), ("# ", offered)):
        lines += [
            f"{prefix}{key} = {_toml(value)}  # {plain_text(proposal.why[key])}"
            for key, value in keys.items()
        ]
    if label_state is not None:
        lines.append(f"label_state = {_toml(label_state)}  # as you said")
    if proposal.unused:
        reasons = (f"{name} ({why})" for name, why in proposal.unused.items())
        lines.append(f"# not used: {plain_text(', '.join(reasons))}")
    if (path := proposal.checkpoints) is not None:
        path = _from(pathlib.Path(str(folder).replace("{", "{{").replace("}", "}}")), path)
        lines += ["[models.checkpoints]", f"path = {_toml(path)}  # as you said"]
    if privacy:
        lines += ["[models.privacy]", *(f"{key} = {_toml(one)}" for key, one in privacy.items())]
    return "\n".join(lines) + "\n"


def _with_table_from(folder: pathlib.Path, value: Any) -> Any:
    """Return a setting; of one that names a table of its own, that is named from the folder."""
    if isinstance(value, Mapping) and "table" in value:
        return {**value, "table": _from(folder, value["table"])}
    return value


def _from(folder: pathlib.Path, place: str) -> str:
    """Return a path below a folder as it is named from there, and any other place as it is."""
    path = pathlib.PurePath(place)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else place


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
