"""The comparison of arms, number by number, and its size and power."""

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import chi2, norm

from privcore.attacks import (
    ArmsComparison,
    LabelCounts,
    OddsTally,
    compare_arms,
    generator,
    label_counts,
    odds_tally,
    unlike_arms,
)
from privcore.attacks.arms import BINS, DOUBTFUL, KNOWN, LEVEL, PAIR_BINS, SMALL
from privcore.attacks.fidelity import predictions_miss_labels
from privcore.attacks.matching import Side, explained_by_chance, held, neighbours, wanted_controls
from tests.simulate import assert_rate_at_most, two_columns
from tests.support.refusals import refused
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
    return np.array([one.pvalue for one in compared(audits, *sizes, seed=seed, **how)])


def compared(audits, *sizes, seed, **how):
    random = np.random.default_rng(seed)
    return [compare_arms(*world(random, *sizes, **how), random=random) for _ in range(audits)]


def beside_pvalues(audits, training, control, *, seed, known=0.0):
    """P-values without and with a student who is off by an error of its own."""
    random, arm = np.random.default_rng(seed), np.arange(training + control) < training
    found = []
    for _ in range(audits):
        log_odds = random.normal(-1.0, 1.0, arm.size)
        labels = (random.random(arm.size) < expit(log_odds)).astype(int)
        golden = ~arm & (random.random(arm.size) < known)
        proxy = log_odds + 0.4 * random.normal(size=arm.size)
        proxy += np.where(golden, 0.25 * (2 * labels - 1), 0.0)
        student = log_odds + 0.3 * random.normal(size=arm.size)
        alone = tuple(of_two(proxy[part], labels[part]) for part in (arm, ~arm))
        said, asked = two_columns(expit(proxy)), two_columns(expit(student))
        beside = tuple(label_counts(said[part], labels[part], student=asked[part])
                       for part in (arm, ~arm))  # fmt: skip
        found.append([compare_arms(*alone, random=random, beside=pair).pvalue
                      for pair in (None, beside)])  # fmt: skip
    return np.array(found).T


def with_student(audits, *sizes, seed):
    return beside_pvalues(audits, *sizes, seed=seed)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "sizes", "seed"),
    tiered(
        [
            (partial(pvalues, base=-2.0), (300, 60), 1),
            (with_student, (1_000, 60), 8),
            (partial(pvalues, base=-3.5), (5_000, 50), 1),
            (partial(pvalues, base=0.0), (5_000, 2_000), 1),
            (with_student, (5_000, 400), 8),
            (with_student, (5_000, 50), 8),
        ],
        always=2,
        slow=4,
    ),
)
def test_a_random_split_is_refused_no_more_often_than_stated(draw, sizes, seed):
    """N = 300: p-values below 0.1 and 0.01, judged at 1e-6; none below 1e-4."""
    found = draw(300, *sizes, seed=seed)
    # Above ten times the level the chi-square approximation answers: judged with what it may err.
    assert_rate_at_most(int((found < 0.1).sum()), 300, 0.13)
    assert_rate_at_most(int((found < 0.01).sum()), 300, 0.03)
    assert (found <= LEVEL).sum() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "sizes", "seed"),
    [
        (partial(pvalues, base=-3.5), (5_000, 50), 2),
        (partial(pvalues, base=-2.0), (300, 60), 2),
        (with_student, (300, 60), 9),
    ],
)
def test_where_tables_are_drawn_the_pvalue_is_exact(draw, sizes, seed):
    """N = 2,000: at 1e-3, where tables are drawn anew, judged at 1e-6: 15 are too many."""
    found = draw(2_000, *sizes, seed=seed)
    assert_rate_at_most(int((found <= 1e-3).sum()), 2_000, 1e-3)
    assert_rate_at_most(int((found <= LEVEL).sum()), 2_000, LEVEL)


@pytest.mark.slow
@pytest.mark.parametrize("how", tiered([{"keep": 0.5}, {"known": 1.0}], always=1, slow=1))
def test_arms_that_were_divided_otherwise_are_found(how):
    """4 of 4, seed 3: 20,000 training and 5,000 holdout records."""
    assert (pvalues(4, 20_000, 5_000, seed=3, **how) <= LEVEL).all()


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


