"""`privaudit study relaxations`: the experiments of a paper on individual differential privacy.

"Reconstruction Attacks on Aggressive Relaxations of Differential Privacy" (Protivash, Durrell,
Kifer, Ding and Zhang): Tables 1 to 4 and Figure 2, on the Bank Marketing data of its section 6.1;
and what its countermeasures cost.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.study.cells import Cell, CellRow, blocks
from flows.study.relaxations_shown import (
    COLUMN,
    EPSILON,
    LEAST_EPSILON,
    MOST_QUERIES,
    RECORDS,
    SEED,
    shown,
)
from flows.study.runner import Study
from privcore.attacks import (
    Adversary,
    Bisection,
    Disagreement,
    EveryCell,
    NotZeroOrOne,
    PublishedSearch,
    VarianceAbove,
    find_single,
    infer_membership,
    reconstruct_column,
    reconstruct_table,
    table_match,
)
from privcore.attacks.noise_detection import NOISY, QUIET, NoiseRule
from privcore.attacks.query_reconstruction import ColumnSearch
from privcore.exceptions import InvalidInputError
from privcore.mechanisms import (
    Column,
    Groups,
    KLaplace,
    NoisyCountThreshold,
    ProtectedTable,
    QueryInterface,
    QueryMechanism,
    RestrictedInterface,
    RoundedToBit,
    RoundedToInteger,
    Unprotected,
)
from workers.release.table import Table, as_table, read_frame

BOUNDS: dict[str, tuple[float, float]] = {
    "balance": (-1e5, 1e6),
    "duration": (0, 1e4),
    "pdays": (-1, 2000),
    "previous": (0, 2000),
    "age": (0, 125),
    "day": (0, 31),
    "campaign": (0, 100),
}
"""Section 6.1."""
# Binary columns first, then by domain; ties as the authors' program has them.
ORDER = (
    "y", "default", "housing", "loan", "marital", "contact", "poutcome", "education", "job",
    "month", "day", "previous", "campaign", "age", "pdays", "duration", "balance",
)  # fmt: skip
LINKING = ("age", "marital", "education", "job", "housing")
SIMULATIONS = 2_000_000
REPETITIONS = (10, 100, 1000)
_BLOCK = 100_000  # simulations in one part
_ANSWERS = 2_000_000  # at once in memory
_SEARCHES: dict[str, ColumnSearch] = {"published": PublishedSearch(), "halving": Bisection()}


@dataclass(frozen=True, slots=True)
class Countermeasure:
    """What answers, and how an attacker who knows it recognises noise.

    `k` is 0 where nothing is protected; `epsilon` is what each decision claims, `queries` the most
    that are answered, `least_epsilon` the least that a query claims.
    """

    mechanism: QueryMechanism
    rule: NoiseRule
    k: int = 1
    epsilon: float = EPSILON
    queries: float = math.inf
    least_epsilon: float = 0.0


COUNTERMEASURES = {
    "none": Countermeasure(Unprotected(), NotZeroOrOne(), k=0),
    "recommended": Countermeasure(KLaplace(), NotZeroOrOne()),
    "integers": Countermeasure(RoundedToInteger(KLaplace()), NotZeroOrOne()),
    "bits": Countermeasure(RoundedToBit(KLaplace()), Disagreement(45)),
    "always": Countermeasure(KLaplace(added_sensitivity=1.0), VarianceAbove(1000)),
    "least-epsilon": Countermeasure(
        KLaplace(), NotZeroOrOne(), epsilon=LEAST_EPSILON, least_epsilon=LEAST_EPSILON
    ),
    "limit": Countermeasure(KLaplace(), NotZeroOrOne(), queries=MOST_QUERIES),
    "noisy-count": Countermeasure(NoisyCountThreshold(), Disagreement(15)),
}
"""Sections 3.2.1, 3.6 and 5.1. The paper prints no figure of them; these are counted here."""


def read_bank(uri: str) -> Table:
    """Return the Bank Marketing table of the paper.

    Raises:
        InvalidInputError: the file cannot be read, or is another table.
    """
    frame = read_frame(uri)
    if set(frame.columns) != set(ORDER) or frame.height != RECORDS:
        rule = f"bank-full has {RECORDS:,} rows and the columns {', '.join(ORDER)}"
        raise InvalidInputError("--table", uri, rule)
    return as_table(frame, bounds=BOUNDS)


def study(uri: str, *, scale: float) -> Study:
    """Return the study of the Bank data, or of the file that is said to hold them.

    `scale` shrinks the simulations of Table 1 alone: everything else is counted in full.

    Raises:
        InvalidInputError: not the Bank data.
    """
    table = read_bank(uri)
    simulations = max(2_000, 2 * round(SIMULATIONS * scale / 2))
    cells = [_cell("table", table, search=search, k=k) for k in (1, 0) for search in _SEARCHES]
    cells += [
        _cell("column", table, name=name, search=search, k=k)
        for name in reversed(ORDER)
        for search in _SEARCHES
        for k in (1, 0)
    ]
    cells += [_cell("countermeasure", table, name=name) for name in COUNTERMEASURES]
    cells += [_cell(part, table, k=k) for part in ("membership", "attributes") for k in (1, 0)]
    cells += [
        _cell("variance", None, m=m, first=first, last=last)
        for m in reversed(REPETITIONS)
        for first, last in blocks(simulations, _BLOCK)
    ]
    title = "Reading a table that individual differential privacy protects"
    return Study(
        "Relaxations", title, cells, compute, table, lambda found: shown(found, scale), scale
    )


def compute(table: Table, cell: Cell) -> list[CellRow]:
    """Return the rows of one part."""
    given = dict(cell.parameters)
    part = given.pop("part")
    seed = given.pop("seed")
    given.pop("table")
    play: dict[str, Any] = {
        "variance": _variance,
        "membership": _membership,
        "attributes": _attributes,
        "table": _table,
        "column": _column,
        "countermeasure": _countermeasure,
    }
    random = np.random.default_rng([seed, int(cell.identity, 16)])
    return [{"part": part, **row} for row in play[part](table, random, **given)]


def _cell(part: str, table: Table | None, **parameters: Any) -> Cell:
    name = "-".join([part, *(str(value) for value in parameters.values())])
    digest = None if table is None else table.digest
    return Cell(name, {"part": part, "table": digest, "seed": SEED, **parameters})


def _variance(
    table: Table,  # noqa: ARG001  # Table 1 needs no data
    random: np.random.Generator,
    *,
    m: int,
    first: int,
    last: int,
) -> list[CellRow]:
    """Table 1: how often the variance statistic tells noise of scale 2 from noise of scale 1."""
    right, rule, half = 0, VarianceAbove(m), (last - first) // 2
    for scale, sign in ((1.0, QUIET), (2.0, NOISY)):
        for start, stop in blocks(half, max(1, _ANSWERS // m)):
            answers = random.laplace(0.0, scale * m / EPSILON, (m, stop - start))
            right += int(np.sum(rule.decide(answers, EPSILON / m) == sign))
    return [{"m": m, "right": right, "simulations": 2 * half}]


def _membership(table: Table, random: np.random.Generator, *, k: int) -> list[CellRow]:
    """Table 2: persons who are in the table, and as many who are not."""
    targets, _ = _targets(table)
    cells = targets.cells.copy()
    # No one is over 100: the same persons with 101 to 125 years are in no record.
    cells[:, 0] = random.integers(101, 126, len(cells))
    asked, right = _adversary(table, random, k), 0
    right += int(infer_membership(asked, targets).sum())
    right += int((~infer_membership(asked, Groups(targets.columns, cells))).sum())
    persons = 2 * targets.size
    return [{"k": k, "persons": persons, "queries": asked.queries, "right": right}]


def _attributes(table: Table, random: np.random.Generator, *, k: int) -> list[CellRow]:
    """Table 3: the other attributes of persons who are unique on the linking ones."""
    targets, records = _targets(table)
    adversary, rows = _adversary(table, random, k), []
    for name in ORDER:
        if name in LINKING:
            continue
        column, before = table.index(name), adversary.queries
        found = find_single(adversary, column, targets, EveryCell.of(table.columns[column]))
        right = int(np.sum(found == records[:, column]))
        queries = adversary.queries - before
        rows.append(
            {"k": k, "name": name, "persons": targets.size, "queries": queries, "right": right}
        )
    return rows


def _table(table: Table, random: np.random.Generator, *, search: str, k: int) -> list[CellRow]:
    """Table 4: the whole table."""
    adversary = _adversary(table, random, k)
    ours = search == "halving"
    result = reconstruct_table(
        adversary,
        order=None if ours else [table.index(name) for name in ORDER],
        bounds=table.columns,
        search=_SEARCHES[search],
    )
    return [
        {
            "k": k,
            "search": search,
            "queries": adversary.queries,
            "claimed_budget": adversary.claimed_budget if k else math.nan,
            "share_of_cells": table_match(table.cells, result.groups, result.counts).share_of_cells,
        }
    ]


def _column(
    table: Table, random: np.random.Generator, *, name: str, search: str, k: int
) -> list[CellRow]:
    """Figure 2: a column alone."""
    adversary, column = _adversary(table, random, k), table.index(name)
    found = reconstruct_column(adversary, column, _SEARCHES[search], table.columns[column])
    cells, counts = np.unique(table.cells[:, column], return_counts=True)
    right = np.array_equal(cells, found.cell) and np.array_equal(counts, found.count)
    return [
        {
            "k": k,
            "search": search,
            "name": name,
            "distinct": found.cell.size,
            "queries": adversary.queries,
            "right": right,
        }
    ]


def _countermeasure(table: Table, random: np.random.Generator, *, name: str) -> list[CellRow]:
    """Attack one column behind one countermeasure; its domain is known to the attacker."""
    played, place = COUNTERMEASURES[name], table.index(COLUMN)
    cells = np.asfortranarray(table.cells[:, [place]])
    interface: QueryInterface = RestrictedInterface(
        ProtectedTable(cells, (Column(COLUMN),), played.mechanism, random),
        queries=played.queries,
        minimum_epsilon=played.least_epsilon,
    )
    adversary = Adversary(interface, played.rule, k=played.k, epsilon=played.epsilon)
    found = reconstruct_table(adversary, bounds=[table.columns[place]])
    match = table_match(cells, found.groups, found.counts)
    row: CellRow = {
        "name": name,
        "queries": adversary.queries,
        "claimed_budget": adversary.claimed_budget if played.k else 0.0,
        "share": match.share_of_cells,
    }
    return [row]


def _adversary(table: Table, random: np.random.Generator, k: int) -> Adversary:
    """Return an adversary before the table, whose keeper knows no bounds, as in the paper."""
    columns = tuple(Column(column.name) for column in table.columns)
    mechanism = KLaplace(k) if k else Unprotected()
    interface = ProtectedTable(table.cells, columns, mechanism, random)
    return Adversary(interface, NotZeroOrOne(), k=k, epsilon=EPSILON)


def _targets(table: Table) -> tuple[Groups, Any]:
    """Return the persons who are unique on the linking attributes, and their records."""
    linking = [table.index(name) for name in LINKING]
    persons, first, counts = np.unique(
        table.cells[:, linking], axis=0, return_index=True, return_counts=True
    )
    unique = counts == 1
    return Groups(tuple(linking), persons[unique]), table.cells[first[unique]]
