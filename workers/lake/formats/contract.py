"""Contract for a framework's module, and the sentences about a model file that is refused.

A framework's module runs in a child that holds one model's files: `answering` makes its answers.
"""

import mmap
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from workers.contained_child import WithBytes
from workers.lake import limits

Category = str | bool | int | float
Categories = tuple[tuple[tuple[Category, int], ...] | None, ...]

TENSORS: dict[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}
"""Types of numbers that an ONNX model may take."""
_MOST = 2**53
_ROUNDED = 1e-6
_NEAR = 1e-3
"""Distances to a whole number, of a count and beside it, that sums of 32 bits come to."""


class ModelRefusedError(Exception):
    """A model file cannot be scored with; `why` completes "the file ..."."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model that can score.

    Attributes:
        model: what the framework's library made of the file.
        categories: for each feature, the categories as the framework wrote them, and the model's
            codes of them; None for a numeric feature, and where the file names none.
    """

    model: Any
    categories: Categories = ()

    def __post_init__(self) -> None:
        """Refuse a category of two codes, as pandas makes them of 1 and "1" in one column."""
        for known in self.categories:
            values = Counter(value for value, _ in known or ())
            if values and (often := values.most_common(1)[0])[1] > 1:
                raise ModelRefusedError(
                    f"gives the category {often[0]!r:.100} two codes in one column, so that its "
                    "rows have no one answer: train it on a column whose categories differ as text"
                )


Load = Callable[[bytes], LoadedModel]
Describe = Callable[[LoadedModel], dict[str, Any]]
"""What a file says of itself, as JSON holds it; the keys are `inputs.ModelDescription`'s."""
Predict = Callable[[LoadedModel, mmap.mmap], NDArray[np.float64]]
"""Probabilities of rows, shape (records, classes), which may be NaN; given the features as
`workers.lake.formats.inputs` makes them for the framework: see `frame_in` and `matrix_in`."""


