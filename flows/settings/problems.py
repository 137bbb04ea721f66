"""Problems of a settings file, in words: the key, the rule, and what to write instead."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from privcore.exceptions import TerminalError

_SHORT_TIME = re.compile(r"^[ \t]*[\w.]+[ \t]*=[ \t]*\d{1,2}:\d{2}[ \t]*(#.*)?$", re.MULTILINE)


class SettingsError(TerminalError):
    """The settings cannot be read; the sentence says which part and what to do.

    `problems` holds one "key: what is wrong" for each value that breaks a rule.
    """

    def __init__(self, sentence: str, problems: tuple[str, ...] = ()) -> None:
        self.sentence = sentence
        self.problems = problems
        super().__init__(sentence)


def problems(error: ValidationError, of: type[BaseModel]) -> tuple[str, ...]:
    """Return one "key: what is wrong" for each value that breaks a rule of the model `of`."""
    found = error.errors(include_url=False, include_input=False)
    around = {one["loc"][:depth] for one in found for depth in range(len(one["loc"]))}
    # A list whose entries are wrong is called too short, too: that is no second problem.
    return tuple(
        _problem(one, of) for one in found if one["type"] != "too_short" or one["loc"] not in around
    )


def toml_hint(text: str) -> str:
    """Return what may be wrong with a text that is no TOML, where it is the usual slip."""
    if _SHORT_TIME.search(text):
        return " (a time of day is written with its seconds: deadline = 09:00:00)"
    return ""


def _problem(problem: Any, of: type[BaseModel]) -> str:
    place: tuple[str | int, ...] = problem["loc"]
    key = ".".join(str(part) for part in place)
    if problem["type"] == "extra_forbidden":
        return f"{key}: there is no such key{did_you_mean(str(place[-1]), _keys(of, place))}"
    return f"{key}: {problem['msg'].removeprefix('Value error, ')}"


def _keys(of: type[BaseModel], place: Sequence[str | int]) -> list[str]:
    """Return the keys that there are beside the last one of `place`."""
    within = of
    for part in place[:-1]:
        if isinstance(part, str):
            field = within.model_fields.get(part)
            found = next(_models(field.annotation), None) if field is not None else None
            if found is None:
                return []
            within = found
    return list(within.model_fields)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation names, however deep."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ", did you mean 'x'?", or nothing where no known name is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""
