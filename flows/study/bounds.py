"""`privaudit study bounds`: three papers' figures and printed numbers on what a guarantee promises.

Nothing is random and no clock is read: the same version writes the same files.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from flows.study.printed import REIDENTIFICATION, RENYI, WORST_CASE, Ours, printed_values
from flows.study.runner import Cell, Computed, Shown, Study
from flows.study.tables import Axis, CellRow, chart, colored, points_of, printed_at
from privcore.upper_bounds import (
    advantage_curves,
    epsilon_protect,
    generalised_advantage,
    leakage_curves,
    noise_needed,
    reciprocal_sum_deviation,
    steps_curves,
    success_bound,
    success_curves,
)
from privcore.upper_bounds.published import (
    ADVANTAGE,
    DENSE_LEAST_ORDER,
    DENSE_SAMPLING_RATE,
    DENSE_STEPS,
    secret_priors,
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
_DELTA = 1e-5
NAME_PRIOR = 0.005445
"""A prior that gives both numbers that are printed of the most probable name.

It is not printed. 2.37 leaves 0.00540 to 0.00546 open, 0.45 leaves 0.00544 and more.
"""
_NEEDS_NAMES = "the names' priors need GPT-2 and the Enron e-mails"
_FITTED = f"for the prior {NAME_PRIOR:.4f}, which gives both numbers printed of it"
_EXPONENT = "Zipf's law with 1.2 over the same 10^9 secrets gives {other}, as printed"


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


def _advantages(_: tuple[float, ...]) -> list[CellRow]:
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
    "advantage": _advantages,
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
    ours = [*_of_success(), *_of_leakage(leakage), *_of_noise()]
    return Shown([said], ours=ours, data=data, figures=_charts(data))


def _of_success() -> list[Ours]:
    """Return what "Beyond the Worst Case" prints of its bounds."""
    priors = secret_priors()
    uniform, stated, other = (
        priors[secrets, "most"] for secrets in ("uniform", "Zipf 1.1", "Zipf 1.2")
    )
    ordinary = max(
        _advantage(priors[secrets, rank], 1.0)
        for secrets in ("Zipf 1.1", "Zipf 1.2")
        for rank in ("least", "median")
    )
    protects, gains = "epsilon that protects", "advantage on"
    rows = (
        ("Section 3.2", "success on 9 uniform digits at epsilon 17",
         float(success_bound(uniform, epsilon=17.0)), ".3f", ""),
        ("Fig 2b", f"{protects} 9 uniform digits", _protect(uniform), ".1f", ""),
        ("Fig 2b", f"{protects} the most probable password", _protect(stated), ".2f",
         _EXPONENT.format(other=f"{_protect(other):.3f}")),
        ("Fig 2b", f"{protects} the most probable name", _protect(NAME_PRIOR), ".2f", _FITTED),
        ("Fig 2a", f"{gains} the most probable password, epsilon 1", _advantage(stated, 1.0), ".2f",
         _EXPONENT.format(other=f"{_advantage(other, 1.0):.3f}")),
        ("Fig 2a", f"{gains} the least and median password, epsilon 1", ordinary, ".1g", ""),
        ("Fig 2a", f"{gains} the most probable name, epsilon 5", _advantage(NAME_PRIOR, 5.0), ".2f",
         _FITTED),
        ("Fig 2a", f"{gains} the least and median name, epsilon 5", None, "", _NEEDS_NAMES),
        ("Fig 2a", f"{gains} a uniform canary, epsilon 10", _advantage(uniform, 10.0), ".1g", ""),
        ("Fig 2a", f"{gains} the most probable password and name, epsilon 10",
         min(_advantage(prior, 10.0) for prior in (stated, NAME_PRIOR)), ".2f", ""),
    )  # fmt: skip
    return [
        Ours(WORST_CASE, place, quantity, value, form=form, remark=remark, exact=True)
        for place, quantity, value, form, remark in rows
    ]


def _of_noise() -> list[Ours]:
    """Return what Izzo et al. say in words of Proposition 9 and of Figure 1."""
    drawn, large = noise_needed(36, eta=0.01), noise_needed(48, eta=0.01)
    rows = (
        ("Proposition 9", "standard deviation at n = 36", float(reciprocal_sum_deviation(36))),
        ("Proposition 9", "sensitivity at n = 36", drawn.sensitivity),
        ("Fig 1", "DP's noise over RIP's at n = 36 and eta = 0.01",
         drawn.dp_scale / drawn.rip_scale),
        ("Fig 1", "DP's noise over RIP's at n = 48 and eta = 0.01",
         large.dp_scale / large.rip_scale),
    )  # fmt: skip
    return [Ours(REIDENTIFICATION, *row, form=",.4g", exact=True) for row in rows]


def _of_leakage(leakage: pl.DataFrame) -> list[Ours]:
    """Return from which epsilon on 99% of a secret may leak, linear between the runs."""
    found = []
    for bits in (1.0, 20.0):
        rows = leakage.filter(secret_bits=bits).sort("epsilon")
        shares = rows["leaked"].to_numpy() / bits
        whole = float(np.interp(0.99, shares, rows["epsilon"].to_numpy()))
        quantity = f"epsilon at which secrets of {bits:g} bit{'s' * (bits > 1)} leak completely"
        found.append(Ours(RENYI, "Fig 7", quantity, whole, form=".1f", exact=True))
    return found


def _protect(prior: float) -> float:
    return float(epsilon_protect(prior, advantage=ADVANTAGE))


def _advantage(prior: float, epsilon: float) -> float:
    success = success_bound(prior, epsilon=epsilon, delta=_DELTA)
    return float(generalised_advantage(prior, success))


def _charts(data: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    dense = (
        "Figure 6 (Renyi DP): leaked bits under DP-SGD, sampling rate 20%, 500 steps, delta 3e-7"
    )
    usual = "Figure 1 (Renyi DP): leaked bits of a secret under DP-SGD, delta 3e-7"
    success = data["success"].with_columns(pl.col("bound").replace_strict(_BOUNDS))
    return {
        "success": chart(
            points_of(
                success.to_dicts(), "prior", {"success": "{bound}"},
                panel="epsilon {epsilon:g}, delta {delta:g}",
            ),
            "Figure 1 (Beyond the Worst Case): success of any attack against the prior",
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
        [
            *points_of(shares, "epsilon", {"share": "{secret_bits:g} bits"}),
            printed_at(10.0, 1.0, "1 bits"),  # "below 10" and "around 50"
            printed_at(50.0, 1.0, "20 bits"),
        ],
        "Figure 7 (Renyi DP): short secrets leak whole at a smaller epsilon",
        x=Axis("epsilon", powers=range(-1, 3)),
        y=Axis("share of the secret leaked, at most"),
        colors=colored(lengths, "red orange green blue grey"),
    )


def _advantage_chart(data: pl.DataFrame) -> Any:
    points = points_of(data.to_dicts(), "epsilon", {"advantage": "{rank}"}, panel="{secrets}")
    protects = printed_values(WORST_CASE, "Fig 2b")
    gains = printed_values(WORST_CASE, "Fig 2a")[
        "advantage on the most probable password, epsilon 1"
    ]
    return chart(
        [
            *points,
            printed_at(
                protects["epsilon that protects 9 uniform digits"].middle,
                ADVANTAGE,
                "most",
                "uniform",
            ),
            printed_at(
                protects["epsilon that protects the most probable password"].middle,
                ADVANTAGE,
                "most",
                "Zipf 1.1",
            ),
            printed_at(1.0, gains.middle, "most", "Zipf 1.1"),
        ],
        "Figure 2 (Beyond the Worst Case): advantage of any attack on a secret",
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
        "Figure 2 (Renyi DP): a secret of 60 bits leaks with the steps of DP-SGD",
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
        "Figure 1 (Re-identification): noise for RIP and for DP",
        x=Axis("eta, what a guess gains at most", powers=range(-3, 1)),
        y=Axis("scale of the noise that is needed", powers=range(2, 10)),
        colors=colored(
            (rip, *(f"DP, n = {count}" for count in records)), "red blue green orange grey"
        ),
        marks="dashed",
    )
