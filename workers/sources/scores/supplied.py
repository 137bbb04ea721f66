"""Score tables: probabilities that another system computed, by any framework at all.

The target's are those of the day's model on the day's rows; the proxy's those of a model that never
saw the day, like what was served that day, before the labels existed.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import TypeAdapter

from privcore.lower_bounds.verdicts import Trust
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import Batch, NeededColumns, check_columns
from workers.labels.shards import BadRecords, Partition, divide
from workers.lake.layout import LabelFile, Lake
from workers.lake.manifest import Feature, Privacy
from workers.sources.checkpoints.in_place import InPlace
from workers.sources.join_context import JoinContext
from workers.sources.scores.joined import flattened, join
from workers.sources.scores.query_rows import check_has_rows, laid_out
from workers.sources.scores.score_tables import (
    ScoreTables,
    clearly_apart,
    lacking,
    read_probabilities,
    same_model,
)
from workers.sources.source import Digests, Same, SharedScores
from workers.sources.tables.csv_text import parquet_of
from workers.sources.tables.day_tables import DayRows, Kind, ReleasedNight
from workers.sources.tables.table_files import CSV, TableDay, find_day, partition_of


@dataclass(frozen=True, slots=True)
class SuppliedScores:
    """Settings of a model whose scores are supplied.

    Attributes:
        tables: where they lie, and what their columns mean.
        privacy: what is declared.
    """

    tables: ScoreTables
    privacy: Privacy | None = None
    trust: ClassVar[Trust] = Trust.SELF  # who computes scores may choose them

    def to_json(self) -> str:
        """Return it as the record keeps it."""
        return TypeAdapter(SuppliedScores).dump_json(self).decode()


@dataclass(frozen=True, slots=True)
class ScoreSource:
    """One day of score tables, pinned to the versions that were found; of a query none is."""

    model: str
    day: dt.date
    supplied: SuppliedScores
    found: TableDay | None
    joined_with: tuple[tuple[str, TableDay], ...] = ()

    @property
    def joined(self) -> bool:
        """True if the rows are joined, and sorted, by record before they are read."""
        return self.supplied.tables.record is not None

    @property
    def tables(self) -> ScoreTables:
        """Meanings of the columns that are read."""
        tables = self.supplied.tables
        return flattened(tables) if self.joined else tables

    @property
    def _rows(self) -> DayRows:
        """Reader of the rows; of joined ones, as those of a query, all are of the day."""
        asked = not self.joined and self.found is not None and self.found.day_in_files
        return DayRows(self.tables, self.day, asked)

    label = Same("tables", "label_column")
    context = Same("tables")
    label_state = Same("tables")
    privacy = Same("supplied")
    arms = Same("_rows")
    hashed_kind = Same("_rows")
    where_rows_are = Same("_rows")

    @property
    def days(self) -> tuple[dt.date, ...]:
        """The audited day."""
        return (self.day,)

    features: ClassVar[tuple[Feature, ...]] = ()
    """None: no model is scored here."""

    def recognised_by(self, batch: Batch) -> tuple[Feature, ...]:
        """Return the columns of `context`, as numbers, or categories where values are no numbers.

        Where there are none, the record's name, if it has one. A name that is given to another
        record on another day makes two holdouts look like one.
        """
        if not self.context:
            return tuple(Feature(name=name, kind="categorical") for name in self._names)
        return tuple(
            Feature(name=name, kind=_kind(batch.column(name).dtype)) for name in self.context
        )

    @property
    def _names(self) -> tuple[str, ...]:
        """The column of the record's name, where rows are recognised by it."""
        tables = self.supplied.tables
        told = tables.record in tables.columns_of("label")
        return () if tables.context or tables.record is None or told else (tables.record,)

    proxy_is_earlier: ClassVar[bool] = False
    """False: whether the proxy knows the day's labels is tested."""

    @property
    def declared_in(self) -> str:
        """The settings."""
        return f"The settings of {self.model}, [models.privacy],"

    @property
    def version(self) -> int | None:
        """Version of the first table; None of a folder, and of a query."""
        return None if self.found is None else self.found.version

    @property
    def columns(self) -> tuple[str, ...]:
        """The label, the probabilities, what says which rows play, and what tells rows apart."""
        told_apart = self.context or self._names
        scores = (*self.tables.columns_of("target"), *self.tables.columns_of("proxy"))
        return (self.label.column, *scores, *self._rows.columns, *told_apart)

    @property
    def facts(self) -> dict[str, Any]:
        """The table, and all that `verify` needs to read the same again."""
        return {
            "dataset": self.supplied.tables.table,
            "proxy_day": None,
            "trust": self.supplied.trust,
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
        tables = self.tables
        if self.found is None:
            return f"query {tables.database} {tables.query} {self.day} for {self.model}"
        found = [self.found, *(other for _, other in self.joined_with)]
        words = [f"{each.kind} {each.root.uri} {each.version}" for each in found]
        # What is joined holds the columns of one model.
        return " ".join([*words, f"for {self.model}" if self.joined else str(tables.day)])

    def find_partition(
        self, *, joining: JoinContext, also: tuple[str, ...] = ()
    ) -> tuple[Lake, Partition]:
        """Return the files of the day, or those that its tables were joined into."""
        tables, first = self.supplied.tables, self.found
        also = (*also, *self.context, *self._names)
        if first is None:
            columns = tuple(dict.fromkeys((str(tables.record), *tables.read_of("", also))))
            first = laid_out(tables, self.day, columns, joining)
        found = {"": first, **dict(self.joined_with)}
        for role, each in found.items():
            if each.kind == CSV:
                kinds = column_kinds(tables, role, also, day_in_files=each.day_in_files)
                found[role] = as_parquet(each, kinds, joining)
        first = found[""]
        if not self.joined:
            return partition_of(first, tables.table, self.day)
        root, names, left_out = join(tables, found, self.day, also=also, joining=joining)
        files = tuple(map(root.label_file, names))
        units = divide(root, "", files)
        return root, Partition(tables.table, self.day, "", files, units, left_out)

    def check_columns(self, names: Sequence[str], path: str, of_plan: NeededColumns) -> None:
        """Raise `NotEvaluableError` unless a file has the columns, and those `of_plan`."""
        own = [name for name in self.columns if name not in self.context]
        needed = [(name, "scores in the settings") for name in own]
        needed += [(name, "scores.context in the settings") for name in self.context]
        check_columns(names, path, [*needed, *of_plan], arm=self.tables.holdout_rule.column)

    def labels(self, batch: Batch) -> tuple[NDArray[np.int64], BadRecords]:
        """Return class indices, -1 for a row of another day and for a bad record.

        A record without probabilities is bad, as one without a label is.
        """
        labels, bad = self._rows.labels(batch, self.label)
        unscored = self._lacking(batch)
        found = "no probability of one of both models: score every row of the day with both models"
        bad += batch.bad_rows(unscored & (labels >= 0), Reason.SCORES_MISSING, found)
        return np.where(unscored, -1, labels), bad

    def _lacking(self, batch: Batch) -> NDArray[np.bool_]:
        """Return where a prediction of some model is missing."""
        tables, classes = self.tables, len(self.tables.classes)
        return np.logical_or(
            *(
                lacking(batch, tables.columns_of(role), classes=classes, role=role)
                for role in ("target", "proxy")
            )
        )

    def present(self, batch: Batch) -> NDArray[np.bool_]:
        """Return whether each row is of the day and has predictions, whatever its label is."""
        return np.asarray(self._rows.today(batch) & ~self._lacking(batch))

    def probabilities(
        self, batch: Batch, shared: SharedScores
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the columns hold, in the order of the classes.

        Raises:
            NotEvaluableError: the values are no probabilities, or the proxy's are the target's.
        """
        target, proxy = (self._chances(batch, shared, role) for role in ("target", "proxy"))
        if clearly_apart(target, proxy):
            return target, proxy
        played = self.present(batch)  # rows of other days have no probabilities
        if same_model(target[played], proxy[played]):
            raise NotEvaluableError(
                Reason.PROXY_IS_TARGET,
                f"The earlier model's probabilities in {batch.path} are the target's, record for "
                "record: set scores.proxy to those of a model that never saw the day, like those "
                "that were served.",
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


def _kind(stored: pl.DataType) -> Literal["numeric", "categorical"]:
    number = stored.is_numeric() or stored in {pl.Boolean, pl.Null}
    return "numeric" if number else "categorical"


def find_scores(model: str, day: dt.date, supplied: SuppliedScores) -> ScoreSource:
    """Return one day of a model's score table, at its newest version, or of its query."""
    tables = supplied.tables
    if tables.query is not None:
        check_has_rows(tables, day)
        return ScoreSource(model, day, supplied, None)
    found = {"": find_day(tables, day)}
    for role, other in tables.others.items():
        place = other.model_copy(update={"day": tables.keys_of(role)[1]})
        found[role] = find_day(place, day, zone=tables.time_zone)
    pinned = tables.pinned({role: each.version for role, each in found.items()})
    others = tuple((role, each) for role, each in found.items() if role)
    return ScoreSource(model, day, SuppliedScores(pinned, supplied.privacy), found[""], others)


def column_kinds(
    tables: ScoreTables, role: str, also: Collection[str], *, day_in_files: bool
) -> dict[str, Kind]:
    """Return the columns that are read of a table, and what each holds by the settings.

    Raises:
        NotEvaluableError: the holdout follows from a hash, which text without types does not fix.
    """
    rule = tables.holdout_rule
    if rule.buckets and not role:
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"scores.holdout is {tables.holdout}, and {tables.table} is CSV, which does not say "
            "whether a value is a number or text; both have different buckets: write a column that "
            "says train or holdout, or write Parquet.",
        )
    # The order of columns is part of what is digested.
    kinds: dict[str, Kind] = {} if role else dict.fromkeys(also, "text")
    kinds |= tables.read_of(role, also)
    record, day = tables.keys_of(role)
    if tables.record is not None:
        kinds[record] = "text"
    if day_in_files:
        kinds[day] = "day"
    return kinds


def as_parquet(found: TableDay, kinds: Mapping[str, Kind], joining: JoinContext) -> TableDay:
    """Return a day of CSV files as one of Parquet.

    The settings give a column its kind; one that some file holds text of is text in all of them.
    The Parquet footer holds the digest of the file's own bytes, so the labels' digest pins these.

    Raises:
        NotEvaluableError: a file is no such CSV, is larger than what is read, or was replaced; or
            the deadline passed.
    """
    scratch = joining.scratch_folder()
    either = {name for name, kind in kinds.items() if kind in {"day", "feature", "flag"}}
    as_text = [_written(found.root, file, kinds, scratch, joining) & either for file in found.files]
    text = set().union(*as_text)
    if any(of_file != text for of_file in as_text):
        scratch = joining.scratch_folder()  # a file of a tagged folder is written once
        settled = {name: "text" if name in text else kind for name, kind in kinds.items()}
        for file in found.files:
            _written(found.root, file, settled, scratch, joining)
    files = tuple(scratch.label_file(file.name) for file in found.files)
    return TableDay(scratch, found.kind, None, files, found.day_in_files, called=found.name)


def _written(
    root: Lake, file: LabelFile, kinds: Mapping[str, Kind], scratch: Lake, joining: JoinContext
) -> set[str]:
    """Write one file as Parquet, under its own name, and return which columns are text."""
    joining.check_deadline(f"{file.name} was read: begin earlier, or write Parquet")
    if ".." in file.name.split("/"):
        raise NotEvaluableError(
            Reason.PATH_OUTSIDE, f"{file.name!r} leads out of its folder: rename it."
        )
    content, said = parquet_of(root, file, dict(kinds))
    scratch.write(file.name, content)
    return set(said["text"])


ExternalInputs = SuppliedScores | InPlace


def external_inputs_from_json(text: str) -> ExternalInputs | ReleasedNight:
    """Return what a record keeps in its column `source`."""
    known: TypeAdapter[ExternalInputs | ReleasedNight] = TypeAdapter(ExternalInputs | ReleasedNight)
    return known.validate_json(text)
