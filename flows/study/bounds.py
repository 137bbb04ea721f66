"""`privaudit study bounds`: three papers' figures and printed numbers on what a guarantee promises.

Nothing is random and no clock is read: the same version writes the same files.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from flows.study.printed import REIDENTIFICATION, RENYI, WORST_CASE, beside, printed_values
from flows.study.runner import Cell, Computed, Shown, Study
from flows.study.tables import Axis, CellRow, chart, points_of, printed_at
from privcore.guarantees import ApproxDP, DpSgd
from privcore.guarantees.conversions import Floats, pure_renyi
from privcore.upper_bounds import (
    curve_leakage,
    direct_leakage,
    epsilon_protect,
    generalised_advantage,
    improved_conversion_leakage,
    narcissus_bound,
    noise_needed,
    reconstruction_robustness,
    renyi_success_bound,
    success_bound,
    tradeoff_success_bound,
    uniform_prior,
    zipf_prior,
)
from privcore.upper_bounds.promised import ORDERS

CHOICES = (2, 3, 4, 5, 6, 8, 10, 14, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1_000, 3_000, 10_000)
FIGURE_1_EPSILONS = (1.0, 2.0, 4.0)
DIGITS = 9
"""Of a uniform secret, and of the passwords."""
ADVANTAGE = 0.05
FIGURE_2_EPSILONS = (0.1, 0.25, 0.5, 1, 2, 3, 5, 7, 10, 13, 17, 20)
SECRET_BITS = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 64.0)
STEPS = 186_000
RUN: dict[str, Any] = {"sampling_rate": 2.81e-4, "steps": STEPS}
"""The training run of Figures 1, 2, 5 and 7: of section 4.3, without the canary's own rate."""
DENSE_RUN: dict[str, Any] = {"sampling_rate": 0.2, "steps": 500}
"""That of Figure 6: a sampling rate of 20% and 100 epochs of 1/0.2 steps."""
DENSE_LEAST_ORDER = 2.0  # below it dp_accounting's series do not converge at this sampling rate
RUN_DELTA = 3e-7
FIGURE_1_NOISE = (0.4, 0.5, 0.6, 0.8)
FIGURE_2_NOISE = (0.3, 0.4, 0.5, 1.0)
FIGURE_2_STEPS = (1_000, 3_000, 10_000, 30_000, 60_000, 100_000, 140_000, STEPS)
LONG_SECRET = 60.0  # bits, of Figure 2
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
_PLACES = {
    WORST_CASE: ("Section 3.2", "Fig 2b", "Fig 2a"),
    RENYI: ("Fig 7",),
    REIDENTIFICATION: ("Proposition 9", "Fig 1"),
}
_MISSING = "the names' priors need GPT-2 and the Enron e-mails"
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
    return Study("Bounds", title, cells, _compute, None, _shown)


def success(*choices: float) -> list[CellRow]:
    """Return the data of Figure 1 of "Beyond the Worst Case": bounds against the prior.

    Priors are 1/k for each of the choices k, so that the bound for uniform priors applies too. The
    bound by Renyi divergences needs a curve, which delta 0 alone has: that of epsilon-DP's worst
    mechanism.
    """
    priors, rows = 1.0 / np.array(choices), []
    for epsilon, delta in itertools.product(FIGURE_1_EPSILONS, (0.0, _DELTA)):
        at_most = {
            "any_attack": success_bound(priors, epsilon=epsilon, delta=delta),
            "tradeoff": tradeoff_success_bound(choices, guarantee=ApproxDP(epsilon, delta)),
            "narcissus": narcissus_bound(priors, epsilon=epsilon, delta=delta),
        }
        if delta == 0.0:
            curve = {"orders": ORDERS, "divergences": pure_renyi(epsilon, orders=ORDERS)}
            robustness = reconstruction_robustness(priors, epsilon=epsilon)
            at_most["reconstruction_robustness"] = robustness
            at_most["renyi"] = renyi_success_bound(priors, **curve)
        for bound, values in at_most.items():
            about = {"bound": bound, "epsilon": epsilon, "delta": delta}
            rows += _rows(**about, prior=priors, success=values)
    return rows


