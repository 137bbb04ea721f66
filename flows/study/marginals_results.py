"""What `study marginals` shows: how many of 100 records each attack reads, and how many any may."""

import math
import pathlib
from typing import Any

import altair as alt
import polars as pl
from rich.table import Table
from scipy.stats import binomtest

from flows.study.cells import check_scale
from flows.study.drawing import BLUE, GREEN, GREY, ORANGE, RED, styled, write_svg
from flows.study.marginals import (
    ACS,
    ATTACKS,
    CONFIDENCES,
    DEGREE,
    DELTA,
    EPSILON_OF_COLUMNS,
    RECORDS,
    SEED,
    WAYS,
    Findings,
    exceeding,
    means,
    read_survey,
    study_marginals,
)
from flows.study.printing import Written, published_table, titled_table, workers_here, write_study
from privcore.upper_bounds import Published
from workers.executors import on_ray

WORST_CASE = "Beyond the Worst Case"
_LEVEL = 1e-6
_ERRORS = 2.0
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
_FIRE = "needs the San Francisco fire calls"


def run_marginals(uri: str, output: pathlib.Path, *, scale: float) -> Findings:
    """Run the study on this machine's processors.

    Raises:
        InvalidInputError: as `read_survey` and `study_marginals`.
    """
    check_scale(scale)
    survey = read_survey(uri)
    with workers_here(on_ray) as executor:
        return study_marginals(survey, output, scale=scale, executor=executor)


def write_marginals(findings: Findings, output: pathlib.Path) -> Written:
    """Write the files; return a table for each figure, and the printed numbers beside ours."""
    tables = [figure_table(findings.runs, figure) for figure in _figures(findings)]
    printed = published(findings)
    if printed:
        tables.append(published_table(printed, title="What the paper prints, and ours"))
    files = write_files(output, findings)
    return write_study(
        tables,
        [*findings.resumed, *sentences(findings)],
        files,
        title="Secret columns, reconstructed from noisy marginals",
    )


def figure_table(runs: pl.DataFrame, figure: str) -> Table:
    """Return the mean counts of one figure."""
    title, key = _FIGURES[figure]
    table = titled_table(f"{title}: records of {RECORDS} that are read")
    for name in (key, "expected\nblind", "prior\nalone", "squared\nerror", "posterior"):
        table.add_column(name, justify="left" if name == "names" else "right")
    for confidence in CONFIDENCES:
        table.add_column(f"limit,\n{confidence:.0%}", justify="right")
    for row in means(runs.filter(figure=figure)).sort(_order(key)).to_dicts():
        label = row[key] if isinstance(row[key], str) else f"{row[key]:g}"
        counts = [f"{row[attack]:.1f}" for attack in ATTACKS]
        limits = [f"{row[f'limit_{round(100 * share)}']:.0f}" for share in CONFIDENCES]
        table.add_row(label, f"{row['prior']:.1f}", *counts, *limits)
    return table


def published(findings: Findings) -> list[Published]:
    """Return the printed numbers of section 6 beside ours, where the table is the paper's."""
    if not set(ACS) <= set(findings.survey.names):
        return []
    one = _setting(findings, figure="column", names="SEX")
    near = _setting(findings, figure="distance", within=1)
    columns = means(findings.runs.filter(figure="column"))
    low = columns.filter(pl.col("limit_95") < 80.0)["names"].to_list()
    drawn = "one table of 100 records; we count {runs}, of Massachusetts"
    rows = [
        ("Fig 4", "attack success SEX (ACS), records of 100", "65", one["posterior"], "posterior"),
        ("Fig 4", "attack success SEX (ACS), records of 100", "65", one["error"], "squared error"),
        ("Fig 4", "prior success SEX (ACS)", "56", one["blind"], "prior alone"),
        ("Fig 4", "95% upper bound SEX (ACS)", "84", one["limit_95"], ""),
        ("Fig 7", "attack success AGEP within L1 error 1", "81", near["posterior"], "posterior"),
        ("Fig 7", "attack success AGEP within L1 error 1", "81", near["error"], "squared error"),
        (
            "Fig 7",
            "upper bound AGEP within L1 error 1 at confidence 5%",
            *("82", near["limit_5"], ""),
        ),
    ]
    found = [
        Published(
            WORST_CASE,
            place,
            f"{quantity}{f': {attack}' if attack else ''}",
            text,
            f"{ours:.1f}",
            agrees=_near(ours, float(text), one["runs"]),
            remark=_why(attack, agrees=_near(ours, float(text), one["runs"]))
            or drawn.format(runs=one["runs"]),
        )
        for place, quantity, text, ours, attack in rows
    ]
    found.append(
        Published(
            WORST_CASE,
            "Fig 4",
            "95% upper bound, most columns except AGEP and SCHL",
            ">=80",
            f"below 80: {', '.join(low) or 'none'}",
            agrees=set(low) == {"AGEP", "SCHL"},
            remark="" if set(low) == {"AGEP", "SCHL"} else "the table and its network are others",
        )
    )
    found.append(Published(WORST_CASE, "Fig 4 to 7", "FIRE", "drawn", "", None, _FIRE))
    return found


