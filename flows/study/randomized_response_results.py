"""What `study randomized-response` shows of its bounds: tables, files, what reproduces."""

import pathlib
from typing import Any

import altair as alt
import polars as pl
from rich.table import Table
from scipy.stats import binomtest

from flows.study.cells import check_scale
from flows.study.drawing import BLUE, GREEN, ORANGE, RED, log_axis, styled, write_svg
from flows.study.printing import Written, published_table, titled_table, workers_here, write_study
from flows.study.randomized_response import (
    DELTA,
    FRESH_RECORDS,
    SEED,
    SHIFT_CLASSES,
    SIGNIFICANCE,
    Findings,
    study_randomized_response,
)
from privcore.upper_bounds import Published
from workers.executors import on_ray

_TITLE = "Observational Auditing of Privacy"
_TIGHT = 0.15
_TIGHT_FROM, _TIGHT_TO = 1.0, 4.0
_NEAR_ZERO_FROM, _NEAR_ZERO = 0.01, 0.1
_JUDGED_AT = 1e-6
_ROOMY, _WIDE = 100, 125
_SETTING = ["classes", "epsilon", "proxy", "score", "fraction", "family"]


def run_randomized_response(output: pathlib.Path, *, scale: float) -> Findings:
    """Run the study on this machine's processors.

    Raises:
        InvalidInputError: a scale out of its range, or a folder that cannot be made.
    """
    check_scale(scale)
    with workers_here(on_ray) as executor:
        return study_randomized_response(output, scale=scale, executor=executor)


def write_randomized_response(findings: Findings, output: pathlib.Path, *, width: int) -> Written:
    """Write the study's files; return its tables and findings, in at most `width` characters."""
    found, shifts = summary(findings.bounds), shift_summary(findings.shifts)
    tables = [
        bounds_table(found, width=width),
        shifts_table(shifts),
        published_table(published(found, shifts), title="What the paper says, and ours"),
    ]
    files = write_files(output, findings, found, shifts)
    return write_study(
        tables,
        [*findings.resumed, *sentences(findings)],
        files,
        title="Randomized response, whose epsilon is known",
    )


def summary(bounds: pl.DataFrame) -> pl.DataFrame:
    """Return mean, deviation and share above the truth of every setting's bounds."""
    return (
        bounds.group_by(_SETTING, maintain_order=True)
        .agg(
            mean=pl.col("epsilon_lower").mean(),
            deviation=pl.col("epsilon_lower").std(),
            above_truth=(pl.col("epsilon_lower") > pl.col("epsilon")).mean(),
            repetitions=pl.len(),
        )
        .sort(_SETTING)
    )


def shift_summary(shifts: pl.DataFrame) -> pl.DataFrame:
    """Return mean and deviation of the bounds of every epsilon and shift."""
    setting = ["epsilon", "fraction", "family", "shift"]
    return (
        shifts.group_by(setting)
        .agg(mean=pl.col("epsilon_lower").mean(), deviation=pl.col("epsilon_lower").std())
        .sort(setting)
    )


def bounds_table(found: pl.DataFrame, *, width: int) -> Table:
    """Return Gaussian and pure families side by side.

    Deviations and the log-ratio score are shown where there is room; the files always have them.
    """
    table = titled_table("Randomized response: measured epsilon, one output played again and again")
    for name in ("K", "epsilon"):
        table.add_column(name, justify="right", no_wrap=True)
    shown = [
        ("Gaussian\n0.1%", 0.001, "gaussian", "power"),
        ("pure\n0.1%", 0.001, "pure_dp", "power"),
        ("Gaussian\n1%", 0.01, "gaussian", "power"),
        ("pure\n1%", 0.01, "pure_dp", "power"),
    ]
    if width >= _WIDE:
        shown += [
            ("log-ratio:\nGaussian 1%", 0.01, "gaussian", "log_ratio"),
            ("log-ratio:\npure 1%", 0.01, "pure_dp", "log_ratio"),
        ]
    for title, *_ in shown:
        table.add_column(title, justify="right", no_wrap=True)
    rows = {tuple(row[name] for name in _SETTING): row for row in found.to_dicts()}
    for classes, epsilon in found.select("classes", "epsilon").unique().sort("*").rows():
        cells = []
        for _, fraction, family, score in shown:
            row = rows[classes, epsilon, "posterior", score, fraction, family]
            deviation = f" ± {row['deviation']:.2f}" if width >= _ROOMY else ""
            cells.append(f"{row['mean']:.2f}{deviation}")
        table.add_row(str(classes), f"{epsilon:g}", *cells)
    return table


def published(found: pl.DataFrame, shifts: pl.DataFrame) -> list[Published]:
    """Return what the paper says of its figures 2 to 4, which are drawings, beside ours.

    "Tight" is read as within 15% of epsilon, "near 0" as at most 0.1.
    """
    rows = []
    for place, fraction in (("Fig 2", 0.001), ("Fig 3", 0.01)):
        for classes in found["classes"].unique().sort():
            low, middle = _measured(found, classes, fraction)
            _, informed = _measured(found, classes, fraction, score="log_ratio")
            setting = f"K = {classes}, {fraction:.1%} guesses"
            rows += _tightness(place, setting, low, middle, informed)
    for fraction in shifts["fraction"].unique().sort():
        rows.append(_shifted(shifts, fraction))
    return rows