def secret_priors() -> dict[tuple[str, str], float]:
    """Return the prior of the least, median and most probable secret of Figure 2's distributions.

    Nine uniform digits, and nine-digit passwords by Zipf's law, with the exponent 1.1 that the
    paper states and with 1.2, which gives its printed numbers. The paper's third distribution, of
    names in e-mails by GPT-2's perplexity, needs GPT-2 and the Enron e-mails and is not here.
    """
    size = 10**DIGITS
    ranks = {"least": size, "median": size // 2, "most": 1}
    priors = {("uniform", rank): float(uniform_prior(DIGITS)) for rank in ranks}
    for exponent, (rank, place) in itertools.product((1.1, 1.2), ranks.items()):
        prior = float(zipf_prior(place, exponent=exponent, size=size))
        priors[f"Zipf {exponent:g}", rank] = prior
    return priors


def advantage() -> list[CellRow]:
    """Return the data of Figure 2 of "Beyond the Worst Case", and the epsilon that protects."""
    rows = []
    for (secrets, rank), prior in secret_priors().items():
        about = {"secrets": secrets, "rank": rank, "prior": prior}
        about["epsilon_protect"] = _protect(prior)
        gains = [_advantage(prior, epsilon) for epsilon in FIGURE_2_EPSILONS]
        rows += _rows(**about, epsilon=np.array(FIGURE_2_EPSILONS, np.float64), advantage=gains)
    return rows


def _noise(*_: float) -> list[CellRow]:
    """Return Figure 1 of Izzo et al."""
    asked = itertools.product(RECORDS, ETAS)
    return [dataclasses.asdict(noise_needed(records, eta=eta)) for records, eta in asked]


def steps(*noise_multipliers: float) -> list[CellRow]:
    """Return Figure 2 of Stock et al. 2022: bits of a long secret that leak as training goes on."""
    rows = []
    for noise, count in itertools.product(noise_multipliers, FIGURE_2_STEPS):
        run = DpSgd(noise, RUN["sampling_rate"], count)
        found = _leaked(run, LONG_SECRET, float(ORDERS[0]))
        about = {"steps": count, "noise_multiplier": noise, "secret_bits": LONG_SECRET}
        rows.append(about | {name: float(found[name]) for name in ("leaked", "direct")})
    return rows


def leakage(
    noise: float,
    *secret_bits: float,
    run: Mapping[str, Any] = RUN,
    least_order: float = float(ORDERS[0]),
) -> list[CellRow]:
    """Return the bits of secrets that leak at most from a run with one noise multiplier.

    Figures 1, 5 and 6 read them against the secret's bits at each noise multiplier, Figure 7
    against epsilon, adding or removing a record, at each number of bits.
    """
    trained, bits = DpSgd(noise, **run), np.array(secret_bits)
    about = {"noise_multiplier": noise, "epsilon": trained.epsilon(RUN_DELTA)}
    return _rows(secret_bits=bits, **about, **_leaked(trained, bits, least_order))


def _leaked(run: DpSgd, bits: float | Floats, least_order: float) -> dict[str, Floats]:
    """Return each of `_LEAKAGE`, the first minimised over all orders, the others over a list."""
    orders = ORDERS[least_order <= ORDERS]
    curve = {"orders": orders, "divergences": run.renyi(orders)}
    leaked = curve_leakage(
        bits,
        divergence=lambda order: float(run.renyi(order)),
        least_order=least_order,
        largest_order=1_000.0,
    )
    found = (leaked, direct_leakage(bits, **curve), improved_conversion_leakage(bits, **curve))
    return dict(zip(_LEAKAGE, found, strict=True))


def _rows(**columns: Any) -> list[CellRow]:
    """Return a row for each value of the arrays among the columns; other values come in each."""
    return pl.DataFrame(columns).to_dicts()


_PARTS: dict[str, Callable[..., list[CellRow]]] = {
    "success": success,
    "advantage": advantage,
    "noise": _noise,
    "steps": steps,
    "leakage": leakage,
    "dense": partial(leakage, run=DENSE_RUN, least_order=DENSE_LEAST_ORDER),
}


def _compute(_: None, cell: Cell) -> list[CellRow]:
    """Return the rows of one figure, or of one run of training."""
    part = cell.parameters["part"]
    return [{"part": part, **row} for row in _PARTS[part](*cell.parameters["setting"])]


def _shown(_: None, found: Computed) -> Shown:
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
    names = ("place", "quantity", "value", "form", "remark")
    rows = [*_of_success(), *_of_noise(), *_of_leakage(leakage)]
    stated = [dict(zip(names, row, strict=False)) for row in rows]
    ours = [
        each
        for paper, places in _PLACES.items()
        for each in beside(paper, places, stated, missing=_MISSING, exact=True)
    ]
    return Shown([said], ours=ours, data=data, figures=_charts(data))


Stated = tuple[Any, ...]
"""Place and quantity of a printed value, ours, its form, and why it may differ."""


def _of_success() -> list[Stated]:
    """Return our values of what "Beyond the Worst Case" prints of its bounds."""
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
    return [
        ("Section 3.2", "success on 9 uniform digits at epsilon 17",
         float(success_bound(uniform, epsilon=17.0)), ".3f"),
        ("Fig 2b", f"{protects} 9 uniform digits", _protect(uniform), ".1f"),
        ("Fig 2b", f"{protects} the most probable password", _protect(stated), ".2f",
         _EXPONENT.format(other=f"{_protect(other):.3f}")),
        ("Fig 2b", f"{protects} the most probable name", _protect(NAME_PRIOR), ".2f", _FITTED),
        ("Fig 2a", f"{gains} the most probable password, epsilon 1", _advantage(stated, 1.0), ".2f",
         _EXPONENT.format(other=f"{_advantage(other, 1.0):.3f}")),
        ("Fig 2a", f"{gains} the least and median password, epsilon 1", ordinary, ".1g"),
        ("Fig 2a", f"{gains} the most probable name, epsilon 5", _advantage(NAME_PRIOR, 5.0), ".2f",
         _FITTED),
        ("Fig 2a", f"{gains} a uniform canary, epsilon 10", _advantage(uniform, 10.0), ".1g"),
        ("Fig 2a", f"{gains} the most probable password and name, epsilon 10",
         min(_advantage(prior, 10.0) for prior in (stated, NAME_PRIOR)), ".2f"),
    ]  # fmt: skip


def _of_noise() -> list[Stated]:
    """Return our values of what Izzo et al. say in words of Proposition 9 and of Figure 1."""
    needed = {records: noise_needed(records, eta=0.01) for records in (36, 48)}
    ratio = "DP's noise over RIP's at n = {} and eta = 0.01"
    return [
        ("Proposition 9", "standard deviation at n = 36", needed[36].deviation, ",.4g"),
        ("Proposition 9", "sensitivity at n = 36", needed[36].sensitivity, ",.4g"),
        *(
            ("Fig 1", ratio.format(records), each.dp_scale / each.rip_scale, ",.4g")
            for records, each in needed.items()
        ),
    ]


def _of_leakage(leakage: pl.DataFrame) -> list[Stated]:
    """Return from which epsilon on 99% of a secret may leak, linear between the runs."""
    found = []
    for bits in (1.0, 20.0):
        rows = leakage.filter(secret_bits=bits).sort("epsilon")
        shares = rows["leaked"].to_numpy() / bits
        whole = float(np.interp(0.99, shares, rows["epsilon"].to_numpy()))
        quantity = f"epsilon at which secrets of {bits:g} bit{'s' * (bits > 1)} leak completely"
        found.append(("Fig 7", quantity, whole, ".1f"))
    return found


def _protect(prior: float) -> float:
    return float(epsilon_protect(prior, advantage=ADVANTAGE))


def _advantage(prior: float, epsilon: float) -> float:
    success = success_bound(prior, epsilon=epsilon, delta=_DELTA)
    return float(generalised_advantage(prior, success))


def _charts(data: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    success = data["success"].with_columns(pl.col("bound").replace_strict(_BOUNDS)).to_dicts()
    panel = "epsilon {epsilon:g}, delta {delta:g}"
    protects, gains = (printed_values(WORST_CASE, place) for place in ("Fig 2b", "Fig 2a"))
    uniform = protects["epsilon that protects 9 uniform digits"].middle
    password = protects["epsilon that protects the most probable password"].middle
    gained = gains["advantage on the most probable password, epsilon 1"].middle
    advantage, noise = data["advantage"].to_dicts(), data["noise"].to_dicts()
    # Sigma is 1 to ten digits for each of these n, so one line stands for all.
    alike = [row for row in noise if row["records"] == RECORDS[0]]
    return {
        "success": chart(
            points_of(success, "prior", {"success": "{bound}"}, panel=panel),
            "Figure 1 (Beyond the Worst Case): success of any attack against the prior",
            x=Axis("prior", powers=range(-4, 1)),
            y=Axis("success of one guess, at most"),
            colors="red blue green orange grey",
            size=_SMALL,
            marks="dashed",
        ),
        "advantage": chart(
            [
                *points_of(advantage, "epsilon", {"advantage": "{rank}"}, panel="{secrets}"),
                printed_at(uniform, ADVANTAGE, "most", "uniform"),
                printed_at(password, ADVANTAGE, "most", "Zipf 1.1"),
                printed_at(1.0, gained, "most", "Zipf 1.1"),
            ],
            "Figure 2 (Beyond the Worst Case): advantage of any attack on a secret",
            x=Axis("epsilon, delta 1e-5"),
            y=Axis("advantage, at most"),
            colors="grey blue red",
            size=(150, 170),
            marks="dashed",
        ),
        **_leakage_charts(data),
        "noise": chart(
            [
                *points_of(alike, "eta", {"rip_scale": "RIP, any n"}),
                *points_of(noise, "eta", {"dp_scale": "DP, n = {records}"}),
            ],
            "Figure 1 (Re-identification): noise for RIP and for DP",
            x=Axis("eta, what a guess gains at most", powers=range(-3, 1)),
            y=Axis("scale of the noise that is needed", powers=range(2, 10)),
            colors="red blue green orange grey",
            marks="dashed",
        ),
    }


def _leakage_charts(data: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    share = pl.col("leaked") / pl.col("secret_bits")
    shares = data["leakage_by_epsilon"].with_columns(share=share).to_dicts()
    steps = data["leakage_by_steps"].to_dicts()
    usual = "Figure 1 (Renyi DP): leaked bits of a secret under DP-SGD, delta 3e-7"
    dense = (
        "Figure 6 (Renyi DP): leaked bits under DP-SGD, sampling rate 20%, 500 steps, delta 3e-7"
    )
    return {
        "leakage_by_bits": _by_bits(data["leakage_by_bits"], usual),
        "leakage_by_steps": chart(
            points_of(steps, "steps", {"leaked": "noise {noise_multiplier:g}"}),
            "Figure 2 (Renyi DP): a secret of 60 bits leaks with the steps of DP-SGD",
            x=Axis("training steps"),
            y=Axis("bits leaked, at most, of 60"),
            colors="red orange blue grey",
        ),
        "leakage_by_bits_dense": _by_bits(data["leakage_by_bits_dense"], dense),
        "leakage_by_epsilon": chart(
            [
                *points_of(shares, "epsilon", {"share": "{secret_bits:g} bits"}),
                printed_at(10.0, 1.0, "1 bits"),  # "below 10" and "around 50"
                printed_at(50.0, 1.0, "20 bits"),
            ],
            "Figure 7 (Renyi DP): short secrets leak whole at a smaller epsilon",
            x=Axis("epsilon", powers=range(-1, 3)),
            y=Axis("share of the secret leaked, at most"),
            colors="red orange green blue grey",
        ),
    }


def _by_bits(data: pl.DataFrame, title: str) -> Any:
    panel = "noise {noise_multiplier:g}, epsilon {epsilon:.2f}"
    return chart(
        points_of(data.to_dicts(), "secret_bits", _LEAKAGE, panel=panel),
        title,
        x=Axis("bits of the secret"),
        y=Axis("bits leaked, at most"),
        colors="red blue grey",
        size=_SMALL,
        marks="dashed",
    )
