"""`privaudit study relaxations`: the experiments of a paper on individual differential privacy.

"Reconstruction Attacks on Aggressive Relaxations of Differential Privacy" (Protivash, Durrell,
Kifer, Ding and Zhang): Tables 1 to 4 and Figure 2, on the Bank Marketing data of its section 6.1;
and what its countermeasures cost.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from flows.study import printed, tables
from flows.study.printed import RELAXATIONS, Setting
from flows.study.runner import Cell, Computed, Shown, Study, blocks, cells_of
from flows.study.tables import CellRow, StudyTable, binomial_error
from privcore import attacks, mechanisms
from privcore.attacks.query_adversary import NOISY, QUIET, NoiseRule
from privcore.attacks.query_reconstruction import ColumnSearch
from privcore.exceptions import InvalidInputError
from workers.release.release_attack import Table, as_table
from workers.sources.tables.table_files import read_rows

BANK_RECORDS = 45_211
BANK_BOUNDS: dict[str, tuple[float, float]] = {
    "balance": (-1e5, 1e6), "duration": (0, 1e4), "pdays": (-1, 2000), "previous": (0, 2000),
    "age": (0, 125), "day": (0, 31), "campaign": (0, 100),
}  # fmt: skip
"""What the attacker believes of numbers, by section 6.1."""
# Binary columns first, then by domain; ties as the authors' program has them.
BANK = (
    "y", "default", "housing", "loan", "marital", "contact", "poutcome", "education", "job",
    "month", "day", "previous", "campaign", "age", "pdays", "duration", "balance",
)  # fmt: skip
EPSILON, SEED = 1e-10, 3
LINKING = ("age", "marital", "education", "job", "housing")
SIMULATIONS, REPETITIONS = 2_000_000, (10, 100, 1000)
COLUMN, LEAST_EPSILON, MOST_QUERIES = "age", 0.01, 100.0
"""What countermeasures are tried on, and two of their limits."""
_BLOCK, _ANSWERS = 100_000, 2_000_000  # simulations in one part, answers at once in memory
_PROTECTION = {1: "IDP", 0: "no protection"}
_SEARCHES: dict[str, ColumnSearch] = {
    "published": attacks.PublishedSearch(),
    "halving": attacks.Bisection(),
}
_NOISE, _EXACT = mechanisms.KLaplace(), attacks.NotZeroOrOne()
_TITLES = {"published": "published", "halving": "ours"}
_PLACES = ("Table 1", "Table 2", "Table 3", "Table 4", "Fig 2")


@dataclass(frozen=True, slots=True)
class Tried:
    """A countermeasure: what answers, the rule by which an attacker recognises noise, and limits.

    `k` is 0 where nothing is protected; `epsilon` is what each decision claims.
    """

    title: str
    mechanism: mechanisms.QueryMechanism
    rule: NoiseRule = _EXACT
    k: int = 1
    epsilon: float = EPSILON
    queries: float = math.inf
    least_epsilon: float = 0.0


_DP, _OF_ALL = mechanisms.NoisyCountThreshold(), mechanisms.KLaplace(added_sensitivity=1.0)
_BITS = mechanisms.Rounded(_NOISE, to_bits=True)
COUNTERMEASURES = {
    "none": Tried("no protection", mechanisms.Unprotected(), k=0),
    "recommended": Tried("noise as IDP recommends it", _NOISE),
    "integers": Tried("answers rounded to integers", mechanisms.Rounded(_NOISE)),
    "bits": Tried("answers rounded to 0 or 1", _BITS, attacks.Disagreement(45)),
    "always": Tried("noise in every answer", _OF_ALL, attacks.VarianceAbove(1000)),
    "least-epsilon": Tried(
        *(f"at least epsilon {LEAST_EPSILON:g} a query", _NOISE, _EXACT, 1, LEAST_EPSILON),
        least_epsilon=LEAST_EPSILON,
    ),
    "limit": Tried(f"at most {MOST_QUERIES:g} queries", _NOISE, queries=MOST_QUERIES),
    "noisy-count": Tried(
        "noise on the count (differential privacy)", _DP, attacks.Disagreement(15)
    ),
}
"""Sections 3.2.1, 3.6 and 5.1. The paper prints no figure of them; these are counted here."""


def study(table: str, *, scale: float) -> Study:
    """Return the study of the Bank data.

    `scale` shrinks the simulations of Table 1 alone: everything else is counted in full.

    Raises:
        InvalidInputError: it is another table.
        NotEvaluableError: the file cannot be read.
    """
    frame = read_rows(table)
    if set(frame.columns) != set(BANK) or frame.height != BANK_RECORDS:
        rule = f"bank-full has {BANK_RECORDS:,} rows and the columns {', '.join(BANK)}"
        raise InvalidInputError("--table", table, rule)
    bank = as_table(frame, bounds=BANK_BOUNDS)
    simulations = max(2_000, 2 * round(SIMULATIONS * scale / 2))
    about = {"table": bank.digest, "seed": SEED}
    cells = cells_of("table", about, k=_PROTECTION, search=_SEARCHES)
    cells += cells_of("column", about, name=reversed(BANK), search=_SEARCHES, k=_PROTECTION)
    cells += cells_of("countermeasure", about, name=COUNTERMEASURES)
    for part in ("membership", "attributes"):
        cells += cells_of(part, about, k=_PROTECTION)
    for m, (first, last) in itertools.product(reversed(REPETITIONS), blocks(simulations, _BLOCK)):
        # Simulations need no data.
        cells += cells_of("variance", about | {"table": None}, m=[m], first=[first], last=[last])
    return Study(
        "Relaxations",
        "Reading a table that individual differential privacy protects",
        cells,
        _compute,
        bank,
        _shown,
        [
            Setting("table", "bank-full, 45,211 x 17", "bank-full, 45,211 x 17"),
            Setting("epsilon of each query", "1e-10", f"{EPSILON:g}"),
            Setting("simulations of each m", f"{SIMULATIONS:,}", f"{simulations:,}", "accuracy"),
        ],
        drawn=f"Scale {scale:g}, seed {SEED}.",
    )


def _compute(table: Table, cell: Cell) -> list[CellRow]:
    given = dict(cell.parameters)
    part, seed, _ = (given.pop(name) for name in ("part", "seed", "table"))
    random = np.random.default_rng([seed, int(cell.identity, 16)])
    return [{"part": part, **row} for row in _PLAYED[part](table, random, **given)]


def _variance(
    _: Table, random: np.random.Generator, *, m: int, first: int, last: int
) -> list[CellRow]:
    """Table 1: how often the variance statistic tells noise of scale 2 from noise of scale 1."""
    right, rule, half = 0, attacks.VarianceAbove(m), (last - first) // 2
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
    asked, absent = _adversary(table, random, k), mechanisms.Groups(targets.columns, cells)
    right = attacks.infer_membership(asked, targets).sum()
    right += (~attacks.infer_membership(asked, absent)).sum()
    return [{"k": k, "persons": 2 * targets.size, "queries": asked.queries, "right": int(right)}]


def _attributes(table: Table, random: np.random.Generator, *, k: int) -> list[CellRow]:
    """Table 3: the other attributes of persons who are unique on the linking ones."""
    targets, records = _targets(table)
    adversary, rows = _adversary(table, random, k), list[CellRow]()
    for name in (name for name in BANK if name not in LINKING):
        column, before = table.index(name), adversary.queries
        found = attacks.find_single(
            adversary, column, targets, attacks.EveryCell.of(table.columns[column])
        )
        right, queries = int(np.sum(found == records[:, column])), adversary.queries - before
        about = {"k": k, "name": name, "persons": targets.size}
        rows.append({**about, "queries": queries, "right": right})
    return rows


def _table(table: Table, random: np.random.Generator, *, search: str, k: int) -> list[CellRow]:
    """Table 4: the whole table. Our search chooses its own order of columns."""
    adversary = _adversary(table, random, k)
    order = None if search == "halving" else [table.index(name) for name in BANK]
    result = attacks.reconstruct_table(
        adversary, order=order, bounds=table.columns, search=_SEARCHES[search]
    )
    share = attacks.table_match(table.cells, result.groups, result.counts).share_of_cells
    budget = adversary.claimed_budget if k else math.nan
    asked = {"queries": adversary.queries, "claimed_budget": budget}
    return [{"k": k, "search": search, **asked, "share_of_cells": share}]


def _column(
    table: Table, random: np.random.Generator, *, name: str, search: str, k: int
) -> list[CellRow]:
    """Figure 2: a column alone."""
    adversary, column = _adversary(table, random, k), table.index(name)
    found = attacks.reconstruct_column(adversary, column, _SEARCHES[search], table.columns[column])
    cells, counts = np.unique(table.cells[:, column], return_counts=True)
    right = np.array_equal(cells, found.cell) and np.array_equal(counts, found.count)
    read = {"distinct": found.cell.size, "queries": adversary.queries, "right": right}
    return [{"k": k, "search": search, "name": name, **read}]


def _countermeasure(table: Table, random: np.random.Generator, *, name: str) -> list[CellRow]:
    """Attack one column behind one countermeasure; its domain is known to the attacker."""
    played, place = COUNTERMEASURES[name], table.index(COLUMN)
    cells = np.asfortranarray(table.cells[:, [place]])
    interface = mechanisms.RestrictedInterface(
        mechanisms.ProtectedTable(cells, (mechanisms.Column(COLUMN),), played.mechanism, random),
        queries=played.queries,
        minimum_epsilon=played.least_epsilon,
    )
    adversary = attacks.Adversary(interface, played.rule, k=played.k, epsilon=played.epsilon)
    found = attacks.reconstruct_table(adversary, bounds=[table.columns[place]])
    budget = adversary.claimed_budget if played.k else 0.0
    share = attacks.table_match(cells, found.groups, found.counts).share_of_cells
    return [{"name": name, "queries": adversary.queries, "claimed_budget": budget, "share": share}]


_PLAYED: dict[str, Callable[..., list[CellRow]]] = {
    play.__name__.removeprefix("_"): play
    for play in (_variance, _membership, _attributes, _table, _column, _countermeasure)
}


def _adversary(table: Table, random: np.random.Generator, k: int) -> attacks.Adversary:
    """Return an adversary before the table, whose keeper knows no bounds, as in the paper."""
    columns = tuple(mechanisms.Column(column.name) for column in table.columns)
    mechanism = mechanisms.KLaplace(k) if k else mechanisms.Unprotected()
    interface = mechanisms.ProtectedTable(table.cells, columns, mechanism, random)
    return attacks.Adversary(interface, _EXACT, k=k, epsilon=EPSILON)


def _targets(table: Table) -> tuple[mechanisms.Groups, Any]:
    """Return the persons who are unique on the linking attributes, and their records."""
    linking = [table.index(name) for name in LINKING]
    persons, first, counts = np.unique(
        table.cells[:, linking], axis=0, return_index=True, return_counts=True
    )
    unique = counts == 1
    return mechanisms.Groups(tuple(linking), persons[unique]), table.cells[first[unique]]


def _shown(_: Table, found: Computed) -> Shown:
    variance = found.part("variance").group_by("m").agg(pl.col("right", "simulations").sum())
    data = {"variance": variance.sort("m")}
    for name in ("membership", "attributes", "tables", "columns", "countermeasures"):
        data[name] = found.part(name if name == "attributes" else name.removesuffix("s"))
    return Shown(
        sentences(data),
        _tables(data),
        ours=beside(data),
        data=data,
        figures={"figure_2": _chart(data["columns"])},
    )


def beside(data: dict[str, pl.DataFrame]) -> list[printed.Ours]:
    """Return Tables 1 to 4 and Figure 2's printed numbers beside ours.

    Table 1 is simulated. All else are counts on the paper's own table, the same at any scale, of
    what the published search reads; NaN where an answer is wrong.
    """
    rows: list[CellRow] = []
    for row in data["variance"].to_dicts():
        share = row["right"] / row["simulations"]
        error = 100.0 * binomial_error(share, row["simulations"])
        about = {"place": "Table 1", "quantity": f"accuracy at m = {row['m']}", "form": ".5f"}
        rows.append({**about, "value": 100.0 * share, "error": error})

    def counted(place: str, quantity: str, value: float) -> None:
        rows.append({"place": place, "quantity": quantity, "value": value, "exact": True})

    members, persons = data["membership"], data["attributes"]
    whole, column = (data[name].filter(search="published") for name in ("tables", "columns"))
    balance, everybody = persons.filter(name="balance"), pl.col("right") == pl.col("persons")
    many, right_cells = persons["persons"][0], pl.col("share_of_cells") == 1.0
    asked = (
        ("Table 2", "queries for membership", members, members["persons"][0], everybody),
        ("Table 3", "queries for balance", balance, many, everybody),
        ("Table 3", "queries for full record", persons, many, everybody),
        ("Table 4", "queries for the whole table", whole, 1, right_cells),
    )
    for (place, quantity, found, each, right), k in itertools.product(asked, _PROTECTION):
        own = found.filter(k=k)
        value = own["queries"].sum() / each if own.select(right.all()).item() else math.nan
        counted(place, f"{quantity}, {_PROTECTION[k]}", value)
    (alone,) = column.filter(k=1, name="balance").to_dicts()
    counted("Fig 2", "queries for balance alone", alone["queries"] if alone["right"] else math.nan)
    counted("Fig 2", "distinct values of balance", alone["distinct"])
    counted("Table 3", "persons unique on five attributes", many)
    return printed.beside(RELAXATIONS, _PLACES, rows, form=",.10g")


def _tables(data: dict[str, pl.DataFrame]) -> list[StudyTable]:
    """Return what is not printed: our search on columns, and what countermeasures cost it."""
    right, queries = pl.col("right").all().over("name"), pl.col("queries")
    alone = data["columns"].with_columns(right=right).sort("distinct", "name").to_dicts()
    titles = {name: tried.title for name, tried in COUNTERMEASURES.items()}
    title, times = pl.col("name").replace_strict(titles), queries / queries.first()
    tried = data["countermeasures"].with_columns(title=title, times=times).to_dicts()
    index = ["name", "distinct", "right"]
    return [
        tables.table_of(
            "Figure 2: queries for one column alone",
            tables.side_by_side(alone, index, "{search}_{k}", "{queries:,}"),
            "column {name} | distinct values {distinct:,} | IDP {published_1}"
            " | no protection {published_0} | our search, IDP {halving_1} | right {right}",
            text=("column",),
        ),
        tables.table_of(
            f"What countermeasures cost an attacker: the column {COLUMN} alone",
            tried,
            "countermeasure {title} | queries {queries:,} | times {times:,.3g}"
            " | claimed budget {claimed_budget:.2g} | read right {share:.1%}",
            text=("countermeasure",),
        ),
    ]


def sentences(data: dict[str, pl.DataFrame]) -> list[str]:
    """Return what the study says in words."""
    whole, ours = (data["tables"].filter(search=name, k=1).to_dicts()[0] for name in _SEARCHES)
    free = data["tables"].filter(search="halving", k=0)["queries"][0]
    return tables.paragraphs(f"""
    Table 1 from {data["variance"]["simulations"][0]:,} simulations for each m; all other figures
    are counts of queries that were asked and answered.

    Our search reads the same table with {ours["queries"]:,} queries,
    {ours["queries"] / whole["queries"]:.0%} of the published: it counts each column alone first,
    then halves what exists. Protection costs it {ours["queries"] - free:,} queries.

    All queries together claim {whole["claimed_budget"]:.5f} of individual differential privacy's
    epsilon, and {whole["share_of_cells"]:.0%} of the cells are known.
    """)


def _chart(found: pl.DataFrame) -> Any:
    """Figure 2, the published search before ours."""
    rows = found.filter(k=1).sort(pl.col("search") != "published", maintain_order=True)
    named = rows.with_columns(pl.col("search").replace_strict(_TITLES)).to_dicts()
    said = printed.printed_values(RELAXATIONS, "Fig 2")
    names = ("distinct values of balance", "queries for balance alone")
    x, y = (said[name].middle for name in names)
    of_print = tables.printed_at(x, y, "published")
    return tables.chart(
        [*tables.points_of(named, "distinct", {"queries": "{search}"}), of_print],
        "Figure 2: queries to read one column of the Bank data",
        x=tables.Axis("distinct values", powers=range(5)),
        y=tables.Axis("queries", powers=range(7)),
        colors="blue red",
        marks="points",
    )
