"""`privaudit study bounds`: three papers' figures and printed numbers on what a guarantee promises.

Nothing is random and no clock is read: the same version writes the same files.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from flows.study.runner import Cell, Computed, Shown, Study
from flows.study.tables import Axis, CellRow, chart, colored, points_of, printed_at
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
from privcore.upper_bounds.published import (
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
_SMALL = (210, 170)
_BOUNDS = {
    "any_attack": "any attack (this paper)",
    "tradeoff": "f-DP, uniform secrets",
    "renyi": "Renyi",
    "reconstruction_robustness": "reconstruction robustness",
    "narcissus": "Narcissus",
}
_LEAKAGE = {
    "leaked": "Renyi bound",
    "direct": "usual conversion",
    "improved_conversion": "improved conversion (no bound)",
}
# "Beyond the Worst Case", Figure 2: the advantage of the most probable secret.
_ADVANTAGES = [
    printed_at(17.8, 0.05, "most", "uniform"),
    printed_at(0.25, 0.05, "most", "Zipf 1.1"),
    printed_at(1.0, 0.24, "most", "Zipf 1.1"),
]
# Stock et al. 2022, Figure 7: the epsilon at which secrets of so many bits leak completely.
_WHOLE = [printed_at(10.0, 1.0, "1 bits"), printed_at(50.0, 1.0, "20 bits")]


def study() -> Study:
    """Return the study: a cell for each figure, and for each run of training of the slow ones."""
    whole = {
        "success": CHOICES,
        "advantage": (),
        "noise": (*RECORDS, *ETAS),
        "steps": FIGURE_2_NOISE,
    }
    by_noise = {"dense": FIGURE_6_NOISE, "leakage": sorted({*FIGURE_1_NOISE, *FIGURE_7_NOISE})}
    cells = [Cell(part, {"part": part, "setting": setting}) for part, setting in whole.items()]
    cells += [
        Cell(f"{part}-{noise:g}", {"part": part, "setting": (noise, *SECRET_BITS)})
        for part, noises in by_noise.items()
        for noise in noises
    ]
    title = "What a guarantee promises, in three papers' figures"
    return Study("Bounds", title, cells, compute, None, shown)


def compute(_: None, cell: Cell) -> list[CellRow]:
    """Return the rows of one figure, or of one run of training."""
    part, setting = cell.parameters["part"], cell.parameters["setting"]
    return [{"part": part, **row} for row in _PARTS[part](setting)]


def _rows(curves: Sequence[Any], *names: str, **renamed: str) -> list[CellRow]:
    """Return a row for each value of the curves' arrays; some of their fields under other names."""
    fields = {name: name for name in names} | renamed
    return pl.concat(
        pl.DataFrame({name: getattr(curve, field) for name, field in fields.items()})
        for curve in curves
    ).to_dicts()


def _success(choices: tuple[int, ...]) -> list[CellRow]:
    """Figure 1 of "Beyond the Worst Case": a row per bound, epsilon, delta and prior."""
    curves = success_curves(choices=choices)
    return _rows(curves, "bound", "epsilon", "delta", prior="priors", success="success")


def _advantage(_: tuple[float, ...]) -> list[CellRow]:
    """Figure 2 of "Beyond the Worst Case": a row per secret and epsilon."""
    names = ("secrets", "rank", "prior", "epsilon_protect")
    return _rows(advantage_curves(), *names, epsilon="epsilons", advantage="advantage")


def _noise(_: tuple[float, ...]) -> list[CellRow]:
    """Figure 1 of Izzo et al.: a row per number of records and eta."""
    return [
        dataclasses.asdict(noise_needed(records, eta=eta)) for records in RECORDS for eta in ETAS
    ]


def _steps(noises: tuple[float, ...]) -> list[CellRow]:
    """Figure 2 of Stock et al. 2022: a row per noise multiplier and number of steps."""
    names = ("steps", "noise_multiplier", "secret_bits", "leaked", "direct")
    rows = _rows(steps_curves(noise_multipliers=noises), *names)
    return [{**row, "steps": int(row["steps"])} for row in rows]


def _leakage(setting: tuple[float, ...], **training: Any) -> list[CellRow]:
    """Figures 1 and 7 of Stock et al. 2022: a row per secret, for one noise multiplier."""
    noise, *bits = setting
    curves = leakage_curves(secret_bits=tuple(bits), noise_multipliers=(noise,), **training)
    return _rows(curves, "secret_bits", "noise_multiplier", "epsilon", *_LEAKAGE)


