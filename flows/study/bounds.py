"""`privaudit study bounds`: three papers' figures and printed numbers on what a guarantee promises.

Nothing is random and no clock is read: the same version writes the same files.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import polars as pl

from flows.study.bounds_charts import charts
from flows.study.cells import Cell, CellRow, Computed
from flows.study.runner import Shown, Study
from privcore.upper_bounds import (
    LeakageCurve,
    advantage_curves,
    leakage_curves,
    noise_needed,
    published_leakage,
    published_noise,
    published_success,
    steps_curves,
    success_curves,
)
from privcore.upper_bounds.leakage_figures import (
    DENSE_LEAST_ORDER,
    DENSE_SAMPLING_RATE,
    DENSE_STEPS,
    SAMPLING_RATE,
    STEPS,
)

CHOICES = (2, 3, 4, 5, 6, 8, 10, 14, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1_000, 3_000, 10_000)
SECRET_BITS = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 64.0)
FIGURE_1_NOISE = (0.4, 0.5, 0.6, 0.8)
FIGURE_2_NOISE = (0.3, 0.4, 0.5, 1.0)
FIGURE_6_NOISE = (1.0, 2.0, 4.0, 8.0)
FIGURE_7_NOISE = (0.3, 0.32, 0.34, 0.36, 0.38, 0.42, 0.47, 1.0)
FIGURE_7_BITS = (1.0, 5.0, 10.0, 20.0, 40.0)
RECORDS = (36, 40, 44, 48)
ETAS = tuple(float(eta) for eta in np.geomspace(0.001, 0.49, 40))


def study() -> Study:
    """Return the study: a cell for each figure, and for each run of training of the slow ones."""
    settings: list[tuple[str, tuple[float, ...]]] = [
        ("success", CHOICES),
        ("advantage", ()),
        ("noise", (*RECORDS, *ETAS)),
        ("steps", FIGURE_2_NOISE),
        *(("dense", (noise, *SECRET_BITS)) for noise in FIGURE_6_NOISE),
        *(
            ("leakage", (noise, *SECRET_BITS))
            for noise in sorted({*FIGURE_1_NOISE, *FIGURE_7_NOISE})
        ),
    ]
    cells = [
        Cell(
            f"{part}-{setting[0]:g}" if part in {"dense", "leakage"} else part,
            {"part": part, "setting": setting},
        )
        for part, setting in settings
    ]
    title = "What a guarantee promises, in three papers' figures"
    return Study("Bounds", title, cells, compute, None, shown)


def compute(_: None, cell: Cell) -> list[CellRow]:
    """Return the rows of one figure, or of one run of training."""
    part, setting = cell.parameters["part"], cell.parameters["setting"]
    return [{"part": part, **row} for row in _PARTS[part](setting)]


def _success(choices: tuple[int, ...]) -> Iterable[CellRow]:
    """Figure 1 of "Beyond the Worst Case": a row per bound, epsilon, delta and prior."""
    for curve in success_curves(choices=choices):
        named = {"bound": curve.bound, "epsilon": curve.epsilon, "delta": curve.delta}
        for prior, success in zip(curve.priors, curve.success, strict=True):
            yield {**named, "prior": float(prior), "success": float(success)}


def _advantage(_: tuple[float, ...]) -> Iterable[CellRow]:
    """Figure 2 of "Beyond the Worst Case": a row per secret and epsilon."""
    for curve in advantage_curves():
        named = {"secrets": curve.secrets, "rank": curve.rank, "prior": float(curve.prior)}
        named["epsilon_protect"] = float(curve.epsilon_protect)
        for epsilon, advantage in zip(curve.epsilons, curve.advantage, strict=True):
            yield {**named, "epsilon": float(epsilon), "advantage": float(advantage)}


def _noise(_: tuple[float, ...]) -> Iterable[CellRow]:
    """Figure 1 of Izzo et al.: a row per number of records and eta."""
    for records in RECORDS:
        for eta in ETAS:
            yield dataclasses.asdict(noise_needed(records, eta=eta))


def _steps(noises: tuple[float, ...]) -> Iterable[CellRow]:
    """Figure 2 of Stock et al. 2022: a row per noise multiplier and number of steps."""
    for curve in steps_curves(noise_multipliers=noises):
        for steps, leaked, direct in zip(curve.steps, curve.leaked, curve.direct, strict=True):
            yield {
                "steps": int(steps),
                "noise_multiplier": curve.noise_multiplier,
                "secret_bits": curve.secret_bits,
                "leaked": float(leaked),
                "direct": float(direct),
            }


def _leakage(setting: tuple[float, ...], **training: Any) -> Iterable[CellRow]:
    """Figures 1 and 7 of Stock et al. 2022: a row per secret, for one noise multiplier."""
    noise, *secret_bits = setting
    for curve in leakage_curves(
        secret_bits=tuple(secret_bits), noise_multipliers=(noise,), **training
    ):
        for at, bits in enumerate(curve.secret_bits):
            yield {
                "secret_bits": float(bits),
                "noise_multiplier": curve.noise_multiplier,
                "epsilon": float(curve.epsilon),
                "leaked": float(curve.leaked[at]),
                "direct": float(curve.direct[at]),
                "improved_conversion": float(curve.improved_conversion[at]),
            }


def _dense(setting: tuple[float, ...]) -> Iterable[CellRow]:
    """Figure 6 of Stock et al. 2022."""
    return _leakage(
        setting,
        sampling_rate=DENSE_SAMPLING_RATE,
        steps=DENSE_STEPS,
        least_order=DENSE_LEAST_ORDER,
    )


_PARTS: dict[str, Callable[[Any], Iterable[CellRow]]] = {
    "success": _success,
    "advantage": _advantage,
    "noise": _noise,
    "steps": _steps,
    "dense": _dense,
    "leakage": _leakage,
}


def shown(found: Computed) -> Shown:
    """Return what there is to show of all figures."""
    leakage = found.part("leakage")
    data = {
        "success": found.part("success"),
        "advantage": found.part("advantage"),
        "leakage_by_bits": leakage.filter(pl.col("noise_multiplier").is_in(FIGURE_1_NOISE)),
        "leakage_by_steps": found.part("steps"),
        "leakage_by_bits_dense": found.part("dense"),
        "leakage_by_epsilon": leakage.filter(pl.col("secret_bits").is_in(FIGURE_7_BITS)),
        "noise": found.part("noise"),
    }
    said = (
        "Every figure is computed and nothing is drawn at random, so each printed value is judged. "
        "Diamonds in the drawings are what the papers print."
    )
    printed = (*published_success(), *published_leakage(_curves(leakage)), *published_noise())
    return Shown([said], published=printed, data=data, figures=charts(data))


def _curves(leakage: pl.DataFrame) -> list[LeakageCurve]:
    """Return the rows as curves, which `published_leakage` takes."""
    curves = []
    keys = ("noise_multiplier", "epsilon")
    for (noise, epsilon), rows in leakage.group_by(keys, maintain_order=True):
        names = ("secret_bits", "leaked", "direct", "improved_conversion")
        arrays = {name: rows[name].to_numpy() for name in names}
        curves.append(LeakageCurve(float(noise), SAMPLING_RATE, STEPS, float(epsilon), **arrays))
    return curves
