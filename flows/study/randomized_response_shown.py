"""Output of `study randomized-response`: tables and drawings of its bounds, what reproduces."""

from typing import Any

import polars as pl
from scipy.stats import binomtest

from flows.report.study_page import StudyTable
from flows.study.drawing import Axis, chart, colored, points_of
from flows.study.printed import TITLE
from flows.study.runner import Shown
from flows.study.tables import paragraphs, table_of, value_of
from privcore.upper_bounds import Published

SEED, DELTA, SIGNIFICANCE = 66, 1e-5, 0.05
SHIFT_CLASSES = 2
FRESH_RECORDS = 100_000  # for the logistic regression
_TIGHT = 0.15
_TIGHT_FROM, _TIGHT_TO = 1.0, 4.0
_NEAR_ZERO_FROM, _NEAR_ZERO = 0.01, 0.1
_JUDGED_AT = 1e-6
_SETTING = ["classes", "epsilon", "proxy", "score", "fraction", "family"]
_FAMILIES = {"gaussian": "Gaussian", "pure_dp": "pure"}


def shown(rows: pl.DataFrame, records: int) -> Shown:
    """Return what there is to show of the three parts' bounds, each of this many records."""
    bounds, fresh, shifts = (rows.filter(part=part) for part in ("bounds", "fresh", "shifts"))
    found = summary(bounds, _SETTING)
    anew = summary(fresh, _SETTING)
    shifted = summary(shifts, ["epsilon", "fraction", "family", "shift"]).drop(
        "above_truth", "repetitions"
    )
    return Shown(
        sentences(found, anew, records),
        [_bounds_table(found), _shifts_table(shifted)],
        published(found, shifted),
        {
            "bounds": bounds,
            "bounds_summary": found,
            "fresh": fresh,
            "fresh_summary": anew,
            "shifts": shifts,
            "shifts_summary": shifted,
        },
        {"bounds": _bounds_chart(found), "shifts": _shifts_chart(shifted)},
    )


def summary(bounds: pl.DataFrame, setting: list[str]) -> pl.DataFrame:
    """Return mean, deviation and share above the truth of every setting's bounds."""
    return (
        bounds.group_by(setting, maintain_order=True)
        .agg(
            mean=pl.col("epsilon_lower").mean(),
            deviation=pl.col("epsilon_lower").std(),
            above_truth=(pl.col("epsilon_lower") > pl.col("epsilon")).mean(),
            repetitions=pl.len(),
        )
        .sort(setting)
    )


def published(found: pl.DataFrame, shifts: pl.DataFrame) -> list[Published]:
    """Return what the paper says of its figures 2 to 4, which are drawings, beside ours.

    "Tight" is read as within 15% of epsilon, "near 0" as at most 0.1.
    """
    posterior = found.filter(
        pl.col("epsilon") <= _TIGHT_TO, proxy="posterior", family="gaussian"
    ).sort("epsilon")
    return [
        *(
            row
            for place, fraction in (("Fig 2", 0.001), ("Fig 3", 0.01))
            for classes in found["classes"].unique().sort()
            for row in _tightness(
                place,
                f"K = {classes}, {fraction:.1%} guesses",
                posterior.filter(classes=classes, fraction=fraction),
            )
        ),
        *(_shifted(shifts, fraction) for fraction in shifts["fraction"].unique().sort()),
    ]


