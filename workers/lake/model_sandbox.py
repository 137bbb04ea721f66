"""A model file is first read where it may crash: in a process that has nothing to lose.

The frameworks' readers are C++ and trust the file: about 4% of CatBoost's files with a few bytes
changed end the process that loads them, a third of LightGBM's, a tenth of XGBoost's. A child of its
own reads each file and scores one row (`workers.contained`), so that no file meets what another has
left; of CatBoost's, what it has read is written anew, and no other process reads the file itself.
"""

import functools
from dataclasses import dataclass, field

from workers.contained import Contained, ContainedError
from workers.contained_child import WithBytes
from workers.lake import limits
from workers.lake.formats import check_installed, format_named
from workers.lake.formats.counted_rows import CountedRows

_CODE = {b"\x80": "a pickle", b"PK\x03\x04": "a zip archive, as of skops or TorchScript"}
"""First bytes of files that can hold code."""
_NOT_NEEDED = {"xgboost": ("sklearn",), "lightgbm": ("pandas", "sklearn")}
"""Modules that a framework imports if they exist, unused by its reader: 80 of 130 MB each."""
_WAY_OUT = (
    "which may hold code and is never read; save the model in its framework's own format, or give "
    "its probabilities as a table ([models.scores])"
)


class UnreadableModelError(Exception):
    """A model file cannot be scored with; `why` completes "the file ..."."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """Description of a model file by itself.

    Attributes:
        kinds: of each feature, in the model's order: `numeric`, `categorical`, or None where the
            file does not say.
        names: of the features; None where the file has none.
        classes: as text, in the order of the probabilities; None where the file names none.
        class_count: how many there are.
        rows: how many rows trained it; None where the file does not say.
        unserved_rounds: of boosting that it holds and does not predict with.
        content: the file to score with where it is not the one that was given: written anew by who
            read it, since that one may crash or hang the next reader.
    """

    kinds: tuple[str | None, ...]
    names: tuple[str, ...] | None
    classes: tuple[str, ...] | None
    class_count: int
    rows: CountedRows | None = None
    unserved_rounds: int = 0
    content: bytes | None = field(default=None, compare=False, repr=False)


def describe_model(content: bytes, *, format: str = "catboost") -> ModelDescription:  # noqa: A002
    """Return what the model file `content` says of itself.

    Raises:
        UnreadableModelError: it is not in its format, or reading it or scoring a row with it
            crashes, or takes too long or too much memory; or it is a model that gives no
            probabilities of classes.
    """
    check_installed(format)
    name = format_named(format).NAME
    for begin, what in _CODE.items():
        if content.startswith(begin):
            raise UnreadableModelError(f"is not in {name}'s format: it is {what}, {_WAY_OUT}")
    try:
        found = _contained(format)(content)
    except ContainedError as error:
        raise UnreadableModelError(why_unread(error, name)) from None
    anew = None
    if isinstance(found, WithBytes):
        found, anew = found.value, found.content
    if "refused" in found:
        raise UnreadableModelError(found["refused"])
    return ModelDescription(
        tuple(found["kinds"]),
        found["names"] and tuple(found["names"]),
        found["classes"] and tuple(found["classes"]),
        int(found["class_count"]),
        CountedRows(*found["rows"]) if found.get("rows") else None,
        int(found.get("unserved", 0)),
        anew,
    )


def why_unread(error: ContainedError, name: str) -> str:
    """Return in words how a format's reader ended; completes "the file ..."."""
    why = f"is not in {name}'s format" if error.kind == "raised" else "cannot be read"
    return f"{why}: {name} {error.why}"


@functools.cache
def _contained(format: str) -> Contained:  # noqa: A002
    """Return the process that reads a format; each call has a child of its own."""
    return Contained(
        f"workers.lake.formats.{format}:describe",
        seconds=limits.MODEL_SECONDS,
        memory=limits.MODEL_MEMORY_BYTES,
        fork=True,
        without=_NOT_NEEDED.get(format, ()),
    )
