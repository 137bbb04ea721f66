"""One table of true and released labels, read, checked and judged."""

import functools
import hashlib
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.attacks import HoldoutSketch
from privcore.lower_bounds.question import leak_to_be_seen
from privcore.lower_bounds.released_columns import BINS, SearchedRows, chosen_guesses, reads_more
from privcore.lower_bounds.released_labels import (
    Declared,
    Guesses,
    LabelCheck,
    LabelNight,
    check_counts,
    night_of_labels,
)
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from privcore.rounding import down, guarantee, percent_up, up
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import class_words
from workers.plain_text import plain_text
from workers.sources.tables.day_tables import EVERY_ROW

SEARCHED = 200_000
"""Records among which columns are searched; a leak that a column tells is seen in far fewer."""
_CLASSES, _STRATA, _CELLS = 1_000, 2_000, 20_000_000
_COPIES = 0.01
_FRACTION = re.compile(r"[+-]?[0-9]*\.[0-9]+([eE][+-]?[0-9]+)?$")


@dataclass(frozen=True, slots=True)
class AskedLabels:
    """What is asked of a table of labels.

    Columns are named as in `ReleasedLabels`; a `seed` draws other halves that are searched.
    """

    true: str
    released: str
    declared: Declared
    record: str
    reads: tuple[str, ...] = ()
    time: str | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class JudgedLabels:
    """The answer.

    Attributes:
        code: of the verdict, in a fixed word; None for `not_refuted`.
        reason: the cause, and then what to do.
        strata: in which the mechanism's channel may differ.
        remarks: sentences beside the verdict.
        digest: of the rows' records, labels and strata.
        found: the figures; None where there is only one class.
        night: what these rows add to other nights; None likewise.
        sketch: of records with both labels, by which labels that come again are recognised.
        column: that was bet on; "" where none was.
    """

    code: ReasonCode | None
    reason: str
    records: int
    classes: int
    strata: int
    remarks: tuple[str, ...]
    digest: str
    found: LabelCheck | None = None
    night: LabelNight | None = None
    sketch: str | None = None
    column: str = ""

    @property
    def verdict(self) -> Verdict:
        """The answer in one of five words."""
        return Verdict.NOT_REFUTED if self.code is None else self.code.verdict

    @property
    def doubtful(self) -> bool:
        """True where something would void what these rows prove, alone or with others."""
        return self.code in {ReasonCode.READS_MORE, ReasonCode.RECORDS_REPEAT}


def judge_labels(rows: pl.DataFrame, asked: AskedLabels) -> JudgedLabels:
    """Return what a table says of the mechanism that released its labels.

    One row of each record is tested (`_drawn`). Which half is searched and which rows are thinned
    depends on names of records and on counts of true labels, never on the rows' place in the file.

    Raises:
        NotEvaluableError: a column is missing, asked for twice or holds no classes, no row has a
            true label, or there are more classes or strata than are read.
    """
    table = _prepared(rows, asked)
    tested = _drawn(table, asked)
    coded = _Coded.of(tested, asked)
    judged = functools.partial(
        JudgedLabels,
        records=tested.height,
        classes=len(coded.classes),
        strata=coded.strata,
        remarks=(*_repeats(table, asked), *_left_out(rows, table)),
        digest=_digest(table),
    )
    if len(coded.classes) < 2:
        only = f"Every true label in {asked.true!r} is {coded.classes[0]!r}"
        word = f"{only}, so released ones can tell nothing. Check days with two classes."
        return judged(ReasonCode.TOO_SMALL, word)
    counts = coded.counts(np.ones(tested.height, dtype=np.bool_))
    seed = _seed(counts.sum(axis=2), asked)
    searched = _searched(tested, coded, asked, seed)
    column, guesses = chosen_guesses(searched, asked.declared)
    found = check_counts(
        counts, same=coded.same, declared=asked.declared, column=guesses, seed=seed
    )
    inputs = [one for one in searched.columns if one in rows.columns and one != asked.time]
    unnamed = [one for one in inputs if one not in asked.reads]
    more = reads_more(searched, unnamed, seed=seed)
    shares = asked.declared.shares
    refuting = [name for name, pvalue in found.pvalues.items() if pvalue <= shares[name]]
    if more is None and refuting == ["column"] and column in unnamed:
        more = column
    code, reason = _judged(found, asked, column, more, copies=_copies(tested, asked))
    if code is ReasonCode.THIS_NIGHT and (gaps := _gaps(searched, coded, guesses, asked, seed)):
        code, reason = ReasonCode.READS_MORE, gaps
    night = night_of_labels(
        counts, same=coded.same, declared=asked.declared, random=np.random.default_rng([seed, 3])
    )
    hashes = tested.select("key", "true", "released").hash_rows(0).to_numpy()
    return judged(
        code,
        reason,
        found=found,
        night=night,
        sketch=HoldoutSketch.of([hashes]).text(few=True),
        column=column,
    )


