"""`privaudit study randomized-response`: section 6.6 and appendix C of the game's paper.

"Observational Auditing of Privacy" (arXiv:2511.14084), Figures 2 to 4. The adversary sees every
record's noisy label, so randomized response's own epsilon is what an audit could find at most. The
paper keeps one data set and one randomized output and repeats the game.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from flows.study import tables
from flows.study.printed import GAME, Ours, Setting, beside
from flows.study.runner import Cell, Computed, Shown, Study, blocks
from flows.study.tables import CellRow
from privcore.attacks import PaperScore, Tally, generator, label_inference, stream_key
from privcore.guarantees import Gaussian
from privcore.lower_bounds import epsilon_lower
from privcore.mechanisms import RandomizedResponse

SEED, DELTA, SIGNIFICANCE = 66, 1e-5, 0.05
SHIFT_CLASSES = 2
FRESH_RECORDS = 100_000  # for the logistic regression
PROXIES = ("posterior", "logistic regression")
CLASSES = (2, 5, 10)
EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
FRACTIONS = (0.001, 0.01)
SHIFT_EPSILONS = (0.5, 2.0, 4.0)
SHIFTS = tuple(10.0**power for power in range(-6, 0))
SHIFT_FRACTIONS = (0.001, 0.01, 0.1)
RECORDS, REPETITIONS = 1_000_000, 100
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

    @property
    def design(self) -> NDArray[np.float64]:
        """The features behind a constant."""
        return np.column_stack([np.ones(len(self.features)), self.features])


def dimension_of(classes: int) -> int:
    """Return 5, or what the unit vectors need: five dimensions hold no ten of them."""
    return max(5, classes)


def draw_classes(records: int, classes: int, random: np.random.Generator) -> GaussianClasses:
    """Return fresh records."""
    labels = random.integers(0, classes, records)
    features = random.standard_normal((records, dimension_of(classes)))
    features[np.arange(records), labels] += 1.0
    return GaussianClasses(features, labels, softmax(features[:, :classes], axis=1))


def fitted_posterior(fresh: GaussianClasses, asked: GaussianClasses) -> NDArray[np.float64]:
    """Return what multinomial logistic regression, fitted on `fresh`, says of other records."""
    classes, design = fresh.posterior.shape[1], fresh.design
    hot = np.eye(classes)[fresh.labels]
    shape = (design.shape[1], classes)

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = design @ flat.reshape(shape)
        logs = scores - logsumexp(scores, axis=1, keepdims=True)
        gradient = design.T @ (np.exp(logs) - hot) / len(design)
        return -float((hot * logs).sum()) / len(design), gradient.ravel()

    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B")
    return np.asarray(softmax(asked.design @ found.x.reshape(shape), axis=1))


def raised(posterior: NDArray[np.float64], shift: float) -> NDArray[np.float64]:
    """Return binary probabilities at total-variation distance of at most `shift` from `posterior`.

    Class 1 has min(p + shift, 1): the proxy of the paper's Figure 4.
    """
    ones = np.minimum(posterior[:, 1] + shift, 1.0)
    return np.column_stack([1.0 - ones, ones])


def study(*, scale: float) -> Study:
    """Return the study, in two parts.

    `bounds` is the paper's protocol: one data set and one randomized output for each number of
    classes and epsilon, of which only coins and counterfactuals are drawn again. `shifts` is the
    same with proxies that are wrong by so much. Records shrink with `scale`, repetitions with its
    square root.
    """
    records = max(2_000, round(RECORDS * scale))
    repetitions = max(5, round(REPETITIONS * math.sqrt(scale)))
    about = {
        "records": records,
        "repetitions": repetitions,
        "seed": SEED,
        "fresh_records": FRESH_RECORDS,
        "delta": DELTA,
        "significance": SIGNIFICANCE,
    }
    bounds = {"part": "bounds", "epsilons": EPSILONS, "shifts": (), "fractions": FRACTIONS}
    shifts = {"part": "shifts", "epsilons": SHIFT_EPSILONS, "shifts": SHIFTS}
    shifts["fractions"] = SHIFT_FRACTIONS
    parts = [*((bounds, classes) for classes in reversed(CLASSES)), (shifts, SHIFT_CLASSES)]
    return Study(
        "Randomized response",
        "Randomized response, whose epsilon is known",
        [
            Cell(f"{part['part']}-{classes}-classes", {**about, **part, "classes": classes})
            for part, classes in parts
        ],
        _compute,
        records,
        _shown,
        settings_of(records, repetitions),
        drawn=f"n = {records:,}, seed {SEED}.",
    )


def settings_of(records: int, repetitions: int) -> list[Setting]:
    """Return what the paper fixes, beside what it is here."""
    dimensions = [
        Setting(f"dimensions, K = {k}", "5", f"{dimension_of(k)}", f"K = {k},") for k in CLASSES
    ]
    return [
        Setting("n", f"{RECORDS:,}", f"{records:,}"),
        Setting("repetitions of the game", f"{REPETITIONS}", f"{repetitions}"),
        *dimensions,
    ]


def _compute(_: int, cell: Cell) -> list[CellRow]:
    """Return the bounds of all repetitions: data are drawn once, an output for each epsilon."""
    given = cell.parameters
    part, classes, repetitions = given["part"], given["classes"], given["repetitions"]
    stream = ("study randomized-response", part, classes)
    random = generator(SEED, *stream)
    data = draw_classes(given["records"], classes, random)
    proxies: dict[Any, NDArray[np.float64]]
    if part == "shifts":
        # Figure 4: the proxy says class 1 more often than is true, and the bound allows for it.
        proxies = {shift: raised(data.posterior, shift) for shift in (0.0, *SHIFTS)}
    else:
        fresh = draw_classes(min(FRESH_RECORDS, given["records"]), classes, random)
        fitted = fitted_posterior(fresh, data)
        proxies = dict(zip(PROXIES, (data.posterior, fitted), strict=True))
    rows = []
    for epsilon in given["epsilons"]:
        seen = RandomizedResponse(epsilon, classes).sample(data.labels, random)
        key = stream_key(SEED, *(str(part) for part in (*stream, epsilon)))
        for name, proxy in proxies.items():
            tally = Tally.zero(repetitions=repetitions)
            for start, stop in blocks(len(seen), _CHUNK):
                places = slice(start, stop)
                tally += label_inference(
                    np.eye(classes)[seen[places]],  # the adversary says 1 for the noisy label
                    proxy[places],
                    data.labels[places],
                    score=PaperScore(),
                    repetitions=repetitions,
                    key=key,
                    indices=np.arange(start, stop),
                )
            about = {"part": part, "classes": classes, "epsilon": epsilon}
            about |= {"shift": name} if part == "shifts" else {"proxy": name}
            bounds = _bounds(tally, given["fractions"], about.get("shift", 0.0), random)
            rows += [{**about, **row} for row in bounds]
    return rows


def _bounds(
    tally: Tally, fractions: tuple[float, ...], shift: float, random: np.random.Generator
) -> list[CellRow]:
    """Return a row for each repetition and fraction of guesses."""
    guesses = [round(fraction * tally.records) for fraction in fractions]
    return [
        {
            "repetition": repetition,
            "fraction": fraction,
            "epsilon_lower": epsilon_lower(
                *(tally.records, made, int(right)),
                family=Gaussian(),
                delta=DELTA,
                significance=SIGNIFICANCE,
                shift=shift,
            ),
        }
        for repetition, correct in enumerate(tally.most_confident(np.array(guesses), random))
        for fraction, made, right in zip(fractions, guesses, correct, strict=True)
    ]


def _shown(records: int, found: Computed) -> Shown:
    keys = {
        "bounds": ["classes", "epsilon", "proxy", "fraction"],
        "shifts": ["epsilon", "fraction", "shift"],
    }
    bound = pl.col("epsilon_lower")
    about = {"mean": bound.mean(), "deviation": bound.std(), "repetitions": pl.len()}
    bounds, shifts = (
        found.part(part).group_by(key, maintain_order=True).agg(**about).sort(key)
        for part, key in keys.items()
    )
    column, index = "{proxy}, {fraction:.1%}", ["classes", "epsilon"]
    names = [column.format(proxy=proxy, fraction=part) for part in FRACTIONS for proxy in PROXIES]
    measured = tables.side_by_side(bounds.to_dicts(), index, column, "{mean:.2f} ± {deviation:.2f}")
    proxies = [f"{shift:g}" for shift in (0.0, *SHIFTS)]
    shifted = tables.side_by_side(
        shifts.to_dicts(), ["epsilon", "fraction"], "{shift:g}", "{mean:.2f}"
    )
    return Shown(
        sentences(records, bounds["repetitions"][0]),
        [
            tables.table_of(
                "Figures 2 and 3: measured epsilon by proxy and share of guesses",
                measured,
                {"K": "{classes}", "epsilon": "{epsilon:g}"} | tables.values_of(names),
            ),
            tables.table_of(
                "Figure 4: a proxy shifted by so much, measured epsilon",
                shifted,
                {"epsilon": "{epsilon:g}", "guesses": "{fraction:.1%}"} | tables.values_of(proxies),
            ),
        ],
        ours=ours(bounds, shifts),
        data={"bounds_summary": bounds, "shifts_summary": shifts},
        figures={"figures_2_and_3": _bounds_chart(bounds), "figure_4": _shifts_chart(shifts)},
    )


def ours(bounds: pl.DataFrame, shifts: pl.DataFrame) -> list[Ours]:
    """Return what the paper says of its Figures 2 to 4, which are drawings, beside ours.

    It is the mean bound over epsilon (1 is tight, more is overestimated), and the largest bound of
    those with a shift of 0.01 and more.
    """

    def mean(place: str, quantity: str, of: str, row: CellRow, over: float = 1.0) -> CellRow:
        values = {"value": row["mean"] / over, "error": row["deviation"] / over}
        about = {"place": place, "quantity": quantity, "of": of}
        return about | values | {"repetitions": row["repetitions"]}

    rows = [
        mean(
            "Fig 2" if row["fraction"] == FRACTIONS[0] else "Fig 3",
            f"K = {row['classes']}, epsilon {'below 1' if row['epsilon'] < 1.0 else '1 to 4'}",
            f"bound over epsilon {row['epsilon']:g}, {row['proxy']}",
            row,
            row["epsilon"],
        )
        for row in bounds.filter(pl.col("epsilon") <= 4.0).to_dicts()
    ]
    late = shifts.filter(pl.col("shift") >= 0.01).sort("mean")
    for row in late.group_by("fraction").last().sort("fraction").to_dicts():
        of = f"the largest bound, {row['fraction']:.1%} guesses"
        rows.append(mean("Fig 4", "shifts from 0.01 on", of, row))
    return beside(GAME, ("Fig 2", "Fig 3", "Fig 4"), rows, missing="no such K")


def sentences(records: int, repetitions: int) -> list[str]:
    """Return what the study says in words, with its terms."""
    return tables.paragraphs(f"""
    As in the paper, one data set and one randomized output for each K and epsilon, and
    {repetitions} repetitions of the game with fresh coins and counterfactuals;
    mean ± standard deviation of bounds at significance {SIGNIFICANCE:g}, Gaussian family, delta
    {DELTA:g}; counterfactuals from the true posterior, or from a logistic regression fitted on
    {min(FRESH_RECORDS, records):,} fresh records. Repetitions say how much the game's coins matter,
    and nothing of how often a bound is wrong, which takes fresh data each time.

    Classes are normal around unit vectors in 5 dimensions, in 10 for K = 10: five dimensions hold
    no ten unit vectors, whatever the paper says.

    Shifted proxies: K = {SHIFT_CLASSES}, counterfactuals are 1 with min(p + shift, 1), and the
    bound allows for the shift.
    """)


def _bounds_chart(found: pl.DataFrame) -> Any:
    return tables.chart(
        tables.points_of(
            found.to_dicts(),
            "epsilon",
            {"mean": "{proxy}, {fraction:.1%} guesses", "epsilon": "the true one"},
            error={"mean": "deviation"},
            panel="{classes} classes",
        ),
        "Figure 2 (0.1% guesses) and Figure 3 (1%): measured epsilon ± deviation",
        x=tables.Axis("epsilon of randomized response"),
        y=tables.Axis("epsilon measured"),
        colors="orange grey green red blue",
        size=(200, 200),
    )


def _shifts_chart(shifts: pl.DataFrame) -> Any:
    found = shifts.filter(pl.col("shift") > 0.0, fraction=0.01).to_dicts()
    error = {"mean": "deviation"}
    return tables.chart(
        tables.points_of(found, "shift", {"mean": "epsilon {epsilon:g}"}, error=error),
        "Figure 4: a proxy that overestimates class 1 by so much, allowed for",
        x=tables.Axis("proxy overestimated by (total variation)", powers=range(-6, 0)),
        y=tables.Axis("epsilon measured, 1% guesses"),
        colors="red blue green",
    )
