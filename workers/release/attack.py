"""An audit of a table whose answers claim a relaxation: attack it, and count what was read.

The table is put behind the mechanism that the definition recommends, and an adversary who sees only
answers reconstructs it. First the counts of every column alone; then, one task for each value of
one column, the records that have it: what a task needs are those records, and what it returns are
counts, so that the rows of a large table go to a worker once and none come back.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import (
    Adversary,
    Knowledge,
    TableReconstruction,
    learn_columns,
    probe_records,
    reconstruct_groups,
    table_match,
)
from privcore.mechanisms import (
    Column,
    Groups,
    Predicates,
    ProtectedTable,
    QueryInterface,
)
from workers.executors import Executor
from workers.release.release_plan import ReleasePlan
from workers.release.table import Table
from workers.release.targets import attack_targets
from workers.release.verdict import ReleaseAudit, release_verdict

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
