"""`privaudit study randomized-response`: section 6.6 and appendix C of the game's paper.

"Observational Auditing of Privacy" (arXiv:2511.14084), Figures 2 to 4. The adversary sees every
record's noisy label, so randomized response's own epsilon is what an audit could find at most. The
paper keeps one data set and one randomized output and repeats the game.
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

from flows.report.study_page import StudyTable
from flows.study.printed import GAME, Ours, Setting
from flows.study.runner import Cell, Shown, Study, blocks
from flows.study.tables import (
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
    PaperScore,
    Tally,
    generator,
    label_inference,
    stream_key,
)
from privcore.guarantees import Gaussian
from privcore.lower_bounds import epsilon_lower
from privcore.mechanisms import RandomizedResponse

SEED, DELTA, SIGNIFICANCE = 66, 1e-5, 0.05
SHIFT_CLASSES = 2
FRESH_RECORDS = 100_000  # for the logistic regression
_TIGHT_FROM, _TIGHT_TO = 1.0, 4.0
_NEAR_ZERO_FROM = 0.01
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
    """Return the study, in two parts.

    `bounds` is the paper's protocol: one data set and one randomized output for each number of
    classes and epsilon, of which only coins and counterfactuals are drawn again. `shifts` is the
    same with proxies that are wrong by so much. Records shrink with `scale`, repetitions with its
    square root.
    """
    records = max(2_000, round(RECORDS * scale))
    repetitions = max(5, round(REPETITIONS * math.sqrt(scale)))
    cells = [_cell("bounds", classes, records, repetitions) for classes in reversed(CLASSES)]
    cells.append(_cell("shifts", SHIFT_CLASSES, records, repetitions))
    return Study(
        "Randomized response",
        "Randomized response, whose epsilon is known",
        cells,
        compute,
        None,
        lambda found: shown(found.rows, records),
        settings_of(records, repetitions),
    )


def _cell(part: str, classes: int, records: int, repetitions: int) -> Cell:
    shifted = part == "shifts"
    return Cell(
        f"{part}-{classes}-classes",
        {
            "part": part,
            "classes": classes,
            "records": records,
            "repetitions": repetitions,
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
    """Return the bounds of all repetitions: data are drawn once, an output for each epsilon."""
    given = cell.parameters
    part, classes = given["part"], given["classes"]
    stream = ("study randomized-response", part, classes)
    random = generator(SEED, *stream)
    data = draw_classes(given["records"], classes, random)
    played: list[tuple[CellRow, NDArray[np.float64]]]
    if part == "shifts":
        # Figure 4: the proxy says class 1 more often than is true, and the bound allows for it.
        played = [({"shift": shift}, raised(data.posterior, shift)) for shift in (0.0, *SHIFTS)]
    else:
        fresh = draw_classes(min(FRESH_RECORDS, given["records"]), classes, random)
        proxies = (data.posterior, fitted_posterior(fresh, data.features))
        played = [({"proxy": name}, proxy) for name, proxy in zip(PROXIES, proxies, strict=True)]
    rows = []
    for epsilon in given["epsilons"]:
        seen = RandomizedResponse(epsilon, classes).sample(data.labels, random)
        key = stream_key(SEED, *(str(part) for part in (*stream, epsilon)))
        for columns, proxy in played:
            tally = Tally.zero(repetitions=given["repetitions"])
            for start, stop in blocks(len(seen), _CHUNK):
                places = slice(start, stop)
                tally += label_inference(
                    np.eye(classes)[seen[places]],  # the adversary says 1 for the noisy label
                    proxy[places],
                    data.labels[places],
                    score=PaperScore(),
                    repetitions=given["repetitions"],
                    key=key,
                    indices=np.arange(start, stop),
                )
            bounds = _read(tally, given["fractions"], columns.get("shift", 0.0), random)
            about = {"part": part, "classes": classes, "epsilon": epsilon, **columns}
            rows += [{**about, **row} for row in bounds]
    return rows


def _read(
    tally: Tally, fractions: tuple[float, ...], shift: float, random: np.random.Generator
) -> Iterator[CellRow]:
    guesses = np.array([round(fraction * tally.records) for fraction in fractions])
    for repetition, correct in enumerate(tally.most_confident(guesses, random)):
        for fraction, made, right in zip(fractions, guesses, correct, strict=True):
            bound = epsilon_lower(
                *(tally.records, int(made), int(right)),
                family=Gaussian(),
                delta=DELTA,
                significance=SIGNIFICANCE,
                shift=shift,
            )
            yield {"repetition": repetition, "fraction": fraction, "epsilon_lower": bound}


def shown(rows: pl.DataFrame, records: int) -> Shown:
    """Return what there is to show of both parts' bounds, each of this many records."""
    bounds, shifts = (rows.filter(part=part) for part in ("bounds", "shifts"))
    found = summary(bounds, ["classes", "epsilon", "proxy", "fraction"])
    shifted = summary(shifts, ["epsilon", "fraction", "shift"])
    return Shown(
        sentences(records, found["repetitions"][0]),
        [_bounds_table(found), _shifts_table(shifted)],
        ours=beside(found, shifted),
        data={"bounds_summary": found, "shifts_summary": shifted},
        figures={"figures_2_and_3": _bounds_chart(found), "figure_4": _shifts_chart(shifted)},
    )


