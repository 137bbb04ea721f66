"""How many holdout records stand for training records that memory lifted, in strata of few."""

import numpy as np

from privcore.attacks.matching import (
    Side,
    explained_by_chance,
    held,
    neighbours,
    wanted_controls,
)


def test_strata_where_no_training_record_is_past_the_cut_count_in_the_sum():
    """Else the sum leans to the strata that chance gave to training, and a lack is no lack."""
    nothing = np.zeros(0, dtype=np.bool_)
    with_training = Side(0, 50, nothing, 10, 1, 1.0, 1.0)
    without = Side(0, 50, nothing, 0, 9, 0.0, 1.0)
    assert explained_by_chance([with_training])
    assert not explained_by_chance([with_training, without])
    assert held(without, by_chance=True) == 0


def lifted(expected, *, alike=0, records=4, group=0, holdout=50):
    return Side(group, holdout, np.zeros(0, dtype=np.bool_), records, alike, expected, expected)


def test_neighbours_of_which_each_alone_has_none_have_their_share_together():
    """Alone each would have floor(4 - 6) = -2, so none; nine have 36 - 18 = 18, two for each."""
    assert wanted_controls([lifted(4.0)] * 36).tolist() == [2] * 36
    assert wanted_controls([lifted(4.0)] * 2).tolist() == [0, 0]  # 8 - 8.5


def test_runs_of_neighbours_end_with_a_half_and_with_their_group():
    runs = [lifted(4.0)] * 9 + [lifted(4.0, group=1)] * 10
    # 36 - 18 is a half of 36; of the tenth of the second group, 4 - 6, nothing is left.
    assert list(neighbours(runs)) == [(0, 9), (9, 18), (18, 19)]
    assert wanted_controls(runs).tolist() == [2] * 18 + [0]
    assert list(neighbours([lifted(4.0)] * 5 + [lifted(4.0, group=1)] * 4)) == [(0, 5), (5, 9)]


def test_strata_without_training_records_past_the_cut_get_none_and_larger_holdouts_more():
    mixed = [lifted(4.0), lifted(0.0, records=0), lifted(4.0, holdout=150)] * 4 + [lifted(4.0)]
    taken = wanted_controls(mixed)  # 36 - 18, of which 5 of 17 parts to the smaller ones
    assert taken.sum() == 18
    assert taken[1::3].tolist() == [0] * 4
    assert abs(taken[0::3].sum() - 18 * 5 / 17) < 1.0


def test_what_passes_the_same_cut_stays_where_neighbours_lack():
    """One stratum has 10 alike, more than its even part, and keeps them; others get the rest."""
    taken = wanted_controls([lifted(4.0, alike=10), *[lifted(4.0)] * 8])
    assert taken.tolist() == [10, *[1] * 8]


def test_exactly_three_standard_deviations_are_chance():
    """What a sum or a root rounds must not decide: 1e-9 are granted at each border."""
    nothing = np.zeros(0, dtype=np.bool_)
    assert explained_by_chance([Side(0, 50, nothing, 10, 12, 9.0, 1.0)])
    assert held(Side(0, 50, nothing, 10, 0, 9.0, 1.0), by_chance=True) == 6


def test_a_stratum_without_chance_is_a_run_of_its_own():
    """All of its holdout records are past the cut, and be it a single one."""
    sure = Side(0, 1, np.zeros(0, dtype=np.bool_), 4, 1, 1.0, 0.0)
    assert list(neighbours([sure, lifted(4.0)])) == [(0, 1), (1, 2)]