def _judged(
    found: LabelCheck, asked: AskedLabels, column: str, more: str | None, *, copies: int
) -> tuple[ReasonCode | None, str]:
    """Return reason code and sentences; what would void the others comes first."""
    claim = guarantee(asked.declared.epsilon, asked.declared.delta)
    if copies:
        return ReasonCode.RECORDS_REPEAT, (
            f"{copies:,} rows are alike in every column, their released labels too, more than "
            "chance makes, so they are no records of their own. Name the column that tells one "
            "record from another (record)."
        )
    if more is not None:
        return ReasonCode.READS_MORE, (
            f"Released labels of one true label depend on {more!r}, which the mechanism is not "
            "said to read, and one that reads a column may look worse than it is. If it reads it, "
            "name it (reads); of a prior, name the set of its top labels."
        )
    if (test := found.refuted_by) is not None:
        what = _FOUND[test].format(found=found, column=column, most=percent_up(found.rate))
        beside = "".join(f", {name!r}" for name in asked.reads)
        return ReasonCode.THIS_NIGHT, (
            f"{what}. So epsilon {claim} is refuted, and more than "
            f"{down(found.epsilon_lower, beyond=asked.declared.epsilon)} is lost, if the mechanism "
            f"reads nothing but the label{beside} and a coin for each record. Hand these labels to "
            "nobody, and see how the coins are drawn."
        )
    needed = leak_to_be_seen(asked.declared.epsilon)
    if not found.sees_from <= needed:
        return ReasonCode.TOO_SMALL, (
            f"{found.rows:,} labels can be compared, so that a mechanism of an epsilon below "
            f"{up(found.sees_from)} would have looked the same ({up(needed)} is wanted). Check "
            "more labels at once, or fewer strata."
        )
    return None, (
        f"Nothing refutes epsilon {claim}. At least {down(found.epsilon_lower)} is lost, and "
        f"randomized response from {up(found.sees_from)} on would probably have been seen. Leaks "
        "of a few records, or by a secret key, would not."
    )


_FOUND = {
    "kept": "{found.right:,} of {found.rows:,} compared labels were released as they are, and at "
    "most {most} are to be expected",
    "key": "Read by a key that half of the records gave, released values name the true labels of "
    "the other half too often",
    "column": "{column!r} tells which labels were released as they are",
    "ratio": "A released value tells one class from all others more than is allowed",
}
"""What each test found."""


