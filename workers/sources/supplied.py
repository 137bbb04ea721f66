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
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit, softmax

from workers.exceptions import NotEvaluableError, Reason
from workers.labels.bad_records import BadRecords
from workers.labels.columns import Batch
from workers.labels.parquet import Footer
from workers.labels.shards import Partition, divide
from workers.lake.layout import Lake
from workers.lake.manifest import DecoyLabels, Feature, LabelColumn, Privacy
from workers.sources.joined import FILE, flattened, join
from workers.sources.score_tables import ScoreTables
from workers.sources.source import Digests, SharedScores
from workers.sources.table_files import TableDay, find_day, says_day

_TO_COMPARE = 100  # records that two models agree on to the bit by no accident
_ROUNDED = 1e-6
_ADD_UP = 0.02
"""By how much the probabilities of a record may miss one: they were rounded, or kept in 16 bits."""


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
    def _asks_the_day(self) -> bool:
        return self.found.day_in_files and not self.joined

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
    def proxy_is_earlier(self) -> bool:
        """Nothing says so: whether the proxy knows the day's labels is tested."""
        return False

    @property
    def declared_in(self) -> str:
        """The settings."""
        return f"The settings of {self.model}, [models.privacy],"

    @property
    def columns(self) -> tuple[str, ...]:
        """The label, both models' probabilities, and what says which rows play."""
        tables = self.tables
        asked = [tables.day] if self._asks_the_day else []
        asked += [] if tables.known_at is None else [tables.known_at]
        scores = (*tables.columns_of("target"), *tables.columns_of("proxy"))
        return (self.label.column, tables.holdout_rule.column, *scores, *asked)

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
        found = self.found
        if self.joined:
            return self._join(work_unit_bytes, also)
        units = divide(found.root, "", found.files, work_unit_bytes)
        return found.root, Partition(self.tables.table, self.day, "", found.files, units)

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
        for name, where in needed:
            if name not in footer.names:
                near = ", ".join(footer.names[:20])
                raise NotEvaluableError(
                    Reason.LABEL_INVALID,
                    f"{path} has no column {name!r}: correct {where} in the settings; it has "
                    f"{near}.",
                )
            if footer.names.count(name) > 1:
                raise NotEvaluableError(
                    Reason.FEATURE_INVALID, f"{path} has several columns {name!r}: write one."
                )

    def labels(self, batch: Batch) -> tuple[NDArray[np.int64], BadRecords]:
        """Return class indices, -1 for a row of another day and for a bad record.

        A record without probabilities is bad, as one without a label is.
        """
        labels, bad = batch.labels(self.label)
        today = self._today(batch)
        missing = np.zeros(labels.size, dtype=np.bool_)
        for name in (*self.tables.columns_of("target"), *self.tables.columns_of("proxy")):
            missing |= _missing(batch.column(name))
        if not today.all():
            bad = self._bad_labels(batch, labels, today)
        labels = np.where(today, labels, -1)
        unscored = missing & (labels >= 0)
        if unscored.any():
            first = int(np.argmax(unscored))
            file, group, start = batch.place
            sentence = (
                f"{batch.path} has in row {start + first} of row group {group} no probability of "
                "target or proxy: score every row of the day with both models."
            )
            bad += BadRecords.at(
                (file, group, start + first), int(unscored.sum()), Reason.SCORES_MISSING, sentence
            )
        return np.where(missing, -1, labels), bad

    def others(self, batch: Batch) -> NDArray[np.int64] | None:
        """Return None: there are no decoys."""
        del batch
        return None

    def arms(self, batch: Batch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether training saw each row; neither where its label came too late for it."""
        rule = self.tables.holdout_rule
        column = batch.column(rule.column)
        try:
            train, holdout = rule.arms(column)
        except TypeError:
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"{batch.path} stores {rule.column!r} as {column.dtype}, which says no split: "
                "store it as text or as an integer.",
            ) from None
        if self.tables.known_at is not None:
            early = self._known_in_time(batch, self.tables.known_at)
            train, holdout = train & early, holdout & early
        return train, holdout

    def probabilities(
        self, batch: Batch, shared: SharedScores
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the columns hold, in the order of the classes.

        Raises:
            NotEvaluableError: the values are no probabilities, or the proxy's are the target's.
        """
        tables = self.tables
        scores = []
        for role in ("target", "proxy"):
            columns = tables.columns_of(role)
            key = (columns, tables.scale, len(tables.classes), tables.day)
            if key not in shared.made:
                with shared.stage("predict"):
                    shared.made[key] = self._read(batch, columns, role)
            scores.append(shared.made[key])
        target, proxy = scores
        if len(target) >= _TO_COMPARE and np.array_equal(target, proxy):
            raise NotEvaluableError(
                Reason.PROXY_IS_TARGET,
                f"The proxy's probabilities in {batch.path} are the target's, record for record: "
                "give those of a model that never saw the day, like those that were served.",
            )
        return target, proxy

    def _read(self, batch: Batch, columns: tuple[str, ...], role: str) -> NDArray[np.float64]:
        classes, scale = len(self.tables.classes), self.tables.scale
        parts = [_numbers(batch, name, classes, role) for name in columns]
        values: NDArray[np.float64] = np.concatenate(parts, axis=1)
        if values.shape[1] not in {classes, 1} or (values.shape[1] == 1 and classes > 2):
            raise _no_probability(
                f"scores.{role} names one column of numbers for {classes} classes: name one column "
                "per class, or a column of lists."
            )
        where = f"{batch.path} holds in {', '.join(columns)}"
        used: NDArray[np.bool_] = np.asarray(~np.isnan(values).any(axis=1))
        if self._asks_the_day:
            used &= self._today(batch)
        if not np.isfinite(values[used]).all():
            raise _no_probability(f"{where} an infinite value: write finite probabilities.")
        if scale == "log_odds":
            values = _from_log_odds(values)
        elif used.any():
            _check_probabilities(values[used], where)
            values = np.asarray(np.clip(values, 0.0, 1.0), dtype=np.float64)
        if values.shape[1] == 1:
            values = np.column_stack([1.0 - values[:, 0], values[:, 0]])
        values = np.where(used[:, None], values, 1.0 / classes)
        return np.ascontiguousarray(values / values.sum(axis=1, keepdims=True))

    def _today(self, batch: Batch) -> NDArray[np.bool_]:
        if not self._asks_the_day:
            return np.ones(batch.table.num_rows, dtype=np.bool_)
        return of_day(batch.column(self.tables.day), self.day, self.tables.time_zone, batch.path)

    def _bad_labels(
        self, batch: Batch, labels: NDArray[np.int64], today: NDArray[np.bool_]
    ) -> BadRecords:
        """Return what is bad among the day's rows alone."""
        bad = (labels < 0) & today
        if not bad.any():
            return BadRecords.none()
        first = int(np.argmax(bad))
        file, group, start = batch.place
        return BadRecords.at(
            (file, group, start + first),
            int(bad.sum()),
            Reason.LABEL_INVALID,
            f"{batch.path} has in row {start + first} of row group {group} no label in "
            f"{self.label.column!r}, or one that is none of {len(self.tables.classes)} classes: "
            "correct scores.classes, or the labels.",
        )

    def _known_in_time(self, batch: Batch, name: str) -> NDArray[np.bool_]:
        """Whether training could have read each label; one that nobody says when was not."""
        column = batch.column(name)
        cutoff = self.tables.cutoff(self.day)
        if not isinstance(column.dtype, pl.Datetime):
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"{batch.path} stores {name!r}, scores.known_at, as {column.dtype}: store it as a "
                "time.",
            )
        moments = _in_zone(column, self.tables.time_zone)
        early = (moments <= cutoff).fill_null(value=False).to_numpy()
        return np.asarray(early, dtype=np.bool_)


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


