"""Holdout records past a cut are compared by value where chance explains them, else by rank."""

import math

import numpy as np
import pytest
from scipy.special import expit

from privcore.attacks import generator, match, odds_tally
from tests.privcore.attacks.test_matching import matched
from tests.support.naive_matching import naive_tables
from tests.worlds import both


def told(moved, labels):
    """An arm whose proxy is undecided and whose target says this, in log-odds."""
    ones = expit(np.asarray(moved, dtype=np.float64))
    half = np.full((ones.size, 2), 0.5)
    return np.stack([1.0 - ones, ones], axis=1), half, np.asarray(labels)


def test_where_memory_lifts_training_only_a_cut_share_of_ranks_is_taken():
    """Every training record lies far from the proxy, no holdout record does: the surest are ranked.

    The middles of bins make one side's half of the 500 the surer one; the control's expected half
    is cut by three deviations.
    """
    labels = np.arange(500) % 2
    training = told(np.where(labels == 1, 4.0, -4.0), labels)
    control = told(np.linspace(-0.2, 0.2, 500), labels)
    lifted = matched(training, control)[1]
    cut = math.floor(250 - 3.0 * 500 * math.sqrt(0.25 * 0.75 * (2 / 500)))
    assert lifted.records.tolist() == [250]
    assert lifted.control.tolist() == [cut]
    assert lifted.right.tolist() == [250]


def one_stratum(alike, *, records=200, seed=0):
    """200 of 1,000 training records and `alike` of 100 holdout records are predicted a one.

    Their labels are ones if they are among the surest half. No label tells who is matched.
    """

    def arm(total, ones):
        sure = np.linspace(1.0, 3.0, ones)
        labels = np.concatenate([sure > 2.0, np.zeros(total - ones)]).astype(np.int64)
        return told(np.concatenate([sure, np.full(total - ones, -0.5)]), labels)

    return matched(arm(1_000, records), arm(100, alike), seed=seed)[0]


@pytest.mark.parametrize(
    ("alike", "held"), [(0, 8), (7, 8), (8, 8), (9, 9), (20, 20), (21, 21), (32, 32), (34, 20)]
)
def test_values_are_compared_where_chance_explains_the_difference_and_else_ranks(alike, held):
    """20 of a hundred holdout records are expected; three deviations are about 12 of them.

    Below that, 20 less three deviations are taken by rank, above that 20.
    """
    table = one_stratum(alike)
    assert table.records[0] == 200
    pooled = (200 + alike) / 1_100
    chance = 3.0 * 100 * math.sqrt(pooled * (1.0 - pooled) * (1 / 1_000 + 1 / 100))
    if alike > 20 + chance:
        assert held == 20
        assert table.control_right[0] == pytest.approx(alike / 2, abs=1)  # the surest of them
    elif alike < 20 - chance:
        held = math.floor(20 - chance)
    assert table.control[0] == held


def many_strata(alike, *, strata=20):
    """As `one_stratum` in strata of the proxy's log-odds, 10 of 50 holdout records expected."""

    def arm(total, ones):
        proxy = np.repeat(np.linspace(-3.0, 3.0, strata), total)
        up = np.tile(np.arange(total) < ones, strata)
        target = proxy + np.where(up, 1.5, -0.5)
        labels = np.tile(np.arange(total) % 2, strata)
        return both(target), both(proxy), labels

    return arm(500, 100), arm(50, alike)


@pytest.mark.slow
def test_many_strata_that_each_have_a_little_more_are_no_chance_and_ranks_decide():
    """16 of 50 where 10 are expected is two deviations in each of 20 strata, eight in the sum."""
    found, (expected, beyond) = matched(*many_strata(16))[0], naive_tables(*many_strata(16))[0]
    assert beyond[1] > 2.0
    assert np.array_equal(found.control, [row[2] for row in expected])
    ups = found.records == 100
    assert ups.sum() >= 15
    assert np.all(found.control[ups] == 10)
    few = matched(*many_strata(11))[0]
    assert np.all(few.control[few.records == 100] == 11)


def test_what_one_side_needed_by_rank_is_gone_for_the_other():
    """30 of 100 training records are lifted and 70 sunk; 87 of 100 holdout records are sunk.

    30 less three deviations is 14, the 87 are explained by chance, and together they are one too
    many. A second group in which nothing moved makes the 187 the surest fifth of all.
    """

    def arm(up, down, others):
        moved = np.repeat([3.0, -3.0, 0.0], [up, down, others])
        return odds_tally(*told(moved, np.zeros(moved.size, dtype=np.int64)))

    training, control = (arm(30, 70, 0), arm(0, 0, 368)), (arm(0, 87, 13), arm(0, 0, 367))
    table = match(training, control, random=generator(0))[1]
    assert table.records.tolist() == [30, 70]
    assert table.control.tolist() == [14, 86]
    assert table.control_right.tolist() == [0, 86]


def test_both_arms_are_in_one_order_even_where_log_odds_say_another():
    """Surest by probability (1/2 to 9/10) is not surest by log-odds (1/1000 to 3/100).

    Two sorts of records, both known to the target, in both arms alike, and one stratum: all of the
    control past the cut is of the first sort as the training records are, and none of the second.
    """
    sorts = [(0.5, 0.9), (0.001, 0.03), (0.3, 0.3)]

    def arm(counts):
        proxy, target, labels = (
            np.repeat(x, counts) for x in (*zip(*sorts, strict=True), (1, 0, 0))
        )
        return (*(np.stack([1.0 - x, x], axis=1) for x in (target, proxy)), labels)

    table = matched(arm([200, 200, 3_600]), arm([5, 5, 39]))[2]
    assert table.records[0] == 200
    assert table.right[0] == 200
    assert table.control[0] == table.control_right[0] == 5
