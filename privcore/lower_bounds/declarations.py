"""Test that every declaration was true when it was made: many nights, each at its own claim."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.windows import standing_lead

LEVELS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Declared epsilons up to which one sixteenth of the stake bets; the other half bets on all."""


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedNight:
    """Evidence of one night about the guarantee that was declared for that night.

    Attributes:
        epsilon: what was declared.
        log_wealth: shape (strategies,), logarithms of the e-values against the declared epsilon.
        price: what delta takes of the standing's significance for this night.
    """

    epsilon: float
    log_wealth: NDArray[np.float64]
    price: float


def declarations_refuted(
    nights: Sequence[ClaimedNight], *, significance: float = 0.01, recurring: bool = False
) -> NDArray[np.bool_]:
    """Return whether the nights up to each refute that all declarations were true: (nights,).

    Each night is held against what was declared for that night, and the evidence of all nights is
    multiplied. So a changed declaration resets nothing: a family, a delta or an epsilon that
    changes changes only what its own night is held against. Nights without a declaration are not
    among `nights`: they multiply by 1. A lower declaration is not held against older nights.

    A night that declares much is lost to a bettor on it, though another night's declaration was
    false. So half of the stake bets on all nights, and an equal part of the other half for each of
    eight levels bets only on nights that declare no more than this level. Declaring 50 every second
    night therefore costs the evidence of the others a constant factor, once.

    *Lemma.* Night t is audited against its own claim C_t: a family, an epsilon, a delta and a
    relation, known before training begins. Its e-value is E_t, its price p_t. Let W_t be the stake
    after night t, with parts v_k that wait for later starts, as in `window_epsilon_lower`, averaged
    over strategies and levels. If every C_t is true, the chance that W *ever* reaches 1/a is at
    most a + p_1 + p_2 + ...

    *Proof.* Let U_t be 1 from the first night on which a W reaches 1, and a W_t before. U_0 = a,
    and U never exceeds 1. Fix a night t and what came before it. If U_(t-1) = 1, U_t = 1. Else U_t
    = min(1, a W_t), where W_t = sum over k <= t of v_k E_k ... E_t + what waits, and where a level
    that C_t exceeds has 1 in the place of E_t. All of this but E_t is known. So a W_t is a function
    of this night's records alone: a sum, with nonnegative weights, of products that a right
    prediction multiplies by r and a wrong one by w, w/r >= e^-cap, and of parts that stay as they
    are. (The night's own e-value is itself a mean of such products.) Hence 1 - u_wrong/u_right <= 1
    - e^-cap for u = U_t, which is all that `Stakes` asks of a test. Its proof replaces this night's
    outcomes, one after the other, by independent coins, and uses the truth of C_t alone: U_t has an
    expectation of at most p_t plus that of min(1, a W_t) under the coins. That is at most a W_t's,
    where E_t has an expectation of at most 1, and so at most a W_(t-1) = U_(t-1). Hence E[U_t] <=
    E[U_(t-1)] + p_t, and the chance that W reaches 1/a by night T is at most E[U_T] <= a + p_1 +
    ... + p_T. ∎

    Only night t uses C_t, so claims may differ from night to night in every part. Without delta
    all prices are 0, and this is Ville's inequality. Claims may be chosen by anyone who knows all
    earlier nights.

    With delta, a is `1 - DELTA_SHARE` of the significance, and prices may take the rest, set aside
    before the first night. Nights without a price need no such share. Mixing both kinds in one
    standing would either waste it or pay for it after looking, so each kind has a standing of its
    own, at the significance each. With `recurring` each night is tested at its share of the
    significance, a union bound over the standing's length, since labels that come again are no new
    evidence.

    *Assumes* what `window_epsilon_lower` does, and that a night's declaration was fixed before its
    e-value could be known. *Does not say* which declaration was false. Standings add up as
    `standing_epsilons` says, and a model that declares with and without delta has two.

    Args:
        nights: in their order, since a start fixed beforehand; all with a price, or all without.
        significance: allowed probability that the standing is ever wrong.
        recurring: as in `window_epsilon_lower`.

    Raises:
        InvalidInputError: no or too many nights, nights of both kinds, a value out of its range.
    """
    prices = [night.price for night in nights]
    check_one_kind(prices)
    shapes = {night.log_wealth.shape for night in nights}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        rule = "each night has one e-value for each strategy, and all have the same strategies"
        raise InvalidInputError("shapes of log_wealth", sorted(shapes), rule)
    lead = standing_lead(
        _by_level(nights)[:, :, None], prices, significance=significance, recurring=recurring
    )
    refuted: NDArray[np.bool_] = np.logical_or.accumulate(lead[:, 0] >= 0.0)
    return refuted


def check_one_kind(prices: Sequence[float]) -> None:
    """Raise unless there are nights, and delta has a price on all of them or on none.

    Raises:
        InvalidInputError: no nights, or nights of both kinds.
    """
    if not prices:
        raise InvalidInputError("nights", 0, "there is at least one night")
    if len({price > 0.0 for price in prices}) > 1:
        rule = "all are above 0 or all are 0: nights with a price have a standing of their own"
        raise InvalidInputError("prices", list(prices), rule)


def _by_level(nights: Sequence[ClaimedNight]) -> NDArray[np.float64]:
    """Return the nights' log e-values for each level and strategy, bets on all nights half."""
    wealth = np.stack([night.log_wealth for night in nights])
    within = np.array([night.epsilon for night in nights])[:, None] <= np.array(LEVELS)
    lower = np.where(within[:, :, None], wealth[:, None, :], 0.0)
    each = np.broadcast_to(wealth[:, None, :], lower.shape)
    return np.concatenate([lower, each], axis=1).reshape(len(nights), -1)
