"""`privaudit study randomized-response`: section 6.6 and appendix C of the game's paper.

"Observational Auditing of Label Privacy" (arXiv:2511.14084). The adversary sees every record's
noisy label, so randomized response's own epsilon is what an audit could find at most.
"""

import math
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.study.cells import Cell, Row, blocks, check_scale, compute_cells, make_folder
from flows.study.gaussian_classes import draw_classes, fitted_posterior, shifted
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
from workers.executors import Executor

CLASSES = (2, 5, 10)
EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
FRACTIONS = (0.001, 0.01)
SHIFT_EPSILONS = (0.5, 2.0, 4.0)
SHIFTS = tuple(10.0**power for power in range(-6, 0))
SHIFT_CLASSES = 10
RECORDS, REPETITIONS, SHIFT_REPETITIONS = 1_000_000, 100, 20
FRESH_RECORDS = 100_000  # for the logistic regression
DELTA, SIGNIFICANCE = 1e-5, 0.05
SEED = 66
_BLOCK = 5
_CHUNK = 8_192  # records at a time, whose arrays stay in the processor's cache
_FAMILIES = (Gaussian(), PureDP())


@dataclass(frozen=True, slots=True)
class Findings:
    """All bounds, one row each; and how they were had."""

    bounds: pl.DataFrame
    shifts: pl.DataFrame
    records: int
    repetitions: int
    resumed: list[str]


def study_randomized_response(
    output: pathlib.Path, *, scale: float, executor: Executor
) -> Findings:
    """Compute, or read where they were computed before, all bounds of both parts.

    Records shrink with `scale`, repetitions with its square root. Every repetition draws features,
    labels, noise, coins and counterfactuals anew.

    Raises:
        InvalidInputError: a scale out of its range, or a folder that cannot be made.
    """
    check_scale(scale)
    make_folder(output)
    records = max(2_000, round(RECORDS * scale))
    repetitions = max(5, round(REPETITIONS * math.sqrt(scale)))
    fewer = max(5, round(SHIFT_REPETITIONS * math.sqrt(scale)))
    cells = [
        _cell("bounds", classes, records, block)
        for classes in CLASSES
        for block in blocks(repetitions, _BLOCK)
    ]
    cells += [_cell("shifts", SHIFT_CLASSES, records, block) for block in blocks(fewer, _BLOCK)]
    found = compute_cells(
        cells,
        compute,
        None,
        output=output,
        executor=executor,
        title="Randomized response",
    )
    first, second = (found.rows.filter(pl.col("part") == part) for part in ("bounds", "shifts"))
    return Findings(first, second, records, repetitions, found.resumed)


def _cell(part: str, classes: int, records: int, block: tuple[int, int]) -> Cell:
    name = f"{part}-{classes}-classes-{block[0]:03}"
    return Cell(
        name,
        {
            "part": part,
            "classes": classes,
            "records": records,
            "block": block,
            "seed": SEED,
            "epsilons": EPSILONS if part == "bounds" else SHIFT_EPSILONS,
            "shifts": () if part == "bounds" else SHIFTS,
            "fractions": FRACTIONS,
            "fresh_records": FRESH_RECORDS,
            "delta": DELTA,
            "significance": SIGNIFICANCE,
        },
    )


def compute(_: None, cell: Cell) -> list[Row]:
    """Return the bounds of some repetitions."""
    given = cell.parameters
    play = _bounds if given["part"] == "bounds" else _shifts
    return [
        {"part": given["part"], "classes": given["classes"], "repetition": repetition, **row}
        for repetition in range(*given["block"])
        for row in play(given["classes"], given["records"], repetition)
    ]


def _bounds(classes: int, records: int, repetition: int) -> Iterator[Row]:
    stream = ("study randomized-response", "bounds", classes, repetition)
    random = generator(SEED, *stream)
    data = draw_classes(records, classes, random)
    fresh = draw_classes(min(FRESH_RECORDS, records), classes, random)
    proxies = {"posterior": data.posterior, "logistic": fitted_posterior(fresh, data.features)}
    for epsilon in EPSILONS:
        mechanism = RandomizedResponse(epsilon, classes)
        seen = mechanism.sample(data.labels, random)
        for proxy_name, proxy in proxies.items():
            for score in (PaperScore(), LogRatioScore()):
                tally = _play(mechanism, seen, proxy, data.labels, score, (*stream, epsilon))
                for row in _read(tally, shift=0.0, random=random):
                    yield {"epsilon": epsilon, "proxy": proxy_name, "score": score.name, **row}


def _shifts(classes: int, records: int, repetition: int) -> Iterator[Row]:
    stream = ("study randomized-response", "shifts", classes, repetition)
    random = generator(SEED, *stream)
    data = draw_classes(records, classes, random)
    for epsilon in SHIFT_EPSILONS:
        mechanism = RandomizedResponse(epsilon, classes)
        seen = mechanism.sample(data.labels, random)
        for shift in (0.0, *SHIFTS):
            proxy = shifted(data.posterior, shift)
            tally = _play(mechanism, seen, proxy, data.labels, PaperScore(), (*stream, epsilon))
            for row in _read(tally, shift=shift, random=random):
                yield {"epsilon": epsilon, "shift": shift, **row}


def _play(
    mechanism: RandomizedResponse,
    seen: NDArray[np.int64],
    proxy: NDArray[np.float64],
    labels: NDArray[np.int64],
    score: Score,
    stream: tuple[Any, ...],
) -> Tally:
    """One game. The paper's adversary says 1 for the noisy label; the log-ratio's, its posterior.

    A ratio of logarithms needs probabilities: of 0 and 1 alone it would be sure of every label
    that differs from the noisy one.
    """
    key = stream_key(SEED, *(str(part) for part in stream))
    tally = Tally.zero(repetitions=1)
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
            repetitions=1,
            key=key,
            indices=np.arange(start, stop),
        )
    return tally


def _read(tally: Tally, *, shift: float, random: np.random.Generator) -> Iterator[Row]:
    guesses = np.array([round(fraction * tally.records) for fraction in FRACTIONS])
    correct = tally.most_confident(guesses, random)[0]
    for fraction, made, right in zip(FRACTIONS, guesses, correct, strict=True):
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
                "fraction": fraction,
                "family": family.name,
                "guesses": int(made),
                "correct": int(right),
                "epsilon_lower": bound,
            }