def _measured(
    found: pl.DataFrame, classes: int, fraction: float, *, score: str = "power"
) -> tuple[dict[float, float], dict[float, float]]:
    """Mean Gaussian bounds by epsilon, below 1 and from 1 to 4."""
    shown = found.filter(
        classes=classes, fraction=fraction, proxy="posterior", score=score, family="gaussian"
    )
    means = dict(shown.select("epsilon", "mean").rows())
    low = {epsilon: mean for epsilon, mean in means.items() if epsilon < _TIGHT_FROM}
    middle = {e: mean for e, mean in means.items() if _TIGHT_FROM <= e <= _TIGHT_TO}
    return low, middle


def _tightness(
    place: str,
    setting: str,
    low: dict[float, float],
    middle: dict[float, float],
    informed: dict[float, float],
) -> list[Published]:
    """Return what Figure 2, or Figure 3, says of small epsilons and of those from 1 to 4."""
    few = place == "Fig 2"
    rows = []
    if low:
        agrees = all(m > e for e, m in low.items()) if few else all(map(_tight, low.items()))
        remark = "a bound at 95% lies below the truth in most repetitions, and so does its mean"
        printed = "overestimated" if few else "tight"
        rows.append(
            _statement(
                place, f"epsilon below 1, {setting}", printed, low, agrees=agrees, remark=remark
            )
        )
    if middle:
        tight = [_tight(pair) for pair in middle.items()]
        remark = (
            "few guesses cost confidence, and the score weighs by the proxy's doubt alone; the "
            f"log-ratio score, which knows epsilon, gives {_listed(informed)} on the same outputs"
        )
        printed = "tight" if few else "not as tight"
        agrees = all(tight) if few else not all(tight)
        if not few:
            remark = f"here all of them are within {_TIGHT:.0%}"
        rows.append(
            _statement(
                place, f"epsilon 1 to 4, {setting}", printed, middle, agrees=agrees, remark=remark
            )
        )
    return rows


def _tight(pair: tuple[float, float]) -> bool:
    epsilon, mean = pair
    return abs(mean / epsilon - 1.0) <= _TIGHT


def _statement(
    place: str, quantity: str, printed: str, means: dict[float, float], *, agrees: bool, remark: str
) -> Published:
    computed = _listed(means)
    return Published(_TITLE, place, quantity, printed, computed, agrees, "" if agrees else remark)


def _listed(means: dict[float, float]) -> str:
    return ", ".join(f"{epsilon:g}: {mean:.2f}" for epsilon, mean in means.items())


def _shifted(shifts: pl.DataFrame, fraction: float) -> Published:
    shown = shifts.filter(family="gaussian", fraction=fraction)
    late = float(shown.filter(pl.col("shift") >= _NEAR_ZERO_FROM)["mean"].to_numpy().max())
    near = shown.filter(pl.col("shift") > 0.0).group_by("shift").agg(pl.col("mean").max())
    silent = near.filter(pl.col("mean") <= _NEAR_ZERO)["shift"].to_numpy()
    agrees = late <= _NEAR_ZERO
    return Published(
        _TITLE,
        "Fig 4",
        f"shifts from 0.01 on, {fraction:.1%} guesses",
        "near 0",
        f"at most {late:.2f}",
        agrees,
        f"near 0 from {silent.min():g} on" if agrees else "more guesses lose less to a shift",
    )


def shifts_table(found: pl.DataFrame) -> Table:
    """Return the Gaussian bounds by shift, a row per epsilon and fraction."""
    shifts = found["shift"].unique().sort().to_list()
    table = titled_table("A proxy shifted by so much: measured epsilon, Gaussian family")
    table.add_column("epsilon", justify="right")
    table.add_column("guesses", justify="right")
    for shift in shifts:
        table.add_column(f"{shift:g}", justify="right", no_wrap=True)
    gaussian = found.filter(pl.col("family") == "gaussian")
    for epsilon, fraction in gaussian.select("epsilon", "fraction").unique().sort("*").rows():
        row = gaussian.filter(
            (pl.col("epsilon") == epsilon) & (pl.col("fraction") == fraction)
        ).sort("shift")
        means = [f"{value:.2f}" for value in row["mean"]]
        table.add_row(f"{epsilon:g}", f"{fraction:.1%}", *means)
    return table


