"""A model file is first read where it may crash: in a process that has nothing to lose.

The frameworks' readers are C++ and trust the file: about 4% of CatBoost's files with a few bytes
changed end the process that loads them, a third of LightGBM's, a tenth of XGBoost's. A child of its
own reads each file and scores one row (`workers.contained`), so that no file meets what another has
left; of CatBoost's, what it has read is written anew, and no other process reads the file itself.
"""

import functools
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from workers.contained import Contained, ContainedError
from workers.contained_child import WithBytes
from workers.lake import limits
from workers.lake.formats import NAMES, check_installed
from workers.lake.formats.counted_rows import CountedRows
from workers.strict_model import StrictModel

_CODE = {b"\x80": "a pickle", b"PK\x03\x04": "a zip archive, as of skops or TorchScript"}
"""First bytes of files that can hold code."""
_SAVED = {
    "CatBoost": 'save_model("model.cbm")',
    "XGBoost": 'save_model("model.ubj")',
    "LightGBM": 'booster_.save_model("model.txt")',
    "ONNX": 'onnx.save(model, "model.onnx")',
}
"""How a model is saved so that it can be read."""
_BEGIN = 4096
_BEGINS = {"catboost": b"CBM1", "lightgbm": b"tree\n", "xgboost dump of trees": b"booster[0]",
           "xgboost dump of trees as JSON": b"["}  # fmt: skip
_JSON = {
    "catboost export as JSON": (b'"features_info"', b'"scale_and_bias"'),
    "lightgbm dump as JSON": (b'"tree_info"', b'"max_feature_idx"'),
    "xgboost": (b"learner", b"gradient_booster"),
}
"""How files of each framework begin, or which words their JSON holds."""
_NOT_NEEDED = {"xgboost": ("sklearn",), "lightgbm": ("pandas", "sklearn")}
"""Modules that a framework imports if they exist, unused by its reader: 80 of 130 MB each."""
_MOST, _MOST_ROWS = 1 << 20, 1 << 53
"""Features, classes and rounds that a model has at most, and rows that trained it."""
_FEW = Field(max_length=_MOST)
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
    name = NAMES[format]  # its library is for the child alone: some take seconds to import
    for begin, what in _CODE.items():
        if content.startswith(begin):
            raise UnreadableModelError(f"is not in {name}'s format: it is {what}, {_WAY_OUT}")
    try:
        found = _contained(format)(content)
    except ContainedError as error:
        other = _other_file(content, format) if error.kind == "raised" else ""
        why = f"cannot be read: it is {other}" if other else why_unread(error, name)
        raise UnreadableModelError(why) from None
    anew = None
    if isinstance(found, WithBytes):
        found, anew = found.value, found.content
        if len(anew) > limits.CHECKPOINT_BYTES:
            raise UnreadableModelError(
                f"cannot be read: {name}'s reader made more than the {limits.CHECKPOINT_BYTES:,} "
                "bytes of it that a model file may have"
            )
    said = _answered(found, name)
    return ModelDescription(
        said.kinds,
        said.names,
        said.classes,
        said.class_count,
        CountedRows(*said.rows) if said.rows else None,
        said.unserved,
        anew,
    )


class _Answer(StrictModel):
    """What a reader says of a file, which may have taken it over."""

    kinds: Annotated[tuple[Literal["numeric", "categorical"] | None, ...], _FEW]
    names: Annotated[tuple[str, ...] | None, _FEW]
    classes: Annotated[tuple[str, ...] | None, _FEW]
    class_count: int = Field(ge=0, le=_MOST)
    rows: tuple[Annotated[int, Field(ge=0, le=_MOST_ROWS)], bool] | None = None
    unserved: int = Field(default=0, ge=0, le=_MOST)


def _answered(found: Any, name: str) -> _Answer:
    """Return a reader's answer."""
    if isinstance(found, dict) and isinstance(refused := found.get("refused"), str):
        raise UnreadableModelError(refused[: limits.REASON_CHARACTERS])
    try:
        return _Answer.model_validate(found)
    except ValidationError:
        why = f"cannot be read: {name}'s reader gave an answer that is none"
        raise UnreadableModelError(why) from None


def why_unread(error: ContainedError, name: str) -> str:
    """Return in words how a format's reader ended; completes "the file ..."."""
    if error.kind == "raised":
        return f"is not in {name}'s format, or is damaged: save it again, by {_SAVED[name]}"
    return f"cannot be read: {name} {error.why}"


def _other_file(content: bytes, format: str) -> str:  # noqa: A002
    """Return what a file is that is none of the format, and what to do; "" where nothing tells."""
    begin = content[:_BEGIN].lstrip()
    if begin.startswith(b"{"):
        found = next((one for one, words in _JSON.items() if all(w in content for w in words)), "")
    elif format == "xgboost" and (begin.startswith((b"binf", b"bs64")) or b"gbtree" in begin):
        return (
            "XGBoost's old binary format, which XGBoost 3.1 and newer do not read: load it with "
            'an older XGBoost, and save it as save_model("model.ubj")'
        )
    else:
        found = next((one for one, word in _BEGINS.items() if begin.startswith(word)), "")
    if found == format:
        return ""
    if found in NAMES:
        return f"a file of {NAMES[found]}: give it the format, or the ending, of {NAMES[found]}"
    form = found.partition(" ")[0]
    return found and f"{NAMES[form]}'s {found.partition(' ')[2]}: save it by {_SAVED[NAMES[form]]}"


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
