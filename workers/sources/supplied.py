"""Score tables: probabilities that somebody else computed, by any framework at all.

The target's are those of the day's model on the day's rows; the proxy's those of a model that never
saw the day, like what was served that day, before the labels existed.
"""

import datetime as dt
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import above, above_odds, nearness
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.bad_records import BadRecords
from workers.labels.columns import Batch
from workers.labels.parquet import Footer
from workers.labels.shards import Partition, divide
from workers.lake.layout import Lake
from workers.lake.manifest import DecoyLabels, Feature, LabelColumn, LabelState, Privacy
from workers.sources.joined import FILE, flattened, join
from workers.sources.score_columns import (
    clearly_apart,
    missing,
    read_numbers,
    read_probabilities,
    same_model,
    same_numbers,
)
from workers.sources.score_tables import ScoreTables
from workers.sources.source import Digests, SharedScores
from workers.sources.table_files import TableDay, find_day, partition_of
from workers.sources.table_rows import DayRows, check_table_columns


@dataclass(frozen=True, slots=True)
class SuppliedScores:
    """What the settings say of a model whose scores are supplied."""

    tables: ScoreTables
    privacy: Privacy | None = None

    def to_json(self) -> str:
        """Return it as the record keeps it."""
        privacy = None if self.privacy is None else self.privacy.model_dump(mode="json")
        tables = self.tables.model_dump(mode="json", exclude_none=True)
        return json.dumps({"tables": tables, "privacy": privacy}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "SuppliedScores":
        """Return what a record keeps.

        Raises:
            ValueError: it is none that this version knows.
        """
        content = json.loads(text)
        privacy = content["privacy"]
        return cls(
            ScoreTables.model_validate(content["tables"]),
            None if privacy is None else Privacy.model_validate(privacy),
        )


@dataclass(frozen=True, slots=True)
class ScoreSource:
    """One day of score tables, pinned to the versions that were found."""

    model: str
    day: dt.date
    supplied: SuppliedScores
    found: TableDay
    joined_with: tuple[tuple[str, TableDay], ...] = ()

    @property
    def joined(self) -> bool:
        """Whether the rows are joined, and sorted, by record before they are read."""
        return self.supplied.tables.record is not None

    @property
    def tables(self) -> ScoreTables:
        """What the columns that are read mean."""
        tables = self.supplied.tables
        return flattened(tables) if self.joined else tables

    @property
    def _rows(self) -> DayRows:
        """How rows are read; of joined ones, all are of the day."""
        return DayRows(self.tables, self.day, self.found.day_in_files and not self.joined)

    @property
    def _place(self) -> pathlib.Path:
        """Where joined rows lie: by TMPDIR, which workers on other machines must share."""
        content = [self.model, str(self.day), self.labels_key(), self.digests().target_manifest]
        name = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]
        return pathlib.Path(tempfile.gettempdir()) / f"privaudit-{os.getpid()}-{name}"

    @property
    def label(self) -> LabelColumn:
        """The label's column and classes."""
        return self.tables.label_column

    @property
    def days(self) -> tuple[dt.date, ...]:
        """The audited day."""
        return (self.day,)

    @property
    def features(self) -> tuple[Feature, ...]:
        """None: no model is scored here."""
        return ()

    @property
    def privacy(self) -> Privacy | None:
        """The declaration of the settings."""
        return self.supplied.privacy

    @property
    def decoys(self) -> DecoyLabels | None:
        """None: decoys are a manifest's."""
        return None

    @property
    def label_state(self) -> LabelState:
        """What the settings say."""
        return self.tables.label_state

    @property
    def proxy_is_earlier(self) -> bool:
        """Nothing says so: whether the proxy knows the day's labels is tested."""
        return False

    @property
    def gives_chances(self) -> bool:
        """Not where predictions are numbers."""
        return self.tables.scale != "number"

    @property
    def declared_in(self) -> str:
        """The settings."""
        return f"The settings of {self.model}, [models.privacy],"

    @property
    def version(self) -> int | None:
        """Of the first table; None of a folder."""
        return self.found.version

    @property
    def columns(self) -> tuple[str, ...]:
        """The label, both models' probabilities, and what says which rows play."""
        tables = self.tables
        scores = (*tables.columns_of("target"), *tables.columns_of("proxy"))
        return (self.label.column, *scores, *self._rows.columns)

    @property
    def facts(self) -> dict[str, Any]:
        """The table, and all that `verify` needs to read the same again."""
        return {
            "dataset": self.supplied.tables.table,
            "proxy_day": None,
            "scores": "supplied",
            "source": self.supplied.to_json(),
        }

    def digests(self) -> Digests:
        """Return the digest of what the columns mean and of the declaration.

        Not of where the tables lie: the same rows in another place are the same audit. The rows
        have the labels' digest.
        """
        privacy = None if self.privacy is None else self.privacy.model_dump(mode="json")
        content = {"scores": self.supplied.tables.meaning(), "privacy": privacy}
        text = json.dumps(content, sort_keys=True)
        return Digests(None, hashlib.sha256(text.encode()).hexdigest(), None, None)

    def labels_key(self) -> str:
        """Return table and version."""
        found = [self.found, *(other for _, other in self.joined_with)]
        words = [f"{each.kind} {each.root.uri} {each.version}" for each in found]
        # What is joined holds the columns of one model.
        return " ".join([*words, f"for {self.model}" if self.joined else str(self.tables.day)])

    def find_partition(
        self, *, work_unit_bytes: int, also: tuple[str, ...] = ()
    ) -> tuple[Lake, Partition]:
        """Return the files of the day, or the one that its tables were joined into.

        Raises:
            NotEvaluableError: tables cannot be joined.
            TransientError: storage kept failing.
        """
        if self.joined:
            return self._join(work_unit_bytes, also)
        table = self.tables.table
        return partition_of(self.found, table, self.day, work_unit_bytes=work_unit_bytes)

    def _join(self, work_unit_bytes: int, also: tuple[str, ...]) -> tuple[Lake, Partition]:
        self.forget()
        self._place.mkdir(mode=0o700)
        tables, found = self.supplied.tables, {"": self.found, **dict(self.joined_with)}
        try:
            left_out = join(tables, found, self.day, also=also, into=self._place)
        except BaseException:
            self.forget()
            raise
        root = Lake(str(self._place))
        files = (root.label_file(FILE),)
        units = divide(root, "", files, work_unit_bytes)
        return root, Partition(tables.table, self.day, "", files, units, left_out)

    def where_rows_are(self, left_out: int) -> str:
        """Return which settings say whether a row is the day's, and of which split."""
        return self._rows.where_rows_are(left_out)

    def forget(self) -> None:
        """Delete the joined rows."""
        shutil.rmtree(self._place, ignore_errors=True)

    def check_columns(
        self, footer: Footer, path: str, *, slices: tuple[str, ...], unit: str | None
    ) -> None:
        """Raise `NotEvaluableError` unless a file has the columns."""
        needed = [(name, "scores") for name in self.columns]
        needed += [(name, "plan.slices") for name in slices]
        needed += [] if unit is None else [(unit, "plan.privacy_unit")]
        check_table_columns(footer, path, needed)

    def labels(self, batch: Batch) -> tuple[NDArray[np.int64], BadRecords]:
        """Return class indices, -1 for a row of another day and for a bad record.

        A record without probabilities is bad, as one without a label is.
        """
        labels, bad = self._labels(batch)
        lacking = np.zeros(labels.size, dtype=np.bool_)
        for role in ("target", "proxy"):
            for name in self.tables.columns_of(role):
                lacking |= missing(batch.column(name))
            if not self.gives_chances:
                lacking |= np.isnan(self._numbers(batch, role))
        unscored = lacking & (labels >= 0)
        if unscored.any():
            first = int(np.argmax(unscored))
            file, group, start = batch.place
            what = "probability" if self.gives_chances else "finite prediction"
            sentence = (
                f"{batch.path} has in row {start + first} of row group {group} no {what} of "
                "target or proxy: score every row of the day with both models."
            )
            bad += BadRecords.at(
                (file, group, start + first), int(unscored.sum()), Reason.SCORES_MISSING, sentence
            )
        return np.where(lacking, -1, labels), bad

    def _labels(self, batch: Batch) -> tuple[NDArray[np.int64], BadRecords]:
        if self.tables.scale != "number":
            return self._rows.labels(batch, self.label)
        numbers, predicted = self._numbers(batch, "label"), self._numbers(batch, "proxy")
        known = np.isfinite(numbers)
        whole = known & np.isfinite(predicted)  # of the others, `labels` says what they lack
        classes = above(np.where(whole, numbers, 0.0), np.where(whole, predicted, 0.0))
        return self._rows.those_of_today(batch, self.label, np.where(known, classes, -1))

    def _numbers(self, batch: Batch, role: str) -> NDArray[np.float64]:
        return read_numbers(batch, self.tables.columns_of(role)[0], role=role)

    def nearness(self, batch: Batch) -> NDArray[np.float64] | None:
        """Return how near the proxy came to labels that are numbers, 0 where there is none."""
        if self.gives_chances:
            return None
        numbers, predicted = self._numbers(batch, "label"), self._numbers(batch, "proxy")
        whole = np.isfinite(numbers) & np.isfinite(predicted)
        near = nearness(np.where(whole, numbers, 0.0), np.where(whole, predicted, 0.0))
        return np.where(whole, near, 0.0)

    def others(self, batch: Batch) -> NDArray[np.int64] | None:
        """Return None: there are no decoys."""
        del batch
        return None

    def arms(self, batch: Batch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether training saw each row; neither where its label came too late for it."""
        return self._rows.arms(batch)

    def probabilities(
        self, batch: Batch, shared: SharedScores
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the columns hold, in the order of the classes.

        Raises:
            NotEvaluableError: the values are no probabilities, or the proxy's are the target's.
        """
        target, proxy = (
            self._sides(batch, shared)
            if not self.gives_chances
            else (self._chances(batch, shared, role) for role in ("target", "proxy"))
        )
        if self.gives_chances and clearly_apart(target, proxy):
            return target, proxy
        played = self.labels(batch)[0] >= 0  # rows of other days have no probabilities
        compared = (target, proxy)
        if not self.gives_chances:
            compared = (self._numbers(batch, "target"), self._numbers(batch, "proxy"))
        same = same_model if self.gives_chances else same_numbers
        if same(compared[0][played], compared[1][played]):
            what = "probabilities" if self.gives_chances else "predictions"
            raise NotEvaluableError(
                Reason.PROXY_IS_TARGET,
                f"The proxy's {what} in {batch.path} are the target's, record for record: "
                "set scores.proxy to those of a model that never saw the day, like those that were "
                "served.",
            )
        return target, proxy

    def _chances(self, batch: Batch, shared: SharedScores, role: str) -> NDArray[np.float64]:
        tables = self.tables
        columns = tables.columns_of(role)
        key = (columns, tables.scale, len(tables.classes), tables.day, tables.time_zone)
        if key not in shared.made:
            with shared.stage("predict"):
                shared.made[key] = read_probabilities(
                    batch,
                    columns,
                    role=role,
                    classes=len(tables.classes),
                    scale=tables.scale,
                    used=self._rows.today(batch),
                )
        found: NDArray[np.float64] = shared.made[key]
        return found

    def _sides(
        self, batch: Batch, shared: SharedScores
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how sure the models are that a number lies above the proxy's prediction."""
        with shared.stage("predict"):
            target, proxy = self._numbers(batch, "target"), self._numbers(batch, "proxy")
            whole = np.isfinite(target) & np.isfinite(proxy) & self._rows.today(batch)
            return above_odds(np.where(whole, target, 0.0), np.where(whole, proxy, 0.0))


def find_scores(model: str, day: dt.date, supplied: SuppliedScores) -> ScoreSource:
    """Return one day of a model's score table, at its newest version.

    Raises:
        NotEvaluableError: there is no such table or day.
        TransientError: storage kept failing.
    """
    tables = supplied.tables
    found = {"": find_day(tables, day)}
    for role, other in tables.others.items():
        here = {"day": other.day or tables.day}
        found[role] = find_day(other.model_copy(update=here), day)
    pinned = tables.pinned({role: each.version for role, each in found.items()})
    others = tuple((role, each) for role, each in found.items() if role)
    return ScoreSource(model, day, SuppliedScores(pinned, supplied.privacy), found[""], others)