def answering(
    load: Load, describe: Describe, predict: Predict, **others: Callable[..., Any]
) -> Callable[..., Any]:
    """Return what a child answers about the model files that it holds, which have numbers.

    `load` reads the file, `describe` also says what it says of itself, after a trial; `score` gives
    probabilities, as bytes. A refusal is an answer, with one key, `refused`. `others` are verbs
    that one framework has alone.
    """
    held: dict[int, LoadedModel] = {}

    def answer(content: bytes, *, verb: str, number: int, file: int = -1, **about: Any) -> Any:
        try:
            if verb in {"load", "describe"}:
                held[number] = load(content)
                return describe(held[number]) if verb == "describe" else None
            if file >= 0:
                # Of a sealed file, Linux before 6.7 shares no mapping, though it is only read.
                about["given"] = mmap.mmap(file, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
            if verb == "score":
                found = np.asarray(predict(held[number], about["given"]), dtype=np.float64)
                return WithBytes(None, found.tobytes())
            return others[verb](held[number], **about)
        except ModelRefusedError as error:
            return {"refused": error.why}

    return answer


def tree_nodes(
    parents: NDArray[Any], values: NDArray[Any], asks: Any, added: Any = 0.0
) -> NDArray[np.float64]:
    """Return a tree's nodes for `leaves_answer`: fields of `privcore.attacks.label_sums.Tree`."""
    columns = np.broadcast_arrays(parents, values, asks, added)
    return np.column_stack(columns).astype(np.float64)


def leaves_answer(
    leaves: NDArray[Any], trees: Sequence[NDArray[np.float64]], rates: Sequence[float], **said: Any
) -> WithBytes:
    """Return the leaves of rows, and their trees, as `model_sandbox.read_leaves` reads them.

    Args:
        leaves: shape (records, trees), the node of each record's leaf.
        trees: each one's `tree_nodes`, in the order of an `Ensemble`.
        rates: learning rate of each.
        said: what an `Ensemble` has beside trees.
    """
    said |= {"nodes": [len(tree) for tree in trees], "rates": rates}
    return WithBytes(said, np.concatenate(trees).tobytes() + leaves.astype(np.int32).tobytes())


def matrix_in(given: mmap.mmap, kind: Any, width: int) -> NDArray[Any]:
    """Return the rows of a matrix of numbers, of a kind and a width."""
    return np.frombuffer(given, dtype=kind).reshape(-1, width)


def frame_in(given: mmap.mmap) -> pl.DataFrame:
    """Return the columns of a stream of Arrow's, without a copy where that can be."""
    stream = pa.ipc.open_stream(pa.py_buffer(given))
    if pa.string_view() in stream.schema.types:
        # CatBoost misreads text that does not lie at multiples of 16, and Arrow may write it so.
        aligned = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
        stream = pa.ipc.open_stream(pa.py_buffer(given), options=aligned)
    table = stream.read_all()
    frame = pl.from_arrow(table, rechunk=False)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101  # a table is one
    return frame


def tried(
    loaded: LoadedModel, predict: Callable[[LoadedModel, Any], Any], rows: Any, count: int
) -> tuple[Any, float]:
    """Return what a model says of trial rows, and the processor time that it took for each.

    Raises:
        ModelRefusedError: it takes too much.
    """
    begin = time.process_time()
    found = predict(loaded, rows)
    seconds = (time.process_time() - begin) / count
    if seconds > limits.MODEL_ROW_SECONDS:
        raise ModelRefusedError(
            f"takes {seconds:.2g} seconds of processor time to score a row, and "
            f"{limits.MODEL_ROW_SECONDS:g} are the most: export a smaller model, or give its "
            "probabilities as a table ([models.scores])"
        )
    return found, seconds


def two_columns(second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return both classes' probabilities, given the second's of shape (records,)."""
    return np.column_stack([1.0 - second, second])


def check_children(children: NDArray[np.int64], nodes: int) -> None:
    """Refuse children that are no nodes, and nodes with several parents.

    Raises:
        ModelRefusedError: the nodes are no tree: a reader might never end, or read what
            is not there.
    """
    if children.size and (children.min() < 0 or children.max() >= nodes):
        raise ModelRefusedError("has a tree whose nodes have children that are not there")
    if np.bincount(children, minlength=1)[0] or np.unique(children).size < children.size:
        raise ModelRefusedError("has a tree that runs in a circle")


def check_places(what: str, places: NDArray[np.int64], count: int) -> None:
    """Refuse places outside of `count`.

    Raises:
        ModelRefusedError: naming `what` is not there.
    """
    if places.size and (places.min() < 0 or places.max() >= count):
        raise ModelRefusedError(f"has a tree that asks for {what} that is not there")


def check_lengths(lengths: set[int], expected: int) -> None:
    """Refuse arrays of other lengths.

    Raises:
        ModelRefusedError: they are not all of the expected length.
    """
    if lengths != {expected}:
        raise ModelRefusedError("has a tree whose arrays are of different lengths")


def shared_sum(leaves: NDArray[np.float64], sizes: NDArray[np.integer]) -> int | None:
    """Return the sum of counts by leaf that all trees share, or None if there is none.

    Trees that differ are of samples, or of other days' rows, where training was resumed. Weights of
    rows show as leaves that are not whole, but for weights that are whole themselves.

    Args:
        leaves: counts of all trees, one tree after another.
        sizes: how many leaves each tree has; the last one has all that are left.
    """
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    if np.any(np.diff(starts, append=leaves.size) <= 0):
        return None  # a tree without leaves
    if not np.all(np.isfinite(leaves)) or leaves.min() < 0:
        return None
    counts = np.rint(leaves)
    if np.any(np.abs(leaves - counts) > _NEAR + _ROUNDED * leaves):
        return None
    totals = np.add.reduceat(counts, starts)
    total = float(totals[0])
    return int(total) if 0 < total < _MOST and np.all(totals == total) else None