def _why(attack: str, *, agrees: bool) -> str:
    if agrees or attack != "squared error":
        return ""
    return "the error alone follows the noise; the paper's descent may have stopped earlier"


def _near(ours: float, printed: float, runs: int) -> bool:
    """Whether a mean over runs and one printed count of 100 records differ by chance alone."""
    share = printed / RECORDS
    spread = math.sqrt(RECORDS * share * (1.0 - share) * (1.0 + 1.0 / runs))
    return abs(ours - printed) <= _ERRORS * spread


def sentences(findings: Findings) -> list[str]:
    """Return what the study says in words, with its seed and its terms."""
    runs = findings.runs
    how = (
        f"Scale {findings.scale:g}, seed {SEED}; a Bayesian network of degree {DEGREE} over "
        f"{len(findings.survey.names)} columns; {RECORDS} records sampled for each run; all "
        f"{WAYS}-way marginals that touch a secret column, delta {DELTA:g} under replacement of a "
        "record's secret columns."
    )
    above = exceeding(runs)
    wrong = [
        f"{row['attack']} at {row['confidence']:.0%} in {row['exceeded']} of {row['runs']} runs"
        for row in above.to_dicts()
        if binomtest(
            row["exceeded"], row["runs"], 1.0 - row["confidence"], alternative="greater"
        ).pvalue
        <= _LEVEL
    ]
    at_95 = above.filter(confidence=0.95)
    most, played = (max(at_95[name].to_list()) for name in ("exceeded", "runs"))
    bound = (
        f"No attack exceeds Theorem 3.5: above its 95% limit in at most {most} of {played} "
        f"runs for each attack (exact binomial test at {_LEVEL:g}, and at 5% and 50% too)."
        if not wrong
        else f"AN ATTACK EXCEEDS THEOREM 3.5: {'; '.join(wrong)}."
    )
    at_one = means(runs.filter(figure="column"))
    better = {
        attack: int((at_one[attack] >= at_one["blind"] - 1.0).sum())
        for attack in ("error", "posterior")
    }
    prior = (
        f"At epsilon {EPSILON_OF_COLUMNS:g} the posterior reads at least as much as the prior "
        f"alone, within one record, for {better['posterior']} of {at_one.height} columns; the "
        f"squared error, which only starts from the prior, for {better['error']}."
    )
    last = runs.filter(figure="epsilon", epsilon=math.inf)
    read = float(last["error"].to_numpy().mean())
    exact = (
        f"Without noise the attack reads {read:.1f} of {RECORDS} records' "
        f"{findings.survey.by_epsilon}; records that share all known columns cannot be told apart."
    )
    return [how, bound, prior, exact]


def write_files(output: pathlib.Path, findings: Findings) -> list[pathlib.Path]:
    """Write all runs (CSV) and a drawing for each figure (SVG)."""
    files = [output / "marginals.csv"]
    findings.runs.with_columns(scale=pl.lit(findings.scale), seed=pl.lit(SEED)).write_csv(files[0])
    for figure in _figures(findings):
        files.append(output / f"marginals_{figure}.svg")
        write_svg(figure_chart(findings.runs, figure), files[-1])
    return files


def figure_chart(runs: pl.DataFrame, figure: str) -> Any:
    """Return mean counts of the attacks, and the limits of any attack, of one figure."""
    title, key = _FIGURES[figure]
    found = means(runs.filter(figure=figure)).sort(_order(key)).to_dicts()
    rows = [
        {"at": _label(row[key]), "records": row[name], "series": text}
        for row in found
        for name, text in _NAMES.items()
    ]
    order = list(dict.fromkeys(row["at"] for row in rows))
    series = list(_NAMES.values())
    points = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True, strokeWidth=1.5)
        .encode(
            x=alt.X(
                "at:N",
                sort=order,
                title=None if key == "names" else key,
                axis=alt.Axis(labelAngle=-40 if key == "names" else 0),
            ),
            y=alt.Y("records:Q", title=f"records of {RECORDS}", scale=alt.Scale(domain=[0, 100])),
            color=alt.Color(
                "series:N",
                title=None,
                sort=series,
                scale=alt.Scale(domain=series, range=[GREY, GREEN, BLUE, RED, ORANGE]),
            ),
        )
    )
    if key == "names":
        points = points.mark_point(filled=True, size=60)
    return styled(points.properties(width=max(300, 46 * len(order)), height=240), title)


def _label(value: object) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _order(key: str) -> pl.Expr:
    """The limit for columns, the setting's number for all else."""
    return pl.col("limit_95") if key == "names" else pl.col(key)


def _figures(findings: Findings) -> list[str]:
    present = set(findings.runs["figure"].unique())
    return [figure for figure in _FIGURES if figure in present]


def _setting(findings: Findings, **where: Any) -> dict[str, Any]:
    return means(findings.runs.filter(**where)).row(0, named=True)
