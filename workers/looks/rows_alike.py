"""Find rows that belong together: held out together, logged twice, or divided as pairs.

An audit of single rows compares training rows with holdout rows as if each were drawn by itself. If
all rows of one person are held out together, the model knows training rows by other rows of their
person, and holdout rows by none. If one event is logged twice, each copy gets noise of its own, and
the event's label loses twice what a row's may lose. If holdout rows are near copies of training
rows, the model knows both alike. All are looked for in the first rows of some files, rows held out
together also in columns that no model takes.
"""

import contextlib
import operator
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from privcore.attacks import NEAR_DIGITS, ValueSketch, distinct_sentence, leading_digits, row_sums
from privcore.lower_bounds import Secret
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import SPLIT, Batch
from workers.labels.parquet import read_footer, read_row_group
from workers.looks.look import Findings, Look, Opened, Seen
from workers.looks.near_copies import NearCopies
from workers.remark import Remark, RemarkKind, remarked
from workers.sources.source import Source, context_features

_FEW = 4096
"""The rows after which most columns are known to cross the arms."""
_COLUMNS = 24
"""The columns that are looked at."""
_COLUMN_BYTES, _BYTES = 1 << 23, 1 << 25
"""The most bytes of one column, and of all columns together, that are looked at in a file."""
_COPIES = 0.5
"""Share of rows that are copies, above which these are why a column's rows are in one arm."""
_PERSON = re.compile(
    r"user|customer|client|person|member|account|patient|household|device", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class RowsAlike(Look):
    """Sketches of some files; they add.

    Attributes:
        columns: the sketch of each column that was looked at; None once its values cross the arms.
        twins: the sketch of rows by all that is read of them but the label.
        near: sketches of rows by their features, one for each number of digits.
    """

    columns: dict[str, ValueSketch | None]
    twins: ValueSketch
    near: tuple[ValueSketch, ...] = (ValueSketch.zero(),) * len(NEAR_DIGITS)

    @classmethod
    def see(cls, seen: Seen) -> "RowsAlike | None":
        """Return which rows of a file's start belong together; where persons play, none does."""
        source, batch = seen.source, seen.batch
        start, most = batch.place[2], seen.opened.first_rows - batch.place[2]
        if seen.plan.privacy_unit is not None or most <= 0:
            return None
        labels = source.labels(batch)[0][:most]
        train, holdout = (arm[:most] for arm in source.arms(batch))
        played = np.flatnonzero(source.present(batch)[:most] & (train | holdout))
        proxy = source.probabilities(batch, seen.scores)[1][played]
        rows = row_sums(labels[played], train[played], proxy)
        names = [feature.name for feature in source.features]
        read = [batch.column(name)[played].rename(str(place)) for place, name in enumerate(names)]
        # Without features, rows with the same answer of the earlier model are taken for the same.
        # The target's would tell labels: of forests, rows with equal answers have equal labels.
        read += [pl.Series(f"proxy {place}", values) for place, values in enumerate(proxy.T)]
        twins = ValueSketch.of(pl.DataFrame(read).hash_rows().to_numpy(), rows)
        looked_at, unread = seen.opened.once(columns_to_look_at)
        beside = Batch(unread.slice(start, labels.size), batch.path, batch.place)
        columns = {}
        for name in looked_at:
            if name in {SPLIT, source.label.column}:
                continue
            part = beside if name in beside.table.column_names else batch
            # No audit ends by a column that it does not need; the scan refuses one that it needs.
            with contextlib.suppress(NotEvaluableError):
                columns[name] = _column(part.column(name)[played], rows)
        return cls(columns, twins, _near(batch, source, played, rows))

    def __add__(self, other: Self) -> Self:
        """Return what was found in both."""
        columns = dict(self.columns)
        for name, sketch in other.columns.items():
            mine = columns.get(name, ValueSketch.zero())
            columns[name] = None if mine is None or sketch is None else mine + sketch
        near = tuple(map(operator.add, self.near, other.near))
        return type(self)(columns, self.twins + other.twins, near)

    def check(self, found: Findings) -> None:
        """Refuse to compare single rows where rows that belong together lie in one arm.

        Raises:
            NotEvaluableError: they do.
        """
        self._check_held_together(found)
        self._check_made_distinct(found)

    def _check_held_together(self, found: Findings) -> None:
        """Refuse to compare single rows of values that were held out whole and are alike, or near.

        The target then knows training rows by other rows of their value, and holdout rows by none:
        an honest model would be accused. Without the comparison there is no figure.
        """
        column = self.held_together()
        share = self.twins.repeated()
        if column is not None and share > _COPIES:
            raise NotEvaluableError(
                Reason.HELD_OUT_TOGETHER,
                f"Rows are logged twice: {share:.0%} of the rows that were looked at have the "
                f"features and the label of another row, and all of one {column!r} are in one arm. "
                f'Keep one row of each event, or set plan.privacy_unit to "{column}".',
            )
        if column is not None:
            raise NotEvaluableError(
                Reason.HELD_OUT_TOGETHER,
                f"All rows of one value of {column!r} were held out together, or trained on "
                "together, and their labels agree more than the earlier model expects. Training "
                f"read other rows of a training row's {column!r} and none of a holdout row's, so a "
                "comparison of single rows would accuse the model falsely. Set plan.privacy_unit "
                f'to "{column}", and declare an epsilon for that unit; or hold out single rows at '
                "random.",
            )
        copies = NearCopies.among(found.looks)
        if copies is not None and copies.tell_split:
            return  # rows of such a feature are never in both arms: its own sentence says so
        near = self.near_held_together()
        if near is not None:
            crossing, expected = near
            raise NotEvaluableError(
                Reason.HELD_OUT_TOGETHER,
                "Rows with nearly the same features were held out together, or trained on "
                f"together: {crossing:,} groups of them have rows of both, and a holdout drawn row "
                f"by row would give {expected:,.0f}. So persons, hours or places seem to have been "
                "held out. The model may know training rows by others like them, and holdout rows "
                "by none: a comparison of single rows could accuse it falsely. Hold out single "
                "rows at random; or set plan.privacy_unit to the column of the persons, and "
                "declare an epsilon for them.",
            )

    def _check_made_distinct(self, found: Findings) -> None:
        """Refuse arms of which one has no equal rows, although both together have many.

        Labels of equal rows then differ between the arms, whatever the target knows.
        """
        if found.plan.secret is not Secret.LABEL:
            return
        classes = len(found.source.label.classes)
        expected = self.made_distinct(classes)
        if expected is not None:
            raise NotEvaluableError(Reason.ARMS_DIFFER, distinct_sentence(classes, expected))

    def divided_whole(self) -> bool:
        """Return whether a column's values, or near copies, never cross; no label is read."""
        columns = (sketch for sketch in self.columns.values() if sketch is not None)
        return any(each.held_together() for each in columns) or any(
            each.near_held_together() is not None for each in self.near
        )

    def made_distinct(self, classes: int) -> float | None:
        """Return how many equal rows should come more often in an arm; None where enough do.

        Of rows that are equal by all that is read, or by their features to the most digits.
        """
        found = (each.made_distinct(classes) for each in (self.twins, self.near[-1]) if classes)
        return next((one for one in found if one is not None), None)

    def held_together(self) -> str | None:
        """Return the column whose values were held out together and are alike; None where none is.

        Of several (a person's name and number) the first by name is returned.
        """
        for name, sketch in sorted(self.columns.items()):
            if sketch is not None and sketch.divided_alike():
                return name
        return None

    def near_held_together(self) -> tuple[int, float] | None:
        """Return how many near copies cross the arms, and how many should; None where enough do.

        Copies of one event are not asked: `sentence` says that rows were logged twice.
        """
        if self.twins.repeated():
            return None
        found = (each.near_held_together() for each in self.near)
        return next((one for one in found if one is not None), None)

    def remarks(self, found: Findings) -> tuple[Remark, ...]:
        """Return that rows were logged twice or divided as pairs, where it looks so."""
        return (
            *remarked(RemarkKind.ROWS_REPEATED, self._twins_sentence()),
            *remarked(RemarkKind.HOLDOUT_RESEMBLES_TRAINING, self._pairs_sentence()),
        )

    def _twins_sentence(self) -> str:
        share = self.twins.repeated()
        if not share:
            return ""
        return (
            f"Rows may be logged twice: {share:.0%} of the rows that were looked at have the "
            "features and the label of another row. If each copy gets noise of its own, the label "
            "of one event may lose twice what is declared for a row, although the mechanism works "
            "as declared. Keep one row of each event, or set plan.privacy_unit to the column that "
            "names the event."
        )

    def _pairs_sentence(self) -> str:
        """Return that near copies are in both arms too often, by the first digits that say it."""
        for each in self.near:
            if found := each.too_many_crossings():
                groups, crossing, expected = found
                return (
                    f"Holdout rows resemble training rows too often: of {groups:,} groups of few "
                    f"rows with nearly the same features {crossing:,} have rows of both, and a "
                    f"random holdout would give {expected:,.0f}. If near copies share their "
                    "labels, the target knows labels of the holdout, and this bound is too small. "
                    "Draw the holdout at random from the rows that training takes."
                )
        return ""


def columns_to_look_at(opened: Opened) -> tuple[tuple[str, ...], pa.Table]:
    """Return the columns of a row group that are looked at: of text or integers, by name.

    Beside them are the first rows of those that no model of the pass takes. Columns that may name
    persons come first. A column that cannot be read is left out: no audit depends on a column that
    it does not need.
    """
    footer, path, index = opened.group.footer, opened.group.path, opened.group.index
    fields = [field for field in footer.schema() if _names_values(field.type)]
    times = Counter(footer.names)
    names = [field.name for field in fields if times[field.name] == 1]
    names = sorted(names, key=lambda name: not _PERSON.search(name))[:_COLUMNS]
    there = tuple(name for name in names if name in opened.read)
    try:
        asked = read_footer(opened.lake, path, names, listed=footer.listed)
        sizes = dict.fromkeys(names, 0)
        for chunk in asked.groups[index].chunks:
            sizes[chunk.column] += chunk.size
        chosen = tuple(_affordable(sizes))
        there = tuple(name for name in chosen if name in opened.read)
        more = [name for name in chosen if name not in opened.read]
        group = read_row_group(opened.lake, path, asked, index, more)
        unread = next(group.batches(more, rows=opened.first_rows), None) if more else None
    except NotEvaluableError:
        unread = None
    return (there, pa.table({})) if unread is None else (chosen, unread)


def _affordable(sizes: dict[str, int]) -> Iterator[str]:
    left = _BYTES
    for name, size in sizes.items():
        if size <= min(left, _COLUMN_BYTES):
            left -= size
            yield name


def _names_values(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    )


def _near(
    batch: Batch, source: Source, played: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[ValueSketch, ...]:
    """Return the sketches of rows by their features to some digits; of no features, none."""
    try:
        features = context_features(source, batch)
        columns = [batch.feature(each).gather(played).alias(each.name) for each in features]
    except NotEvaluableError:  # the scan refuses what it needs
        columns = []
    if not columns:
        return (ValueSketch.zero(),) * len(NEAR_DIGITS)
    numeric = {each.name for each in features if each.kind == "numeric"}
    words = [column for column in columns if column.name not in numeric]
    numbers = {
        column.name: column.cast(pl.Float64).to_numpy()
        for column in columns
        if column.name in numeric
    }
    found = []
    for digits in NEAR_DIGITS:
        near = pl.DataFrame({name: leading_digits(of, digits) for name, of in numbers.items()})
        hashes = pl.DataFrame([*words, *near]).hash_rows().to_numpy()
        found.append(ValueSketch.of(hashes, rows))
    return tuple(found)


def _column(values: pl.Series, rows: NDArray[np.int64]) -> ValueSketch | None:
    """Return a column's sketch; None where its values cross the arms."""
    there = values.is_not_null().to_numpy()
    first = np.flatnonzero(there)[:_FEW]
    few = ValueSketch.of(values[first].hash().to_numpy(), rows[first])
    if few.crosses():
        return None
    return ValueSketch.of(values.filter(pl.Series(there)).hash().to_numpy(), rows[there])
