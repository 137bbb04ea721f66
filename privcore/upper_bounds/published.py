"""Upper bounds as three papers print them, beside those computed here, and two papers' figures.

Only figures that a paper states in words or in a table can be compared to their digits. Every row
says whether the two agree, why they differ, or what it would take to compute it. The figures of
"Beyond the Worst Case" are data here (what a guess achieves at most, by its prior), and so are
those of Stock et al. 2022: bits that leak at most from a run of DP-SGD.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privcore.guarantees import ApproxDP
from privcore.guarantees.accounts import DpSgd, Mechanism
from privcore.guarantees.conversions import Floats, checked, pure_renyi
from privcore.upper_bounds.attack_success import (
    epsilon_protect,
    generalised_advantage,
    narcissus_bound,
    reconstruction_robustness,
    success_bound,
    tradeoff_success_bound,
)
from privcore.upper_bounds.priors import uniform_prior, zipf_prior
from privcore.upper_bounds.promised import ORDERS
from privcore.upper_bounds.reidentification import noise_needed, reciprocal_sum_deviation
from privcore.upper_bounds.renyi import (
    curve_leakage,
    direct_leakage,
    improved_conversion_leakage,
    renyi_success_bound,
)
from privcore.upper_bounds.success_counts import success_count

ADVANTAGE = 0.05
DIGITS = 9
PASSWORDS = 10**DIGITS


@dataclass(frozen=True, slots=True, eq=False)
class SuccessCurve:
    """One bound on a guess's success: `success[i]` for a secret of prior `priors[i]`."""

    bound: str
    epsilon: float
    delta: float
    priors: Floats
    success: Floats


def success_curves(
    *, choices: ArrayLike = (2, 3, 4, 6, 10, 20, 50, 100, 300, 1_000, 3_000, 10_000)
) -> list[SuccessCurve]:
    """Return the data of Figure 1 of "Beyond the Worst Case": bounds against the prior.

    Priors are 1/k for each k in `choices`, so that the bound for uniform priors applies too. The
    bound by Renyi divergences needs a curve, which delta 0 alone has: that of epsilon-DP's worst
    mechanism.
    """
    choices = np.atleast_1d(checked("choices", choices, 2.0, np.inf, "a secret has two values"))
    priors = 1.0 / choices
    curves = []
    for epsilon in (1.0, 2.0, 4.0):
        for delta in (0.0, 1e-5):
            success = {
                "any_attack": success_bound(priors, epsilon=epsilon, delta=delta),
                "tradeoff": tradeoff_success_bound(choices, guarantee=ApproxDP(epsilon, delta)),
                "narcissus": narcissus_bound(priors, epsilon=epsilon, delta=delta),
            }
            if delta == 0.0:
                curve = pure_renyi(epsilon, orders=ORDERS)
                success["reconstruction_robustness"] = reconstruction_robustness(
                    priors, epsilon=epsilon
                )
                success["renyi"] = renyi_success_bound(priors, orders=ORDERS, divergences=curve)
            curves += [
                SuccessCurve(bound, epsilon, delta, priors, values)
                for bound, values in success.items()
            ]
    return curves


@dataclass(frozen=True, slots=True, eq=False)
class AdvantageCurve:
    """Largest advantage of an attack on one secret of a distribution, against epsilon.

    Attributes:
        secrets: the distribution's name.
        rank: which of its secrets: `least`, `median` or `most` probable.
        prior: that secret's probability.
        epsilon_protect: the largest epsilon, at delta 0, that keeps its advantage at 0.05.
        epsilons: shape (points,).
        advantage: shape (points,), by Corollary 3.4 for one target.
    """

    secrets: str
    rank: str
    prior: float
    epsilon_protect: float
    epsilons: Floats
    advantage: Floats


