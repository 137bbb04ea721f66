"""A model file is read, and scores rows, in a process that has nothing to lose.

The frameworks' readers are C++ and trust the file: about 4% of CatBoost's files with a few bytes
changed end the process that loads them, a third of LightGBM's, a tenth of XGBoost's. A child holds
the files of one model (`workers.contained`), so that no model meets what another has left. It gets
features that it cannot change, and answers numbers, which are checked here.
"""

import functools
import threading
import time
from collections import OrderedDict
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from privcore.attacks.label_sums import Ensemble, Tree
from privcore.exceptions import TransientError
from workers.contained import Contained, ContainedError, Held
from workers.contained_child import IDLE_SECONDS, WithBytes
from workers.lake import limits
from workers.lake.formats import NAMES, check_installed
from workers.lake.formats.contract import ModelRefusedError
from workers.lake.formats.inputs import MOST, ModelDescription, ModelInputs
from workers.strict_model import StrictModel

_CODE = {b"\x80": "a pickle", b"PK\x03\x04": "a zip archive, as of skops or TorchScript"}
"""First bytes of files that can hold code."""
_SAVED = {
    "CatBoost": 'save_model("model.cbm")',
    "XGBoost": 'save_model("model.ubj")',
    "LightGBM": 'booster_.save_model("model.txt")',
    "ONNX": 'onnx.save(model, "model.onnx")',
    "n-gram": "`privaudit memorization fit`",
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
_TREE_BYTES = 256 << 20
"""Nodes of the trees whose leaves are read."""
_MOST_HELD, _MOST_FILES = 16, 4
"""Models whose files are held at once, and files of one: both of each audit of a pass."""
_SLOWER = 10
"""How much longer than a trial row a row may take."""
_WAY_OUT = (
    "which may hold code and is never read; save the model in its framework's own format, or give "
    "its probabilities as a table ([models.scores])"
)


def describe_model(content: bytes, *, form: str = "catboost", model: str = "") -> ModelDescription:
    """Return what the model file `content` says of itself.

    Files of one `model` share a child; a file of none has a child of its own.

    Raises:
        ModelRefusedError: it is not in its format, or reading it or scoring a row with it
            crashes, or takes too long or too much memory; or it is a model that gives no
            probabilities of classes.
    """
    check_installed(form)
    name = NAMES[form]  # its library is for the child alone: some take seconds to import
    for begin, what in _CODE.items():
        if content.startswith(begin):
            raise ModelRefusedError(f"is not in {name}'s format: it is {what}, {_WAY_OUT}")
    try:
        found = _holding(form, model or content).ask(content, {"verb": "describe"})
    except ContainedError as error:
        other = _other_file(content, form) if error.kind == "raised" else ""
        why = f"cannot be read: it is {other}" if other else why_unread(error, name)
        raise ModelRefusedError(why) from None
    try:
        return ModelDescription.model_validate(_unrefused(found))
    except ValidationError:
        why = f"cannot be read: {name}'s reader gave an answer that is none"
        raise ModelRefusedError(why) from None


def score_rows(
    content: bytes, described: ModelDescription, inputs: ModelInputs, *, form: str, model: str = ""
) -> NDArray[np.float64]:
    """Return what a model that `describe_model` was content with says of rows.

    Its child is kept for the next rows, and so is how it ended if it did.

    Returns:
        Probabilities of shape (records, classes), or what else it says.

    Raises:
        ModelRefusedError: it ends its process, takes too long or too much memory, or gives no
            answer for each row.
    """
    rows, classes = inputs.frame.height, described.class_count
    most = rows * classes * np.dtype(np.float64).itemsize
    if not most:
        return np.empty((rows, classes))
    seconds = limits.MODEL_SECONDS + int(_SLOWER * described.row_seconds * rows)
    bounds = {"file": inputs.file(), "seconds": seconds, "at_most": most}
    found = _asked(_holding(form, model or content), content, {"verb": "score"}, **bounds)
    if not isinstance(found, WithBytes) or len(found.content) != most:
        raise ModelRefusedError(f"gives no answer of {classes} classes for each of {rows} rows")
    return np.frombuffer(found.content).reshape(rows, classes)


def read_leaves(
    content: bytes, inputs: ModelInputs, *, form: str, model: str = "", most: int
) -> tuple[Ensemble, NDArray[np.int32]]:
    """Return a model's first trees, and the leaf of each row in each of them.

    Args:
        content: of a model that `describe_model` was content with.
        inputs: the rows.
        form: format of the model.
        model: whose files share a child.
        most: trees that are read.

    Raises:
        ModelRefusedError: as `score_rows`; or the model's leaves are no steps that are known.
    """
    rows = inputs.frame.height
    at_most = 4 * rows * most + _TREE_BYTES
    bounds = {"file": inputs.file(), "at_most": at_most}
    found = _asked(
        _holding(form, model or content), content, {"verb": "leaves", "most": most}, **bounds
    )
    try:
        said = _Leaves.model_validate(found.value)
        nodes = np.frombuffer(found.content, count=4 * sum(said.nodes)).reshape(-1, 4)
        size = rows * len(said.nodes)
        leaves = np.frombuffer(found.content, dtype=np.int32, offset=nodes.nbytes, count=size)
        grown = np.split(nodes, np.cumsum(said.nodes)[:-1])
        trees = tuple(
            Tree(tree[:, 0].astype(np.int64), tree[:, 1], rate, tree[:, 2] != 0.0, tree[:, 3])
            for tree, rate in zip(grown, said.rates, strict=True)
        )
    except (ValueError, AttributeError):
        why = f"cannot be read: {NAMES[form]}'s reader gave leaves that are none"
        raise ModelRefusedError(why) from None
    about = said.model_dump(exclude={"nodes", "rates"})
    return Ensemble(trees, **about), leaves.reshape(rows, len(trees))


def known_words(
    content: bytes, place: int, words: tuple[str, ...], *, about: str, model: str = ""
) -> set[str]:
    """Return which of the words a CatBoost model knows as a category of the feature at a place.

    It is asked once about each thing that `about` says: later rows hold other whole numbers.

    Raises:
        ModelRefusedError: as `score_rows`.
    """
    holding = _holding("catboost", model or content)
    if (content, about) not in holding.known:
        found = _asked(holding, content, {"verb": "known", "place": place, "words": words})
        known = {word for word in words if isinstance(found, list) and word in found}
        holding.known[content, about] = known
    return holding.known[content, about]


class Holding:
    """Files of one model in a child that is held, begun anew where it was let go.

    Attributes:
        name: of their framework.
        known: words that a file knows, as `known_words`.
    """

    def __init__(self, name: str, contained: Contained) -> None:
        self.name = name
        self._contained = contained
        self.known: dict[tuple[bytes, str], set[str]] = {}
        self._numbers: dict[bytes, int] = {}
        self._ended: dict[bytes, ContainedError] = {}
        self._held: Held | None = None
        self._asked = 0.0
        self._lock = threading.Lock()

    def ask(self, content: bytes, about: dict[str, Any], **bounds: int) -> Any:
        """Return an answer about a file; how it ended its child is kept until it is described.

        It is asked again where a file beside it, or what their child was forked from, may be why.
        """
        with self._lock:
            if about["verb"] == "describe":
                self._ended.pop(content, None)
            elif content in self._ended:
                raise self._ended[content]
            for _ in range(3):
                held = self._begun(content)
                try:
                    return self._ask(held, content, about, **bounds)
                except TransientError:
                    ended, sure = ContainedError("ended what it was read in", "crashed"), False
                except ContainedError as error:
                    ended, sure = error, len(self._numbers) == 1 or error.kind == "seconds"
                self._end()
                if sure:
                    break
            self._ended = {content: ended} | dict(list(self._ended.items())[: _MOST_FILES - 1])
            raise ended

    def let_go(self) -> None:
        """End the child."""
        with self._lock:
            self._end()

    def _begun(self, content: bytes) -> Held:
        """Return a child that holds a file, or has room for it."""
        full = content not in self._numbers and len(self._numbers) == _MOST_FILES
        if full or time.monotonic() - self._asked > IDLE_SECONDS / 2:
            self._end()
        if full:
            self.known.clear()  # with the files that they are of
        self._asked = time.monotonic()
        self._held = self._held or self._contained.hold()
        return self._held

    def _ask(self, held: Held, content: bytes, about: dict[str, Any], **bounds: int) -> Any:
        begin, new = about["verb"] == "describe", content not in self._numbers
        about = about | {"number": self._numbers.setdefault(content, len(self._numbers))}
        if new and not begin:
            held.ask(content, about | {"verb": "load"}, at_most=0)
        return held.ask(content if begin else b"", about, **bounds)

    def _end(self) -> None:
        self._numbers.clear()
        if self._held is not None:
            self._held.end()
            self._held = None


_held: OrderedDict[tuple[str, str | bytes], Holding] = OrderedDict()
_holders = threading.Lock()


def _asked(holding: Holding, content: bytes, about: dict[str, Any], **bounds: int) -> Any:
    try:
        found = holding.ask(content, about, **bounds)
    except ContainedError as error:
        raise ModelRefusedError(why_unscored(error, holding.name)) from None
    return _unrefused(found)


def _unrefused(found: Any) -> Any:
    if isinstance(found, dict) and isinstance(refused := found.get("refused"), str):
        raise ModelRefusedError(refused[: limits.REASON_CHARACTERS])
    return found


def _holding(form: str, model: str | bytes) -> Holding:
    """Return the holder of a model's files; that asked longest ago may be let go for it."""
    with _holders:
        found = _held.setdefault((form, model), Holding(NAMES[form], _contained(form)))
        _held.move_to_end((form, model))
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


class _Leaves(StrictModel):
    """What a reader says of leaves, which lie beside it."""

    nodes: Annotated[tuple[Annotated[int, Field(ge=1, le=MOST)], ...], Field(min_length=1)]
    rates: tuple[Annotated[float, Field(gt=0.0)], ...]
    penalty: float = Field(ge=0.0)
    start: float | tuple[float, ...] | None
    steps: int = Field(default=1, ge=1, le=100)
    classes: int = Field(default=2, ge=2, le=MOST)
    factor: float | None = Field(default=1.0, gt=0.0)


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


def _other_file(content: bytes, form: str) -> str:
    """Return what a file is that is none of the format, and what to do; "" where nothing tells."""
    begin = content[:_BEGIN].lstrip()
    if begin.startswith(b"{"):
        found = next((one for one, words in _JSON.items() if all(w in content for w in words)), "")
    elif form == "xgboost" and (begin.startswith((b"binf", b"bs64")) or b"gbtree" in begin):
        return (
            "XGBoost's old binary format, which XGBoost 3.1 and newer do not read: load it with "
            'an older XGBoost, and save it as save_model("model.ubj")'
        )
    else:
        found = next((one for one, word in _BEGINS.items() if begin.startswith(word)), "")
    if found == form:
        return ""
    if found in NAMES:
        return f"a file of {NAMES[found]}: give it the format, or the ending, of {NAMES[found]}"
    other, _, what = found.partition(" ")
    return found and f"{NAMES[other]}'s {what}: save it by {_SAVED[NAMES[other]]}"


@functools.cache
def _contained(form: str) -> Contained:
    """Return the process whose children read a format, and score with it."""
    return Contained(
        f"workers.lake.formats.{form}:answer",
        seconds=limits.MODEL_SECONDS,
        memory=limits.MODEL_MEMORY_BYTES,
        fork=True,
        without=_NOT_NEEDED.get(form, ()),
    )
