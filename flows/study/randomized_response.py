"""`privaudit study randomized-response`: section 6.6 and appendix C of the game's paper.

"Observational Auditing of Privacy" (arXiv:2511.14084), Figures 2 to 4. The adversary sees every
record's noisy label, so randomized response's own epsilon is what an audit could find at most. The
paper keeps one data set and one randomized output and repeats the game; that says how much the
game's coins matter, and nothing of how often a bound is wrong, which takes fresh data each time.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.study.cells import Cell, CellRow, blocks, check_scale
from flows.study.gaussian_classes import draw_classes, fitted_posterior, raised
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


def study(*, scale: float) -> Study:
    """Return the study, in three parts.

    `bounds` is the paper's protocol: one data set and one randomized output for each number of
    classes and epsilon, of which only coins and counterfactuals are drawn again. `fresh` draws
    features, labels and noise anew in every repetition, too. `shifts` is the paper's protocol with
    proxies that are wrong by so much. Records shrink with `scale`, repetitions with its square
    root.
    """
    check_scale(scale)
    records = max(2_000, round(RECORDS * scale))
    repetitions = max(5, round(REPETITIONS * math.sqrt(scale)))
    fresh = max(5, round(FRESH_REPETITIONS * math.sqrt(scale)))
    # What is compared with the paper first, for a reader who looks in before all is done.
    cells = [
        _cell("bounds", classes, records, (0, repetitions), epsilons=EPSILONS)
        for classes in reversed(CLASSES)
    ]
    cells.append(_cell("shifts", SHIFT_CLASSES, records, (0, repetitions), epsilons=SHIFT_EPSILONS))
    cells += [
        _cell("fresh", classes, records, block, epsilons=EPSILONS)
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


def _cell(
    part: str, classes: int, records: int, block: tuple[int, int], *, epsilons: tuple[float, ...]
) -> Cell:
    name = f"{part}-{classes}-classes-{block[0]:03}"
    shifted = part == "shifts"
    return Cell(
        name,
        {
            "part": part,
            "classes": classes,
            "records": records,
            "block": block,
            "seed": SEED,
            "epsilons": epsilons,
            "shifts": SHIFTS if shifted else (),
            "fractions": SHIFT_FRACTIONS if shifted else FRACTIONS,
            "fresh_records": FRESH_RECORDS,
            "delta": DELTA,
            "significance": SIGNIFICANCE,
        },
    )


def compute(_: None, cell: Cell) -> list[CellRow]:
    """Return the bounds of some repetitions."""
    given = cell.parameters
    part, classes, records = given["part"], given["classes"], given["records"]
    found = _PARTS[part](classes, records, *given["block"])
    return [{"part": part, "classes": classes, **row} for row in found]


def _bounds(classes: int, records: int, first: int, last: int) -> Iterator[CellRow]:
    """One data set, one output for each epsilon; the game is repeated."""
    stream = ("study randomized-response", "bounds", classes)
    yield from _all_epsilons(classes, records, stream, repetitions=last - first, offset=first)


def _fresh(classes: int, records: int, first: int, last: int) -> Iterator[CellRow]:
    """All anew in every repetition."""
    for repetition in range(first, last):
        stream = ("study randomized-response", "fresh", classes, repetition)
        yield from _all_epsilons(classes, records, stream, repetitions=1, offset=repetition)


def _all_epsilons(
    classes: int, records: int, stream: tuple[Any, ...], *, repetitions: int, offset: int
) -> Iterator[CellRow]:
    random = generator(SEED, *stream)
    data = draw_classes(records, classes, random)
    fresh = draw_classes(min(FRESH_RECORDS, records), classes, random)
    proxies = {"posterior": data.posterior, "logistic": fitted_posterior(fresh, data.features)}
    for epsilon in EPSILONS:
        mechanism = RandomizedResponse(epsilon, classes)
        seen = mechanism.sample(data.labels, random)
        for proxy_name, proxy in proxies.items():
            for score in (PaperScore(), LogRatioScore()):
                tally = _play(
                    mechanism,
                    seen,
                    proxy,
                    data.labels,
                    score,
                    (*stream, epsilon),
                    repetitions=repetitions,
                )
                for row in _read(tally, FRACTIONS, shift=0.0, random=random, offset=offset):
                    yield {"epsilon": epsilon, "proxy": proxy_name, "score": score.name, **row}


def _shifts(classes: int, records: int, first: int, last: int) -> Iterator[CellRow]:
    """Figure 4: the proxy says class 1 more often than is true, and the bound allows for it."""
    stream = ("study randomized-response", "shifts", classes)
    random = generator(SEED, *stream)
    data = draw_classes(records, classes, random)
    for epsilon in SHIFT_EPSILONS:
        mechanism = RandomizedResponse(epsilon, classes)
        seen = mechanism.sample(data.labels, random)
        for shift in (0.0, *SHIFTS):
            tally = _play(
                mechanism,
                seen,
                raised(data.posterior, shift),
                data.labels,
                PaperScore(),
                (*stream, epsilon),
                repetitions=last - first,
            )
            for row in _read(tally, SHIFT_FRACTIONS, shift=shift, random=random, offset=first):
                yield {"epsilon": epsilon, "shift": shift, **row}


_PARTS = {"bounds": _bounds, "fresh": _fresh, "shifts": _shifts}


def _play(
    mechanism: RandomizedResponse,
    seen: NDArray[np.int64],
    proxy: NDArray[np.float64],
    labels: NDArray[np.int64],
    score: Score,
    stream: tuple[Any, ...],
    *,
    repetitions: int,
) -> Tally:
    """The game on one output.

    The paper's adversary says 1 for the noisy label; the log-ratio's, its posterior.
    A ratio of logarithms needs probabilities: of 0 and 1 alone it would be sure of every label
    that differs from the noisy one.
    """
    key = stream_key(SEED, *(str(part) for part in stream))
    tally = Tally.zero(repetitions=repetitions)
    for start, stop in blocks(len(labels), _CHUNK):
        part = slice(start, stop)
        if isinstance(score, LogRatioScore):
            joint = proxy[part] * mechanism.distribution()[:, seen[part]].T
            target = joint / joint.sum(axis=1, keepdims=True)
        else:
            target = np.eye(mechanism.classes)[seen[part]]
        tally += label_inference(
            target,
            proxy[part],
            labels[part],
            score=score,
            repetitions=repetitions,
            key=key,
            indices=np.arange(start, stop),
        )
    return tally


def _read(
    tally: Tally,
    fractions: tuple[float, ...],
    *,
    shift: float,
    random: np.random.Generator,
    offset: int,
) -> Iterator[CellRow]:
    guesses = np.array([round(fraction * tally.records) for fraction in fractions])
    for repetition, correct in enumerate(tally.most_confident(guesses, random), offset):
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
