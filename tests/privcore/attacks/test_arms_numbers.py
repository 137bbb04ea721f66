"""The comparison of arms, number by number, against sums written out and tables drawn at once."""

import math

import numpy as np
import pytest
from scipy.stats import chi2, norm

from privcore.attacks import ArmsComparison, LabelCounts, compare_arms, generator
from privcore.attacks import arms as module
from privcore.attacks.arms import BINS, PAIR_BINS

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
    "three bins": {
        50: ((400, 20), (95, 15)),
        55: ((300, 30), (70, 12)),
        60: ((100, 40), (30, 20)),
    },
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


def test_sizes_and_levels_are_these():
    assert (BINS, PAIR_BINS) == (112, 1_400)
    assert LabelCounts.zero(groups=3, classes=2).counts.shape == (3, 1, 112, 2)
    assert (module.MOST_COUNTED, module.MOST_TESTED) == (1_024, 32)
    assert (module.LEVEL, module.DOUBTFUL, module.SMALL, module.KNOWN) == (1e-4, 0.01, 200, 0.05)


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
    assert ArmsComparison(1.0, 0, 0.0, holdout_known=level, known_level=level).doubtful
    assert not ArmsComparison(1.0, 0, 0.0, holdout_known=1.01 * level, known_level=level).doubtful


def test_a_bin_that_one_arm_alone_has_says_nothing_of_what_the_proxy_knows():
    tables = {40: ((500, 500), (49, 1)), 60: ((500, 500), (1, 48))}
    found = [
        compare_arms(*counts(tables | {0: ((0, 0), (held, 0))}), random=generator(0)).holdout_known
        for held in (0, 1_000)
    ]
    assert found[0] == found[1] < 1e-3


def test_the_side_with_the_larger_odds_is_named():
    more, less, equal = (ArmsComparison(1e-6, 0, math.log(by)) for by in (2.0, 0.5, 1.0))
    for found, words in (
        (more, "2.00 times as large in training as in the holdout"),
        (less, "2.00 times as large in the holdout as in training"),
        (equal, "1.00 times as large in the holdout as in training"),
    ):
        assert words in found.sentence("1")
