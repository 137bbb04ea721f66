"""Evidence over several nights, and over several models of one night."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import false_discovery_control

from privcore.attacks import Tally
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.betting import last_rejected, log_wealth_needed
from privcore.lower_bounds.choices import Fixed, Previous
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.game_evidence import choice_epsilons

WINDOW_EPSILONS: NDArray[np.float64] = np.linspace(0.0, 14.0, 281)
"""The grid, agreed beforehand, on which each night keeps its wealth: 0 to 14 in steps of 0.05."""

_SIGNIFICANCES = tuple(0.5 ** (quarter / 4.0) for quarter in range(8, 257))


@dataclass(frozen=True, slots=True, eq=False)
class Night:
    """What one night leaves for the nights to come.

    Attributes:
        log_wealth: shape of `WINDOW_EPSILONS`, logarithm of the e-value against replacing a label
            at each epsilon.
        records: training records that pay for delta: those that were bet on. None pays where the
            wealth comes from the game, whose p-values know delta.
    """

    log_wealth: NDArray[np.float64]
    records: int


def window_epsilon_lower(
    nights: Sequence[Night], *, classes: int, delta: float = 0.0, significance: float = 0.05
) -> float:
    """Return the largest epsilon of the grid up to which the product over the nights rejects all.

    Each night is a fresh run of the mechanism and its e-value is valid given the past, so the
    product is an e-value against "every night kept (epsilon, delta)" and, watched over time, an
    anytime-valid test (Ville's inequality; Waudby-Smith and Ramdas 2023; for mechanisms as black
    boxes Gonzalez, Dulce-Rubio, Ramdas and Ribero 2025). Rejecting says that at least one night
    broke the claim, not which. The price of delta is paid by the records that were bet on, of all
    nights; the grid begins where it leaves something to bet with, as in `bets_epsilon_lower`.

    Args:
        nights: of one model under one claim, fixed in number beforehand (7, 28).
        classes: number of classes.
        delta: the claim's delta.
        significance: allowed probability that the bound is wrong, for this window.

    Raises:
        InvalidInputError: no nights, a wealth of another grid, a value out of its range.
    """
    if not nights:
        raise InvalidInputError("nights", 0, "a window has at least one night")
    for night in nights:
        if night.log_wealth.shape != WINDOW_EPSILONS.shape:
            rule = f"a night's wealth has the grid's shape, {WINDOW_EPSILONS.shape}"
            raise InvalidInputError("shape of log_wealth", night.log_wealth.shape, rule)
    needed = log_wealth_needed(
        sum(night.records for night in nights),
        classes=classes,
        delta=delta,
        significance=significance,
        epsilons=WINDOW_EPSILONS,
    )
    total = np.sum([night.log_wealth for night in nights], axis=0)
    return last_rejected(
        total.__getitem__, needed, epsilons=WINDOW_EPSILONS, significance=significance
    )


def game_night(
    tally: Tally, *, claim: Claim, choice: Fixed | Previous, random: np.random.Generator
) -> Night:
    """Return the night of an audit whose headline is the game's, for any family.

    The p-value of an epsilon is the least of the significances 2^-2, 2^-2.25, ..., 2^-64 whose
    bound reaches it (so a little too large), and 1 if none does: the bounds of one draw fall with
    their significance, so P(p <= s) <= s where the truth is at most that epsilon. Calibrated, p
    becomes an e-value given the past, as the fraction was chosen before today. It takes many nights
    to make up for the calibration: 7 equal nights prove little more than one of them by itself.

    Args:
        tally: of the training records.
        claim: family, delta, shift, relation; its significance plays no part.
        choice: one fraction, chosen before today's game.
        random: the audit's stream, for the border bins.
    """
    bounds = choice_epsilons(tally, _SIGNIFICANCES, claim=claim, choice=choice, random=random)
    pvalues = np.ones(WINDOW_EPSILONS.size)
    for significance, bound in zip(_SIGNIFICANCES, bounds, strict=True):
        if bound > 0.0:
            pvalues[bound * claim.neighbors.replacements >= WINDOW_EPSILONS] = significance
    return Night(np.log(calibrate_pvalue(pvalues)), 0)


def calibrate_pvalue(pvalues: ArrayLike) -> NDArray[np.float64]:
    """Return e-values from p-values: 1/(2 sqrt(p)).

    The integral of 1/(2 sqrt(p)) over [0, 1] is 1 (Vovk and Wang 2021, section 2), so claims that
    are tested by p-values (the game's grid) enter products over nights too.

    Raises:
        InvalidInputError: a p-value outside (0, 1].
    """
    p = _checked(pvalues)
    return 0.5 / np.sqrt(p)


def false_discovery_qvalues(pvalues: ArrayLike) -> NDArray[np.float64]:
    """Return Benjamini and Hochberg's (1995) q-values of one night's claim tests.

    Calling every model with q at most x a violation makes, on average, at most a share x of the
    calls wrong, if the tests are independent or positively dependent. Shape of `pvalues`, 1-d.

    Raises:
        InvalidInputError: a p-value outside (0, 1].
    """
    qvalues: NDArray[np.float64] = false_discovery_control(_checked(pvalues), method="bh")
    return qvalues


def _checked(pvalues: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(pvalues, dtype=np.float64)
    if not np.all((p > 0.0) & (p <= 1.0)):
        raise InvalidInputError("pvalues", pvalues, "a p-value lies in (0, 1]")
    return p
