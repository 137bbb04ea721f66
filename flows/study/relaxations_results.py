"""What `study relaxations` shows: each published table and figure beside what was counted here."""

import math
import pathlib
from typing import Any

import altair as alt
import polars as pl
from rich.table import Table

from flows.study.cells import check_scale
from flows.study.countermeasures import COUNTERMEASURES_SENTENCE, countermeasures_table
from flows.study.drawing import BLUE, RED, log_x, styled, write_svg
from flows.study.printing import Written, titled_table, workers_here, write_study
from flows.study.relaxations import (
    EPSILON,
    RECORDS,
    SEED,
    Findings,
    read_bank,
    study_relaxations,
)
from workers.executors import on_ray

# "Reconstruction Attacks on Aggressive Relaxations of Differential Privacy", Tables 1 to 4, 6.4.1.
_ACCURACY = {10: 0.8030245, 100: 0.9882165, 1000: 1.0}
_PUBLISHED_SIMULATIONS = 2_000_000
_MEMBERSHIP = {1: 2, 0: 1}
_BALANCE, _FULL_RECORD, _PERSONS = 29.9, 131.2, 1_815
_TOTALS = {1: 5_418_936, 0: 5_200_591}
_BALANCE_ALONE, _BALANCE_DISTINCT = 238_462, 7_168
_COLUMNS = 17
_STANDARD_ERRORS = 5.0
_PROTECTION = {1: "IDP", 0: "none"}
_SEARCH = {"published": "published", "halving": "ours"}


def run_relaxations(uri: str, output: pathlib.Path, *, scale: float) -> Findings:
    """Run the study on this machine's processors.

    Raises:
        InvalidInputError: not the Bank data, a scale out of its range, or a folder that cannot be
            made.
    """
    check_scale(scale)
    table = read_bank(uri)
    with workers_here(on_ray) as executor:
        return study_relaxations(table, output, scale=scale, executor=executor)


def write_relaxations(findings: Findings, output: pathlib.Path) -> Written:
    """Write the study's files; return its tables and findings."""
    tables = [
        variance_table(findings.variance),
        membership_table(findings.membership),
        attributes_table(findings.attributes),
        reconstruction_table(findings.tables),
        columns_table(findings.columns),
        countermeasures_table(findings.countermeasures),
    ]
    files = write_files(output, findings)
    return write_study(
        tables,
        [*findings.resumed, *sentences(findings)],
        files,
        title="Reading a table that individual differential privacy protects",
    )


def variance_table(found: pl.DataFrame) -> Table:
    """Return Table 1: how often the variance rule is right."""
    table = titled_table("Table 1: which noise was added, told by psi_m < 5")
    for name in ("m", "published", "here", "simulations", "reproduces"):
        table.add_column(name, justify="right")
    for m, right, simulations in found.select("m", "right", "simulations").iter_rows():
        accuracy, published = right / simulations, _ACCURACY[m]
        table.add_row(
            str(m),
            f"{published:.5%}",
            f"{accuracy:.5%}",
            f"{simulations:,}",
            _yes(_as_accurate(accuracy, published, simulations)),
        )
    return table


def membership_table(found: pl.DataFrame) -> Table:
    """Return Table 2: queries to tell whether a person is in the table."""
    table = titled_table("Table 2: queries for membership inference")
    for name in ("protection", "published", "here", "persons", "told right", "reproduces"):
        table.add_column(name, justify="right")
    for row in found.sort("k", descending=True).to_dicts():
        each = row["queries"] / row["persons"]
        same = each == _MEMBERSHIP[row["k"]] and row["right"] == row["persons"]
        table.add_row(
            _PROTECTION[row["k"]],
            str(_MEMBERSHIP[row["k"]]),
            f"{each:g}",
            f"{row['persons']:,}",
            f"{row['right']:,}",
            _yes(same),
        )
    return table


def attributes_table(found: pl.DataFrame) -> Table:
    """Return Table 3: queries for one attribute, and for the rest of a record."""
    table = titled_table(
        "Table 3: queries per person unique on age, marital, education, job, housing"
    )
    for name in ("target", "protection", "published", "here", "persons", "reproduces"):
        table.add_column(name, justify="right")
    for title, published in (("balance", _BALANCE), ("full record", _FULL_RECORD)):
        for k, protection in _PROTECTION.items():
            rows = found.filter(k=k) if title == "full record" else found.filter(k=k, name=title)
            persons, queries = int(rows["persons"][0]), rows["queries"].sum()
            all_right = bool((rows["right"] == rows["persons"]).all())
            same = round(queries / persons, 1) == published and persons == _PERSONS and all_right
            table.add_row(
                title,
                protection,
                str(published),
                f"{queries / persons:.4f}",
                f"{persons:,}",
                _yes(same),
            )
    return table