def secret_priors() -> dict[tuple[str, str], float]:
    """Return the prior of the least, median and most probable secret of Figure 2's distributions.

    Nine uniform digits, and nine-digit passwords by Zipf's law, with the exponent 1.1 that the
    paper states and with 1.2, which gives its printed numbers. The paper's third distribution, of
    names in e-mails by GPT-2's perplexity, needs GPT-2 and the Enron e-mails and is not here.
    """
    ranks = {"least": PASSWORDS, "median": PASSWORDS // 2, "most": 1}
    priors = {("uniform", rank): float(uniform_prior(DIGITS)) for rank in ranks}
    for exponent in (1.1, 1.2):
        for rank, place in ranks.items():
            prior = float(zipf_prior(place, exponent=exponent, size=PASSWORDS))
            priors[f"Zipf {exponent:g}", rank] = prior
    return priors


def advantage_curves(
    *, epsilons: ArrayLike = (0.1, 0.25, 0.5, 1, 2, 3, 5, 7, 10, 13, 17, 20)
) -> list[AdvantageCurve]:
    """Return the data of Figure 2 of "Beyond the Worst Case": advantage against epsilon."""
    epsilons = np.atleast_1d(checked("epsilons", epsilons, 0.0, np.inf, "epsilon is at least 0"))
    curves = []
    for (secrets, rank), prior in secret_priors().items():
        success = success_bound(prior, epsilon=epsilons, delta=1e-5)
        advantage = generalised_advantage(prior, success)
        protect = float(epsilon_protect(prior, advantage=ADVANTAGE))
        curves.append(AdvantageCurve(secrets, rank, prior, protect, epsilons, advantage))
    return curves


# The training run of Figures 1, 2, 5 and 7: of section 4.3, without the canary's own rate.
SAMPLING_RATE = 2.81e-4
STEPS = 186_000
DELTA = 3e-7
# That of Figure 6: a sampling rate of 20% and 100 epochs of 1/0.2 steps.
DENSE_SAMPLING_RATE = 0.2
DENSE_STEPS = 500
DENSE_LEAST_ORDER = 2.0  # below it dp_accounting's series do not converge at this sampling rate
LONG_SECRET = 60.0  # bits, of Figure 2


@dataclass(frozen=True, slots=True, eq=False)
class LeakageCurve:
    """Bits that leak at most from one training run, for secrets of `secret_bits` bits.

    Attributes:
        noise_multiplier: of the run.
        sampling_rate: of the run.
        steps: of the run.
        epsilon: of the run at `DELTA`, by its privacy loss distribution.
        secret_bits: shape (secrets,).
        leaked: shape (secrets,), `renyi_leakage` minimised over all orders.
        direct: shape (secrets,), `direct_leakage`.
        improved_conversion: shape (secrets,), `improved_conversion_leakage`, which is no bound.
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int
    epsilon: float
    secret_bits: Floats
    leaked: Floats
    direct: Floats
    improved_conversion: Floats


def leakage_curves(
    *,
    secret_bits: ArrayLike = (1, 2, 5, 10, 15, 20, 30, 40, 50, 64),
    noise_multipliers: tuple[float, ...] = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0),
    sampling_rate: float = SAMPLING_RATE,
    steps: int = STEPS,
    least_order: float = float(ORDERS[0]),
) -> list[LeakageCurve]:
    """Return leaked bits of DP-SGD, adding or removing a record, epsilon at delta 3e-7.

    Figures 1, 5 and 6 read them against the secret's bits at each noise multiplier, Figure 7
    against epsilon at each number of bits. The run is that of Figure 1; that of Figure 6 has
    `DENSE_SAMPLING_RATE`, `DENSE_STEPS` and `DENSE_LEAST_ORDER`.
    """
    bits = np.atleast_1d(np.asarray(secret_bits, dtype=np.float64))
    orders = ORDERS[least_order <= ORDERS]
    curves = []
    for multiplier in noise_multipliers:
        run = DpSgd(multiplier, sampling_rate, steps)
        divergences = run.renyi(orders)
        leaked = curve_leakage(
            bits, divergence=_divergence(run), least_order=least_order, largest_order=1_000.0
        )
        direct = direct_leakage(bits, orders=orders, divergences=divergences)
        improved = improved_conversion_leakage(bits, orders=orders, divergences=divergences)
        epsilon = run.epsilon(DELTA)
        found = (epsilon, bits, leaked, direct, improved)
        curves.append(LeakageCurve(multiplier, sampling_rate, steps, *found))
    return curves


@dataclass(frozen=True, slots=True, eq=False)
class StepsCurve:
    """Bits of one long secret that leak at most as training goes on.

    Attributes:
        noise_multiplier: of the run.
        secret_bits: of the secret.
        steps: shape (points,).
        leaked: shape (points,), `renyi_leakage` minimised over all orders.
        direct: shape (points,), `direct_leakage`.
    """

    noise_multiplier: float
    secret_bits: float
    steps: Floats
    leaked: Floats
    direct: Floats


def steps_curves(
    *,
    steps: ArrayLike = (1_000, 3_000, 10_000, 30_000, 60_000, 100_000, 140_000, STEPS),
    noise_multipliers: tuple[float, ...] = (0.3, 0.4, 0.5, 1.0),
) -> list[StepsCurve]:
    """Return the data of Figure 2: leaked bits of a 60-bit secret against training steps.

    The run is that of Figure 1, stopped after each number of steps.
    """
    steps = np.atleast_1d(checked("steps", steps, 1, np.inf, "training takes at least one step"))
    curves = []
    for multiplier in noise_multipliers:
        leaked, direct = [], []
        for count in steps:
            run = DpSgd(multiplier, SAMPLING_RATE, int(count))
            leaked.append(
                curve_leakage(LONG_SECRET, divergence=_divergence(run), largest_order=1_000.0)
            )
            divergences = run.renyi(ORDERS)
            direct.append(direct_leakage(LONG_SECRET, orders=ORDERS, divergences=divergences))
        curves.append(
            StepsCurve(multiplier, LONG_SECRET, steps, np.array(leaked), np.array(direct))
        )
    return curves


def _divergence(mechanism: Mechanism) -> Callable[[float], float]:
    """Mechanism's Renyi divergence as a function of one order."""
    return lambda order: float(mechanism.renyi(order))


_WORST_CASE = "Beyond the Worst Case"
_REIDENTIFICATION = "Provable Re-identification Privacy"
_RECONSTRUCTION = "Defending against Reconstruction Attacks with Renyi DP"
_DELTA = 1e-5

NAME_PRIOR = 0.005445
"""A prior that gives both numbers that are printed of the most probable name.

It is not printed. 2.37 leaves 0.00540 to 0.00546 open, 0.45 leaves 0.00544 and more.
"""

_EXPONENT = (
    "Zipf's law with the stated exponent 1.1 gives {stated}; 1.2 over the same 10^9 secrets gives "
    "{other}, as printed"
)
_NEEDS_NAMES = "the names' priors need GPT-2 and the Enron e-mails"
_FITTED = f"for the prior {NAME_PRIOR:.4f}, which gives both numbers printed of it; {_NEEDS_NAMES}"
_NEEDS_TABLES = "`privaudit study marginals` counts it on the ACS"

_Row = tuple[str, str, str, str, bool | None, str]
"""Place, quantity, printed, computed, agrees and remark of a `Published`."""


@dataclass(frozen=True, slots=True)
class Published:
    """One printed number and ours.

    Attributes:
        paper: its title, shortened.
        place: the figure, table or section that states it.
        quantity: what it is.
        printed: as printed.
        computed: ours; empty where it is not computed.
        agrees: whether the two say the same, to the printed digits; None where nothing is computed
            or where ours cannot be held against it.
        remark: why they differ or are not judged, or what it would take; where they agree, what
            else there is to say.
        exact: whether ours is the same at any scale and on any data.
    """

    paper: str
    place: str
    quantity: str
    printed: str
    computed: str
    agrees: bool | None
    remark: str = ""
    exact: bool = False

    @property
    def verdict(self) -> str:
        """The comparison in words."""
        if self.agrees is None:
            return f"{'not judged' if self.computed else 'not computed'}: {self.remark}"
        if not self.agrees:
            return f"differs, because {self.remark}"
        return f"agrees; {self.remark}" if self.remark else "agrees"


def published_success() -> list[Published]:
    """Return every number that "Beyond the Worst Case" prints in its text."""
    priors = secret_priors()
    rows = (
        *_protecting_epsilons(priors),
        *_advantage_bounds(priors),
        *_attacks_on_canaries(),
        *_attacks_on_tables(),
    )
    return [Published(_WORST_CASE, *row) for row in rows]


def _protecting_epsilons(priors: Mapping[tuple[str, str], float]) -> tuple[_Row, ...]:
    """Section 3.2 and Figure 2b: the epsilon up to which a secret is protected."""
    uniform, stated, other = (
        priors[secrets, "most"] for secrets in ("uniform", "Zipf 1.1", "Zipf 1.2")
    )
    leaking = float(success_bound(uniform, epsilon=17.0))
    exponent = _EXPONENT.format(stated=f"{_protect(stated):.2f}", other=f"{_protect(other):.3f}")
    return (
        (
            "3.2",
            "smallest epsilon at which 9 uniform digits may leak (very low probability below)",
            "17",
            f"success {leaking:.3f}",
            leaking < ADVANTAGE,
            "",
        ),
        (
            "Fig 2b",
            "epsilon_protect (Adv <= 0.05) uniform 9 digits",
            *_to_digits("17.8", _protect(uniform)),
            "",
        ),
        (
            "Fig 2b",
            "epsilon_protect (Adv <= 0.05) numerical password, most probable",
            *_to_digits("0.25", _protect(stated)),
            exponent,
        ),
        (
            "Fig 2b",
            "epsilon_protect (Adv <= 0.05) PII name, most probable",
            *_to_digits("2.37", _protect(NAME_PRIOR)),
            _FITTED,
        ),
    )


def _advantage_bounds(priors: Mapping[tuple[str, str], float]) -> tuple[_Row, ...]:
    """Figure 2a: the most that an attacker gains at an epsilon."""
    uniform, stated, other = (
        priors[secrets, "most"] for secrets in ("uniform", "Zipf 1.1", "Zipf 1.2")
    )
    ordinary = [priors[secrets, "median"] for secrets in ("Zipf 1.1", "Zipf 1.2")]
    return (
        (
            "Fig 2a",
            "advantage bound, most probable password, epsilon 1",
            *_to_digits("0.24", _advantage(stated, 1.0)),
            _EXPONENT.format(
                stated=f"{_advantage(stated, 1.0):.2f}", other=f"{_advantage(other, 1.0):.3f}"
            ),
        ),
        (
            "Fig 2a",
            "advantage bound, least and median password, epsilon 1",
            *_far_below("<<0.05", max(_advantage(prior, 1.0) for prior in ordinary)),
            "",
        ),
        (
            "Fig 2a",
            "advantage bound, most probable PII, epsilon 5",
            *_to_digits("0.45", _advantage(NAME_PRIOR, 5.0)),
            _FITTED,
        ),
        (
            "Fig 2a",
            "advantage bound, least (10th percentile) and median PII, epsilon 5",
            *("<0.05", "", None),
            _NEEDS_NAMES,
        ),
        (
            "Fig 2a",
            "advantage bound, uniform canary, epsilon 10",
            *_far_below("<<0.05", _advantage(uniform, 10.0)),
            "",
        ),
        (
            "Fig 2a",
            "advantage bound, most probable password and PII, epsilon 10",
            *_nearly_one("~1.0", min(_advantage(prior, 10.0) for prior in (stated, NAME_PRIOR))),
            "",
        ),
    )


def _attacks_on_canaries() -> tuple[_Row, ...]:
    """Figure 3: how often attacks find a secret that was put into the training data."""
    blind = float(zipf_prior(1, exponent=1.1, size=10))
    guessed = (
        f"naming the most probable of ten digits by Zipf's law, 1.1, without looking is right with "
        f"{blind:.3f}; `privaudit study secrets` attacks 2,000 models trained by DP-SGD"
    )
    return (
        (
            "Fig 3",
            "attack success, password (scaled to 10 digits), epsilon 1",
            *("0.380", "", None),
            guessed,
        ),
        (
            "Fig 3",
            "attack success, PII (scaled to 10 values), epsilon 1",
            *("0.525", "", None),
            _NEEDS_NAMES,
        ),
        ("Fig 3", "baseline, uniform canary", *_to_digits("0.10", 10.0**-1), ""),
    )


def _attacks_on_tables() -> tuple[_Row, ...]:
    """Figures 4 and 7: how often attacks find a column of a synthetic table's source."""
    limit = success_count(0.56, guesses=100, epsilon=1.0, delta=_DELTA).limit(significance=0.05)
    return (
        ("Fig 4", "attack success SEX (ACS), records of 100", "65", "", None, _NEEDS_TABLES),
        ("Fig 4", "prior success SEX (ACS)", "56", "", None, _NEEDS_TABLES),
        (
            "Fig 4",
            "95% upper bound SEX (ACS)",
            *("84", f"{limit}", limit == 84),
            "for 100 targets of the printed prior success, 0.56",
        ),
        (
            "Fig 4",
            "95% upper bound, most columns except AGEP and SCHL",
            *(">=80", "", None),
            _NEEDS_TABLES,
        ),
        ("Fig 7", "attack success AGEP within L1 error 1", "81", "", None, _NEEDS_TABLES),
        (
            "Fig 7",
            "upper bound AGEP within L1 error 1 at confidence 5%",
            *("82", "", None),
            _NEEDS_TABLES,
        ),
    )


def published_noise() -> list[Published]:
    """Return what Izzo et al. say in words of Proposition 9 and of Figure 1."""
    drawn = noise_needed(36, eta=0.01)
    ratio = drawn.dp_scale / drawn.rip_scale
    sizes = [n for n in range(4, 50, 2) if _saves_noise(n)]
    large = noise_needed(48, eta=0.01)
    return [
        Published(
            _REIDENTIFICATION,
            "Proposition 9",
            "the statistic's standard deviation and sensitivity, n = 36",
            "O(1); at least of the order 2^(36/3)",
            f"{reciprocal_sum_deviation(36):.4f}; {drawn.sensitivity:,.0f}",
            drawn.deviation <= 1.0 and drawn.sensitivity >= 2.0**12,
            "the sensitivity is sqrt(comb(n, n/2)), nearly 2^(n/2)",
        ),
        Published(
            _REIDENTIFICATION,
            "Figure 1",
            "DP's noise over RIP's at n = 36 and eta = 0.01",
            "a large advantage",
            f"{ratio:.1f}",
            ratio > 1.0,
            f"RIP needs less noise there from n = {min(sizes)} on",
        ),
        Published(
            _REIDENTIFICATION,
            "Figure 1",
            "DP's noise beyond n = 48, in RIP's at eta = 0.01",
            "too large to appear",
            f"{large.dp_scale / large.rip_scale:,.0f} at n = 48",
            large.dp_scale / large.rip_scale > 100.0,
        ),
    ]


def published_leakage(curves: Iterable[LeakageCurve]) -> list[Published]:
    """Return what Figure 7 of Stock et al. 2022 says of short and long secrets.

    Args:
        curves: of one training run at several noise multipliers, with secrets of 1 and 20 bits.
    """
    found = sorted(curves, key=lambda curve: curve.epsilon)
    short, long = (_whole_from(found, bits) for bits in (1.0, 20.0))
    share = "where 99% may have leaked"
    return [
        Published(
            _RECONSTRUCTION,
            "Fig 7",
            "1-bit secrets leak completely for epsilon",
            *("below 10", f"{short:.1f}", short < 10.0),
            share,
        ),
        Published(
            _RECONSTRUCTION,
            "Fig 7",
            "20-bit secrets leak completely at epsilon",
            *("around 50", f"{long:.1f}", 45.0 <= long <= 55.0),
            share,
        ),
    ]


def _to_digits(printed: str, value: float) -> tuple[str, str, bool]:
    """Printed, computed with the same digits, and whether these are the same."""
    digits = len(printed.partition(".")[2])
    computed = f"{value:.{digits}f}"
    return printed, computed, computed == printed


def _far_below(printed: str, value: float) -> tuple[str, str, bool]:
    """A tenth of the limit or less is read as far below it."""
    return printed, f"{value:.1g}", value <= float(printed.lstrip("<")) / 10.0


def _nearly_one(printed: str, value: float) -> tuple[str, str, bool]:
    return printed, f"{value:.2f}", value >= 0.95


def _protect(prior: float) -> float:
    return float(epsilon_protect(prior, advantage=ADVANTAGE))


def _advantage(prior: float, epsilon: float) -> float:
    success = success_bound(prior, epsilon=epsilon, delta=_DELTA)
    return float(generalised_advantage(prior, success))


def _saves_noise(records: int) -> bool:
    found = noise_needed(records, eta=0.01)
    return found.rip_scale < found.dp_scale


def _whole_from(curves: list[LeakageCurve], bits: float) -> float:
    """Epsilon from which 99% of a secret may leak, linear between the curves."""
    epsilons = [curve.epsilon for curve in curves]
    shares = [float(curve.leaked[curve.secret_bits == bits][0]) / bits for curve in curves]
    return float(np.interp(0.99, shares, epsilons))
