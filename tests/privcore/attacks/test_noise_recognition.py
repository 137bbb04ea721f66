"""Recognition of noise in some hundred answers, and counts confirmed without noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcore.attacks.noise_recognition import Noise, recognise_noise
from privcore.attacks.reconstruction_match import confirm_counts
from privcore.mechanisms.local_sensitivity import (
    BootstrapLaplace,
    KLaplace,
    NoisyCountThreshold,
    RoundedToBit,
    RoundedToInteger,
    Unprotected,
)
from privcore.mechanisms.table_columns import Column
from privcore.mechanisms.threshold_queries import Groups
from tests.support.queries import attack, domain
from tests.support.tiers import rest_slow

RECOGNISED = [
    (KLaplace(1), Noise.SOMEWHERE),
    (KLaplace(3), Noise.SOMEWHERE),
    (BootstrapLaplace(), Noise.SOMEWHERE),
    (RoundedToInteger(KLaplace(1)), Noise.SOMEWHERE),
    (RoundedToBit(KLaplace(1)), Noise.ROUNDED),
    (RoundedToBit(KLaplace(3)), Noise.ROUNDED),
    (RoundedToBit(BootstrapLaplace()), Noise.ROUNDED),
    (KLaplace(1, added_sensitivity=1.0), Noise.EVERYWHERE),
    (NoisyCountThreshold(), Noise.EVERYWHERE),
    (Unprotected(), Noise.NOWHERE),
]


@pytest.mark.parametrize(("mechanism", "noise"), RECOGNISED)
@pytest.mark.parametrize(("bounded", "tables"), rest_slow([(True, 10), (True, 40), (False, 40)]))
def test_each_mechanism_is_recognised_on_tables_of_any_kind(mechanism, noise, bounded, tables):
    """Tables of 6 to 60 records, two distinct values at least; seeds from 0."""
    for seed in range(tables):
        random = np.random.default_rng(seed)
        cells = random.integers(0, 2 + seed, (6 + int(random.integers(55)), 2))
        cells[:2, 0] = [0, 1]
        columns = domain(2 + seed, 2 + seed) if bounded else (Column("a"), Column("b"))
        adversary = attack(cells, columns, k=0, mechanism=mechanism, seed=seed)
        assert recognise_noise(adversary) is noise
        assert adversary.queries < 5_000


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_border_of_every_small_count_shows_its_noise(k):
    """One range of one column, its count 0 to n, n = 2k to 2k + 3: Lemma 3.3 at every border."""
    for records in range(2 * k, 2 * k + 4):
        for count in range(records + 1):
            cells = (np.arange(records) >= count).astype(np.int64).reshape(-1, 1)
            for mechanism, noise in (
                (KLaplace(k), Noise.SOMEWHERE),
                (RoundedToBit(KLaplace(k)), Noise.ROUNDED),
                (Unprotected(), Noise.NOWHERE),
            ):
                adversary = attack(cells, domain(2), k=0, mechanism=mechanism, seed=count)
                assert recognise_noise(adversary) is noise


def test_columns_that_cannot_differ_show_nothing():
    adversary = attack([[0], [0]], domain(1), k=0, mechanism=KLaplace(1))
    assert recognise_noise(adversary) is Noise.NOWHERE
    assert adversary.queries == 0


ROWS = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(0, 99), st.integers(1, 3))
def test_a_right_reading_is_confirmed_and_another_tables_is_not(rows, seed, known):
    cells = np.array(rows)
    adversary = attack(cells, domain(4, 4, 4), k=0)
    read, counts = np.unique(cells[:, :known], axis=0, return_counts=True)
    groups = Groups(tuple(range(known)), read)
    everyone = np.arange(len(read))
    random = np.random.default_rng(seed)
    assert confirm_counts(adversary, groups, counts, asked=everyone, random=random).all()
    assert adversary.queries <= 16 * len(read)
    # One more of the first group than there are: it is not confirmed, others far from it are.
    wrong = counts.copy()
    wrong[0] += 1
    told = confirm_counts(adversary, groups, wrong, asked=everyone, random=random)
    assert not told[0]
    apart = (read != read[0]).sum(axis=1) > 1
    assert told[apart].all()


def test_an_absent_record_is_not_confirmed():
    adversary = attack([[0, 0], [1, 1], [3, 3]], domain(4, 4), k=0)
    groups = Groups((0, 1), np.array([[0, 0], [1, 3], [3, 1]]))
    asked = np.array([1, 2])
    counts, random = np.array([1, 1, 1]), np.random.default_rng(0)
    assert not confirm_counts(adversary, groups, counts, asked=asked, random=random).any()