def reconstruction_table(found: pl.DataFrame) -> Table:
    """Return Table 4: queries for the whole table, by the published search and by ours."""
    table = titled_table(f"Table 4: the whole table, epsilon {EPSILON:g} for each query")
    names = ("search", "protection", "queries\npublished", "queries\nhere", "per\nperson")
    for name in (*names, "per\ncell", "claimed\nbudget", "cells\nright", "reproduces"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in found.sort("search", "k", descending=True).to_dicts():
        published = _TOTALS[row["k"]] if row["search"] == "published" else None
        budget = row["claimed_budget"]
        table.add_row(
            _SEARCH[row["search"]],
            _PROTECTION[row["k"]],
            "-" if published is None else f"{published:,}",
            f"{row['queries']:,}",
            f"{row['queries'] / RECORDS:.1f}",
            f"{row['queries'] / RECORDS / _COLUMNS:.1f}",
            "-" if math.isnan(budget) else f"{budget:.7f}",
            f"{row['share_of_cells']:.0%}",
            "-" if published is None else _yes(row["queries"] == published),
        )
    return table


def columns_table(found: pl.DataFrame) -> Table:
    """Return Figure 2's numbers: queries for a column alone against its distinct values."""
    table = titled_table("Figure 2: queries for one column alone")
    for name in ("column", "distinct values", "IDP", "none", "our search, IDP", "right"):
        table.add_column(name, justify="right")
    wide = found.with_columns(way=pl.format("{}-{}", "search", "k")).pivot(
        "way", index=["name", "distinct"], values="queries"
    )
    right = found.group_by("name").agg(pl.col("right").all())
    for row in wide.join(right, on="name").sort("distinct", "name").to_dicts():
        table.add_row(
            row["name"],
            f"{row['distinct']:,}",
            *(f"{row[way]:,}" for way in ("published-1", "published-0", "halving-1")),
            _yes(row["right"]),
        )
    return table


def sentences(findings: Findings) -> list[str]:
    """Return what the study says in words."""
    ours = findings.tables.filter(search="halving", k=1).row(0, named=True)
    balance = findings.columns.filter(search="published", k=1, name="balance").row(0, named=True)
    same = balance["queries"] == _BALANCE_ALONE and balance["distinct"] == _BALANCE_DISTINCT
    how = (
        f"Seed {SEED}; Table 1 from {findings.simulations:,} simulations for each m (published: "
        f"{_PUBLISHED_SIMULATIONS:,}), judged within {_STANDARD_ERRORS:g} standard errors; all "
        "other figures are counts of queries that were asked and answered, judged to the digit."
    )
    figure = (
        f"Figure 2's one printed number, balance alone: {balance['queries']:,} queries for "
        f"{balance['distinct']:,} values; reproduces: {_yes(same)}."
    )
    search = (
        f"Our search reads the same table with {ours['queries']:,} queries, "
        f"{ours['queries'] / _TOTALS[1]:.0%} of the published: it counts each column alone first, "
        "then halves what exists; protection costs it not one query more than none."
    )
    repetitions = (
        "The paper bounds the failure of 15 repetitions on answers rounded to 0 or 1 by 1e-10; it "
        "is 2 * 2^-15 = 6.1e-5, so a whole table takes some 45 repetitions."
    )
    meaning = (
        f"All queries together claim {_TOTALS[1] * EPSILON:.5f} of individual differential "
        "privacy's epsilon, and every cell is known: the definition is no guarantee."
    )
    return [how, figure, search, repetitions, COUNTERMEASURES_SENTENCE, meaning]


def write_files(output: pathlib.Path, findings: Findings) -> list[pathlib.Path]:
    """Write all counts (CSV) and Figure 2 (SVG)."""
    files = []
    for name in ("variance", "membership", "attributes", "tables", "columns", "countermeasures"):
        files.append(output / f"{name}.csv")
        getattr(findings, name).write_csv(files[-1])
    files.append(output / "columns.svg")
    write_svg(columns_chart(findings.columns), files[-1])
    return files


def columns_chart(found: pl.DataFrame) -> Any:
    """Return Figure 2: queries against distinct values, a point for each column."""
    shown = found.filter(k=1).with_columns(
        pl.col("search").replace_strict(_SEARCH).alias("series"),
        pl.col("distinct").alias("distinct values"),
    )
    points = (
        alt.Chart(alt.InlineData(values=shown.to_dicts()))
        .mark_point(filled=True, size=60)
        .encode(
            x=log_x("distinct values", powers=range(5)),
            y=alt.Y("queries:Q", scale=alt.Scale(type="log"), title="queries"),
            color=alt.Color("series:N", title=None, scale=alt.Scale(range=[BLUE, RED])),
        )
        .properties(width=440, height=260)
    )
    return styled(points, "Queries to read one column of the Bank data")


def _as_accurate(accuracy: float, published: float, simulations: int) -> bool:
    """Whether two shares differ by no more than their standard errors allow."""
    spread = max(published * (1.0 - published), 1.0 / simulations)
    error = math.sqrt(spread * (1.0 / simulations + 1.0 / _PUBLISHED_SIMULATIONS))
    return abs(accuracy - published) <= _STANDARD_ERRORS * error


def _yes(same: bool) -> str:  # noqa: FBT001  # a word for a truth value
    return "yes" if same else "NO"
