"""What `study reidentification` shows: how often attacks tell who took part, against eta."""

import pathlib
from typing import Any

import altair as alt
import polars as pl
from rich.table import Table
from scipy.stats import binomtest

from flows.study.cells import check_scale
from flows.study.drawing import BLUE, GREEN, GREY, RED, styled, write_svg
from flows.study.printing import Written, titled_table, workers_here, write_study
from flows.study.reidentification import (
    ATTACKS,
    NOISES,
    RECORDS,
    SEED,
    STATISTICS,
    Findings,
    study_reidentification,
)
from workers.executors import on_ray

_LEVEL = 1e-6


def run_reidentification(output: pathlib.Path, *, scale: float) -> Findings:
    """Run the study on this machine's processors.

    Raises:
        InvalidInputError: as `study_reidentification`.
    """
    check_scale(scale)
    with workers_here(on_ray) as executor:
        return study_reidentification(output, scale=scale, executor=executor)


def write_reidentification(findings: Findings, output: pathlib.Path) -> Written:
    """Write the study's files; return its table and findings."""
    best = accuracies(findings.plays)
    files = [output / "reidentification.csv", output / "reidentification.svg"]
    findings.plays.with_columns(scale=pl.lit(findings.scale), seed=pl.lit(SEED)).write_csv(files[0])
    write_svg(accuracy_chart(best), files[1])
    said = [*findings.resumed, *sentences(findings)]
    return write_study(
        [accuracy_table(best)],
        said,
        files,
        title="Who took part, told from outputs that were made re-identification private",
    )


def accuracies(plays: pl.DataFrame) -> pl.DataFrame:
    """Return each setting's accuracy on the record that is told best, and its p-value.

    The p-value is of the hypothesis that no record is told with more than 1/2 + eta: the smallest
    of all records', times their number.
    """
    rows = []
    for (statistic, noise, eta, attack), group in plays.group_by(
        "statistic", "noise", "eta", "attack", maintain_order=True
    ):
        played, most = int(group["plays"][0]), max(group["right"].to_list())
        above = binomtest(most, played, min(0.5 + float(eta), 1.0), alternative="greater")
        rows.append(
            {
                "statistic": statistic,
                "noise": noise,
                "eta": eta,
                "attack": attack,
                "accuracy": most / played,
                "p_value": min(1.0, RECORDS * float(above.pvalue)),
            }
        )
    return pl.DataFrame(rows)


def accuracy_table(best: pl.DataFrame) -> Table:
    """Return how often the record that is told best is told right, by both attacks."""
    table = titled_table("How often the best-told record is told right")
    table.add_column("statistic, noise", no_wrap=True)
    for name in ("eta", "at most", "optimal", "loss"):
        table.add_column(name, justify="right")
    for (statistic, noise, eta), group in best.group_by(
        "statistic", "noise", "eta", maintain_order=True
    ):
        of = dict(group.select("attack", "accuracy").iter_rows())
        share = 0.5 + float(eta)
        table.add_row(
            f"{statistic}, {noise}",
            f"{eta}",
            f"{share:.2f}",
            f"{of['optimal']:.3f}",
            f"{of['loss']:.3f}",
        )
    return table


def sentences(findings: Findings) -> list[str]:
    """Return what the study says in words, with its seed and its terms."""
    best = accuracies(findings.plays)
    above = best.filter(pl.col("p_value") <= _LEVEL)
    how = (
        f"Scale {findings.scale:g}, seed {SEED}; {int(findings.plays['plays'][0]):,} runs of the "
        f"wrapper for each setting, each on a random half of {RECORDS} records, one of them unlike "
        "the others; the optimal attack knows all halves' outputs and the noise's scale."
    )
    names = [f"{row['statistic']}, {row['noise']}, eta {row['eta']:g}" for row in above.to_dicts()]
    bound = (
        f"No record is told with more than 1/2 + eta, in {best.height} settings and attacks (exact "
        f"binomial test at {_LEVEL:g}, times {RECORDS} records)."
        if not names
        else f"MORE THAN 1/2 + ETA: {'; '.join(names)}."
    )
    condition = (
        "The deviations are estimated from 32 halves; the guarantee holds if they are not below "
        "the true ones. The printed algorithm's Laplace radius is the theorem's noise in one "
        "dimension alone."
    )
    spare = best.filter(attack="optimal").group_by("noise").agg(pl.col("accuracy").max())
    most = dict(spare.iter_rows())
    waste = "The most that the optimal attack tells: " + "; ".join(
        f"{noise} {most[noise]:.2f}" for noise in NOISES
    )
    return [how, bound, condition, f"{waste}."]


def accuracy_chart(best: pl.DataFrame) -> Any:
    """Return accuracy against eta, a panel for each statistic."""
    rows = [
        {"eta": row["eta"], "panel": row["statistic"], "right": row["accuracy"],
         "series": row["noise"], "attack": row["attack"]}
        for row in best.to_dicts()
    ]  # fmt: skip
    rows += [
        {"eta": eta, "panel": statistic, "right": 0.5 + eta, "series": "1/2 + eta", "attack": "any"}
        for statistic in STATISTICS
        for eta in best["eta"].unique().sort()
    ]
    series = [*NOISES, "1/2 + eta"]
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.5)
        .encode(
            x=alt.X("eta:Q", axis=alt.Axis(values=[0.1, 0.2, 0.4])),
            y=alt.Y("right:Q", title="told right", scale=alt.Scale(domain=[0.4, 1.0])),
            color=alt.Color(
                "series:N",
                title=None,
                sort=series,
                scale=alt.Scale(domain=series, range=[GREEN, GREY, BLUE, RED]),
            ),
            strokeDash=alt.StrokeDash(
                "attack:N",
                title="attack",
                sort=["any", *ATTACKS],
                legend=alt.Legend(symbolType="stroke", symbolSize=300),
            ),
        )
        .properties(width=210, height=200)
    )
    facet = alt.Facet("panel:N", title=None, sort=list(STATISTICS))
    title = "Who took part, told from noisy outputs"
    return styled(lines.facet(facet=facet, columns=3), title)
