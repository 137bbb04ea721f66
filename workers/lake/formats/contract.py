"""Contract for a framework's module, and the sentences about a model file that is refused."""

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workers.contained_child import WithBytes
from workers.lake import limits
from workers.lake.manifest import Manifest

Category = str | bool | int | float
Categories = tuple[tuple[tuple[Category, int], ...] | None, ...]

WRITTEN_MISSING = ("nan", "NaN", "None", "<NA>", "NaT")
"""Words as which pandas and Python write a missing value as text."""
MISSING_WORDS = (*WRITTEN_MISSING, "none", "NA", "N/A", "NULL", "null", "missing", "Missing",
                 "MISSING", "unknown", "Unknown", "UNKNOWN", "-1", "-999", "")  # fmt: skip
"""Words by which training often stands in for a missing category."""


class ModelRefusedError(Exception):
    """A model file is well-formed, and still not one to score with; `why` completes "it ..."."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class InputsRefusedError(Exception):
    """The features are not what the model takes; `why` completes "the feature ..."."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model that can score.

    Attributes:
        model: what the framework's library made of the file.
        categories: for each feature, the categories as the framework wrote them, and the model's
            codes of them; None for a numeric feature, and where the file names none. Models of the
            same features, the same categories and the same `takes` take the same inputs.
        classes: as text, in the order of the probabilities; None where the file names none.
        takes: what a file itself calls its inputs, and their types; empty where all models of the
            framework take the same.
        known: which words a model was found to know as categories, by what was asked.
    """

    model: Any
    categories: Categories = ()
    classes: tuple[str, ...] | None = None
    takes: tuple[tuple[str, str], ...] = ()
    known: dict[str, set[str]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Refuse a category of two codes, as pandas makes them of 1 and "1" in one column."""
        for known in self.categories:
            values = Counter(value for value, _ in known or ())
            if values and (often := values.most_common(1)[0])[1] > 1:
                raise ModelRefusedError(
                    f"gives the category {often[0]!r:.100} two codes in one column, so that its "
                    "rows have no one answer: train it on a column whose categories differ as text"
                )


class ModelFormat(Protocol):
    """One framework's model files."""

    NUMBERS: type[pl.DataType]
    """Type that numeric features are read as: 32 bits where the framework itself keeps no more."""
    ERRORS: tuple[type[Exception], ...]
    """Errors that its library raises."""

    def describe(self, content: bytes) -> dict[str, Any] | WithBytes:
        """Return what a file says of itself, as JSON holds it; runs in a contained process.

        The keys are those of `ModelDescription`, whose `content`, if any, is the answer's bytes
        (`rows`, where it is there, holds a `CountedRows`); or one key, `refused`, with the reason.
        """

    def load(self, content: bytes) -> LoadedModel:
        """Return the model of a file that `describe` was content with."""

    def inputs(self, loaded: LoadedModel, manifest: Manifest, frame: pl.DataFrame) -> Any:
        """Return features as the model takes them; models that share them can share it.

        Raises:
            InputsRefusedError: a feature holds what the model cannot take.
        """

    def predict(self, loaded: LoadedModel, inputs: Any, *, threads: int) -> NDArray[np.float64]:
        """Return probabilities, shape (records, classes); they may be NaN.

        Raises:
            ModelRefusedError: it does not answer each row.
            InputsRefusedError: the model, as `inputs` cannot know of it, knows other categories.
        """


Describe = Callable[[bytes], dict[str, Any] | WithBytes]


def answering(describe: Describe) -> Describe:
    """Return `describe`, answering a refusal where it raised one: the child says what it means."""

    @functools.wraps(describe)
    def answer(content: bytes) -> dict[str, Any] | WithBytes:
        try:
            return describe(content)
        except ModelRefusedError as error:
            return {"refused": error.why}

    return answer


@contextlib.contextmanager
def timed(rows: int) -> Iterator[None]:
    """Refuse a model that takes too much processor time for the trial rows scored in the block."""
    begin = time.process_time()
    yield
    seconds = (time.process_time() - begin) / rows
    if seconds > limits.MODEL_ROW_SECONDS:
        raise ModelRefusedError(
            f"takes {seconds:.2g} seconds of processor time to score a row, and "
            f"{limits.MODEL_ROW_SECONDS:g} are the most: export a smaller model, or give its "
            "probabilities as a table ([models.scores])"
        )


def written_otherwise(column: pl.Series, known: str) -> str:
    """Say of a category's column that training had it in another form, which the file tells."""
    return (
        f"{column.name!r} is stored as {column.dtype}, and the model takes {known}: write the "
        "column as training had it, or give the model's probabilities as a table ([models.scores])"
    )


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