def of_day(column: pl.Series, day: dt.date, zone: str, path: str) -> NDArray[np.bool_]:
    """Return whether each value is of the day.

    Dates, times (in `zone`), and days as text or integers: 2026-03-02, 20260302.

    Raises:
        NotEvaluableError: the column holds something else.
    """
    kind = column.dtype
    if kind == pl.Date:
        found = column == day
    elif isinstance(kind, pl.Datetime):
        found = _in_zone(column, zone).dt.date() == day
    elif isinstance(kind, pl.String | pl.Categorical | pl.Enum):
        words = column.cast(pl.String)
        known = [word for word in words.unique().to_list() if word is not None]
        found = words.is_in([word for word in known if says_day(word, day)])
    elif kind.is_integer():
        found = column == int(f"{day:%Y%m%d}")
    else:
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{path} stores {column.name!r}, scores.day, as {kind}: store a date, a time, or text "
            "like 2026-03-02.",
        )
    return np.asarray(found.fill_null(value=False).to_numpy(), dtype=np.bool_)


def _in_zone(column: pl.Series, zone: str) -> pl.Series:
    """Return times in a zone; one that names no zone is of this one."""
    if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
        return column.dt.convert_time_zone(zone)
    return column.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")


def _missing(column: pl.Series) -> NDArray[np.bool_]:
    missing = column.is_null()
    if column.dtype.is_float():
        missing |= column.is_nan().fill_null(value=True)
    return np.asarray(missing.to_numpy(), dtype=np.bool_)


