"""`privaudit study randomized-response`: section 6.6 and appendix C of the game's paper.

"Observational Auditing of Privacy" (arXiv:2511.14084), Figures 2 to 4. The adversary sees every
record's noisy label, so randomized response's own epsilon is what an audit could find at most. The
paper keeps one data set and one randomized output and repeats the game; that says how much the
game's coins matter, and nothing of how often a bound is wrong, which takes fresh data each time.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from scipy.stats import binomtest

from flows.report.study_page import StudyTable
from flows.study.runner import Cell, Shown, Study, blocks
from flows.study.tables import (
    TITLE,
    Axis,
    CellRow,
    chart,
    colored,
    paragraphs,
    points_of,
    table_of,
    value_of,
)
from privcore.attacks import (
    LogRatioScore,
    PaperScore,
    Score,
    Tally,
    generator,
    label_inference,
    stream_key,
)
from privcore.guarantees import Gaussian, PureDP
from privcore.lower_bounds import epsilon_lower
from privcore.mechanisms import RandomizedResponse
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
CLASSES = (2, 5, 10)
EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
FRACTIONS = (0.001, 0.01)
SHIFT_EPSILONS = (0.5, 2.0, 4.0)
SHIFTS = tuple(10.0**power for power in range(-6, 0))
SHIFT_FRACTIONS = (0.001, 0.01, 0.1)
RECORDS, REPETITIONS, FRESH_REPETITIONS = 1_000_000, 100, 30
_BLOCK = 5
_CHUNK = 8_192  # records at a time, whose arrays stay in the processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class GaussianClasses:
    """Records of equally many classes; class k is normal around the unit vector e_k.

    Attributes:
        features: shape (records, dimension).
        labels: shape (records,).
        posterior: shape (records, classes), the true one. The classes' means have equal norms, so
            it is the softmax of the first `classes` coordinates.
    """

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    posterior: NDArray[np.float64]


def dimension_of(classes: int) -> int:
    """Return 5, or what the unit vectors need: five dimensions hold no ten of them."""
    return max(5, classes)


def draw_classes(records: int, classes: int, random: np.random.Generator) -> GaussianClasses:
    """Return fresh records."""
    labels = random.integers(0, classes, records)
    features = random.standard_normal((records, dimension_of(classes)))
    features[np.arange(records), labels] += 1.0
    return GaussianClasses(features, labels, softmax(features[:, :classes], axis=1))


def fitted_posterior(fresh: GaussianClasses, features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what multinomial logistic regression, fitted on `fresh`, says of `features`."""
    classes = fresh.posterior.shape[1]
    design = _with_constant(fresh.features)
    hot = np.eye(classes)[fresh.labels]
    shape = (design.shape[1], classes)

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = design @ flat.reshape(shape)
        logs = scores - logsumexp(scores, axis=1, keepdims=True)
        gradient = design.T @ (np.exp(logs) - hot) / len(design)
        return -float((hot * logs).sum()) / len(design), gradient.ravel()

    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B")
    fitted: NDArray[np.float64] = softmax(_with_constant(features) @ found.x.reshape(shape), axis=1)
    return fitted


def raised(posterior: NDArray[np.float64], shift: float) -> NDArray[np.float64]:
    """Return binary probabilities at total-variation distance of at most `shift` from `posterior`.

    Class 1 has min(p + shift, 1): the proxy of the paper's Figure 4.
    """
    ones = np.minimum(posterior[:, 1] + shift, 1.0)
    return np.column_stack([1.0 - ones, ones])


