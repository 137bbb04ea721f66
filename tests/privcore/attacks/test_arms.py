"""Arms that chance divided pass at the stated size; arms that teams divide otherwise are found."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from privcore.attacks import LabelCounts, compare_arms, generator, label_counts, odds_tally
from privcore.attacks.arms import (
    BINS,
    DOUBTFUL,
    KNOWN,
    LEVEL,
    MOST_COUNTED,
    PAIR_BINS,
    SMALL,
)
from privcore.exceptions import InvalidInputError
from tests.simulate import assert_rate_at_most, two_columns
from tests.support.tiers import tiered


def of_two(log_odds, labels):
    said = two_columns(expit(log_odds))
    return LabelCounts.of_odds((odds_tally(said, said, labels),))


def world(random, training, control, *, base=-2.0, spread=0.8, keep=1.0, known=0.0, pull=0.7):
    """Both arms: the proxy is off by noise; training keeps some negatives, or the proxy knows."""
    log_odds = random.normal(base, spread, training + control)
    noise = 0.3 * random.normal(size=log_odds.size)
    labels = (random.random(log_odds.size) < expit(log_odds + noise)).astype(int)
    arm = np.arange(log_odds.size) < training
    golden = ~arm & (random.random(arm.size) < known)
    log_odds = log_odds + np.where(golden, pull * (2 * labels - 1), 0.0)
    kept = ~arm | (labels == 1) | (random.random(arm.size) < keep)
    return tuple(of_two(log_odds[arm_ & kept], labels[arm_ & kept]) for arm_ in (arm, ~arm))


def pvalues(audits, *sizes, seed, **how):
    random = np.random.default_rng(seed)
    return np.array(
        [compare_arms(*world(random, *sizes, **how), random=random).pvalue for _ in range(audits)]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "base"),
    tiered([((300, 60), -2.0), ((5_000, 50), -3.5), ((5_000, 2_000), 0.0)], always=1, slow=2),
)
def test_a_random_split_is_refused_no_more_often_than_stated(sizes, base):
    """N = 300, seed 1: p-values below 0.1 and 0.01, judged at 1e-6; none below 1e-4."""
    found = pvalues(300, *sizes, seed=1, base=base)
    # Above ten times the level the chi-square approximation answers: judged with what it may err.
    assert_rate_at_most(int((found < 0.1).sum()), 300, 0.13)
    assert_rate_at_most(int((found < 0.01).sum()), 300, 0.03)
    assert (found <= LEVEL).sum() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "base"),
    [((5_000, 50), -3.5), ((300, 60), -2.0)],
)
def test_where_tables_are_drawn_the_pvalue_is_exact(sizes, base):
    """N = 2,000, seed 2: at 1e-3, where tables are drawn anew, judged at 1e-6: 15 are too many."""
    found = pvalues(2_000, *sizes, seed=2, base=base)
    assert_rate_at_most(int((found <= 1e-3).sum()), 2_000, 1e-3)
    assert_rate_at_most(int((found <= LEVEL).sum()), 2_000, LEVEL)


@pytest.mark.slow
@pytest.mark.parametrize("how", tiered([{"keep": 0.5}, {"known": 1.0}], always=1, slow=1))
def test_arms_that_were_divided_otherwise_are_found(how):
    """4 of 4, seed 3: 20,000 training and 5,000 holdout records."""
    assert (pvalues(4, 20_000, 5_000, seed=3, **how) <= LEVEL).all()


def compared(audits, *sizes, seed, **how):
    random = np.random.default_rng(seed)
    return [compare_arms(*world(random, *sizes, **how), random=random) for _ in range(audits)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "base"), [((1_500, 50), -0.5), ((1_500, 150), -2.0), ((5_000, 2_000), -1.0)]
)
def test_a_random_split_is_seldom_doubtful(sizes, base):
    """N = 200, seed 4: one side's chance is at most the stated one, both rules' their sum."""
    found = compared(200, *sizes, seed=4, base=base)
    level = KNOWN if sizes[1] < SMALL else DOUBTFUL
    assert_rate_at_most(sum(one.holdout_known <= KNOWN for one in found), 200, KNOWN)
    assert_rate_at_most(sum(one.doubtful for one in found), 200, level + DOUBTFUL)


def test_a_small_holdout_that_the_proxy_learned_is_doubtful():
    """N = 20, seed 5, 50 holdout records: all are, by both sides and sums together 7."""
    found = compared(20, 1_500, 50, seed=5, base=-0.5, known=1.0, pull=0.6)
    both = sum(one.pvalue <= DOUBTFUL for one in found)
    doubtful = sum(one.doubtful for one in found)
    assert (both, doubtful) == (7, 20)
    assert all(one.doubt == min(one.pvalue, one.holdout_known) for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("holdout", [100, 1_000])
def test_only_the_holdouts_side_is_asked_about(holdout):
    random = np.random.default_rng(6)
    training, control = world(random, 1_500, holdout, base=-0.5, known=1.0)
    assert compare_arms(training, control, random=random).holdout_known < 1e-2
    # Training that the proxy knows better is the other side: the p-value of both says it.
    alike = world(random, 1_500, holdout, base=-0.5)
    turned = compare_arms(LabelCounts(alike[0].counts + control.counts), alike[1], random=random)
    assert turned.holdout_known > KNOWN


def test_a_leak_is_never_taken_for_a_difference_of_the_arms():
    """The counts read no target: they are the same whatever the target remembers."""
    random = np.random.default_rng(4)
    log_odds = random.normal(size=400)
    labels = random.integers(0, 2, 400)
    proxy = two_columns(expit(log_odds))
    remembered = two_columns(np.where(labels == 1, 0.99, 0.01))
    one, other = (LabelCounts.of_odds((odds_tally(t, proxy, labels),)) for t in (proxy, remembered))
    assert one == other


@pytest.mark.slow
def test_the_class_that_differs_is_named_and_pays_for_the_others():
    """Four classes: the third is sampled; a split at random is not refused, seed 7."""
    random = np.random.default_rng(7)
    said = random.dirichlet(np.ones(4), 8_000)
    labels = (random.random((8_000, 1)) >= said.cumsum(axis=1)[:, :-1]).sum(axis=1)
    arm = np.arange(8_000) < 6_000
    honest = [label_counts(said[part], labels[part]) for part in (arm, ~arm)]
    assert compare_arms(*honest, random=random).pvalue > LEVEL
    kept = (labels != 2) | (random.random(8_000) < 0.3)
    sampled = label_counts(said[arm & kept], labels[arm & kept])
    found = compare_arms(sampled, honest[1], random=random)
    assert found.differ
    assert found.place == 2
    assert found.log_odds < -0.5


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(3, 5))
@settings(max_examples=20, deadline=None)
def test_counts_are_those_of_a_naive_twin_and_add(seed, records, classes):
    random = np.random.default_rng(seed)
    said = random.dirichlet(np.ones(classes), records)
    labels = random.integers(0, classes, records)
    found = label_counts(said, labels, group=1, groups=2)
    naive = np.zeros((2, classes, BINS, 2), dtype=np.int64)
    for i in range(records):
        for c in range(classes):
            held = np.clip(said[i, c], 1e-6, 1 - 1e-6)
            place = int(np.floor((np.log(held / (1 - held)) + 14.0) * 16)) // 4
            naive[1, c, place, int(labels[i] == c)] += 1
    assert np.array_equal(found.counts, naive)
    half = records // 2
    parts = [label_counts(said[part], labels[part], group=1, groups=2)
             for part in (slice(None, half), slice(half, None))]  # fmt: skip
    assert parts[0] + parts[1] == found


def test_of_very_many_classes_the_first_are_counted():
    said = np.full((10, MOST_COUNTED + 1), 1.0 / (MOST_COUNTED + 1))
    found = label_counts(said, np.arange(10))
    assert found.counts.shape[1] == MOST_COUNTED


def test_counts_of_other_groups_or_classes_are_refused():
    one, other = LabelCounts.zero(groups=1, classes=3), LabelCounts.zero(groups=2, classes=3)
    with pytest.raises(InvalidInputError, match="both arms have the same groups and classes"):
        compare_arms(one, other, random=generator(0))
    with pytest.raises(InvalidInputError, match="groups are from 0 to 1"):
        label_counts(np.full((2, 3), 1 / 3), np.zeros(2, dtype=int), group=2, groups=2)


def beside_student(random, training, control, *, known=0.0, pull=0.25, error=0.3):
    """Counts of both arms, with and without a student who is off by an error of its own."""
    log_odds = random.normal(-1.0, 1.0, training + control)
    labels = (random.random(log_odds.size) < expit(log_odds)).astype(int)
    arm = np.arange(log_odds.size) < training
    golden = ~arm & (random.random(arm.size) < known)
    proxy = log_odds + 0.4 * random.normal(size=arm.size)
    proxy += np.where(golden, pull * (2 * labels - 1), 0.0)
    student = log_odds + error * random.normal(size=arm.size)
    alone = tuple(of_two(proxy[part], labels[part]) for part in (arm, ~arm))
    said, asked = two_columns(expit(proxy)), two_columns(expit(student))
    beside = tuple(label_counts(said[part], labels[part], student=asked[part])
                   for part in (arm, ~arm))  # fmt: skip
    return alone, beside


def beside_pvalues(audits, *sizes, seed, **how):
    random = np.random.default_rng(seed)
    found = []
    for _ in range(audits):
        alone, beside = beside_student(random, *sizes, **how)
        found.append([compare_arms(*alone, random=random, beside=pair).pvalue
                      for pair in (None, beside)])  # fmt: skip
    return np.array(found).T


@pytest.mark.slow
@pytest.mark.parametrize(
    ("training", "holdout"), tiered([(1_000, 60), (5_000, 400), (5_000, 50)], always=1, slow=2)
)
def test_with_a_student_a_random_split_is_refused_no_more_often(training, holdout):
    """N = 300, seed 8: p-values below 0.1 and 0.01, judged at 1e-6; none below 1e-4."""
    _, found = beside_pvalues(300, training, holdout, seed=8)
    assert_rate_at_most(int((found < 0.1).sum()), 300, 0.13)
    assert_rate_at_most(int((found < 0.01).sum()), 300, 0.03)
    assert (found <= LEVEL).sum() == 0


@pytest.mark.slow
def test_with_a_student_the_pvalue_is_exact_where_tables_are_drawn():
    """N = 2,000 audits of 300 and 60 records, seed 9: at 1e-3, judged at 1e-6."""
    _, found = beside_pvalues(2_000, 300, 60, seed=9)
    assert_rate_at_most(int((found <= 1e-3).sum()), 2_000, 1e-3)
    assert_rate_at_most(int((found <= LEVEL).sum()), 2_000, LEVEL)


@pytest.mark.slow
def test_a_student_shows_that_the_proxy_learned_the_holdout():
    """2 audits of 5,000 and 400 records, seed 10: both are found, by a student alone."""
    alone, beside = beside_pvalues(2, 5_000, 400, seed=10, known=1.0)
    assert (beside <= LEVEL).all()
    assert not (alone <= LEVEL).any()


@pytest.mark.slow
def test_what_a_student_shows_is_told_as_such():
    random = np.random.default_rng(12)
    alone, beside = beside_student(random, 5_000, 400, known=1.0)
    found = compare_arms(*alone, random=random, beside=beside)
    assert found.differ
    assert found.doubtful
    assert found.beyond_features
    assert "an earlier model was trained on the holdout" in found.sentence("'late'")
    assert "the odds of" not in found.sentence("'late'")


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(2, 4))
@settings(max_examples=20, deadline=None)
def test_counts_beside_a_student_are_those_of_a_naive_twin(seed, records, classes):
    random = np.random.default_rng(seed)
    said, asked = (random.dirichlet(np.ones(classes), records) for _ in range(2))
    labels = random.integers(0, classes, records)
    found = label_counts(said, labels, student=asked)
    first = 1 if classes == 2 else 0
    naive = np.zeros((1, classes - first, PAIR_BINS, 2), dtype=np.int64)
    for i in range(records):
        for c in range(first, classes):
            one, other = (
                int(np.floor((np.log(held / (1 - held)) + 14.0) * 16))
                for held in np.clip((said[i, c], asked[i, c]), 1e-6, 1 - 1e-6)
            )
            apart = min(max((one - other + 2) // 4, -12), 12)
            naive[0, c - first, other // 8 * 25 + apart + 12, int(labels[i] == c)] += 1
    assert np.array_equal(found.counts, naive)


def test_a_student_of_another_shape_is_refused():
    with pytest.raises(InvalidInputError, match="shape of student"):
        label_counts(np.full((2, 2), 0.5), np.zeros(2, dtype=int), student=np.full((2, 3), 1 / 3))


def test_one_record_of_a_rare_label_is_no_proof():
    """One of 20 positive records is held out, where the proxy is far off: chance does so often."""
    training, control = (LabelCounts.zero(groups=1, classes=2, student=True) for _ in range(2))
    for apart in range(25):
        training.counts[0, 0, 20 * 25 + apart] = (200 if apart < 24 else 10, 1)
        control.counts[0, 0, 20 * 25 + apart] = (2, 0)
    training.counts[0, 0, 20 * 25 + 24] = (10, 0)
    control.counts[0, 0, 20 * 25 + 24] = (0, 1)
    bare = LabelCounts.zero(groups=1, classes=2)
    found = compare_arms(bare, bare, random=generator(13), beside=(training, control))
    assert found.pvalue > 1e-3