def _tightness(place: str, setting: str, found: pl.DataFrame) -> list[Published]:
    """Return what Figure 2, or Figure 3, says of small epsilons and of those from 1 to 4."""
    means, informed = (
        dict(found.filter(score=score).select("epsilon", "mean").rows())
        for score in ("power", "log_ratio")
    )
    low = {epsilon: mean for epsilon, mean in means.items() if epsilon < _TIGHT_FROM}
    middle = {epsilon: mean for epsilon, mean in means.items() if epsilon >= _TIGHT_FROM}
    low_tight, middle_tight = (
        all(abs(mean / epsilon - 1.0) <= _TIGHT for epsilon, mean in part.items())
        for part in (low, middle)
    )
    below = "a bound at 95% lies below the truth in most repetitions, and so does its mean"
    of_ratio = {epsilon: mean for epsilon, mean in informed.items() if epsilon in middle}
    costs = (
        "few guesses cost confidence, and the score weighs by the proxy's doubt alone; the "
        f"log-ratio score, which knows epsilon, gives {_listed(of_ratio)} on the same outputs"
    )
    over = all(mean > epsilon for epsilon, mean in low.items())
    within = f"here all of them are within {_TIGHT:.0%}"
    of_low, of_middle = {
        "Fig 2": (("overestimated", over, below), ("tight", middle_tight, costs)),
        "Fig 3": (("tight", low_tight, below), ("not as tight", not middle_tight, within)),
    }[place]
    rows = [("epsilon below 1", low, *of_low), ("epsilon 1 to 4", middle, *of_middle)]
    return [
        _statement(place, f"{quantity}, {setting}", printed, part, agrees=agrees, remark=remark)
        for quantity, part, printed, agrees, remark in rows
        if part
    ]


def _statement(
    place: str, quantity: str, printed: str, means: dict[float, float], *, agrees: bool, remark: str
) -> Published:
    computed = _listed(means)
    return Published(TITLE, place, quantity, printed, computed, agrees, "" if agrees else remark)


def _listed(means: dict[float, float]) -> str:
    return ", ".join(f"{epsilon:g}: {mean:.2f}" for epsilon, mean in means.items())


def _shifted(shifts: pl.DataFrame, fraction: float) -> Published:
    shown = shifts.filter(family="gaussian", fraction=fraction)
    late = float(shown.filter(pl.col("shift") >= _NEAR_ZERO_FROM)["mean"].to_numpy().max())
    near = shown.filter(pl.col("shift") > 0.0).group_by("shift").agg(pl.col("mean").max())
    silent = near.filter(pl.col("mean") <= _NEAR_ZERO)["shift"].to_numpy()
    agrees = late <= _NEAR_ZERO
    return Published(
        TITLE,
        "Fig 4",
        f"shifts from 0.01 on, {fraction:.1%} guesses",
        "near 0",
        f"at most {late:.2f}",
        agrees,
        f"near 0 from {silent.min():g} on" if agrees else "more guesses lose less to a shift",
    )


def _bounds_table(found: pl.DataFrame) -> StudyTable:
    """Gaussian and pure families side by side, from the true posterior."""
    power = found.filter(proxy="posterior", score="power")
    ratio = found.filter(proxy="posterior", score="log_ratio", fraction=0.01)
    measured: dict[tuple[int, float], dict[str, str]] = {}
    for row in [*power.to_dicts(), *ratio.to_dicts()]:
        family = f"{_FAMILIES[row['family']]} {row['fraction']:.1%}"
        name = family if row["score"] == "power" else f"log-ratio: {family}"
        at = measured.setdefault((row["classes"], row["epsilon"]), {})
        at[name] = f"{row['mean']:.2f} ± {row['deviation']:.2f}"
    columns = ("Gaussian 0.1%", "pure 0.1%", "Gaussian 1.0%", "pure 1.0%")
    wide = ("log-ratio: Gaussian 1.0%", "log-ratio: pure 1.0%")
    return table_of(
        "Randomized response: measured epsilon, one output played again and again",
        ({"K": k, "epsilon": f"{e:g}", **row} for (k, e), row in sorted(measured.items())),
        {name: value_of(name) for name in ("K", "epsilon", *columns, *wide)},
        wide=wide,
    )


def _shifts_table(found: pl.DataFrame) -> StudyTable:
    """The Gaussian bounds by shift, a row per epsilon and fraction."""
    wide = found.filter(family="gaussian").pivot(
        "shift", index=["epsilon", "fraction"], values="mean"
    )
    names = [name for name in wide.columns if name not in {"epsilon", "fraction"}]
    return table_of(
        "A proxy shifted by so much: measured epsilon, Gaussian family",
        wide.sort("epsilon", "fraction").to_dicts(),
        {"epsilon": "{epsilon:g}", "guesses": "{fraction:.1%}"}
        | {f"{float(name):g}": value_of(name, "{:.2f}") for name in names},
    )


