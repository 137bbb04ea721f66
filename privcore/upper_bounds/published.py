"""What the papers print, beside what is computed here.

Only figures that a paper states in words or in a table can be compared to their digits; where the
two differ, `remark` says why.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from privcore.upper_bounds.attack_success import (
    epsilon_protect,
    generalised_advantage,
    success_bound,
)
from privcore.upper_bounds.figures import LeakageCurve, noise_needed
from privcore.upper_bounds.priors import uniform_prior, zipf_prior

_WORST_CASE = "Beyond the Worst Case"
_LIMIT = 0.05


@dataclass(frozen=True, slots=True)
class Published:
    """One printed figure and ours.

    Attributes:
        paper: where it is printed.
        quantity: what it is.
        printed: as printed.
        computed: ours, rounded as the printed one is where they agree.
        remark: why they differ; empty where they agree.
    """

    paper: str
    quantity: str
    printed: str
    computed: str
    remark: str = ""


def published_protection() -> list[Published]:
    """Return the table of protected secrets, at an advantage of 0.05."""
    name, row = 0.0054, 0.184
    zipf = float(zipf_prior(1, exponent=1.1, size=10**9))
    digits = "the printed prior has lost digits: 0.00544 gives 0.45"
    other = f"the printed prior, 0.184, is not this distribution's, {zipf:.3f}"
    rows = [
        ("epsilon for nine uniform digits", "17.8", f"{_protect(float(uniform_prior(9))):.1f}", ""),
        ("epsilon for a name of prior 0.0054", "2.37", f"{_protect(name):.2f}", ""),
        ("advantage on it at epsilon 5", "0.45", f"{_advantage(name, 5.0):.3f}", digits),
        ("epsilon for a secret of prior 0.184", "0.25", f"{_protect(row):.2f}", ""),
        ("advantage on it at epsilon 1", "0.24", f"{_advantage(row, 1.0):.2f}", ""),
        ("epsilon for Zipf(1.1), nine digits", "0.25", f"{_protect(zipf):.2f}", other),
        ("advantage on it at epsilon 1", "0.24", f"{_advantage(zipf, 1.0):.2f}", other),
    ]
    return [Published(_WORST_CASE, *each) for each in rows]


def published_leakage(curves: Iterable[LeakageCurve]) -> list[Published]:
    """Return what Figure 7 of Stock et al. 2022 says of short and long secrets.

    Args:
        curves: of one training run at several noise multipliers, with secrets of 1 and 20 bits.
    """
    paper = "Defending against Reconstruction"
    found = sorted(curves, key=lambda curve: curve.epsilon)
    said = {1.0: "below 10", 20.0: "around 50"}
    return [
        Published(
            paper,
            f"epsilon where 99% of a {bits:g}-bit secret leak",
            printed,
            f"{_whole_from(found, bits):.1f}",
        )
        for bits, printed in said.items()
    ]


def published_noise() -> list[Published]:
    """Return what Figure 1 of Izzo et al. can be compared by.

    The statistic that the figure was drawn for is not known, so its values cannot be reached;
    `noise_needed` is an instance of the example that the paper describes in words.
    """
    least, most = noise_needed(36), noise_needed(48)
    growth, ratio = most.dp_scale / least.dp_scale, most.dp_scale / most.rip_scale
    paper = "Provable Re-identification Privacy"
    unknown = "the figure's own function is not known: this is an instance of the example"
    return [
        Published(paper, "DP's noise at 48 records over that at 36", "2^(12/3)", f"{growth:.1f}"),
        Published(paper, "DP's noise over RIP's at 48 records", "drawn", f"{ratio:.1f}", unknown),
    ]


def _protect(prior: float) -> float:
    return float(epsilon_protect(prior, advantage=_LIMIT))


def _advantage(prior: float, epsilon: float) -> float:
    return float(generalised_advantage(prior, success_bound(prior, epsilon=epsilon)))


def _whole_from(curves: list[LeakageCurve], bits: float) -> float:
    """Epsilon from which 99% of a secret may leak, linear between the curves."""
    epsilons = [curve.epsilon for curve in curves]
    shares = [float(curve.leaked[curve.secret_bits == bits][0]) / bits for curve in curves]
    return float(np.interp(0.99, shares, epsilons))
