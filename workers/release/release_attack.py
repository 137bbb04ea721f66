"""An audit of a table whose answers claim a relaxation: attack it, and count what was read.

The table is put behind the mechanism that the definition recommends, and an adversary who sees only
answers reconstructs it. First the counts of every column alone; then, one task for each value of
one column, the records that have it: what a task needs are those records, and what it returns are
counts, so that the rows of a large table go to a worker once and none come back. Single persons
may be attacked, too: are they in the table, and what else does their record hold.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, model_validator

from privcore.attacks import (
    Adversary,
    Disagreement,
    EveryCell,
    Knowledge,
    NotZeroOrOne,
    TableReconstruction,
    any_record,
    confirm_unique,
    find_bounds,
    infer_attribute,
    infer_membership,
    learn_columns,
    probe_column,
    probe_records,
    reconstruct_groups,
    table_match,
)
from privcore.attacks.query_adversary import NoiseRule
from privcore.exceptions import INTERFACE_ERRORS, InvalidInputError
from privcore.mechanisms import (
    BootstrapLaplace,
    Column,
    Groups,
    KLaplace,
    NoisyCountThreshold,
    Predicates,
    ProtectedTable,
    QueryInterface,
    QueryMechanism,
)
from workers.executors import Executor
from workers.strict_model import StrictModel

Definition = Literal["idp", "group_idp", "bdp", "dp"]
_SMALL_EPSILON = 1e-10
_QUERIES_PER_CELL = 256  # far above what a search asks: all are paid for beforehand


class ReleasePlan(StrictModel):
    """Claim of the answers, and the attack on them."""

    definition: Definition
    """What the answers claim: idp, group_idp, bdp, or dp (the honest control)."""
    k: int = Field(default=1, ge=1)
    """Group size of group_idp; 1 for idp."""
    epsilon: float = Field(gt=0.0, allow_inf_nan=False)
    """Budget that all answers together may claim."""
    precision: float = Field(default=0.01, gt=0.0)
    """Width to which floating-point columns are read."""
    targets: tuple[dict[str, str], ...] = ()
    """Persons, each by some columns' values, to be attacked singly."""
    seed: int = Field(default=0, ge=0)
    """Seed of the mechanism's noise."""

    @model_validator(mode="after")
    def _check_group_size(self) -> "ReleasePlan":
        if self.definition != "group_idp" and self.k != 1:
            raise ValueError(f"k is {self.k}, but only group_idp has a group size: leave it out.")
        return self

    def mechanism(self) -> QueryMechanism:
        """Return the mechanism that the definition recommends."""
        if self.definition == "bdp":
            return BootstrapLaplace()
        return NoisyCountThreshold() if self.definition == "dp" else KLaplace(self.k)

    def rule(self) -> NoiseRule:
        """Return how an attacker tells noise from none in the mechanism's answers."""
        return Disagreement() if self.definition == "dp" else NotZeroOrOne()

    def adversary_k(self) -> int:
        """Return the group size that the adversary reckons with."""
        return 0 if self.definition == "bdp" else self.k

    def epsilon_per_query(self, shape: tuple[int, ...]) -> float:
        """Return a budget for each query at which all of them cannot spend more than `epsilon`."""
        cells = (shape[0] + len(self.targets)) * shape[1]
        share = min(_SMALL_EPSILON, self.epsilon / (_QUERIES_PER_CELL * cells))
        return share / self.rule().repetitions


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table as cells, with the schema that an analyst may know.

    Args:
        columns: the schema; numeric columns have bounds only where they were given.
        cells: shape (records, columns), in Fortran order.
        digest: of the schema and the cells, as sha256.
    """

    columns: tuple[Column, ...]
    cells: NDArray[np.int64]
    digest: str

    @property
    def records(self) -> int:
        """Number of rows."""
        return len(self.cells)

    def index(self, name: str) -> int:
        """Return the place of the column of this name.

        Raises:
            InvalidInputError: there is none.
        """
        names = [column.name for column in self.columns]
        if name not in names:
            raise InvalidInputError("column", name, f"the table's columns are {', '.join(names)}")
        return names.index(name)


def as_table(
    frame: pl.DataFrame,
    *,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    precision: float = 0.01,
) -> Table:
    """Return the frame as cells.

    Whole numbers and dates (days since 1970) are cells of width 1, floating-point numbers of width
    `precision`; text, truth values and categories are cells in the order of their names.

    Raises:
        InvalidInputError: no rows or columns, a missing or infinite value, a value outside its
            bounds, or a column of another type.
    """
    if not frame.height or not frame.width:
        raise InvalidInputError("table", frame.shape, "it has at least one row and one column")
    bounds = bounds or {}
    if strange := sorted(set(bounds) - set(frame.columns)):
        raise InvalidInputError("bounds", strange, "they name columns of the table")
    columns, cells = [], []
    for series in frame:
        _check_whole(series)
        column, encoded = _encoded(series, bounds.get(series.name), precision)
        columns.append(column)
        cells.append(encoded)
    return _table(tuple(columns), cells)


def _table(columns: tuple[Column, ...], cells: list[NDArray[np.int64]]) -> Table:
    array = np.asfortranarray(np.column_stack(cells))
    digest = hashlib.sha256(repr(list(columns)).encode())
    digest.update(array.tobytes(order="F"))
    return Table(columns, array, digest.hexdigest())


def _check_whole(series: pl.Series) -> None:
    if missing := series.null_count():
        rule = f"{missing} of its values are missing: fill them, or leave the column out"
        raise InvalidInputError(series.name, None, rule)


def _encoded(
    series: pl.Series, bounds: tuple[float, float] | None, precision: float
) -> tuple[Column, NDArray[np.int64]]:
    if series.dtype == pl.Date:
        series = series.to_physical()
    if series.dtype.is_integer() or series.dtype.is_float():
        width = 1.0 if series.dtype.is_integer() else precision
        column = Column.numeric(series.name, *(bounds or ()), precision=width)
        return column, column.encode(series.to_numpy())
    if series.dtype.base_type() in {
        pl.String,
        pl.Boolean,
        pl.Categorical,
        pl.Enum,
        pl.Datetime,
    }:
        text = series.cast(pl.String)
        column = Column.categorical(series.name, sorted(text.unique()))
        return column, _places(text, column)
    rule = "a column holds whole or floating-point numbers, dates, text or truth values"
    raise InvalidInputError(series.name, str(series.dtype), rule)


def _places(text: pl.Series, column: Column) -> NDArray[np.int64]:
    """Return the categories' places; no array gives each row the room of the longest word."""
    places = text.cast(pl.Enum(column.categories), strict=False)
    if places.null_count():
        worst = text.filter(places.is_null())[0]
        raise InvalidInputError(column.name, worst, "it is none of the system's categories")
    return places.to_physical().cast(pl.Int64).to_numpy()


