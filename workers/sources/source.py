"""The one contract that an audit rests on: for each record its label, its arm, two predictions.

An audit needs of a record whether training saw it, its label, and what the target and the proxy say
of each class. A `Source` gives that: checkpoints that are scored here, or tables of probabilities
that another system computed. All that follows is the same audit.
"""

import contextlib
import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workers.labels.columns import Batch, NeededColumns
from workers.labels.shards import BadRecords, Partition
from workers.lake.layout import Lake
from workers.lake.manifest import Feature, LabelColumn, LabelState, Privacy
from workers.sources.join_context import JoinContext

Stage = Callable[[str], AbstractContextManager[None]]
"""Counts the processor time of what is done inside under a name."""


@dataclass(frozen=True, slots=True)
class Digests:
    """Digests of the content of all inputs but the labels; None where there is no such file."""

    target: str | None
    target_manifest: str
    proxy: str | None
    proxy_manifest: str | None


def _unmetered(_: str) -> AbstractContextManager[None]:
    return contextlib.nullcontext()


@dataclass(frozen=True, slots=True)
class SharedScores:
    """Results that the models of one pass computed of one batch, shared by games that need them.

    Attributes:
        stage: counts processor time; by default nothing.
        made: features as models take them, and probabilities, by whose they are.
        asked: shape (rows of the batch,), which rows are scored here; all of them where it is None.
            Others have equal probabilities of all classes.
    """

    stage: Stage = _unmetered
    made: dict[Any, Any] = field(default_factory=dict)
    asked: NDArray[np.bool_] | None = None


class Same:
    """A member that is that of a part; `name` is its path there, its own name where left out."""

    def __init__(self, part: str, name: str | None = None) -> None:
        self.part, self.path = part, name

    def __set_name__(self, _: type, name: str) -> None:
        self.of = attrgetter(f"{self.part}.{self.path or name}")

    def __get__(self, whole: Any, _: type) -> Any:
        return self.of(whole)


class Source(Protocol):
    """One model on one day, found and checked; it travels to every worker.

    What one kind alone has (model files and their correction) is asked of that kind.
    """

    @property
    def model(self) -> str:
        """Name of the audited model."""

    @property
    def day(self) -> dt.date:
        """The audited day."""

    @property
    def days(self) -> tuple[dt.date, ...]:
        """The days whose labels play, ascending; the audited one is the last."""

    @property
    def label(self) -> LabelColumn:
        """The label's column and its classes, in the order of the probabilities."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """Features read of the files for models that are scored here; none where none is."""

    @property
    def context(self) -> tuple[str, ...]:
        """Columns that a student may look at (`privcore.attacks.student`); none where none may."""

    def recognised_by(self, batch: Batch) -> tuple[Feature, ...]:
        """Return the columns that tell a row from others on any night; none where there are none.

        No label is among them, nor what a model predicts. Where there is a `context`, they are its
        columns, of the kinds that the batch stores.
        """

    @property
    def privacy(self) -> Privacy | None:
        """The declaration, of whatever definition; None where nothing is declared."""

    @property
    def label_state(self) -> LabelState:
        """State of the labels: the secret ones, or made of them; None where unknown."""

    @property
    def proxy_is_earlier(self) -> bool:
        """True if something says that the proxy never saw the day; else its labels are tested."""

    @property
    def declared_in(self) -> str:
        """Place of the declaration, as a sentence begins: "The manifest of ..."."""

    @property
    def version(self) -> int | None:
        """Version of the table that holds the records; None of a folder and in the lake."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that must be read of the files, less those that the plan asks for."""

    @property
    def facts(self) -> dict[str, Any]:
        """Columns of the record that say where the inputs came from."""

    def digests(self) -> Digests:
        """Return what identifies the inputs."""

    def labels_key(self) -> str:
        """Return what sources have in common that can share one read."""

    def find_partition(
        self, *, joining: JoinContext, also: tuple[str, ...] = ()
    ) -> tuple[Lake, Partition]:
        """Return the day's files, and below which root they lie.

        `joining` says what may be used to lay rows out, and keeps them until it is closed. `also`
        are columns that the plan needs.

        Raises:
            NotEvaluableError: there are none.
            TransientError: storage kept failing.
        """

    def where_rows_are(self, left_out: int) -> str:
        """Return what to look at where too few rows play; `left_out` rows are of neither split."""

    def check_columns(self, names: Sequence[str], path: str, of_plan: NeededColumns) -> None:
        """Raise `NotEvaluableError` unless the columns, and those `of_plan`, are in a file."""

    def labels(self, batch: Batch) -> tuple[NDArray[np.int64], BadRecords]:
        """Return class indices, -1 for a bad record, and what is bad."""

    def present(self, batch: Batch) -> NDArray[np.bool_]:
        """Return whether each row is of the day and can be scored, whatever its label is."""

    def arms(self, batch: Batch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether each record was trained on, and whether it was held out."""

    def hashed_kind(self, batch: Batch) -> str:
        """Return whether a hash that divides the records is of text or integers; "" for none."""

    def probabilities(
        self, batch: Batch, shared: SharedScores
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what target and proxy predict, both of shape (records, classes).

        Raises:
            NotEvaluableError: they give no probabilities.
        """


def context_features(source: Source, batch: Batch) -> tuple[Feature, ...]:
    """Return the columns that a student may look at, of the kinds that the batch stores."""
    return source.recognised_by(batch) if source.context else ()