def sentences(found: pl.DataFrame, anew: pl.DataFrame, records: int) -> list[str]:
    """Return what the study says in words, with its seeds and its terms."""
    pure = anew.filter(family="pure_dp", proxy="posterior")
    worst = pure.sort("above_truth", descending=True).row(0, named=True)
    count = round(worst["above_truth"] * worst["repetitions"])
    test = binomtest(count, worst["repetitions"], SIGNIFICANCE, alternative="greater")
    valid = "within" if test.pvalue > _JUDGED_AT else "BEYOND"
    fitted = min(FRESH_RECORDS, records)
    return paragraphs(f"""
    n = {records:,}, seed {SEED}; as in the paper, one data set and one randomized output for each K
    and epsilon, and {found["repetitions"][0]} repetitions of the game with fresh coins and
    counterfactuals; mean ± standard deviation of bounds at significance {SIGNIFICANCE:g} and, for
    the Gaussian family, delta {DELTA:g}; counterfactuals from the true posterior (the CSV also has
    those of a logistic regression fitted on {fitted:,} fresh records). Fewer records prove less:
    the paper has n = 1,000,000, of which 0.1% are 1,000 guesses; here they are
    {round(0.001 * records):,}.

    In {worst["repetitions"]} more repetitions data and noise are drawn anew, too
    (fresh_summary.csv): that alone tells how often a bound is above the truth. Pure family: at
    worst in {worst["above_truth"]:.0%} of them (K = {worst["classes"]}, epsilon
    {worst["epsilon"]:g}, {worst["score"]} score, {worst["fraction"]:.1%}), {valid} the significance
    of {SIGNIFICANCE:.0%} (exact binomial test at {_JUDGED_AT:g}).

    Classes are normal around unit vectors in 5 dimensions, in 10 for K = 10: five dimensions hold
    no ten unit vectors, whatever the paper says.

    Shifted proxies: K = {SHIFT_CLASSES}, counterfactuals are 1 with min(p + shift, 1), and the
    bound allows for the shift. How fast it falls depends on the fraction of guesses, which the
    paper does not name.
    """)


def _bounds_chart(found: pl.DataFrame) -> Any:
    """Measured against true epsilon, a panel per number of classes."""
    rows = found.filter(proxy="posterior", score="power").with_columns(
        pl.col("family").replace_strict(_FAMILIES)
    )
    series, truth = "{family}, {fraction:.1%} guesses", "the true one"
    measured = [
        f"{family}, {share} guesses"
        for family in ("Gaussian", "pure")
        for share in ("0.1%", "1.0%")
    ]
    return chart(
        points_of(
            rows.to_dicts(),
            "epsilon",
            {"mean": series, "epsilon": truth},
            error={"mean": "deviation"},
            panel="{classes} classes",
        ),
        "Measured epsilon ± deviation over repetitions",
        x=Axis("epsilon of randomized response"),
        y=Axis("epsilon measured"),
        colors=colored((*measured, truth), "red orange blue green grey"),
        size=(200, 200),
    )


def _shifts_chart(shifts: pl.DataFrame) -> Any:
    """The Gaussian bounds at 1% guesses against the shift, a line per epsilon."""
    found = shifts.filter(pl.col("shift") > 0.0, family="gaussian", fraction=0.01)
    names = [f"epsilon {epsilon:g}" for epsilon in found["epsilon"].unique().sort()]
    return chart(
        points_of(
            found.to_dicts(), "shift", {"mean": "epsilon {epsilon:g}"}, error={"mean": "deviation"}
        ),
        "A shifted proxy, allowed for, leaves little to prove",
        x=Axis("shift of the proxy (total variation)", powers=range(-6, 0)),
        y=Axis("epsilon measured, 1% guesses"),
        colors=colored(names, "red blue green"),
    )