@dataclass(frozen=True, slots=True)
class TargetsFound:
    """Result of the attack on single persons."""

    targets: int = 0
    told: int = 0
    reconstructed: int = 0
    queries: int = 0


def attack_targets(
    adversary: Adversary, table: Table, targets: Sequence[Mapping[str, str]]
) -> TargetsFound:
    """Attack each target: membership, uniqueness, and then every other attribute.

    Raises:
        InvalidInputError: a target that names no column, an unknown one, or a value that cannot be
            in its column.
    """
    told = reconstructed = 0
    before = adversary.queries
    for target in targets:
        person = _person(table, target)
        mine = np.all(table.cells[:, list(person.columns)] == person.cells[0], axis=1)
        records = np.unique(table.cells[mine], axis=0)
        told += _is_member(adversary, person) == bool(len(records))
        rest = [c for c in range(len(table.columns)) if c not in person.columns]
        try:
            found = _attributes(adversary, person, rest)
        except INTERFACE_ERRORS:
            found = None
        reconstructed += len(records) == 1 and found == records[0, rest].tolist()
    return TargetsFound(len(targets), told, reconstructed, adversary.queries - before)


def _person(table: Table, target: Mapping[str, str]) -> Groups:
    if not target:
        raise InvalidInputError("target", dict(target), "it has at least one column=value")
    cells = []
    for name, text in target.items():
        column = table.columns[table.index(name)]
        if column.categories:
            cells.append(column.encode(np.array([text])))
            continue
        try:
            cells.append(column.encode([float(text)]))
        except ValueError:
            raise InvalidInputError(f"target's {name}", text, "the column is numeric") from None
    columns = tuple(table.index(name) for name in target)
    return Groups(columns, np.array([[int(cell[0]) for cell in cells]]))


def _is_member(adversary: Adversary, person: Groups) -> bool:
    if adversary.k:
        return bool(infer_membership(adversary, person)[0])
    return bool(any_record(adversary, person.members())[0])


def _attributes(adversary: Adversary, person: Groups, rest: Sequence[int]) -> list[int] | None:
    """Return the cells of the other columns; None where others fit the person, too."""
    if adversary.k:
        if not confirm_unique(adversary, person)[0]:
            return None
        return [int(infer_attribute(adversary, person, column)[0]) for column in rest]
    # Bootstrap differential privacy tells which records exist, so all that fit are looked for.
    cells: list[int] = []
    for column in rest:
        domain = EveryCell.of(find_bounds(adversary, column))
        _, found = probe_column(adversary, column, person, domain)
        if len(found) != 1:
            return None
        cells.append(int(found[0]))
    return cells


