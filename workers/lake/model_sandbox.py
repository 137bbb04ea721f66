"""A model file is read, and scores rows, in a process that has nothing to lose.

The frameworks' readers are C++ and trust the file: about 4% of CatBoost's files with a few bytes
changed end the process that loads them, a third of LightGBM's, a tenth of XGBoost's. A child of its
own holds each file (`workers.contained`), so that no file meets what another has left. It gets
features that it cannot change, and answers numbers, which are checked here.
"""

import functools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from privcore.exceptions import TransientError
from workers.contained import Contained, ContainedError, Held
from workers.contained_child import IDLE_SECONDS, WithBytes
from workers.lake import limits
from workers.lake.formats import NAMES, check_installed
from workers.lake.formats.contract import Category, CountedRows, ModelDescription
from workers.lake.formats.inputs import ModelInputs
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
_MOST_HELD = 32
"""Model files that are held at once: both of each model of a pass."""
_SLOWER = 10
"""How much longer than a trial row a row may take."""
_WAY_OUT = (
    "which may hold code and is never read; save the model in its framework's own format, or give "
    "its probabilities as a table ([models.scores])"
)


class UnreadableModelError(Exception):
    """A model file cannot be scored with; `why` completes "the file ..."."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


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
        found = _holding(content, format).begin()
    except ContainedError as error:
        other = _other_file(content, format) if error.kind == "raised" else ""
        why = f"cannot be read: it is {other}" if other else why_unread(error, name)
        raise UnreadableModelError(why) from None
    said = _answered(found, name)
    return ModelDescription(
        said.kinds,
        said.names,
        said.classes,
        said.class_count,
        CountedRows(*said.rows) if said.rows else None,
        said.unserved,
        said.categories,
        said.takes,
        said.row_seconds,
    )


def score_rows(
    content: bytes,
    described: ModelDescription,
    inputs: ModelInputs,
    *,
    format: str,  # noqa: A002
) -> NDArray[np.float64]:
    """Return what a model that `describe_model` was content with says of rows.

    Its child is kept for the next rows, and so is how it ended if it did.

    Returns:
        Probabilities of shape (records, classes), or what else it says.

    Raises:
        UnreadableModelError: it ends its process, takes too long or too much memory, or gives no
            answer for each row.
    """
    rows, classes = inputs.frame.height, described.class_count
    most = rows * classes * np.dtype(np.float64).itemsize
    if not most:
        return np.empty((rows, classes))
    seconds = limits.MODEL_SECONDS + int(_SLOWER * described.row_seconds * rows)
    bounds = {"file": inputs.file(), "seconds": seconds, "at_most": most}
    found = _asked(content, format, {"verb": "score"}, **bounds)
    if not isinstance(found, WithBytes) or len(found.content) != most:
        raise UnreadableModelError(f"gives no answer of {classes} classes for each of {rows} rows")
    return np.frombuffer(found.content).reshape(rows, classes)


def known_words(content: bytes, place: int, words: tuple[str, ...], *, about: str) -> set[str]:
    """Return which of the words a CatBoost model knows as a category of the feature at a place.

    It is asked once about each thing that `about` says: later rows hold other whole numbers.

    Raises:
        UnreadableModelError: as `score_rows`.
    """
    known = _holding(content, "catboost").known
    if about not in known:
        asked = {"verb": "known", "place": place, "words": words}
        found = _asked(content, "catboost", asked)
        known[about] = {word for word in words if isinstance(found, list) and word in found}
    return known[about]


def _asked(content: bytes, format: str, about: dict[str, Any], **bounds: int) -> Any:  # noqa: A002
    """Return what a model's child answers."""
    try:
        found = _holding(content, format).ask(about, **bounds)
    except ContainedError as error:
        raise UnreadableModelError(why_unscored(error, NAMES[format])) from None
    if isinstance(found, dict) and isinstance(refused := found.get("refused"), str):
        raise UnreadableModelError(refused[: limits.REASON_CHARACTERS])
    return found


class _GoneError(Exception):
    """What a child was forked from went away as it was asked."""