def _prepared(rows: pl.DataFrame, asked: AskedLabels) -> pl.DataFrame:
    """Return rows with a true label: labels as words, record, stratum, an order, other columns."""
    named = [asked.true, asked.released, *asked.reads, *filter(None, [asked.time])]
    named += [] if asked.record == EVERY_ROW else [asked.record]
    for name in named:
        if name not in rows.columns:
            some = ", ".join(rows.columns[:20])
            raise _refused(f"there is no column {name!r}: name one of {some}.")
    twice = [name for name in named if named.count(name) > 1]
    if twice:
        raise _refused(f"{twice[0]!r} is named twice: each option needs a column of its own.")
    given = [one for one in rows.columns if one not in {asked.true, asked.released, asked.record}]
    found = pl.DataFrame(
        {
            "true": _words(rows[asked.true]),
            "released": _words(rows[asked.released]),
            "stratum": _strata(rows, asked.reads),
            **{f"column {name}": rows[name] for name in given},
        }
    )
    if asked.record == EVERY_ROW:
        found = found.with_columns(record=pl.int_range(found.height).cast(pl.String))
        key = found.drop("record").select(pl.all().map_batches(_hashable)).hash_rows(asked.seed)
    else:
        found = found.with_columns(record=rows[asked.record].cast(pl.String))
        key = found["record"].hash(asked.seed)
    tie = found.select("true", "released", "stratum").hash_rows(asked.seed)
    found = found.with_columns(key=key, tie=tie)
    found = found.filter(pl.col("true").is_not_null() & pl.col("record").is_not_null())
    if found.is_empty():
        raise _refused(f"no row has a true label in {asked.true!r}: name the column that has them.")
    found = found.sort("key", "tie")
    if asked.record == EVERY_ROW:  # `key` holds released labels: their order must decide nothing
        found = found[np.random.default_rng(asked.seed).permutation(found.height)]
    return found


def _repeat(table: pl.DataFrame) -> bool:
    """Return whether a record has several rows: they lie side by side, in the order of `key`."""
    return bool((table["key"] == table["key"].shift(1)).any())


def _drawn(table: pl.DataFrame, asked: AskedLabels) -> pl.DataFrame:
    """Return one row of each record, each of its rows as likely, by a hash of the record alone."""
    if asked.record == EVERY_ROW or not _repeat(table):
        return table
    place = pl.int_range(pl.len(), dtype=pl.UInt64)
    lot = pl.col("record").hash(asked.seed + 1)
    return table.filter(place.over("record") == lot.mod(pl.len().over("record")))


def _hashable(column: pl.Series) -> pl.Series:
    """Return a column as text or numbers, whose hashes do not depend on how it is stored."""
    return column.cast(pl.Float64) if column.dtype.is_numeric() else column.cast(pl.String)


def _words(column: pl.Series) -> pl.Series:
    """Return classes as an audit spells them, and " 1 " as 1; null where there is none.

    Raises:
        NotEvaluableError: the column holds fractions, lists or bytes, which are no classes.
    """
    kind = column.dtype
    if kind.is_nested() or kind in {pl.Binary, pl.Object, pl.Null}:
        raise _refused(f"{column.name!r} is stored as {kind}: name a column of classes.")
    if not (kind.is_numeric() or kind == pl.Boolean):
        column = column.cast(pl.String).str.strip_chars()
    column, spelled = class_words(column)
    if any(map(_FRACTION.match, spelled.values())):
        raise _refused(
            f"{column.name!r} holds fractions, which are scores or noisy numbers and no classes: "
            "name the column of classes."
        )
    words = [word or None for word in spelled.values()]
    return column.replace_strict(list(spelled), words, return_dtype=pl.String, default=None)


def _strata(rows: pl.DataFrame, reads: Sequence[str]) -> pl.Series:
    """Return which values of the columns that are read each row has, from 0 up."""
    if not reads:
        return pl.Series(np.zeros(rows.height, dtype=np.int64))
    read = pl.concat_list([pl.col(name).cast(pl.String).fill_null("\0") for name in reads])
    words = rows.select(read.list.join("\1")).to_series()
    return (words.rank("dense") - 1).cast(pl.Int64)


def _by_size(words: pl.Series) -> list[str | None]:
    """Return values, the commonest first, so that names of classes change no figure."""
    counted = words.value_counts(sort=False).sort("count", words.name, descending=[True, False])
    return counted[words.name].to_list()