CLAIMS = {
    "idp": "individual differential privacy",
    "group_idp": "group individual differential privacy",
    "bdp": "bootstrap differential privacy",
    "dp": "differential privacy",
}
_STANDARD_ERRORS = 5.0


@dataclass(frozen=True, slots=True)
class ReleaseAudit:
    """Result of an attack on a table behind a definition's noise; no value of the table is kept.

    Attributes:
        table: name of the table's file.
        plan: what the answers claim.
        epsilon_per_query: budget that each query claimed.
        table_queries: that reading all records took.
        records: of the table; distinct ones for bdp.
        cells_read: share of values that were read correctly. A value counts only if all values of
            its record that were read before it are correct, too.
        records_read: share of records that were read whole.
        targets: what was read of single persons.
        stopped: why the attack ended early; "" where it did not.
        verdict: reconstructed, partly or resisted.
    """

    table: str
    plan: ReleasePlan
    epsilon_per_query: float
    table_queries: int
    records: int
    cells_read: float
    records_read: float
    targets: TargetsFound
    stopped: str
    verdict: str

    @property
    def queries(self) -> int:
        """Number of queries that were answered."""
        return self.table_queries + self.targets.queries

    @property
    def claimed_budget(self) -> float:
        """Budget that all queries claimed, by the definition's own accounting."""
        return self.queries * self.epsilon_per_query

    @property
    def reason(self) -> str:
        """The verdict in one sentence for people who know nothing of differential privacy."""
        definition = self.plan.definition
        many = f"{self.records:,} {'distinct records' if definition == 'bdp' else 'records'}"
        asked = (
            f"{self.table_queries:,} questions that {CLAIMS[definition]} counts as a privacy cost "
            f"of only {self.claimed_budget:.2g}"
        )
        if self.verdict == "reconstructed":
            return f"All {many} were read, every value of them, with {asked}."
        if self.verdict == "partly":
            return f"{self.records_read:.1%} of the {many} were read whole, with {asked}."
        return f"The attack read no more of the {many} than guessing would, with {asked}."


def release_verdict(*, found: int, by_chance: int, records: int, targets: TargetsFound) -> str:
    """Return `reconstructed`, `partly` or `resisted`.

    Args:
        found: records that were reconstructed whole.
        by_chance: how many the same attack gets right where a coin answers every query.
        records: records of the table; distinct ones for bootstrap differential privacy.
        targets: what was read of single persons.

    An attack that gets no more than five standard errors above chance was resisted, unless it read
    most of its targets.
    """
    if found == records:
        return "reconstructed"
    margin = _STANDARD_ERRORS * (2.0 * (by_chance + 1.0)) ** 0.5
    if found > by_chance + margin or 2 * targets.reconstructed > targets.targets:
        return "partly"
    return "resisted"


MOST_PARTITIONS = 64