def _with_constant(features: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.column_stack([np.ones(len(features)), features])


def study(*, scale: float) -> Study:
    """Return the study, in three parts.

    `bounds` is the paper's protocol: one data set and one randomized output for each number of
    classes and epsilon, of which only coins and counterfactuals are drawn again. `fresh` draws
    features, labels and noise anew in every repetition, too. `shifts` is the paper's protocol with
    proxies that are wrong by so much. Records shrink with `scale`, repetitions with its square
    root.
    """
    records = max(2_000, round(RECORDS * scale))
    repetitions = max(5, round(REPETITIONS * math.sqrt(scale)))
    fresh = max(5, round(FRESH_REPETITIONS * math.sqrt(scale)))
    # What is compared with the paper first, for a reader who looks in before all is done.
    cells = [_cell("bounds", classes, records, (0, repetitions)) for classes in reversed(CLASSES)]
    cells.append(_cell("shifts", SHIFT_CLASSES, records, (0, repetitions)))
    cells += [
        _cell("fresh", classes, records, block)
        for classes in reversed(CLASSES)
        for block in blocks(fresh, _BLOCK)
    ]
    title = "Randomized response, whose epsilon is known"
    return Study(
        "Randomized response",
        title,
        cells,
        compute,
        None,
        lambda found: shown(found.rows, records),
        scale,
    )


def _cell(part: str, classes: int, records: int, block: tuple[int, int]) -> Cell:
    shifted = part == "shifts"
    return Cell(
        f"{part}-{classes}-classes-{block[0]:03}",
        {
            "part": part,
            "classes": classes,
            "records": records,
            "block": block,
            "seed": SEED,
            "epsilons": SHIFT_EPSILONS if shifted else EPSILONS,
            "shifts": SHIFTS if shifted else (),
            "fractions": SHIFT_FRACTIONS if shifted else FRACTIONS,
            "fresh_records": FRESH_RECORDS,
            "delta": DELTA,
            "significance": SIGNIFICANCE,
        },
    )


def compute(_: None, cell: Cell) -> list[CellRow]:
    """Return the bounds of some repetitions: of one output, or of a fresh one for each."""
    part, classes = cell.parameters["part"], cell.parameters["classes"]
    first, last = cell.parameters["block"]
    stream = ("study randomized-response", part, classes)
    outputs: list[tuple[tuple[Any, ...], range]] = [(stream, range(first, last))]
    if part == "fresh":
        outputs = [((*stream, each), range(each, each + 1)) for each in range(first, last)]
    return [
        {"part": part, "classes": classes, **row}
        for drawn, repetitions in outputs
        for row in _output(cell.parameters, drawn, repetitions)
    ]


def _output(
    given: dict[str, Any], stream: tuple[Any, ...], repetitions: range
) -> Iterator[CellRow]:
    """Draw the data, and for each epsilon an output; the game on it is repeated."""
    random = generator(SEED, *stream)
    data = draw_classes(given["records"], given["classes"], random)
    played: list[tuple[CellRow, NDArray[np.float64], Score]]
    if given["part"] == "shifts":
        # Figure 4: the proxy says class 1 more often than is true, and the bound allows for it.
        played = [
            ({"shift": shift}, raised(data.posterior, shift), PaperScore())
            for shift in (0.0, *SHIFTS)
        ]
    else:
        fresh = draw_classes(min(FRESH_RECORDS, given["records"]), given["classes"], random)
        fitted = fitted_posterior(fresh, data.features)
        played = [
            ({"proxy": name, "score": score.name}, proxy, score)
            for name, proxy in (("posterior", data.posterior), ("logistic", fitted))
            for score in (PaperScore(), LogRatioScore())
        ]
    for epsilon in given["epsilons"]:
        mechanism = RandomizedResponse(epsilon, given["classes"])
        seen = mechanism.sample(data.labels, random)
        key = stream_key(SEED, *(str(part) for part in (*stream, epsilon)))
        for columns, proxy, score in played:
            tally = Tally.zero(repetitions=len(repetitions))
            for start, stop in blocks(len(seen), _CHUNK):
                part = slice(start, stop)
                tally += label_inference(
                    _target(mechanism, seen[part], proxy[part], score),
                    proxy[part],
                    data.labels[part],
                    score=score,
                    repetitions=len(repetitions),
                    key=key,
                    indices=np.arange(start, stop),
                )
            shift = columns.get("shift", 0.0)
            for row in _read(tally, given["fractions"], shift, random, repetitions):
                yield {"epsilon": epsilon, **columns, **row}


def _target(
    mechanism: RandomizedResponse, seen: NDArray[np.int64], proxy: NDArray[np.float64], score: Score
) -> NDArray[np.float64]:
    """Return the adversary's probabilities.

    The paper's adversary says 1 for the noisy label; the log-ratio's, its posterior.
    A ratio of logarithms needs probabilities: of 0 and 1 alone it would be sure of every label
    that differs from the noisy one.
    """
    if not isinstance(score, LogRatioScore):
        return np.eye(mechanism.classes)[seen]
    joint = proxy * mechanism.distribution()[:, seen].T
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def _read(
    tally: Tally,
    fractions: tuple[float, ...],
    shift: float,
    random: np.random.Generator,
    repetitions: range,
) -> Iterator[CellRow]:
    guesses = np.array([round(fraction * tally.records) for fraction in fractions])
    for repetition, correct in zip(repetitions, tally.most_confident(guesses, random), strict=True):
        for fraction, made, right in zip(fractions, guesses, correct, strict=True):
            for family in (Gaussian(), PureDP()):
                bound = epsilon_lower(
                    tally.records,
                    int(made),
                    int(right),
                    family=family,
                    delta=0.0 if isinstance(family, PureDP) else DELTA,
                    significance=SIGNIFICANCE,
                    shift=shift,
                )
                yield {
                    "repetition": repetition,
                    "fraction": fraction,
                    "family": family.name,
                    "guesses": int(made),
                    "correct": int(right),
                    "epsilon_lower": bound,
                }


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
        Published(
            *(TITLE, place, f"{quantity}, {setting}", printed, _listed(part)),
            agrees,
            "" if agrees else remark,
        )
        for quantity, part, printed, agrees, remark in rows
        if part
    ]


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
