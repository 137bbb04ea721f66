"""Output of `study marginals`: how many of 100 records each attack reads, and how many any may."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import polars as pl
from scipy.stats import binomtest

from flows.report.study_page import StudyTable
from flows.study.cells import CellRow
from flows.study.drawing import Axis, Lines, chart, colored, points_of, printed_at
from flows.study.runner import Shown
from flows.study.tables import Show, paragraphs, same_share, table_of
from privcore.upper_bounds import Published

ACS = (
    "AGEP", "SCHL", "MAR", "RELP", "DIS", "ESP", "CIT", "MIG", "MIL", "ANC", "NATIVITY", "DEAR",
    "DEYE", "DREM", "SEX", "RAC1P",
)  # fmt: skip
"""The 16 attributes of the paper's American Community Survey."""
SEED, RECORDS, WAYS, DELTA, DEGREE = 62, 100, 3, 1e-5, 2
EPSILON_OF_COLUMNS = 1.0
CONFIDENCES = (0.05, 0.5, 0.95)
ATTACKS = ("blind", "error", "posterior")
WORST_CASE = "Beyond the Worst Case"
_LEVEL = 1e-6
_FIGURES = {
    "column": ("Figure 4: one column at epsilon 1", "names"),
    "epsilon": ("Figure 5: one column against epsilon", "epsilon"),
    "columns": ("Figure 6: several columns at epsilon 3", "columns"),
    "distance": ("Figure 7: one column at epsilon 1, right within a distance", "within"),
}
_NAMES = {
    "blind": "prior alone",
    "error": "squared error, from the prior",
    "posterior": "posterior",
    "limit_95": "any attack, 95%",
    "limit_5": "any attack, 5%",
}
_DRIFT = "the error alone follows the noise; the paper's descent may have stopped earlier"
_OTHER_PRIOR = "a bound follows from the prior, and ours is that of Massachusetts"
_HALF_A_RECORD = 0.5  # bounds are printed in whole records of 100
# Figure, place among the figure's, what it counts, the paper's words and its number.
_SEX, _AGE = ("column", "SEX"), ("distance", 1)
_PRINTED = (
    ("Fig 4", _SEX, "posterior", "attack success SEX (ACS), records of 100", "65"),
    ("Fig 4", _SEX, "error", "attack success SEX (ACS), records of 100", "65"),
    ("Fig 4", _SEX, "blind", "prior success SEX (ACS)", "56"),
    ("Fig 4", _SEX, "limit_95", "95% upper bound SEX (ACS)", "84"),
    ("Fig 7", _AGE, "posterior", "attack success AGEP within L1 error 1", "81"),
    ("Fig 7", _AGE, "error", "attack success AGEP within L1 error 1", "81"),
    ("Fig 7", _AGE, "limit_5", "upper bound AGEP within L1 error 1 at confidence 5%", "82"),
)


def shown(runs: pl.DataFrame, columns: Sequence[str], by_epsilon: str, scale: float) -> Shown:
    """Return what there is to show of all runs on a table with these columns."""
    present = set(runs["figure"].unique())
    figures = {name: means(runs, name) for name in _FIGURES if name in present}
    acs = set(ACS) <= set(columns)
    return Shown(
        sentences(runs, len(columns), by_epsilon, scale),
        [_figure_table(name, found) for name, found in figures.items()],
        published(figures) if acs else [],
        {"marginals": runs.with_columns(scale=pl.lit(scale), seed=pl.lit(SEED))},
        {f"marginals_{name}": _chart(name, found, acs=acs) for name, found in figures.items()},
    )


def means(runs: pl.DataFrame, figure: str) -> list[CellRow]:
    """Return a figure's settings in order: the mean of every count over their runs.

    `error_of` each attack is the standard error of its mean.
    """
    key = _FIGURES[figure][1]
    settings = ["figure", "names", "columns", "epsilon", "within"]
    found = (
        runs.filter(figure=figure)
        .group_by(settings, maintain_order=True)
        .agg(
            pl.len().alias("runs"),
            pl.exclude("run").mean(),
            *(
                (pl.col(attack).std() / pl.len().sqrt()).alias(f"error_of_{attack}")
                for attack in ATTACKS
            ),
        )
    )
    return found.sort("limit_95" if key == "names" else key).to_dicts()


def _figure_table(figure: str, found: list[CellRow]) -> StudyTable:
    """The mean counts of one figure."""
    title, key = _FIGURES[figure]
    columns: dict[str, Show] = {
        key: f"{{{key}}}" if key == "names" else f"{{{key}:g}}",
        "expected blind": "{prior:.1f}",
    }
    for attack in ATTACKS:
        columns[_NAMES[attack]] = f"{{{attack}:.1f}} ± {{error_of_{attack}:.1f}}"
    for share in CONFIDENCES:
        columns[f"limit, {share:.0%}"] = f"{{limit_{round(100 * share)}:.0f}}"
    about = f"{title}: records of {RECORDS} that are read, mean ± standard error"
    return table_of(about, found, columns, text=("names",))


