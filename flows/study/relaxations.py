"""`privaudit study relaxations`: the experiments of a paper on individual differential privacy.

"Reconstruction Attacks on Aggressive Relaxations of Differential Privacy" (Protivash, Durrell,
Kifer, Ding and Zhang): Tables 1 to 4 and Figure 2, on the Bank Marketing data of its section 6.1;
and what its countermeasures cost.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from flows.report.study_page import StudyTable
from flows.study.printed import RELAXATIONS, Ours, PrintedTable, Setting, printed_values
from flows.study.runner import Cell, Computed, Shown, Study, blocks
from flows.study.tables import (
    Axis,
    CellRow,
    binomial_error,
    chart,
    paragraphs,
    points_of,
    printed_at,
    side_by_side,
    table_of,
)
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
from privcore.attacks.query_adversary import NOISY, QUIET, NoiseRule
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
from workers.release.release_attack import Table, as_table
from workers.sources.tables.table_files import read_rows

RECORDS, EPSILON, SEED = 45_211, 1e-10, 3
_COLUMNS = 17
_PROTECTION = {1: "IDP", 0: "no protection"}
_SEARCH = {"published": "published", "halving": "ours"}
COLUMN, LEAST_EPSILON, MOST_QUERIES = "age", 0.01, 100.0
"""What countermeasures are tried on, and two of their limits."""
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
_TABLE_1 = PrintedTable(RELAXATIONS, "Table 1", error="error", unit=100.0, form=".5f")
_COUNTS = [
    PrintedTable(RELAXATIONS, place, form=",.10g", exact=True)
    for place in ("Table 2", "Table 3", "Table 4", "Fig 2")
]
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

    title: str
    mechanism: QueryMechanism
    rule: NoiseRule
    k: int = 1
    epsilon: float = EPSILON
    queries: float = math.inf
    least_epsilon: float = 0.0


COUNTERMEASURES = {
    "none": Countermeasure("no protection", Unprotected(), NotZeroOrOne(), k=0),
    "recommended": Countermeasure("noise as IDP recommends it", KLaplace(), NotZeroOrOne()),
    "integers": Countermeasure(
        "answers rounded to integers", RoundedToInteger(KLaplace()), NotZeroOrOne()
    ),
    "bits": Countermeasure("answers rounded to 0 or 1", RoundedToBit(KLaplace()), Disagreement(45)),
    "always": Countermeasure(
        "noise in every answer", KLaplace(added_sensitivity=1.0), VarianceAbove(1000)
    ),
    "least-epsilon": Countermeasure(
        f"at least epsilon {LEAST_EPSILON:g} a query",
        KLaplace(),
        NotZeroOrOne(),
        epsilon=LEAST_EPSILON,
        least_epsilon=LEAST_EPSILON,
    ),
    "limit": Countermeasure(
        f"at most {MOST_QUERIES:g} queries", KLaplace(), NotZeroOrOne(), queries=MOST_QUERIES
    ),
    "noisy-count": Countermeasure(
        "noise on the count (differential privacy)", NoisyCountThreshold(), Disagreement(15)
    ),
}
"""Sections 3.2.1, 3.6 and 5.1. The paper prints no figure of them; these are counted here."""


def read_bank(uri: str) -> Table:
    """Return the Bank Marketing table of the paper.

    Raises:
        InvalidInputError: it is another table.
        NotEvaluableError: the file cannot be read.
    """
    frame = read_rows(uri)
    if set(frame.columns) != set(ORDER) or frame.height != RECORDS:
        rule = f"bank-full has {RECORDS:,} rows and the columns {', '.join(ORDER)}"
        raise InvalidInputError("--table", uri, rule)
    return as_table(frame, bounds=BOUNDS)


def study(table: str, *, scale: float) -> Study:
    """Return the study of the Bank data, or of the file that is said to hold them.

    `scale` shrinks the simulations of Table 1 alone: everything else is counted in full.

    Raises:
        InvalidInputError: not the Bank data.
    """
    bank = read_bank(table)
    simulations = max(2_000, 2 * round(SIMULATIONS * scale / 2))
    cells = [_cell("table", bank, search=search, k=k) for k in (1, 0) for search in _SEARCHES]
    cells += [
        _cell("column", bank, name=name, search=search, k=k)
        for name in reversed(ORDER)
        for search in _SEARCHES
        for k in (1, 0)
    ]
    cells += [_cell("countermeasure", bank, name=name) for name in COUNTERMEASURES]
    cells += [_cell(part, bank, k=k) for part in ("membership", "attributes") for k in (1, 0)]
    cells += [
        _cell("variance", None, m=m, first=first, last=last)
        for m in reversed(REPETITIONS)
        for first, last in blocks(simulations, _BLOCK)
    ]
    return Study(
        "Relaxations",
        "Reading a table that individual differential privacy protects",
        cells,
        compute,
        bank,
        shown,
        [
            Setting("table", "bank-full, 45,211 x 17", "bank-full, 45,211 x 17"),
            Setting("epsilon of each query", "1e-10", f"{EPSILON:g}"),
            Setting("simulations of each m", f"{SIMULATIONS:,}", f"{simulations:,}", "accuracy"),
        ],
        drawn=f"Scale {scale:g}, seed {SEED}.",
    )


def compute(table: Table, cell: Cell) -> list[CellRow]:
    """Return the rows of one part."""
    given = dict(cell.parameters)
    part, seed, _ = (given.pop(name) for name in ("part", "seed", "table"))
    random = np.random.default_rng([seed, int(cell.identity, 16)])
    return [{"part": part, **row} for row in _PLAYED[part](table, random, **given)]


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


_PLAYED: dict[str, Callable[..., list[CellRow]]] = {
    "variance": _variance,
    "membership": _membership,
    "attributes": _attributes,
    "table": _table,
    "column": _column,
    "countermeasure": _countermeasure,
}


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


def shown(_: Table, found: Computed) -> Shown:
    """Return what there is to show of all counts."""
    variance = found.part("variance").group_by("m").agg(pl.col("right", "simulations").sum())
    data = {"variance": variance.sort("m")}
    for name in ("membership", "attributes", "tables", "columns", "countermeasures"):
        data[name] = found.part(name if name == "attributes" else name.removesuffix("s"))
    return Shown(
        sentences(data),
        [
            _reconstruction(data["tables"]),
            _columns(data["columns"]),
            _countermeasures(data["countermeasures"]),
        ],
        ours=beside(data),
        data=data,
        figures={"figure_2": _chart(data["columns"])},
    )


def beside(data: dict[str, pl.DataFrame]) -> list[Ours]:
    """Return Tables 1 to 4 and Figure 2's printed numbers beside ours.

    Table 1 is simulated. All else are counts on the paper's own table, the same at any scale.
    """
    simulated = [
        {
            "quantity": f"accuracy at m = {row['m']}",
            "value": row["right"] / row["simulations"],
            "error": binomial_error(row["right"] / row["simulations"], row["simulations"]),
        }
        for row in data["variance"].to_dicts()
    ]
    found = [*_TABLE_1.beside(simulated)]
    counted = [
        {"place": place, "quantity": quantity, "value": value}
        for place, quantity, value in _counted(data)
    ]
    for table in _COUNTS:
        found += table.beside(row for row in counted if row["place"] == table.place)
    return found


def _counted(data: dict[str, pl.DataFrame]) -> Iterator[tuple[str, str, float]]:
    """Yield place, quantity and ours of what is a count; NaN where an answer is wrong."""
    for row in data["membership"].sort("k", descending=True).to_dicts():
        right = row["right"] == row["persons"]
        queries = row["queries"] / row["persons"] if right else math.nan
        yield "Table 2", f"queries for membership, {_PROTECTION[row['k']]}", queries
    for target, k in itertools.product(("balance", "full record"), _PROTECTION):
        rows = data["attributes"].filter(k=k)
        rows = rows if target == "full record" else rows.filter(name=target)
        right = bool((rows["right"] == rows["persons"]).all())
        queries = rows["queries"].sum() / rows["persons"][0] if right else math.nan
        yield "Table 3", f"queries for {target}, {_PROTECTION[k]}", queries
    persons = float(data["attributes"]["persons"][0])
    yield "Table 3", "persons unique on five attributes", persons
    for row in data["tables"].filter(search="published").to_dicts():
        queries = row["queries"] if row["share_of_cells"] == 1.0 else math.nan
        yield "Table 4", f"queries for the whole table, {_PROTECTION[row['k']]}", queries
    for row in data["columns"].filter(search="published", k=1, name="balance").to_dicts():
        yield "Fig 2", "queries for balance alone", row["queries"] if row["right"] else math.nan
        yield "Fig 2", "distinct values of balance", row["distinct"]


def _reconstruction(found: pl.DataFrame) -> StudyTable:
    return table_of(
        f"The whole table, epsilon {EPSILON:g} for each query",
        found.sort("search", "k", descending=True).to_dicts(),
        {
            "search": lambda row: _SEARCH[row["search"]],
            "protection": lambda row: _PROTECTION[row["k"]],
            "queries": "{queries:,}",
            "per person": lambda row: f"{row['queries'] / RECORDS:.1f}",
            "per cell": lambda row: f"{row['queries'] / RECORDS / _COLUMNS:.1f}",
            "claimed budget": lambda row: (
                "-" if math.isnan(row["claimed_budget"]) else f"{row['claimed_budget']:.7f}"
            ),
            "cells right": "{share_of_cells:.0%}",
        },
        text=("search", "protection"),
    )


def _columns(found: pl.DataFrame) -> StudyTable:
    rows = found.with_columns(right=pl.col("right").all().over("name")).sort("distinct", "name")
    index = ["name", "distinct", "right"]
    return table_of(
        "Figure 2: queries for one column alone",
        side_by_side(rows.to_dicts(), index, "{search}_{k}", "{queries:,}"),
        {
            "column": "{name}",
            "distinct values": "{distinct:,}",
            "IDP": "{published_1}",
            "no protection": "{published_0}",
            "our search, IDP": "{halving_1}",
            "right": lambda row: "yes" if row["right"] else "NO",
        },
        text=("column",),
    )


def _countermeasures(found: pl.DataFrame) -> StudyTable:
    free = found["queries"][0]
    return table_of(
        f"What countermeasures cost an attacker: the column {COLUMN} alone",
        found.to_dicts(),
        {
            "countermeasure": lambda row: COUNTERMEASURES[row["name"]].title,
            "queries": "{queries:,}",
            "times": lambda row: f"{row['queries'] / free:,.3g}",
            "claimed budget": "{claimed_budget:.2g}",
            "read right": "{share:.1%}",
        },
        text=("countermeasure",),
    )


def sentences(data: dict[str, pl.DataFrame]) -> list[str]:
    """Return what the study says in words."""
    ours = data["tables"].filter(search="halving", k=1)["queries"][0]
    whole = data["tables"].filter(search="published", k=1)["queries"][0]
    simulations = data["variance"]["simulations"][0]
    return paragraphs(f"""
    Table 1 from {simulations:,} simulations for each m; all other figures are counts of queries
    that were asked and answered.

    Our search reads the same table with {ours:,} queries, {ours / whole:.0%} of the published:
    it counts each column alone first, then halves what exists; protection costs it not one query
    more than none.

    The paper bounds the failure of 15 repetitions on answers rounded to 0 or 1 by 1e-10; it is 2 *
    2^-15 = 6.1e-5, so a whole table takes some 45 repetitions.

    Of the countermeasures only noise on the count is one: it is differential privacy. A limit on
    queries ends this attack and not those on single persons, which take 2 queries for membership
    and some 30 for an attribute; a least epsilon multiplies what is claimed, not what is asked;
    and where neighbors depend on the table, a mechanism may name the table by its hint, at any
    epsilon and without a query (Lemma 5.3).

    All queries together claim {whole * EPSILON:.5f} of individual differential privacy's
    epsilon, and every cell is known: the definition is no guarantee.
    """)


def _chart(found: pl.DataFrame) -> Any:
    rows = found.filter(k=1).with_columns(pl.col("search").replace_strict(_SEARCH)).to_dicts()
    said = printed_values(RELAXATIONS, "Fig 2")
    balance = (said["distinct values of balance"], said["queries for balance alone"])
    printed = printed_at(balance[0].middle, balance[1].middle, "published")
    return chart(
        [
            *points_of(
                sorted(rows, key=lambda row: row["search"] != "published"),
                "distinct",
                {"queries": "{search}"},
            ),
            printed,
        ],
        "Figure 2: queries to read one column of the Bank data",
        x=Axis("distinct values", powers=range(5)),
        y=Axis("queries", powers=range(7)),
        colors="blue red",
        marks="points",
    )
