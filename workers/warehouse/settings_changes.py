"""Changes of what a model's settings say of its audit, from one audited night to the next."""

import functools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

_OF_ALERTS = ("notify", "deadline")
"""Columns that say who hears of the audit, and when it is missed; null where no settings asked."""
COLUMNS = (
    "plan",
    "source",
    "decoy_commitment",
    "output_correction",
    "exploratory",
    *_OF_ALERTS,
)
"""Columns of a night that are compared."""
NO_VERDICT = {"slices", "minimum_slice_records", "secrets", "advantage"}
"""Fields of a plan on which no verdict depends; on the seed it does, by chance."""
_OF_ONE_NIGHT = {"version"}
"""Keys of a source that change with each night; not of a feature that is called so."""
COLUMNS_OF_FEATURES = "columns"
"""Key of a source's part whose own keys are names of features."""
_PARTS = {"tables": "scores", "labels": "labels", "checkpoints": "checkpoints"}
"""Parts of a source that are settings, and their names there. Others are what was found."""
_SHOWN, _CHARACTERS = 5, 60


def settings_change(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str | None:
    """Return how plan, places and alerts differ from those of the night before; None where alike.

    A person who may change one model's settings can have another column audited as the model,
    choose a significance that refutes nothing, or take names out of its alerts. Decoys, and a
    correction of the audited probabilities, change the question, too. An exploratory audit is
    compared with none: it says itself that its plan is another one.

    >>> night = {"day": "2026-04-01", "plan": '{"significance": 0.05}'}
    >>> night |= dict.fromkeys(("source", "decoy_commitment", "output_correction"))
    >>> night |= {"notify": '["anna"]', "deadline": "09:00:00 UTC"}
    >>> settings_change(night, night | {"day": "2026-04-02", "plan": '{"significance": 0.001}'})
    'The settings of the audit changed after 2026-04-01: plan.significance was 0.05 and is 0.001.'
    """
    if before is None or before.get("exploratory") or now.get("exploratory"):
        return None
    known = [name for name in _OF_ALERTS if None not in {before[name], now[name]}]
    was, is_now = _settings(before, known), _settings(now, known)
    if was == is_now:
        return None
    changed = [name for name in sorted({*was, *is_now}) if was.get(name) != is_now.get(name)]
    words = [
        f"{_short(name)} was {_word(was.get(name))} and is {_word(is_now.get(name))}"
        for name in _shown(changed, was)
    ]
    more = len(changed) - len(words)
    if more:
        words.append(f"so did {more} other{'s' if more > 1 else ''}")
    return f"The settings of the audit changed after {before['day']}: {'; '.join(words)}."


def _settings(night: Mapping[str, Any], of_alerts: Collection[str]) -> dict[str, Any]:
    """Return what decides what is read, how it is judged and who hears of it, by its name."""
    found = dict(_planned(night["plan"]))
    found["decoys"] = night["decoy_commitment"] is not None
    correction = json.loads(night["output_correction"] or "null")
    found |= dict(_leaves(correction, "output_correction"))
    source = {} if night["source"] is None else json.loads(night["source"])
    for part, name in _PARTS.items():
        found |= dict(_leaves(source.get(part), name))
    if "notify" in of_alerts:
        found |= {f"notify.{json.dumps(name)}": True for name in json.loads(night["notify"])}
    if "deadline" in of_alerts:
        found["deadline"] = night["deadline"]
    return found


@functools.lru_cache  # years of nights have one plan
def _planned(plan: str) -> Mapping[str, Any]:
    """Return a plan's fields by their names in the settings."""
    given = json.loads(plan)
    return {f"plan.{name}": given[name] for name in given if name not in NO_VERDICT}


def _shown(changed: Iterable[str], was: Mapping[str, Any]) -> Iterator[str]:
    """Yield which changes are named: the plan's all, and some of each other kind.

    Columns, and names of people, may be many: these must hide no change of another kind.
    """
    kinds: dict[str, list[str]] = {"audit": [], "names taken out": [], "places": [], "names": []}
    for name in changed:
        first = name.partition(".")[0]
        if first == "notify":
            kinds["names taken out" if name in was else "names"].append(name)
        else:
            kinds["places" if first in _PARTS.values() else "audit"].append(name)
    yield from kinds.pop("audit")
    for names in kinds.values():
        yield from names[:_SHOWN]


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in _OF_ONE_NIGHT or name.endswith(f".{COLUMNS_OF_FEATURES}"):
                yield from _leaves(inner, f"{name}.{key}")
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for place, each in enumerate(value):
            yield from _leaves(each, f"{name}.{place}")
    elif value is not None:
        yield name, value


def _word(value: Any) -> str:
    return "nothing" if value is None else _short(json.dumps(value))


def _short(word: str) -> str:
    return word if len(word) <= _CHARACTERS else f"{word[:_CHARACTERS]}..."