@dataclass(frozen=True, slots=True)
class Coin:
    """An interface whose answers say nothing of any table: what chance alone gives an attacker."""

    columns: tuple[Column, ...]
    records: int
    random: np.random.Generator

    def answer(
        self,
        predicates: Predicates,  # noqa: ARG002  # it does not look
        thresholds: NDArray[np.int64],
        *,
        epsilon: float,  # noqa: ARG002  # a coin costs nothing
    ) -> NDArray[np.float64]:
        """Return 0.0 or 1.0 for each query, as a fair coin falls."""
        return self.random.integers(0, 2, thresholds.shape).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Part:
    """Result of one task, as numbers that add up."""

    queries: int
    cells: int
    records: int
    stopped: str

    def __add__(self, other: "Part") -> "Part":
        """Return both together."""
        return Part(
            self.queries + other.queries,
            self.cells + other.cells,
            self.records + other.records,
            self.stopped or other.stopped,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Partition:
    """The records with one value of the first column, and how many the attacker counted."""

    cells: NDArray[np.int64]
    value: int
    counted: int


@dataclass(frozen=True, slots=True, eq=False)
class _Setting:
    """Inputs that every task of an audit needs."""

    plan: ReleasePlan
    epsilon: float
    columns: tuple[Column, ...]
    order: tuple[int, ...]
    known: Knowledge
    records: int
    blind: bool


def audit_release(
    table: Table,
    plan: ReleasePlan,
    *,
    name: str,
    executor: Executor,
    done: Callable[[int, int], None] = lambda *_: None,
) -> ReleaseAudit:
    """Attack a table under a plan and return what was read."""
    if plan.definition == "dp":
        table = _with_bounds(table)
    setting = _Setting(
        plan=plan,
        epsilon=plan.epsilon_per_query(table.cells.shape),
        columns=table.columns,
        order=(),
        known=Knowledge({}, {}),
        records=table.records,
        blind=False,
    )
    targets = attack_targets(_adversary(setting, table.cells, stream=0), table, plan.targets)
    if plan.definition == "bdp":
        records = len(np.unique(table.cells, axis=0))
        part = _probe(setting, table)
    else:
        records = table.records
        part = _reconstruct(setting, table, executor, done)
    by_chance = 0
    if part.records < records and plan.definition != "bdp":
        by_chance = _reconstruct(replace(setting, blind=True), table, executor, done).records
    verdict = release_verdict(
        found=part.records, by_chance=by_chance, records=records, targets=targets
    )
    return ReleaseAudit(
        table=name,
        plan=plan,
        epsilon_per_query=setting.epsilon,
        table_queries=part.queries,
        records=records,
        cells_read=part.cells / (records * len(table.columns)),
        records_read=part.records / records,
        targets=targets,
        stopped=part.stopped,
        verdict=verdict,
    )


def _with_bounds(table: Table) -> Table:
    """Give away every column's range: the honest control shall be hard to resist."""
    lows, highs = table.cells.min(axis=0).tolist(), table.cells.max(axis=0).tolist()
    columns = [
        replace(column, lower=low, upper=high)
        for column, low, high in zip(table.columns, lows, highs, strict=True)
    ]
    return replace(table, columns=tuple(columns))


def _probe(setting: _Setting, table: Table) -> Part:
    """Find the distinct records: all that bootstrap differential privacy gives away."""
    adversary = _adversary(setting, table.cells, stream=0)
    found = probe_records(adversary)
    return _part(np.unique(table.cells, axis=0), found, adversary.queries)


def _reconstruct(
    setting: _Setting, table: Table, executor: Executor, done: Callable[[int, int], None]
) -> Part:
    """Learn every column alone, then reconstruct the records partition by partition."""
    adversary = _adversary(setting, table.cells, stream=0)
    known = learn_columns(adversary, range(len(table.columns)))
    total = Part(adversary.queries, 0, 0, known.stopped or "")
    if known.stopped:
        return total
    order = sorted(range(len(table.columns)), key=known.distinct)
    few = [column for column in order if known.distinct(column) <= MOST_PARTITIONS]
    # The column whose largest part is smallest: no worker waits long for another.
    first = min(few or order[:1], key=lambda column: known.marginals[column].count.max())
    order = [first, *(column for column in order if column != first)]
    setting = replace(setting, order=tuple(order), known=known)
    marginal = known.marginals[first]
    values = list(zip(marginal.cell.tolist(), marginal.count.tolist(), strict=True))
    partitions = _partitions(table.cells, first, values)
    done(0, len(values))
    for finished, found in enumerate(
        executor.map(_reconstruct_partition, setting, partitions), start=1
    ):
        total += found
        done(finished, len(values))
    return total


def _partitions(
    cells: NDArray[np.int64], first: int, values: list[tuple[int, int]]
) -> Iterator[_Partition]:
    """Yield the records of each value that was found in the first column."""
    order = np.argsort(cells[:, first], kind="stable")
    ordered = cells[order, first]
    for value, counted in values:
        start, stop = np.searchsorted(ordered, [value, value + 1])
        yield _Partition(cells[order[start:stop]], value, counted)


def _reconstruct_partition(setting: _Setting, partition: _Partition) -> Part:
    """Reconstruct the records with one value of the first column."""
    first, *rest = setting.order
    if not len(partition.cells):
        # Only wrong counts lead here: an attacker who was misled searches for no person.
        return Part(0, 0, 0, "")
    place = int(np.searchsorted(setting.known.marginals[first].cell, partition.value))
    adversary = _adversary(setting, partition.cells, stream=1 + place)
    groups, counts = Groups((first,), np.array([[partition.value]])), np.array([partition.counted])
    found = reconstruct_groups(adversary, groups, counts, rest, setting.known)
    return _part(partition.cells, found, adversary.queries)


def _part(cells: NDArray[np.int64], found: TableReconstruction, queries: int) -> Part:
    """Compare what was found with the truth; columns that were not reached add nothing."""
    match = table_match(cells, found.groups, found.counts)
    return Part(queries, match.cells, match.records, found.stopped or "")


def _adversary(setting: _Setting, cells: NDArray[np.int64], *, stream: int) -> Adversary:
    plan, rule = setting.plan, setting.plan.rule()
    random = np.random.default_rng([plan.seed, stream, setting.blind])
    interface: QueryInterface = ProtectedTable(
        cells, setting.columns, plan.mechanism(), random, records=setting.records
    )
    if setting.blind:
        interface = Coin(setting.columns, setting.records, random)
    epsilon = setting.epsilon * rule.repetitions
    return Adversary(interface, rule, k=plan.adversary_k(), epsilon=epsilon)