def test_a_leak_is_never_taken_for_a_difference_of_the_arms():
    """The counts read no target: they are the same whatever the target remembers."""
    random = np.random.default_rng(4)
    log_odds = random.normal(size=400)
    labels = random.integers(0, 2, 400)
    proxy = two_columns(expit(log_odds))
    remembered = two_columns(np.where(labels == 1, 0.99, 0.01))
    one, other = (LabelCounts.of_odds((odds_tally(t, proxy, labels),)) for t in (proxy, remembered))
    assert one == other


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(2, 5), st.booleans())
@settings(max_examples=40, deadline=None)
def test_counts_are_those_of_a_naive_twin_and_add(seed, records, classes, beside):
    """Alone, and beside what a student says."""
    random = np.random.default_rng(seed)
    said, asked = (random.dirichlet(np.ones(classes), records) for _ in range(2))
    labels = random.integers(0, classes, records)

    def counted(part):
        taught = asked[part] if beside else None
        return label_counts(said[part], labels[part], student=taught, group=1, groups=2)

    found, first = counted(slice(None)), 1 if classes == 2 else 0
    naive = np.zeros((2, classes - first, PAIR_BINS if beside else BINS, 2), dtype=np.int64)
    for i in range(records):
        for c in range(first, classes):
            one, other = (
                int(np.floor((np.log(held / (1 - held)) + 14.0) * 16))
                for held in np.clip((said[i, c], asked[i, c]), 1e-6, 1 - 1e-6)
            )
            apart = min(max((one - other + 2) // 4, -12), 12)
            place = other // 8 * 25 + apart + 12 if beside else one // 4
            naive[1, c - first, place, int(labels[i] == c)] += 1
    assert np.array_equal(found.counts, naive)
    assert counted(slice(None, records // 2)) + counted(slice(records // 2, None)) == found


def test_of_very_many_classes_the_first_are_counted():
    said = np.full((10, 1_025), 1.0 / 1_025)
    found = label_counts(said, np.arange(10))
    assert found.counts.shape[1] == 1_024


def test_counts_of_other_groups_or_classes_are_refused():
    one, other = LabelCounts.zero(groups=1, classes=3), LabelCounts.zero(groups=2, classes=3)
    refused("both arms have the same groups and classes", compare_arms, one, other, random=None)
    said, labels = np.full((2, 3), 1 / 3), np.zeros(2, dtype=int)
    refused("groups are from 0 to 1", label_counts, said, labels, group=2, groups=2)
    refused("shape of student", label_counts, said, labels, student=np.full((2, 2), 0.5))


@pytest.mark.slow
def test_a_student_shows_that_the_proxy_learned_the_holdout():
    """2 audits of 5,000 and 400 records, seed 10: both are found, by a student alone."""
    alone, beside = beside_pvalues(2, 5_000, 400, seed=10, known=1.0)
    assert (beside <= LEVEL).all()
    assert not (alone <= LEVEL).any()


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


SIDES = 25


def counts(tables, *, classes=1, bins=BINS):
    """Both arms' counts of the first class, by bin: of training, then of the holdout."""
    made = [np.zeros((1, classes, bins, 2), dtype=np.int64) for _ in range(2)]
    for where, (training, holdout) in tables.items():
        made[0][0, 0, where], made[1][0, 0, where] = training, holdout
    return tuple(LabelCounts(each) for each in made)


def sums(training, control, width=BINS):
    """Each bin's terms of one class: expected, variance, observed, centre."""
    for row, (one, other) in enumerate(zip(training.tolist(), control.tolist(), strict=True)):
        size, held, ones = sum(one), sum(other), one[1] + other[1]
        total = size + held
        if size and held and 0 < ones < total:
            share = ones / total
            yield size * share, size * held * share * (1 - share) / (total - 1), one[1], row % width


def naive(training, control, width=BINS):
    """Signed deviations of both sums; the second is None if one bin holds all."""
    terms = list(sums(training, control, width))
    whole = sum(term[1] for term in terms)
    middle = sum(term[1] * term[3] for term in terms) / whole
    found = [sum(term[2] - term[0] for term in terms) / math.sqrt(whole)]
    spread = sum(term[1] * (term[3] - middle) ** 2 for term in terms)
    if spread > 1e-9:
        tilt = sum((term[2] - term[0]) * (term[3] - middle) for term in terms)
        found.append(tilt / math.sqrt(spread))
    return np.array(found)


def log_odds(training, control):
    more = less = 0.5
    for one, other in zip(training.tolist(), control.tolist(), strict=True):
        total = max(sum(one) + sum(other), 1)
        more, less = more + one[1] * other[0] / total, less + one[0] * other[1] / total
    return math.log(more / less)


def flat(arms, place):
    return [arm.counts[:, place].reshape(-1, 2) for arm in arms]


def random_arms(random, bins):
    """Two groups of three classes; some 20 bins each have records, a few of them one alone."""
    used = random.random((2, 3, bins, 1)) < 10.0 / bins
    rates = [random.choice(of, (2, 3, bins, 1)) for of in ((0.4, 6.0), (0.4, 1.5))]
    return tuple(
        LabelCounts(np.where(used, random.poisson(rate, (2, 3, bins, 2)), 0)) for rate in rates
    )


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_chi_square_of_two_sums_for_the_class_that_differs_most(seed):
    random = generator(seed)
    alone, beside = random_arms(random, BINS), random_arms(random, PAIR_BINS)
    for arms, kind in ((alone, None), (beside, beside)):
        width = BINS if kind is None else SIDES
        signed = [naive(*flat(arms, place), width) for place in range(3)]
        strongest = int(np.argmax([(each**2).sum() for each in signed]))
        tests = 3 if kind is None else 6
        pvalue = chi2.sf((signed[strongest] ** 2).sum(), 2) * tests
        assert pvalue >= 1e-3  # nothing is drawn
        bare = LabelCounts(np.zeros_like(alone[0].counts))
        given = arms if kind is None else (bare, bare)
        found = compare_arms(*given, random=generator(0), beside=kind)
        assert found.place == strongest
        assert found.pvalue == pytest.approx(min(1.0, pvalue), rel=1e-9)
        assert found.log_odds == pytest.approx(log_odds(*flat(arms, strongest)), rel=1e-9)
        first, second = signed[strongest] ** 2
        assert found.beyond_features is (kind is not None and bool(second > first))
        known = min(1.0, *(norm.cdf(each[1]) * tests for each in signed))
        assert found.holdout_known == pytest.approx(known, rel=1e-9)


def test_of_two_kinds_of_bins_the_smaller_pvalue_counts_twice():
    random = generator(3)
    alone, beside = random_arms(random, BINS), random_arms(random, PAIR_BINS)
    bare = LabelCounts(np.zeros_like(beside[0].counts))
    one, other, both = (
        compare_arms(*alone, random=random, beside=pair) for pair in (None, (bare, bare), beside)
    )
    assert other.pvalue == min(1.0, 2.0 * one.pvalue)
    nothing = LabelCounts(np.zeros_like(alone[0].counts))
    paired = compare_arms(nothing, nothing, random=random, beside=beside)
    assert both == (paired if paired.pvalue < other.pvalue else other)


DRAWN = {
    "one bin": {50: ((55, 45), (36, 4))},
    "three bins": {50: ((400, 20), (95, 15)), 55: ((300, 30), (70, 12)), 60: ((100, 40), (30, 20))},
}


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_tables_are_counted_one_by_one(name):
    arms = counts(DRAWN[name])
    training, control = flat(arms, 0)
    used = training.sum(axis=1) > 0
    sizes, ones = training[used].sum(axis=1), (training + control)[used, 1]
    total = sizes + control[used].sum(axis=1)
    random, other = generator(6), generator(6)
    drawn = other.hypergeometric(ones, total - ones, sizes, (200_000, sizes.size))
    terms = np.array(list(sums(training, control)))
    middle = np.average(terms[:, 3], weights=terms[:, 1])
    weights = [np.ones(sizes.size), terms[:, 3] - middle]
    scales = [weight**2 @ terms[:, 1] for weight in weights]
    reached = sum(
        ((drawn - terms[:, 0]) @ weight) ** 2 / scale
        for weight, scale in zip(weights, scales, strict=True)
        if scale > 1e-9
    )
    observed = (naive(training, control) ** 2).sum()
    expected = (1 + int((reached >= observed - 1e-9).sum())) / 200_001
    assert 1e-5 < expected < 1e-3
    assert compare_arms(*arms, random=random).pvalue == expected
    assert random.random() == other.random()  # no table more, and no table less


def test_a_table_that_none_drawn_reaches_has_the_smallest_pvalue():
    """200,000 tables are drawn, or 30,000 for each test."""
    far = {50: ((1_000, 100), (0, 100))}
    for classes, draws in ((1, 200_000), (6, 200_000), (7, 210_000)):
        arms = counts(far, classes=classes)
        assert compare_arms(*arms, random=generator(0)).pvalue == classes / (1 + draws)
    both = compare_arms(*arms, random=generator(0), beside=counts(far, classes=7, bins=PAIR_BINS))
    assert both.pvalue == 14 / 420_001


def test_of_classes_that_none_drawn_reaches_the_further_one_is_named():
    arms = counts({50: ((1_000, 100), (0, 100))}, classes=3)
    for arm, cells in zip(arms, ((1_000, 200), (0, 300)), strict=True):
        arm.counts[0, 1, 50] = cells
    found = compare_arms(*arms, random=generator(0))
    assert (found.pvalue, found.place) == (3 / 200_001, 1)


@pytest.mark.parametrize(
    ("ones", "classes", "drawn"), [(63, 1, False), (64, 1, True), (63, 2, False), (64, 2, False)]
)
def test_tables_are_drawn_below_ten_times_the_level(ones, classes, drawn):
    """One bin; chi-square says 0.00117 and 0.00070, times the classes that are tested."""
    arms = counts({50: ((100 - ones, ones), (60, 40))}, classes=classes)
    chi_square = classes * chi2.sf(float(naive(*flat(arms, 0))[0] ** 2), 1)
    assert 5e-4 < chi_square < 4e-3
    assert bool(chi_square < 1e-3) is drawn
    found = compare_arms(*arms, random=generator(1)).pvalue
    assert bool(abs(found / chi_square - 1.0) > 1e-12) is drawn


def test_only_the_classes_with_the_most_labels_are_tested():
    """33 classes: the last but one in labels decides, the last is not asked and costs nothing."""
    made = [np.zeros((1, 33, BINS, 2), dtype=np.int64) for _ in range(2)]
    for place in range(33):
        made[0][0, place, 50] = made[1][0, place, 50] = (20, 20 + place)
    made[0][0, 0, 50], made[1][0, 0, 50] = (0, 30), (200, 0)
    last = compare_arms(*map(LabelCounts, made), random=generator(0))
    assert last.place != 0
    made[0][0, 1, 50], made[1][0, 1, 50] = (0, 41), (200, 0)
    found = compare_arms(*map(LabelCounts, made), random=generator(0))
    assert (found.place, found.pvalue) == (1, 32 / (1 + 32 * 30_000))


def test_one_bin_says_nothing_of_what_the_proxy_knows():
    none, table = counts({}), {50: ((60, 40), (30, 10))}
    for alone, beside in ((counts(table), None), (none, counts(table, bins=PAIR_BINS))):
        found = compare_arms(*alone, random=generator(0), beside=beside)
        assert found.pvalue < 1.0
        assert found.holdout_known == 1.0
        assert not found.beyond_features


def test_no_records_say_nothing():
    none, also_none = counts({}, classes=3)
    assert compare_arms(none, also_none, random=generator(0)) == ArmsComparison(1.0, 0, 0.0)
    alike = counts({9: ((0, 5), (0, 3))})  # one label alone
    assert compare_arms(*alike, random=generator(0)) == ArmsComparison(1.0, 0, 0.0)
    assert none == also_none == LabelCounts.zero(groups=1, classes=3)
    assert none != counts({9: ((0, 1), (0, 0))}, classes=3)[0]
    assert none != none.counts


def test_a_level_is_reached_with_it():
    def found(pvalue, known=1.0):
        return ArmsComparison(pvalue, 0, 0.0, holdout_known=known)

    assert [found(pvalue).differ for pvalue in (1e-4, 1.01e-4)] == [True, False]
    assert [found(pvalue).doubtful for pvalue in (0.01, 0.0101)] == [True, False]
    assert [found(1.0, known).doubtful for known in (0.05, 0.0501)] == [True, False]
    assert found(1.0).holdout_known == 1.0
    assert ArmsComparison(1.0, 0, 0.0) == found(1.0)
    assert found(0.5).doubt_sentence == ""
    assert "(p = 0.004)" in found(0.004, 0.02).doubt_sentence


@pytest.mark.parametrize(("held", "level"), [(199, 0.05), (200, 0.01)])
def test_of_holdouts_of_200_records_more_is_asked(held, level):
    tables = {40: ((500, 500), (49, 1)), 60: ((500, 500), (1, 48)), 0: ((0, 0), (held - 99, 0))}
    assert compare_arms(*counts(tables), random=generator(0)).known_level == level
    for known, doubtful in ((level, True), (1.01 * level, False)):
        found = ArmsComparison(1.0, 0, 0.0, holdout_known=known, known_level=level)
        assert found.doubtful is doubtful


def test_the_side_with_the_larger_odds_is_named():
    more, less, equal = (ArmsComparison(1e-6, 0, math.log(by)) for by in (2.0, 0.5, 1.0))
    for found, words in (
        (more, "2.00 times as large in training as in the holdout"),
        (less, "2.00 times as large in the holdout as in training"),
        (equal, "1.00 times as large in the holdout as in training"),
    ):
        assert words in found.sentence("1")
    beyond = replace(more, beyond_features=True).sentence("1")
    assert "an earlier model was trained on the holdout" in beyond
    assert "the odds of" not in beyond


def arm(proxy):
    """Return records by the proxy's log-odds, which is all that the comparison reads."""
    bins = np.clip(((proxy + 14.0) * 16).astype(int), 0, 447)
    counts = np.zeros((448, 224, 2), dtype=np.int64)
    np.add.at(counts[:, 100, 0], bins, 1)
    return OddsTally(proxy.size, counts)


def told_apart(*arms, classes=2):
    one, other = map(arm, arms)
    given = SimpleNamespace(classes=classes, odds=(one,), control_odds=(other,))
    given.labels = given.control_labels = None
    if classes > 2:  # of which all but two have no label
        counts = np.zeros((2, 1, classes, 448, 2), dtype=np.int64)
        counts[:, 0, 1, :, 0] = [each.counts.sum(axis=(1, 2)) for each in (one, other)]
        counts[:, 0, 0] = counts[:, 0, 1, ::-1]
        counts[:, 0, 2:, 0, 0] = [[one.records], [other.records]]
        given.labels, given.control_labels = map(LabelCounts, counts)
    return unlike_arms(cast("Any", given))


def test_a_holdout_of_the_rows_that_the_proxy_is_surest_of_is_told():
    """A leak on the others proved 0.00, and nothing was said."""
    random = np.random.default_rng(0)
    odds = random.normal(size=3_000)
    surest = np.abs(odds) > np.quantile(np.abs(odds), 0.6)
    assert "answers otherwise of the holdout" in told_apart(odds[~surest], odds[surest])
    # An invented third class was enough for nothing to be said.
    assert "answers otherwise of the holdout" in told_apart(odds[~surest], odds[surest], classes=3)
    assert told_apart(odds[1::2], odds[::2], classes=3) == ""


def test_a_random_holdout_is_not_remarked_on():
    for seed in range(200):
        random = np.random.default_rng(seed)
        odds = random.normal(scale=random.uniform(0.1, 4.0), size=int(random.integers(300, 3_000)))
        chosen = random.random(odds.size) < random.uniform(0.1, 0.6)
        assert told_apart(odds[~chosen], odds[chosen]) == ""


def side(records, alike, expected, variance=1.0, *, group=0, holdout=50):
    return Side(group, holdout, np.zeros(0, dtype=np.bool_), records, alike, expected, variance)


def test_strata_where_no_training_record_is_past_the_cut_count_in_the_sum():
    """Else the sum leans to the strata that chance gave to training, and a lack is no lack."""
    with_training, without = side(10, 1, 1.0), side(0, 9, 0.0)
    assert explained_by_chance([with_training])
    assert not explained_by_chance([with_training, without])
    assert held(without, by_chance=True) == 0


def lifted(expected, *, alike=0, records=4, group=0, holdout=50):
    return side(records, alike, expected, expected, group=group, holdout=holdout)


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
    assert explained_by_chance([side(10, 12, 9.0)])
    assert held(side(10, 0, 9.0), by_chance=True) == 6


def test_a_stratum_without_chance_is_a_run_of_its_own():
    """All of its holdout records are past the cut, and be it a single one."""
    sure = side(4, 1, 1.0, 0.0, holdout=1)
    assert list(neighbours([sure, lifted(4.0)])) == [(0, 1), (1, 2)]


RECORDS = 2000


def counted(random, *, following):
    said = random.random(RECORDS)
    chance = following * said + (1.0 - following) * 0.5
    labels = random.random(RECORDS) < chance
    tenth = np.minimum((said * 10).astype(int), 9)
    n = np.bincount(tenth, minlength=10)
    return n, np.bincount(tenth, said, 10) / n, np.bincount(tenth, labels, 10) / n


def test_labels_of_noise_are_missed_and_calibrated_or_weak_predictions_are_not():
    # Of 400 audits of 2,000 records. By the normal law 0.13% of noise follows by 3 errors; at a
    # quarter of calibration, 6.5 errors are expected and 3 seen in all but 0.02%.
    for following, least, most in ((0.0, 0.98, 1.0), (1.0, 0.0, 0.0), (0.25, 0.0, 0.01)):
        given = (counted(np.random.default_rng(seed), following=following) for seed in range(400))
        assert least <= np.mean([predictions_miss_labels(*each) for each in given]) <= most


@pytest.mark.parametrize(
    "tenths",
    [([], [], []), ([0], [0.0], [0.0]), ([900], [0.03], [0.0]), ([9, 9], [0.1, 0.9], [0, 1])],
)
def test_where_predictions_hardly_differ_nothing_is_said(tenths):
    assert not predictions_miss_labels(*tenths)
