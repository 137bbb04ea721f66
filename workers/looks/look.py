"""The contract of a look: what it sees of a batch, how two add, what it refuses and remarks on."""

import bisect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from workers.labels.columns import Batch
from workers.labels.parquet import RowGroup
from workers.labels.shards import BadRecords, Partition
from workers.lake.layout import Lake
from workers.plan import Plan
from workers.remark import Remark
from workers.sources.source import SharedScores, Source

FIRST_ROWS = 1 << 16
"""The rows of a file that are looked at."""
_ROW_GROUPS = 16
"""The row groups in which these may lie: each costs a request."""
_FILES = 8
"""The most files, at equal distances: a look costs as much as some 30,000 rows."""

_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True, eq=False)
class Players:
    """The rows of a batch that play.

    Attributes:
        labels: shape (rows of the batch,), class indices, -1 where there is none.
        training: shape (training rows,), their places in the batch.
        holdout: shape (holdout rows,).
        held: shape (rows that were held out,), whatever their labels are and sampling would do.
        people: shape (rows of the batch,), whose each row is; None where rows play.
        excluded: rows with a label that are in neither arm.
        bad: records that could not take part.
        unread: places of training and of holdout rows that play in public alone, since their label
            cannot be read; empty where nothing is published.
        unread_labels: number of rows that are bad for their label alone, in whatever arm.
    """

    labels: NDArray[np.int64]
    training: NDArray[np.int64]
    holdout: NDArray[np.int64]
    held: NDArray[np.int64]
    people: NDArray[np.str_] | None
    excluded: int
    bad: BadRecords
    unread: tuple[NDArray[np.int64], NDArray[np.int64]]
    unread_labels: int


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A row group in the pass, of which a look may read what no game does.

    Attributes:
        lake: where it lies.
        group: what was read of it.
        read: the columns that games of the pass read, and batches have.
        inspected: whether its file is one of the few whose first rows are looked at.
        made: what looks made of it once, whichever games share the pass.
    """

    lake: Lake
    group: RowGroup
    read: tuple[str, ...]
    inspected: bool
    made: dict[Any, Any] = field(default_factory=dict)

    @property
    def first_rows(self) -> int:
        """How many of its rows, from the first on, are looked at."""
        groups, index = self.group.footer.groups, self.group.index
        if not self.inspected or index >= _ROW_GROUPS:
            return 0
        before = sum(group.rows for group in groups[:index])
        return max(0, min(groups[index].rows, FIRST_ROWS - before))

    def once(self, make: Callable[["Opened"], _Made]) -> _Made:
        """Return what a function makes of the row group, for all its batches and games."""
        if make not in self.made:
            self.made[make] = make(self)
        made: _Made = self.made[make]
        return made


def is_inspected(partition: Partition, file: str) -> bool:
    """Return whether the first rows of a file are looked at."""
    files = partition.files
    place = bisect.bisect_left(files, file, key=lambda each: each.name)
    return place % max(1, math.ceil(len(files) / _FILES)) == 0


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """One batch of one game, as looks see it.

    Attributes:
        batch: consecutive rows of one row group, at `batch.place`. It has the columns of all games
            of the pass: a look asks for those of its own source or plan, by name.
        scores: what was computed of the batch. On a large day rows that neither play nor are among
            the first of a file have equal probabilities of all classes.
    """

    source: Source
    plan: Plan
    batch: Batch
    scores: SharedScores
    playing: Players
    opened: Opened


class Look(ABC):
    """What is counted of a night's rows beside the game: a frozen dataclass whose fields add.

    They add exactly (whole numbers, Counters, sketches; no sum of floats), so that any division of
    the row groups among workers and any order of addition give the same bits.
    """

    __slots__ = ()

    before_counting: ClassVar[bool] = False
    """True if what it refuses can be counted by no means: no statement is made of it, either."""
    after_files: ClassVar[bool] = False
    """True if its remarks follow that on the holdout."""

    @classmethod
    @abstractmethod
    def see(cls, seen: Seen) -> Self | None:
        """Return what there is to count in a batch; None where nothing is, or nobody asks."""

    def __add__(self, other: Self) -> Self:
        """Return what was counted in both."""
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]  # a dataclass
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))

    def check(self, found: "Findings") -> None:  # noqa: B027  # most refuse nothing
        """Refuse an audit whose figure would be wrong.

        Raises:
            NotEvaluableError: what was counted says so.
        """

    def remarks(self, found: "Findings") -> Iterable[Remark]:
        """Return what a reader needs to know beside the verdict."""
        return ()

    @classmethod
    def among(cls, looks: "Looks") -> Self | None:
        """Return this look of a night; None where it saw nothing."""
        found = looks.get(cls)
        assert found is None or isinstance(found, cls)  # noqa: S101  # each under its class
        return found


Looks = Mapping[type[Look], Look]
"""What was seen, by the look's class."""


@dataclass(frozen=True, slots=True)
class Findings:
    """All that looks counted of a night, and what it is to be read with."""

    source: Source
    plan: Plan
    looks: Looks
    bad_records: int
