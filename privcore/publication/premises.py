"""Bets that what a bound assumes is false, in a form that noise can make private for labels.

`privcore.attacks.arms` tests more sharply whether the arms are alike; its p-value is a function of
the labels. Here is a wealth that one label moves by no more than a gap.
"""

import math

import numpy as np

from privcore.attacks import Matched, Tallies, holdout_sides
from privcore.attacks.arms import LabelCounts
from privcore.publication.noisy_wealth import log_wealth


def premise_bets(tallies: Tallies) -> tuple[Matched, ...]:
    """Return the tables of five bets against what a bound assumes.

    The first four are against arms that chance divided (E1). A table is a group and a bin of the
    proxy's log-odds: of the training records in it and of the holdout records in it, how many have
    the looked-at class. The bets are that training has more of the class in every bin, or less;
    that it has more where the proxy expects more, and less where it expects less (the proxy knows
    training records better); or the reverse. No output of a target on training records is read, so
    a leak is not taken for a difference of the arms.

    The fifth is against a target that what it learned misleads about unseen labels, as it seems to
    where the proxy was trained on the holdout (`holdout_sides`). Then training records look
    remembered because the holdout's are wrong.

    An unreadable label counts as another class than the one that is looked at.
    """
    bets, tallies = tallies.bet_on.with_unread(), tallies.with_unread()
    one, other = (
        LabelCounts.of_odds(arm).counts[:, 0] for arm in (tallies.odds, tallies.control_odds)
    )
    totals, held = one.sum(axis=2), other.sum(axis=2)
    played = (totals > 0) & (held > 0)
    reached = np.cumsum((totals + held).sum(axis=0))
    middle = int(np.searchsorted(reached, reached[-1] / 2.0))
    upper = np.broadcast_to(np.arange(totals.shape[1]) >= middle, totals.shape)
    of_arms = (
        Matched(
            totals[played],
            np.where(ones, one[..., 1], one[..., 0])[played],
            held[played],
            np.where(ones, other[..., 1], other[..., 0])[played],
            np.zeros(int(played.sum())),
        )
        for ones in (np.ones_like(upper), np.zeros_like(upper), upper, ~upper)
    )
    misled = holdout_sides(bets.odds, bets.control_odds)
    return (*of_arms, misled)


def premises_log_wealth(bets: tuple[Matched, ...], gap: float, *, unread: int = 0) -> float:
    """Return the log of the mean wealth of the bets, each with this gap.

    One bet more is against labels that somebody made unreadable, which would hide a leak: e^gap for
    each of them above the number that is allowed. It loses where no more are unreadable than that.

    Args:
        bets: of `premise_bets`.
        gap: in nats.
        unread: unreadable labels, less the number that is allowed; it may be negative.

    *Theorem.* If chance alone divided the records of each table into arms, it is hypergeometric
    given its margins, at an odds ratio of 1; of the fifth bet at 1 or less, beyond its offset. So
    each bet's wealth has a mean of at most 1, as has their mean. Replacing one label changes one
    table of each bet, in it one number by one, and the number of unreadable labels by at most one.
    By the argument of `exact_statement` each bet's log-wealth changes by at most the gap, and so
    does the logarithm of their mean.
    """
    wealth = np.array([*(log_wealth(bet, epsilon=0.0, gap=gap) for bet in bets), gap * unread])
    return float(np.logaddexp.reduce(wealth)) - math.log(wealth.size)