def summary(bounds: pl.DataFrame, setting: list[str]) -> pl.DataFrame:
    """Return mean and deviation of every setting's bounds."""
    return (
        bounds.group_by(setting, maintain_order=True)
        .agg(
            mean=pl.col("epsilon_lower").mean(),
            deviation=pl.col("epsilon_lower").std(),
            repetitions=pl.len(),
        )
        .sort(setting)
    )


def beside(found: pl.DataFrame, shifts: pl.DataFrame) -> list[Ours]:
    """Return what the paper says of its Figures 2 to 4, which are drawings, beside ours.

    Values are the mean bound over epsilon: 1 is tight, more is overestimated.
    """
    rows = found.filter(pl.col("epsilon") <= _TIGHT_TO)
    rows = rows.sort("fraction", "classes", "epsilon", "proxy")
    places = dict(zip(FRACTIONS, ("Fig 2", "Fig 3"), strict=True))
    about = [
        Ours(
            GAME,
            places[row["fraction"]],
            f"K = {row['classes']}, epsilon "
            + ("below 1" if row["epsilon"] < _TIGHT_FROM else "1 to 4"),
            row["mean"] / row["epsilon"],
            error=row["deviation"] / row["epsilon"],
            of=f"bound over epsilon {row['epsilon']:g}, {row['proxy']}",
        )
        for row in rows.to_dicts()
    ]
    late = shifts.filter(pl.col("shift") >= _NEAR_ZERO_FROM)
    worst = late.sort("mean").group_by("fraction", maintain_order=True).last().sort("fraction")
    return about + [
        Ours(
            *(GAME, "Fig 4", "shifts from 0.01 on", row["mean"]),
            error=row["deviation"],
            of=f"the largest bound, {row['fraction']:.1%} guesses",
        )
        for row in worst.to_dicts()
    ]


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


def _bounds_table(found: pl.DataFrame) -> StudyTable:
    measured: dict[tuple[int, float], dict[str, str]] = {}
    for row in found.to_dicts():
        at = measured.setdefault((row["classes"], row["epsilon"]), {})
        written = f"{row['mean']:.2f} ± {row['deviation']:.2f}"
        at[f"{row['proxy']}, {row['fraction']:.1%}"] = written
    names = [f"{proxy}, {share:.1%}" for share in FRACTIONS for proxy in PROXIES]
    return table_of(
        "Figures 2 and 3: measured epsilon by proxy and share of guesses",
        ({"K": k, "epsilon": f"{e:g}", **row} for (k, e), row in sorted(measured.items())),
        {name: value_of(name) for name in ("K", "epsilon", *names)},
    )


def _shifts_table(found: pl.DataFrame) -> StudyTable:
    wide = found.pivot("shift", index=["epsilon", "fraction"], values="mean")
    names = [name for name in wide.columns if name not in {"epsilon", "fraction"}]
    return table_of(
        "Figure 4: a proxy shifted by so much, measured epsilon",
        wide.sort("epsilon", "fraction").to_dicts(),
        {"epsilon": "{epsilon:g}", "guesses": "{fraction:.1%}"}
        | {f"{float(name):g}": value_of(name, "{:.2f}") for name in names},
    )


def sentences(records: int, repetitions: int) -> list[str]:
    """Return what the study says in words, with its seed and its terms."""
    fitted = min(FRESH_RECORDS, records)
    return paragraphs(f"""
    n = {records:,}, seed {SEED}; as in the paper, one data set and one randomized output for each K
    and epsilon, and {repetitions} repetitions of the game with fresh coins and counterfactuals;
    mean ± standard deviation of bounds at significance {SIGNIFICANCE:g}, Gaussian family, delta
    {DELTA:g}; counterfactuals from the true posterior, or from a logistic regression fitted on
    {fitted:,} fresh records. Repetitions say how much the game's coins matter, and nothing of how
    often a bound is wrong, which takes fresh data each time.

    Classes are normal around unit vectors in 5 dimensions, in 10 for K = 10: five dimensions hold
    no ten unit vectors, whatever the paper says.

    Shifted proxies: K = {SHIFT_CLASSES}, counterfactuals are 1 with min(p + shift, 1), and the
    bound allows for the shift. How fast it falls depends on the fraction of guesses, which the
    paper does not name.
    """)


def _bounds_chart(found: pl.DataFrame) -> Any:
    series, truth = "{proxy}, {fraction:.1%} guesses", "the true one"
    measured = [f"{proxy}, {share:.1%} guesses" for share in FRACTIONS for proxy in PROXIES]
    return chart(
        points_of(
            found.to_dicts(),
            "epsilon",
            {"mean": series, "epsilon": truth},
            error={"mean": "deviation"},
            panel="{classes} classes",
        ),
        "Figure 2 (0.1% guesses) and Figure 3 (1%): measured epsilon ± deviation",
        x=Axis("epsilon of randomized response"),
        y=Axis("epsilon measured"),
        colors=colored((*measured, truth), "red orange blue green grey"),
        size=(200, 200),
    )


def _shifts_chart(shifts: pl.DataFrame) -> Any:
    found = shifts.filter(pl.col("shift") > 0.0, fraction=0.01)
    names = [f"epsilon {epsilon:g}" for epsilon in found["epsilon"].unique().sort()]
    return chart(
        points_of(
            found.to_dicts(), "shift", {"mean": "epsilon {epsilon:g}"}, error={"mean": "deviation"}
        ),
        "Figure 4: a proxy that overestimates class 1 by so much, allowed for",
        x=Axis("proxy overestimated by (total variation)", powers=range(-6, 0)),
        y=Axis("epsilon measured, 1% guesses"),
        colors=colored(names, "red blue green"),
    )
