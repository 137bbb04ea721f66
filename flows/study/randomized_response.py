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
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from flows.study.cells import Cell, CellRow, blocks
from flows.study.randomized_response_shown import (
    DELTA,
    FRESH_RECORDS,
    SEED,
    SHIFT_CLASSES,
    SIGNIFICANCE,
    shown,
)
from flows.study.runner import Study
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

CLASSES = (2, 5, 10)
EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
FRACTIONS = (0.001, 0.01)
SHIFT_EPSILONS = (0.5, 2.0, 4.0)
SHIFTS = tuple(10.0**power for power in range(-6, 0))
SHIFT_FRACTIONS = (0.001, 0.01, 0.1)
RECORDS, REPETITIONS, FRESH_REPETITIONS = 1_000_000, 100, 30
_BLOCK = 5
_CHUNK = 8_192  # records at a time, whose arrays stay in the processor's cache
_FAMILIES = (Gaussian(), PureDP())


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
            for family in _FAMILIES:
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