@dataclass(frozen=True, slots=True)
class _Coded:
    """Stratum, class and released value of each record, from 0 up."""

    stratum: NDArray[np.int64]
    true: NDArray[np.int64]
    released: NDArray[np.int64]
    classes: Sequence[str | None]
    values: Sequence[str | None]
    strata: int

    @classmethod
    def of(cls, tested: pl.DataFrame, asked: AskedLabels) -> Self:
        """Number what records have; of more than is compared, refuse."""
        classes, values = _by_size(tested["true"]), _by_size(tested["released"])
        strata = tested["stratum"].n_unique()
        cells = strata * len(classes) * len(values)
        if len(classes) > _CLASSES or strata > _STRATA or cells > _CELLS:
            raise _refused(
                f"{len(classes):,} classes in {asked.true!r}, {len(values):,} values in "
                f"{asked.released!r} and {strata:,} strata are more than are compared: group rare "
                "classes, and let the mechanism's prior be the set of its top labels."
            )

        def places(words: pl.Series, known: Sequence[str | None]) -> NDArray[np.int64]:
            found = words.replace_strict(list(known), range(len(known)), return_dtype=pl.Int64)
            return found.to_numpy()

        stratum = tested["stratum"].rank("dense").to_numpy().astype(np.int64) - 1
        true, released = places(tested["true"], classes), places(tested["released"], values)
        return cls(stratum, true, released, classes, values, strata)

    @property
    def same(self) -> NDArray[np.int64]:
        """The released value that is each class; -1 where none is."""
        return _places(self.classes, self.values)

    @property
    def as_class(self) -> NDArray[np.int64]:
        """The class of each record's released value; -1 where it is none."""
        return _places(self.values, self.classes)[self.released]

    def counts(self, some: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return how many of some records there are, (strata, classes, released values)."""
        shape = (self.strata, len(self.classes), len(self.values))
        cells = np.ravel_multi_index((self.stratum, self.true, self.released), shape)
        return np.bincount(cells[some], minlength=math.prod(shape)).reshape(shape)


def _gaps(
    searched: SearchedRows, coded: _Coded, guesses: Guesses, asked: AskedLabels, seed: int
) -> str | None:
    """Return a doubt where missing released labels alone refute, and may be missing by time.

    A job that stops for an hour releases nothing, whatever the labels are, and labels vary by hour.
    """
    if None not in coded.values:
        return None
    given = coded.released != coded.values.index(None)
    there = check_counts(
        coded.counts(given), same=coded.same, declared=asked.declared, column=guesses, seed=seed
    )
    if there.refuted_by is not None:
        return None
    which = "no column of time says when: name it (time)"
    if asked.time is not None:
        some = given[: len(searched.true)]
        shown = replace(searched, released=np.where(some, searched.true, -1))
        by = reads_more(shown, [asked.time], seed=seed)
        if by is None:
            return None
        which = f"{by!r} tells which: leave out rows of which the mechanism released nothing"
    return (
        f"{int((~given).sum()):,} rows have no released label, more of one true label than of "
        f"another one, which alone would refute the declaration, and {which}."
    )


def _places(words: Sequence[str | None], known: Sequence[str | None]) -> NDArray[np.int64]:
    place = {word: number for number, word in enumerate(known)}
    return np.array([place.get(word, -1) for word in words])


def _digest(table: pl.DataFrame) -> str:
    """Return a digest of records, labels and strata, whatever the rows' order."""
    rows = table.select("key", "stratum", "true", "released")
    hashes = rows.hash_rows(0).sort().to_numpy()
    return hashlib.sha256(hashes.tobytes()).hexdigest()


def _seed(true: NDArray[np.int64], asked: AskedLabels) -> int:
    """Return a seed that follows from counts of true labels and the question alone."""
    said = (
        asked.declared.epsilon,
        asked.declared.delta,
        asked.seed,
        np.sort(true, axis=None).tolist(),
    )
    return int.from_bytes(hashlib.blake2b(repr(said).encode(), digest_size=8).digest())


def _searched(tested: pl.DataFrame, coded: _Coded, asked: AskedLabels, seed: int) -> SearchedRows:
    """Return the records in which columns are searched: the first ones in an order by hash."""
    some = tested.head(SEARCHED)
    rows = some.height
    given = [name for name in some.columns if name.startswith("column ")]
    columns = {name.removeprefix("column "): _binned(some[name]) for name in given}
    if asked.record != EVERY_ROW:
        columns |= _of_names(some["record"])
    orders = {} if asked.time is None else _orders(some[f"column {asked.time}"], seed)
    learning = np.random.default_rng([seed, 1]).random(rows) < 0.5
    labels = coded.stratum[:rows], coded.true[:rows], coded.as_class[:rows]
    return SearchedRows(*labels, columns, orders, learning)


def _binned(column: pl.Series) -> NDArray[np.int64]:
    """Return a column's values in `BINS` ranges of equal numbers of rows; words by number."""
    kind = column.dtype
    if kind.is_numeric() or kind.is_temporal():
        rank = column.rank("min").fill_null(1).to_numpy().astype(np.int64) - 1
        return rank * BINS // max(len(column), 1)
    if kind.is_nested() or kind in {pl.Binary, pl.Object}:
        return np.zeros(len(column), dtype=np.int64)
    words = column.cast(pl.String).fill_null("")
    common = _by_size(words.alias("word"))[:BINS]
    places = words.replace_strict(common, list(range(len(common))), default=len(common) - 1)
    return places.to_numpy().astype(np.int64) * BINS // max(len(common), 1)


def _of_names(records: pl.Series) -> dict[str, NDArray[np.int64]]:
    """Return what a mechanism without coins may make of a record's name: hashes and residues."""
    names = [name.encode() for name in records]
    made = {"crc32": [zlib.crc32(name).to_bytes(4) for name in names]}
    for how in ("md5", "sha1", "sha256"):
        made[how] = [hashlib.new(how, one, usedforsecurity=False).digest() for one in names]
    found = {}
    for how, hashes in made.items():
        first = [int.from_bytes(one[:2]) >> 6 for one in hashes]
        found[f"{how} of the record"] = np.array(first, dtype=np.int64)
        whole = [int.from_bytes(one) % 2_000_000 for one in hashes]
        found |= _residues(f"{how} of the record", np.array(whole, dtype=np.int64))
    if all(name.isdigit() for name in names):
        last = np.array([int(name[-9:]) for name in names], dtype=np.int64)
        found |= _residues("record", last)
    return found


def _residues(name: str, numbers: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Return the remainders that mechanisms take, spread over the ranges."""
    return {f"{name} modulo {by}": numbers % by * BINS // by for by in (2, 10, 16, 100, 1_000)}


def _orders(time: pl.Series, seed: int) -> dict[str, NDArray[np.int64]]:
    """Return orders in which neighbours may share a coin: by time, and by place in the day.

    Rows of one time are in random order. The second one holds rows of one place in all days
    together, whose coins are the same where every day has the same seed.
    """
    mixed = np.random.default_rng([seed, 2]).random(len(time))
    rank = time.rank("dense").fill_null(0).to_numpy()
    orders = {"the record before": np.lexsort((mixed, rank))}
    if isinstance(time.dtype, pl.Datetime) or time.dtype == pl.Date:
        days = time.dt.date().rank("dense").fill_null(0).to_numpy().astype(np.int64)
        if len(np.unique(days)) > 1:
            ordered = np.lexsort((mixed, rank, days))
            _, begins, sizes = np.unique(days[ordered], return_index=True, return_counts=True)
            place = np.empty(len(time), dtype=np.int64)
            place[ordered] = np.arange(len(time)) - np.repeat(begins, sizes)
            orders["the same place of another day"] = np.lexsort((days, place))
    return orders


def _copies(tested: pl.DataFrame, asked: AskedLabels) -> int:
    """Return how many rows are copies of another one; 0 where records are named, or chance does.

    Rows alike in all columns but the released label are put in pairs. Coins of their own make a
    pair agree as often as two rows of that class and stratum do.
    """
    others = [name for name in tested.columns if name.startswith("column ")]
    if asked.record != EVERY_ROW or not others:
        return 0
    alike = tested.select(pl.col("true", *others).map_batches(_hashable)).hash_rows(1)
    rows = tested.select("true", "stratum", "released").with_columns(alike=alike)
    rows = rows.sort("alike", maintain_order=True)
    place = pl.int_range(pl.len()).over("alike")
    rows = rows.with_columns(
        pair=(place % 2 == 1), agrees=pl.col("released").eq_missing(pl.col("released").shift(1))
    )
    cells = rows.group_by("true", "stratum").agg(
        chance=(pl.col("released").value_counts().struct.field("count") / pl.len()).pow(2).sum()
    )
    pairs = rows.filter("pair").join(cells, on=["true", "stratum"])
    expected, agree = float(pairs["chance"].sum()), int(pairs["agrees"].sum())
    many = agree - expected > 5.0 * math.sqrt(expected + 1.0)
    return agree if many and agree >= _COPIES * rows.height else 0


def _repeats(table: pl.DataFrame, asked: AskedLabels) -> list[str]:
    """Say how many records have several rows, and what their answers give away by a vote."""
    if asked.record == EVERY_ROW or not _repeat(table):
        return []
    answers = table.group_by("record", "true", "released", "stratum").agg(pl.len())
    answers = answers.sort(pl.col("len").cast(pl.Int64).neg(), "released", "stratum")
    voted = answers.group_by("record", "true").agg(
        pl.first("released", "stratum"), pl.sum("len"), answers=pl.col("released").n_unique()
    )
    several = voted.filter(pl.col("len") > 1)
    if several.is_empty():
        return []
    differ = several.filter(pl.col("answers") > 1).height
    told = (
        f"{several.height:,} records have several rows with one true label; one row of each counts."
    )
    if differ:
        coded = _Coded.of(several, asked)
        counts = coded.counts(np.ones(several.height, dtype=np.bool_))
        seed = _seed(counts.sum(axis=2), asked)
        lost = check_counts(
            counts, same=coded.same, declared=asked.declared, seed=seed
        ).epsilon_lower
        lost_by = f", and by the most frequent one at least {down(lost)} is lost" if lost else ""
        told += (
            f" {differ:,} of them have different answers: each spends epsilon again{lost_by}. "
            "Release a label once, and keep the answer."
        )
    return [told]


def _left_out(rows: pl.DataFrame, table: pl.DataFrame) -> list[str]:
    """Say how many rows have no true label or record, and which column is a copy of the label."""
    remarks = []
    if missing := rows.height - table.height:
        remarks.append(f"{missing:,} rows without a true label, or a record, are left out.")
    for name in (one for one in table.columns if one.startswith("column ")):
        known = table[name].n_unique()
        pairs = table.select(pl.struct(name, "true").n_unique()).item()
        if known == pairs and known <= max(2, table["true"].n_unique()) and known > 1:
            remarks.append(
                f"{plain_text(name.removeprefix('column '))!r} tells the true label of every row: "
                "see that nobody gets it with the released labels."
            )
    return remarks


def _refused(why: str) -> NotEvaluableError:
    return NotEvaluableError(Reason.LABEL_INVALID, f"The labels cannot be compared: {why}")


def fields_of(judged: JudgedLabels, asked: AskedLabels) -> dict[str, Any]:
    """Return the answer as plain values, bounds rounded towards what they do not claim."""
    found = judged.found
    tests = {} if found is None else found.pvalues
    return {
        "verdict": str(judged.verdict),
        "reason_code": None if judged.code is None else str(judged.code),
        "reason": judged.reason,
        "epsilon_declared": asked.declared.epsilon,
        "delta_declared": asked.declared.delta,
        "epsilon_lower": None if found is None else found.epsilon_lower,
        "sees_from": None if found is None or math.isinf(found.sees_from) else found.sees_from,
        "pvalues": dict(tests),
        "records": judged.records,
        "rows": None if found is None else found.rows,
        "right": None if found is None else found.right,
        "rate": None if found is None else found.rate,
        "classes": judged.classes,
        "strata": judged.strata,
        "reads": list(asked.reads),
        "column": judged.column or None,
        "remarks": list(judged.remarks),
        "digest": judged.digest,
        "seed": asked.seed,
    }