_PARTS: dict[str, Callable[[Any], list[CellRow]]] = {
    "success": _success,
    "advantage": _advantage,
    "noise": _noise,
    "steps": _steps,
    "dense": functools.partial(  # Figure 6
        _leakage,
        sampling_rate=DENSE_SAMPLING_RATE,
        steps=DENSE_STEPS,
        least_order=DENSE_LEAST_ORDER,
    ),
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
    return Shown([said], published=printed, data=data, figures=_charts(data))


def _curves(leakage: pl.DataFrame) -> list[LeakageCurve]:
    keys = ("noise_multiplier", "epsilon")
    return [
        LeakageCurve(
            *(float(noise), SAMPLING_RATE, STEPS, float(epsilon)),
            *(rows[name].to_numpy() for name in ("secret_bits", *_LEAKAGE)),
        )
        for (noise, epsilon), rows in leakage.group_by(keys, maintain_order=True)
    ]


def _charts(data: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    dense = "Leaked bits under DP-SGD, sampling rate 20%, 500 steps, delta 3e-7"
    usual = "Leaked bits of a secret under DP-SGD, delta 3e-7"
    success = data["success"].with_columns(pl.col("bound").replace_strict(_BOUNDS))
    return {
        "success": chart(
            points_of(
                success.to_dicts(), "prior", {"success": "{bound}"},
                panel="epsilon {epsilon:g}, delta {delta:g}",
            ),
            "Success of any attack against the prior",
            x=Axis("prior", powers=range(-4, 1)),
            y=Axis("success of one guess, at most"),
            colors=colored(_BOUNDS.values(), "red blue green orange grey"),
            size=_SMALL,
            marks="dashed",
        ),
        "advantage": _advantage_chart(data["advantage"]),
        "leakage_by_bits": _by_bits(data["leakage_by_bits"], usual),
        "leakage_by_steps": _by_steps(data["leakage_by_steps"]),
        "leakage_by_bits_dense": _by_bits(data["leakage_by_bits_dense"], dense),
        "leakage_by_epsilon": _by_epsilon(data["leakage_by_epsilon"]),
        "noise": _noise_chart(data["noise"]),
    }  # fmt: skip


def _by_bits(data: pl.DataFrame, title: str) -> Any:
    panel = "noise {noise_multiplier:g}, epsilon {epsilon:.2f}"
    return chart(
        points_of(data.to_dicts(), "secret_bits", _LEAKAGE, panel=panel),
        title,
        x=Axis("bits of the secret"),
        y=Axis("bits leaked, at most"),
        colors=colored(_LEAKAGE.values(), "red blue grey"),
        size=_SMALL,
        marks="dashed",
    )


def _by_epsilon(data: pl.DataFrame) -> Any:
    shares = data.with_columns(share=pl.col("leaked") / pl.col("secret_bits")).to_dicts()
    lengths = [f"{bits:g} bits" for bits in data["secret_bits"].unique().sort()]
    return chart(
        points_of(shares, "epsilon", {"share": "{secret_bits:g} bits"}) + _WHOLE,
        "Short secrets leak whole at a smaller epsilon than long ones",
        x=Axis("epsilon", powers=range(-1, 3)),
        y=Axis("share of the secret leaked, at most"),
        colors=colored(lengths, "red orange green blue grey"),
    )


def _advantage_chart(data: pl.DataFrame) -> Any:
    points = points_of(data.to_dicts(), "epsilon", {"advantage": "{rank}"}, panel="{secrets}")
    return chart(
        points + _ADVANTAGES,
        "Advantage of any attack on the least, median and most probable secret",
        x=Axis("epsilon, delta 1e-5"),
        y=Axis("advantage, at most"),
        colors={"most": "red", "median": "blue", "least": "grey"},
        size=(150, 170),
        marks="dashed",
    )


def _by_steps(data: pl.DataFrame) -> Any:
    noises = [f"noise {noise:g}" for noise in data["noise_multiplier"].unique().sort()]
    return chart(
        points_of(data.to_dicts(), "steps", {"leaked": "noise {noise_multiplier:g}"}),
        "A secret of 60 bits leaks with the steps of DP-SGD",
        x=Axis("training steps"),
        y=Axis("bits leaked, at most, of 60"),
        colors=colored(noises, "red orange blue grey"),
    )


def _noise_chart(data: pl.DataFrame) -> Any:
    records = data["records"].unique().sort().to_list()
    rip = "RIP, any n"
    # Sigma is 1 to ten digits for each of these n, so one line stands for all.
    alike = points_of(data.filter(records=records[0]).to_dicts(), "eta", {"rip_scale": rip})
    return chart(
        points_of(data.to_dicts(), "eta", {"dp_scale": "DP, n = {records}"}) + alike,
        "Noise for re-identification privacy and for differential privacy",
        x=Axis("eta, what a guess gains at most", powers=range(-3, 1)),
        y=Axis("scale of the noise that is needed", powers=range(2, 10)),
        colors=colored(
            (rip, *(f"DP, n = {count}" for count in records)), "red blue green orange grey"
        ),
        marks="dashed",
    )
