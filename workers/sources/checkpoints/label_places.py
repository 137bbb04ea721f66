"""Places of the labelled rows that two checkpoints score, and how they are read."""

import datetime as dt
import hmac
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from workers.exceptions import Reason
from workers.labels.columns import SPLIT, Batch, NeededColumns, check_columns
from workers.labels.shards import BadRecords, Partition, find_days, find_partition
from workers.lake.layout import Lake
from workers.lake.manifest import Feature, LabelColumn
from workers.sources.checkpoints.in_place_settings import LabelTable
from workers.sources.source import Same
from workers.sources.tables.day_tables import DayRows
from workers.sources.tables.table_files import TableDay, partition_of


@dataclass(frozen=True, slots=True)
class LakeLabels:
    """Days' folders of a dataset in the lake, with the columns that manifests name.

    Attributes:
        lake: where they are.
        name: of the dataset.
        days: the audited day last; before it, those whose labels play with it.
    """

    lake: Lake
    name: str
    days: tuple[dt.date, ...]

    version: ClassVar[int | None] = None  # a folder has no versions
    label: ClassVar[str | None] = None  # the manifests name it
    columns: ClassVar[tuple[str, ...]] = (SPLIT,)
    arm_column: ClassVar[str] = SPLIT
    reading: ClassVar[Hashable] = None  # all rows are read, by the models' own names

    def key(self) -> str:
        """Return the dataset, and the days before the audited one."""
        return " ".join(["lake", self.name, *map(str, self.days[:-1])])

    def meaning(self) -> dict[str, Any] | None:
        """Return None: manifests say it all."""
        return None

    def find_partition(self) -> tuple[Lake, Partition]:
        """Return the dataset's label partitions of the days, as one."""
        if self.days[1:]:
            return self.lake, find_days(self.lake, self.name, self.days)
        return self.lake, find_partition(self.lake, self.name, self.days[0])

    def stored(self, feature: Feature) -> Feature:
        """Return the feature: columns have the models' names."""
        return feature

    def check_columns(
        self, names: Sequence[str], path: str, columns: Sequence[str], of_plan: NeededColumns
    ) -> None:
        """Raise `NotEvaluableError` unless a file has the label, the features and those `of_plan`.

        `columns` are the label's, and those of the features.
        """
        label, *features = [(name, "the manifest") for name in columns]
        check_columns(names, path, [label, (SPLIT, "the manifest")])
        check_columns(names, path, [*features, *of_plan], reason=Reason.FEATURE_INVALID)

    def today(self, batch: Batch) -> NDArray[np.bool_]:
        """Return that every row is of the day."""
        return np.ones(batch.table.num_rows, dtype=np.bool_)

    def labels(self, batch: Batch, label: LabelColumn) -> tuple[NDArray[np.int64], BadRecords]:
        """Return class indices, -1 for a bad record, and what is bad."""
        return batch.labels(label)

    def arms(self, batch: Batch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return what the column `split` says."""
        return batch.arms()

    def hashed_kind(self, batch: Batch) -> str:
        """Return that no hash divides the rows."""
        del batch
        return ""

    def where_rows_are(self, left_out: int) -> str:
        """Return what `split` has to say."""
        if left_out:
            return f"{left_out:,} rows say neither train nor holdout in {SPLIT!r}: write which."
        return f"Write 'train' or 'holdout' in {SPLIT!r} for each row of the day."


@dataclass(frozen=True, slots=True)
class TableLabels(DayRows):
    """A day of a table, at the version that was found, with the columns that settings name."""

    table: LabelTable
    found: TableDay = field(kw_only=True)

    @property
    def days(self) -> tuple[dt.date, ...]:
        """The one day."""
        return (self.day,)

    name = Same("table", "table")
    label = Same("table")
    arm_column = Same("table", "holdout_rule.column")
    version = Same("found")

    @property
    def reading(self) -> Hashable:
        """The features' columns, and what makes a row one of the day."""
        return tuple(self.table.columns.items()), self.table.day, self.table.time_zone

    def key(self) -> str:
        """Return table and version."""
        return f"{self.found.kind} {self.found.root.uri} {self.found.version} {self.table.day}"

    def meaning(self) -> dict[str, Any] | None:
        """Return what the settings say of the columns, and by what the key is known again."""
        told = self.table.meaning()
        if self.holdout_key:
            name = hmac.digest(self.holdout_key, b"name of a holdout's key", "sha256")
            told["holdout_key"] = name.hex()[:16]
        return told

    def find_partition(self) -> tuple[Lake, Partition]:
        """Return the day's files."""
        return partition_of(self.found, self.table.table, self.day)

    def stored(self, feature: Feature) -> Feature:
        """Return a feature under the name of its column."""
        column = self.table.columns.get(feature.name, feature.name)
        return Feature(name=column, kind=feature.kind)

    def check_columns(
        self, names: Sequence[str], path: str, columns: Sequence[str], of_plan: NeededColumns
    ) -> None:
        """Raise `NotEvaluableError` unless a file has the label, the features and those `of_plan`.

        `columns` are the label's, and those of the features.
        """
        label, *features = columns
        of_features = "labels.columns in the settings (gate: --feature)"
        named = [(label, "labels.label in the settings")]
        named += [(name, "labels in the settings") for name in self.columns]
        named += [(name, of_features) for name in features]
        check_columns(names, path, [*named, *of_plan], arm=self.arm_column)


LabelPlace = LakeLabels | TableLabels
"""One day's labelled rows; it travels to every worker."""
