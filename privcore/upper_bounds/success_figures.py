"""The figures of "Beyond the Worst Case" as data: what a guess achieves at most, by its prior."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privcore.guarantees import ApproxDP
from privcore.guarantees.conversions import Floats, checked, pure_renyi
from privcore.upper_bounds.attack_success import (
    epsilon_protect,
    generalised_advantage,
    success_bound,
)
from privcore.upper_bounds.comparisons import (
    narcissus_bound,
    reconstruction_robustness,
    tradeoff_success_bound,
)
from privcore.upper_bounds.priors import uniform_prior, zipf_prior
from privcore.upper_bounds.promised import ORDERS
from privcore.upper_bounds.renyi import renyi_success_bound

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