def published(figures: dict[str, list[CellRow]]) -> list[Published]:
    """Return the printed numbers of section 6 beside ours, on the paper's columns.

    Printed is one table of 100 records, ours the mean of several: attacks and priors agree within
    two standard errors of the difference. A bound is computed and not counted, so it agrees only
    to the printed digit.
    """
    low = [row["names"] for row in figures["column"] if row["limit_95"] < 80.0]
    quantity = "95% upper bound, most columns except AGEP and SCHL"
    below, agrees = f"below 80: {', '.join(low) or 'none'}", set(low) == {"AGEP", "SCHL"}
    remark = "" if agrees else "the table and its network are others"
    needs = "needs the San Francisco fire calls"
    return [
        *(
            _beside(place, _found(figures, *setting), name, quantity, printed)
            for place, setting, name, quantity, printed in _PRINTED
        ),
        Published(WORST_CASE, "Fig 4", quantity, ">=80", below, agrees, remark),
        Published(WORST_CASE, "Fig 4 to 7", "FIRE", "drawn", "", agrees=None, remark=needs),
    ]


def _found(figures: dict[str, list[CellRow]], figure: str, value: object) -> CellRow:
    key = _FIGURES[figure][1]
    return next(row for row in figures[figure] if row[key] == value)


def _beside(place: str, row: CellRow, name: str, quantity: str, printed: str) -> Published:
    ours, runs = row[name], row["runs"]
    if name.startswith("limit"):
        agrees = abs(ours - float(printed)) <= _HALF_A_RECORD
        remark = "" if agrees else _OTHER_PRIOR
        return Published(WORST_CASE, place, quantity, printed, f"{ours:.1f}", agrees, remark)
    agrees = same_share(ours / RECORDS, RECORDS * runs, float(printed) / RECORDS, RECORDS)
    found = f"{ours:.1f} ± {row[f'error_of_{name}']:.1f}"
    remark = f"one table of 100 records; we count {runs}, of Massachusetts"
    if name == "error" and not agrees:
        remark = _DRIFT
    quantity += f": {_NAMES[name]}"
    return Published(WORST_CASE, place, quantity, printed, found, agrees, remark)


def exceeding(runs: pl.DataFrame) -> list[CellRow]:
    """Return for each attack and confidence how many runs exceeded the limit, and of how many.

    Each run counts once: those of Figure 7 at a distance of 1. `p_value` is of the hypothesis that
    no more exceed it than the confidence allows.
    """
    runs = runs.filter((pl.col("figure") != "distance") | (pl.col("within") == 1))
    rows = []
    for attack, confidence in itertools.product(ATTACKS, CONFIDENCES):
        above = int((runs[attack] > runs[f"limit_{round(100 * confidence)}"]).sum())
        test = binomtest(above, runs.height, 1.0 - confidence, alternative="greater")
        row = {"attack": attack, "confidence": confidence, "runs": runs.height}
        rows.append({**row, "exceeded": above, "p_value": float(test.pvalue)})
    return rows


def sentences(runs: pl.DataFrame, columns: int, by_epsilon: str, scale: float) -> list[str]:
    """Return what the study says in words, with its seed and its terms."""
    above = exceeding(runs)
    wrong = [
        f"{row['attack']} at {row['confidence']:.0%} in {row['exceeded']} of {row['runs']} runs"
        for row in above
        if row["p_value"] <= _LEVEL
    ]
    most = max(row["exceeded"] for row in above if row["confidence"] == 0.95)
    played = above[0]["runs"]
    at_one = means(runs, "column")
    better = {
        attack: sum(row[attack] >= row["blind"] - 1.0 for row in at_one) for attack in ATTACKS
    }
    last = runs.filter(figure="epsilon", epsilon=math.inf)
    read = float(last["error"].to_numpy().mean())
    bound = (
        f"No attack exceeds Theorem 3.5: above its 95% limit in at most {most} of {played} runs "
        f"for each attack (exact binomial test at {_LEVEL:g}, and at 5% and 50% too)."
        if not wrong
        else f"AN ATTACK EXCEEDS THEOREM 3.5: {'; '.join(wrong)}."
    )
    return paragraphs(f"""
    Scale {scale:g}, seed {SEED}; a Bayesian network of degree {DEGREE} over {columns} columns;
    {RECORDS} records sampled for each run; all {WAYS}-way marginals that touch a secret column,
    delta {DELTA:g} under replacement of a record's secret columns.

    {bound}

    At epsilon {EPSILON_OF_COLUMNS:g} the posterior reads at least as much as the prior alone,
    within one record, for {better["posterior"]} of {len(at_one)} columns; the squared error, which
    only starts from the prior, for {better["error"]}.

    Without noise the attack reads {read:.1f} of {RECORDS} records' {by_epsilon}; records that share
    all known columns cannot be told apart.
    """)


def _chart(figure: str, found: list[CellRow], *, acs: bool) -> Any:
    """Mean counts of the attacks, and the limits of any attack, of one figure."""
    title, key = _FIGURES[figure]
    rows = [{**row, "x": _label(row[key])} for row in found]
    order = [row["x"] for row in rows]
    errors = {name: f"error_of_{name}" for name in ATTACKS}
    points = points_of(rows, "x", _NAMES, error=errors)
    points += [
        printed_at(_label(value), float(printed), _NAMES[name])
        for _, (of, value), name, _, printed in _PRINTED
        if of == figure and acs
    ]
    return chart(
        points,
        title,
        x=Axis(None if key == "names" else key, order=order),
        y=Axis(f"records of {RECORDS}", domain=(0.0, 100.0)),
        colors=colored(_NAMES.values(), "grey green blue red orange"),
        size=(max(300, 46 * len(order)), 240),
        lines=Lines(joined=key != "names"),
    )


def _label(value: object) -> str:
    return value if isinstance(value, str) else f"{value:g}"