def sentences(findings: Findings) -> list[str]:
    """Return what the study says in words, with its seeds and its terms."""
    fresh = summary(findings.fresh)
    pure = fresh.filter((pl.col("family") == "pure_dp") & (pl.col("proxy") == "posterior"))
    worst = pure.sort("above_truth", descending=True).row(0, named=True)
    count = round(worst["above_truth"] * worst["repetitions"])
    test = binomtest(count, worst["repetitions"], SIGNIFICANCE, alternative="greater")
    valid = "within" if test.pvalue > _JUDGED_AT else "BEYOND"
    fitted = min(FRESH_RECORDS, findings.records)
    how = (
        f"n = {findings.records:,}, seed {SEED}; as in the paper, one data set and one randomized "
        f"output for each K and epsilon, and {findings.repetitions} repetitions of the game with "
        "fresh coins and counterfactuals; mean ± standard deviation of bounds at significance "
        f"{SIGNIFICANCE:g} and, for the Gaussian family, delta {DELTA:g}; counterfactuals from the "
        f"true posterior (the CSV also has those of a logistic regression fitted on {fitted:,} "
        "fresh records). Fewer records prove less: the paper has n = 1,000,000."
    )
    anew = (
        f"In {findings.fresh_repetitions} more repetitions data and noise are drawn anew, too "
        "(fresh_summary.csv): that alone tells how often a bound is above the truth. Pure family: "
        f"at worst in {worst['above_truth']:.0%} of them (K = {worst['classes']}, epsilon "
        f"{worst['epsilon']:g}, {worst['score']} score, {worst['fraction']:.1%}), {valid} the "
        f"significance of {SIGNIFICANCE:.0%} (exact binomial test at {_JUDGED_AT:g})."
    )
    where = (
        "Classes are normal around unit vectors in 5 dimensions, in 10 for K = 10: five dimensions "
        "hold no ten unit vectors, whatever the paper says."
    )
    drift = (
        f"Shifted proxies: K = {SHIFT_CLASSES}, counterfactuals are 1 with min(p + shift, 1), and "
        "the bound allows for the shift. How fast it falls depends on the fraction of guesses, "
        "which the paper does not name."
    )
    return [how, anew, where, drift]


def write_files(
    output: pathlib.Path, findings: Findings, found: pl.DataFrame, shifts: pl.DataFrame
) -> list[pathlib.Path]:
    """Write all bounds and summaries (CSV) and both drawings (SVG)."""
    data = {
        "bounds": findings.bounds,
        "bounds_summary": found,
        "fresh": findings.fresh,
        "fresh_summary": summary(findings.fresh),
        "shifts": findings.shifts,
        "shifts_summary": shifts,
    }
    files = []
    for name, frame in data.items():
        files.append(output / f"{name}.csv")
        frame.write_csv(files[-1])
    for name, chart in {"bounds": bounds_chart(found), "shifts": shifts_chart(shifts)}.items():
        files.append(output / f"{name}.svg")
        write_svg(chart, files[-1])
    return files


def bounds_chart(found: pl.DataFrame) -> Any:
    """Return measured against true epsilon, a panel per number of classes."""
    rows = [
        row
        | {
            "series": f"{'Gaussian' if row['family'] == 'gaussian' else 'pure'}, "
            f"{row['fraction']:.1%} guesses",
            "panel": f"{row['classes']} classes",
        }
        for row in found.filter(
            (pl.col("proxy") == "posterior") & (pl.col("score") == "power")
        ).to_dicts()
    ]
    order = [f"{classes} classes" for classes in found["classes"].unique().sort()]
    base = alt.Chart(alt.InlineData(values=rows))
    x = alt.X("epsilon:Q", title="epsilon of randomized response")
    color = alt.Color("series:N", title=None, scale=alt.Scale(range=[RED, ORANGE, BLUE, GREEN]))
    lines = base.mark_line(point=True, strokeWidth=1.75).encode(
        x=x, y=alt.Y("mean:Q", title="epsilon measured"), color=color
    )
    truth = base.mark_line(color="#767676", strokeDash=[4, 4], strokeWidth=1).encode(
        x=x, y="epsilon:Q"
    )
    chart = alt.layer(truth, lines).properties(width=200, height=200)
    facet = alt.Facet("panel:N", title=None, sort=order)
    return styled(chart.facet(facet=facet, columns=3), "Measured epsilon; dashed: the true one")


def shifts_chart(shifts: pl.DataFrame) -> Any:
    """Return the Gaussian bounds at 1% guesses against the shift, a line per epsilon."""
    shown = shifts.filter(
        (pl.col("shift") > 0.0) & (pl.col("family") == "gaussian") & (pl.col("fraction") == 0.01)
    )
    rows = [row | {"series": f"epsilon {row['epsilon']:g}"} for row in shown.to_dicts()]
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True, strokeWidth=1.75)
        .encode(
            x=alt.X(
                "shift:Q",
                scale=alt.Scale(type="log"),
                axis=log_axis("shift of the proxy (total variation)", powers=range(-6, 0)),
            ),
            y=alt.Y("mean:Q", title="epsilon measured, 1% guesses"),
            color=alt.Color("series:N", title=None, scale=alt.Scale(range=[RED, BLUE, GREEN])),
        )
        .properties(width=440, height=260)
    )
    return styled(lines, "A shifted proxy, allowed for, leaves little to prove")