class _Holding:
    """A model file in a child that is held, begun anew where it was let go."""

    def __init__(self, content: bytes, format: str) -> None:  # noqa: A002
        self.known: dict[str, set[str]] = {}
        self._content = content
        self._format = format
        self._held: Held | None = None
        self._asked = 0.0
        self._ended: ContainedError | None = None
        self._lock = threading.Lock()

    def begin(self) -> Any:
        """Return what the file says of itself, in a new child."""
        with self._lock:
            self._end()
            self._ended = None
            return self._patiently({"verb": "describe"})

    def ask(self, about: dict[str, Any], **bounds: int) -> Any:
        """Return an answer of the model."""
        with self._lock:
            if self._ended is not None:
                raise self._ended
            return self._patiently(about, **bounds)

    def let_go(self) -> None:
        """End the child."""
        with self._lock:
            self._end()

    def _patiently(self, about: dict[str, Any], **bounds: int) -> Any:
        """Return an answer; a file beside it may have ended what both were forked from, once."""
        for _ in range(2):
            try:
                return self._ask(_contained(self._format).hold, about, **bounds)
            except ContainedError as error:
                ended = error
                break
            except _GoneError:
                ended = ContainedError("ended what it was read in", "crashed")
                self._end()
        self._end()
        self._ended = ended
        raise ended

    def _ask(self, hold: Callable[[], Held], about: dict[str, Any], **bounds: int) -> Any:
        begin, now = about["verb"] == "describe", time.monotonic()
        if now - self._asked > IDLE_SECONDS / 2:
            self._end()
        self._asked = now
        new = self._held is None
        held = self._held = self._held or hold()
        try:
            if new and not begin:
                held.ask(self._content, {"verb": "load"}, at_most=0)
            return held.ask(self._content if begin else b"", about, **bounds)
        except TransientError:
            raise _GoneError from None

    def _end(self) -> None:
        if self._held is not None:
            self._held.end()
            self._held = None


_held: OrderedDict[tuple[str, bytes], _Holding] = OrderedDict()
_holders = threading.Lock()


def _holding(content: bytes, format: str) -> _Holding:  # noqa: A002
    """Return the holder of a file; the one that was asked longest ago may be let go for it."""
    key = format, content
    with _holders:
        found = _held.setdefault(key, _Holding(content, format))
        _held.move_to_end(key)
        last = _held.popitem(last=False)[1] if len(_held) > _MOST_HELD else None
    if last is not None:
        last.let_go()
    return found


def let_go() -> None:
    """End the children of all model files."""
    with _holders:
        last = list(_held.values())
        _held.clear()
    for each in last:
        each.let_go()


class _Answer(StrictModel):
    """What a reader says of a file, which may have taken it over."""

    kinds: Annotated[tuple[Literal["numeric", "categorical"] | None, ...], _FEW]
    names: Annotated[tuple[str, ...] | None, _FEW]
    classes: Annotated[tuple[str, ...] | None, _FEW]
    class_count: int = Field(ge=0, le=_MOST)
    rows: tuple[Annotated[int, Field(ge=0, le=_MOST_ROWS)], bool] | None = None
    unserved: int = Field(default=0, ge=0, le=_MOST)
    categories: Annotated[tuple[tuple[tuple[Category, int], ...] | None, ...], _FEW] = ()
    takes: Annotated[tuple[tuple[str, str], ...], _FEW] = ()
    row_seconds: float = Field(default=0.0, ge=0.0, le=limits.MODEL_ROW_SECONDS)


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


def why_unscored(error: ContainedError, name: str) -> str:
    """Return in words how a model ended as it scored rows; completes "the model ..."."""
    if error.kind == "raised":
        return f"cannot score these rows with {name}: export it again"
    return f"cannot score these rows: {name} {error.why}"


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
    """Return the process whose children read a format, and score with it."""
    return Contained(
        f"workers.lake.formats.{format}:answer",
        seconds=limits.MODEL_SECONDS,
        memory=limits.MODEL_MEMORY_BYTES,
        fork=True,
        without=_NOT_NEEDED.get(format, ()),
    )