def _numbers(batch: Batch, name: str, classes: int, role: str) -> NDArray[np.float64]:
    """Return a column as shape (rows, 1), or a column of lists as shape (rows, classes)."""
    column = batch.column(name)
    kind = column.dtype
    if isinstance(kind, pl.List | pl.Array):
        lengths = column.cast(pl.List(kind.inner)).list.len()
        if (lengths != classes).any():
            raise _no_probability(
                f"{batch.path} holds in {name!r} a list that has not {classes} values, as many as "
                "there are classes: correct scores.classes, or the lists."
            )
        whole = column.cast(pl.List(pl.Float64))
        empty = pl.Series([[float("nan")] * classes], dtype=pl.List(pl.Float64))
        flat = whole.fill_null(empty[0]) if whole.null_count() else whole
        return _floats(flat.explode()).reshape(-1, classes)
    if not (kind.is_numeric() or kind.is_decimal()):
        raise _no_probability(
            f"{batch.path} stores {name!r} as {kind}: scores.{role} names columns of "
            "probabilities, which are numbers."
        )
    return _floats(column).reshape(-1, 1)


def _floats(column: pl.Series) -> NDArray[np.float64]:
    """Return numbers, NaN where there is none."""
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _from_log_odds(values: NDArray[np.float64]) -> NDArray[np.float64]:
    found = expit(values) if values.shape[1] == 1 else softmax(values, axis=1)
    return np.asarray(found, dtype=np.float64)


def _check_probabilities(values: NDArray[np.float64], where: str) -> None:
    """Refuse values that are no probabilities, with a guess at what they are."""
    least, greatest = float(values.min()), float(values.max())
    if least < -_ROUNDED or greatest > 1.0 + _ROUNDED:
        percent = least >= 0.0 and 2.0 < greatest <= 100.0
        advice = (
            "if they are percentages, divide by 100"
            if percent
            else 'if they are log-odds, set scores.scale = "log_odds"'
        )
        raise _no_probability(
            f"{where} values from {least:g} to {greatest:g}, which are no probabilities: {advice}."
        )
    if values.shape[1] > 1:
        sums = values @ np.ones(values.shape[1])
        # Rounded to two digits, or kept in 16 bits, every class may miss by so much.
        allowed = max(_ADD_UP, 0.006 * values.shape[1])
        worst = float(sums[np.argmax(np.abs(sums - 1.0))])
        if abs(worst - 1.0) > allowed:
            raise _no_probability(
                f"{where} probabilities that add up to {worst:.4g} for one record: name the "
                "columns of all classes, and nothing else."
            )


def _no_probability(sentence: str) -> NotEvaluableError:
    return NotEvaluableError(Reason.PROBABILITIES_INVALID, sentence)
