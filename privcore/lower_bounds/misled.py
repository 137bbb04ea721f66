"""Test of a target that is worse than no model on the holdout: comparing with it misleads.

A training record looks remembered if holdout records that the models see alike are predicted less
well. If a target moves *away* from the truth on the holdout, that alone makes training records look
remembered. This happens if an earlier model was trained on the holdout: the proxy knows labels
there, and the target, which does not, seems to unlearn them.
"""

import math

import numpy as np

from privcore.attacks import Tallies, holdout_sides
from privcore.lower_bounds.matched import log_mean, tables_log_wealth

MISLED = 1e-3
"""P-value up to which bets against the proxy may not win: one of 1,000 honest audits."""
_GAPS = (4.0, 8.0, 16.0, 32.0)


def misled_pvalue(tallies: Tallies) -> float:
    """Return the p-value of a target that is at worst useless on the holdout.

    Of `holdout_sides` the tables say, for each stratum of the proxy, how many holdout records have
    the class among those predicted to lack it, and among those predicted to have it. The bets are
    that the odds of the first are larger, beyond the offset that the proxy itself explains.

    *Theorem.* Let the labels of holdout records be independent given all models, each with odds
    that do not fall, beyond the offset, from the first kind to the second. Given its margins, each
    table has odds of at most e^offset, so the product of the tables' wealth has a mean of at most
    1 for each gap, as has the mean over gaps (`matched_epsilon_lower`); Markov's inequality.

    No label of a training record is read, so a leak does not make it small. In 54 audits of real
    learners, leaking and not, the largest e-value was 1.3 (`docs/evidence/statistics.md`).

    Args:
        tallies: of one audit, or of any part of it; its student is not used.

    *Does not say* why: a proxy that was trained on the holdout, a holdout of another population, or
    a target that unlearned what holds for unseen records.
    """
    tables = holdout_sides(tallies.odds, tallies.control_odds)
    if not tables.records.size:
        return 1.0
    gaps = np.array(_GAPS) / math.sqrt(tables.effective)
    wealth = tables_log_wealth(tables, np.zeros(1), gaps)[0]
    return math.exp(-max(0.0, float(log_mean(wealth, np.ones_like(gaps)))))
