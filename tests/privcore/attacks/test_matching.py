"""Two-by-two tables of both arms against a naive twin: no label is looked at."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import hypergeom

from flows.study.exam_worlds import RARE, Binary, both, scaled, some_drift
from privcore.attacks import OddsTally, generator, match, match_everyone, odds_tally
from privcore.attacks.matching import (
    SHARES,
    Matched,
    Recalibration,
    _strata,
    recalibrate,
    sureness_needed,
)
from tests.no_leak_worlds import WRONG
from tests.simulate import two_columns
from tests.support.naive_matching import naive_tables
from tests.support.refusals import refused

WORLD = Binary(proxy=scaled(1.5), drifts=some_drift(2.0, 0.2), noise=0.5).world("", 1.0, 900, 260)


def arms(seed=1, world=WORLD):
    return world.draw(np.random.default_rng(seed))


def tallies(*both):
    return tuple((odds_tally(*arm),) for arm in both)


def matched(training, control, seed=0):
    return match(*tallies(training, control), random=generator(seed))


def clean(records, random, *, noise, toward=0.0):
    """Records whose target wavers about the proxy, `toward` certainty where that is above 0."""
    odds = random.normal(-1.0, 1.2, records)
    target = odds + noise * random.normal(size=records)
    target += toward * np.sign(random.random(records) - 0.5)
    labels = (random.random(records) < expit(odds)).astype(np.int64)
    return both(target), both(odds), labels


@pytest.mark.parametrize("kind", ["by chance", "memory lifts training", "training is less sure"])
@pytest.mark.parametrize("seed", range(2))
def test_tables_are_those_of_a_naive_twin_whatever_the_sums_over_strata_say(kind, seed):
    """Two draws of each, seeds 0 and 1; the sums lie where the case's name says they do."""
    random = np.random.default_rng(seed)
    noise = 0.2 if kind == "training is less sure" else 0.8
    toward = 2.0 if kind == "memory lifts training" else 0.0
    training = clean(900, random, noise=noise, toward=toward)
    control = clean(260, random, noise=1.5 if noise == 0.2 else 0.8)
    sums = compared_with_the_twin((training, control))
    if kind == "by chance":
        assert np.abs(sums).max() <= 1.0
    elif toward:
        assert sums.min() < -1.0
    else:
        assert sums.max() > 1.0


def compared_with_the_twin(both):
    """Assert that both say the same; return the twin's sums over strata, in three deviations."""
    sums = []
    for found, (expected, beyond) in zip(matched(*both), naive_tables(*both), strict=True):
        rows = np.array(expected, dtype=np.float64).reshape(-1, 7)
        assert np.array_equal(found.records, rows[:, 0])
        assert np.array_equal(found.right, rows[:, 1])
        assert np.array_equal(found.control, rows[:, 2])
        assert np.all(found.control_right >= rows[:, 3])
        assert np.all(found.control_right <= rows[:, 4])
        np.testing.assert_allclose(found.offset, rows[:, 5], atol=1e-9)
        np.testing.assert_allclose(found.unaided, rows[:, 6], atol=1e-6)
        sums.extend(beyond.values())
    return np.array(sums)


@pytest.mark.parametrize("seed", range(4))
def test_tables_are_those_of_a_naive_twin(seed):
    both = arms(seed)
    compared_with_the_twin(both)
    assert matched(*both)[0].records.size >= 8


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_no_label_decides_who_is_matched_with_whom(seed):
    """Labels of either arm drawn anew: the same records and controls, the same offsets."""
    random = np.random.default_rng(seed)
    training, control = arms(3)
    other = ((*arm[:2], random.integers(0, 2, arm[2].size)) for arm in (training, control))
    for one, two in zip(matched(training, control), matched(*other), strict=True):
        assert np.array_equal(one.records, two.records)
        assert np.array_equal(one.control, two.control)
        assert np.array_equal(one.offset, two.offset)


def test_shares_are_of_the_records_of_both_arms_the_least_sure_among_them():
    """Nine cells of 5 records each, surest first, and one of 55 where nothing moved."""
    moved = np.repeat([*np.linspace(4.0, 2.4, 9), 0.0], [5] * 9 + [55])
    target = two_columns(expit(moved))
    arm = target, np.full((100, 2), 0.5), np.zeros(100, dtype=np.int64)
    cells = odds_tally(*arm).cells()
    fit = Recalibration(0.0, 0.0)
    sureness = np.sort(np.abs(expit(cells.target) - 0.5))[::-1]
    needed = [0.0, sureness[3], *[sureness[0]] * 3]
    assert sureness_needed(np.abs(fit.moved(cells)), cells.made) == pytest.approx(needed)
    for rows in (np.arange(100) % 2 == 0, np.arange(100) < 45):  # whichever arm they are of
        arms = [odds_tally(*(part[chosen] for part in arm)).cells() for chosen in (rows, ~rows)]
        moved, made = (
            np.concatenate(each) for each in ([fit.moved(a) for a in arms], [a.made for a in arms])
        )
        assert sureness_needed(np.abs(moved), made) == pytest.approx(needed)
    assert sureness_needed(np.zeros(0), np.zeros(0, dtype=np.int64)).tolist() == [0.0] * len(SHARES)
    nobody = OddsTally.zero()
    assert all(one.records.size == 0 for one in match([nobody], [nobody], random=generator(0)))


@pytest.mark.parametrize(
    ("held", "strata"), [(49, 1), (99, 1), (100, 2), (249, 4), (250, 5), (20_000, 128)]
)
def test_a_stratum_has_fifty_records_of_the_smaller_arm_and_there_are_128_at_most(held, strata):
    """Proxies spread over all bins, which are more than there may be strata."""
    random = np.random.default_rng(9)
    arms = []
    for records in (20_000, held):
        chance = expit(random.uniform(-12.0, 12.0, records))
        labels = (random.random(records) < chance).astype(np.int64)
        arms.append(odds_tally(*[two_columns(chance)] * 2, labels).cells())
    for pair in (arms, arms[::-1]):
        assert len(_strata(*pair)) == strata
        assert sum(int((cells.zeros + cells.ones).sum()) for cells, _ in _strata(*pair)) == int(
            (pair[0].zeros + pair[0].ones).sum()
        )


@pytest.mark.slow
def test_of_a_border_cell_records_are_drawn_at_random():
    """30 of 100 alike holdout records, of which 40 are ones: hypergeometric, 400 draws."""
    half, high = np.full((100, 2), 0.5), np.tile([0.2, 0.8], (100, 1))
    labels = (np.arange(100) < 40).astype(np.int64)
    # 30 of 100 training records are predicted ones, and so is every holdout record by its value.
    target = np.where(np.arange(100)[:, None] < 30, high, 1.0 - high)
    training, control = (target, half, labels), (high, half, labels)
    random = generator("border")
    both = tallies(training, control)
    drawn = []
    for _ in range(400):
        table = match(*both, random=random)[0]
        assert table.records[0] == 30
        assert table.control[0] == 30
        drawn.append(int(table.control_right[0]))
    law = hypergeom(100, 40, 30)
    assert abs(np.mean(drawn) - law.mean()) < 5.0 * law.std() / math.sqrt(400)
    assert np.var(drawn) == pytest.approx(law.var(), rel=0.25)


def test_groups_are_matched_within_themselves():
    first, second = arms(8), arms(9, Binary(**RARE).world("", 0.5, 700, 150))
    training = odds_tally(*first[0]), odds_tally(*second[0])
    control = odds_tally(*first[1]), odds_tally(*second[1])
    found = match(training, control, random=generator(0))[0]
    assert found.records.sum() <= 1_600
    alone = match(training[:1], (OddsTally.zero(),), random=generator(0))
    assert all(one.records.size == 0 for one in alone)
    swapped = match(training, (control[1], OddsTally.zero()), random=generator(0))[0]
    # The second group has no control: none of its 700 records is matched.
    assert swapped.records.sum() <= 900
    refused("groups of the control is 1", match, training, control[:1], random=generator(0))
    refused("groups of the control is 0", match, (), (), random=generator(0))


def of_ten(records, random, *, known=0.0):
    """Ten classes whose proxy is half of something else; the target knows some of the labels."""
    truth, other = random.dirichlet(np.ones(10), (2, records))
    labels = (random.random((records, 1)) >= truth.cumsum(axis=1)[:, :-1]).sum(axis=1)
    remembered = random.random((records, 1)) < known
    target = np.where(remembered, 0.5 * truth + 0.5 * np.eye(10)[labels], truth)
    return target, 0.5 * truth + 0.5 * other, labels


def test_a_proxy_of_more_than_two_classes_is_taken_as_it_is():
    """2,000 and 1,000 records: nearly all are predicted to have the class, and none is left out."""
    random = np.random.default_rng(23)
    training, control = tallies(of_ten(2_000, random, known=1.0), of_ten(1_000, random))
    table = match(training, control, random=generator(3), classes=10)[0]
    assert table.records.sum() == pytest.approx(2_000, rel=0.02)
    assert table.control.sum() == pytest.approx(1_000, rel=0.02)
    cells = control[0].cells()
    assert cells.made[expit(cells.target) > expit(cells.proxy)].sum() > 950
    # Recalibrated by both arms, the border lies where the leak is: few holdout records are above.
    moved = recalibrate([training[0].cells(), cells]).moved(cells)
    assert cells.made[moved > 0.0].sum() < 500
    assert table.right.sum() > match(training, control, random=generator(3))[0].right.sum()
    everyone = match_everyone(training, control, classes=10)
    assert everyone.right.sum() == pytest.approx(table.right.sum(), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("classes", "records", "sets", "seed"), [(2, 1_200, 3, 21), (10, 900, 2, 22)]
)
def test_dealt_at_random_tables_are_hypergeometric_whatever_the_target_says(
    classes, records, sets, seed
):
    """120 deals of a pool: its target knows the opposite of the truth, or some of ten classes.

    In every set of tables the right ones lie above what their margins give by no more than chance,
    judged at five standard errors (two-sided 6e-7).
    """
    random = np.random.default_rng(seed)
    pool = (
        WRONG["even"].arm(records, random) if classes == 2 else of_ten(records, random, known=0.1)
    )
    excess, cut = np.zeros((120, sets)), 2 * records // 3
    for deal in range(120):
        rows = random.permutation(records)
        arms = tallies(*(tuple(part[some] for part in pool) for some in (rows[:cut], rows[cut:])))
        found = match(*arms, random=generator(deal), classes=classes)
        excess[deal] = [above_chance(table) for table in found[:sets]]
    errors = excess.std(axis=0) / math.sqrt(120)
    assert np.all(np.abs(excess.mean(axis=0)) < 5.0 * errors)
    assert np.all(excess.std(axis=0)[: 3 if classes == 2 else 1] > 0.7)


def above_chance(table):
    """By how many standard deviations training is right more often than its margins give."""
    total, right = table.records + table.control, table.right + table.control_right
    mean = table.records * right / total
    variance = mean * (total - right) / total * table.control / np.maximum(total - 1, 1)
    return float((table.right - mean).sum() / math.sqrt(max(variance.sum(), 1e-9)))


@given(st.lists(st.tuples(st.integers(1, 60), st.floats(0, 1), st.floats(0, 1)), max_size=9))
@settings(max_examples=200, deadline=None)
def test_a_control_is_right_in_sum_as_often_as_unaided_and_never_less_often_than_it_was(rows):
    control, right, unaided = np.array(rows).reshape(-1, 3).T
    right, unaided = np.floor(right * control).astype(np.int64), unaided * control
    tables = Matched(*[control.astype(np.int64)] * 3, right, np.zeros(control.size), unaided)
    raised = tables.no_worse_than_unaided()
    more = raised.control_right - right
    assert np.all(more >= 0)
    assert np.all(raised.control_right <= control)
    assert np.all(more <= np.ceil(np.maximum(unaided - right, 0.0) + 1e-6))
    sums = right.sum(), unaided.sum()
    if sums[0] >= sums[1]:
        assert raised == tables or not more.any()
    else:
        assert raised.control_right.sum() == pytest.approx(math.floor(sums[1] + 1e-6), abs=1)
        assert raised.control_right.sum() <= sums[1] + 1e-6
    assert raised.all_right().control_right is raised.control_right


def test_tables_of_which_nothing_is_asked_stay_as_they_are():
    bare = Matched(*(np.array([number]) for number in (9, 5, 9, 1)), offset=np.zeros(1))
    assert bare.no_worse_than_unaided() is bare


def told(moved, labels):
    """An arm whose proxy is undecided and whose target says this, in log-odds."""
    ones = expit(np.asarray(moved, dtype=np.float64))
    return two_columns(ones), np.full((ones.size, 2), 0.5), np.asarray(labels)


@pytest.mark.parametrize(
    ("alike", "held"), [(0, 8), (7, 8), (8, 8), (9, 9), (20, 20), (21, 21), (32, 32), (34, 20)]
)
def test_values_are_compared_where_chance_explains_the_difference_and_else_ranks(alike, held):
    """200 of 1,000 training records and `alike` of 100 holdout records are predicted a one.

    20 of the holdout are expected; three deviations are about 12 of them. Below that, 20 less three
    deviations are taken by rank, above that 20. Labels are ones among the surest half.
    """

    def arm(total, ones):
        sure = np.linspace(1.0, 3.0, ones)
        labels = np.concatenate([sure > 2.0, np.zeros(total - ones)]).astype(np.int64)
        return told(np.concatenate([sure, np.full(total - ones, -0.5)]), labels)

    table = matched(arm(1_000, 200), arm(100, alike))[0]
    assert table.records[0] == 200
    pooled = (200 + alike) / 1_100
    chance = 3.0 * 100 * math.sqrt(pooled * (1.0 - pooled) * (1 / 1_000 + 1 / 100))
    if alike > 20 + chance:
        assert held == 20
        assert table.control_right[0] == pytest.approx(alike / 2, abs=1)  # the surest of them
    elif alike < 20 - chance:
        held = math.floor(20 - chance)
    assert table.control[0] == held


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


def cells_of(*arms):
    return [odds_tally(*arm).cells() for arm in arms]


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_penalised_fit_of_the_targets_probabilities_on_all_records(seed):
    """Against a general optimiser; labels do not enter, and neither does who was trained on."""
    training, control = WORLD.draw(np.random.default_rng(seed))
    everyone = cells_of(training, control)
    proxy, target = (
        np.concatenate([getattr(cells, name) for cells in everyone]) for name in ("proxy", "target")
    )
    made = np.concatenate([cells.zeros + cells.ones for cells in everyone])

    def loss(fit):
        chance = expit(fit[0] + fit[1] * proxy)
        mean = expit(target)
        fitted = mean * np.log(chance) + (1.0 - mean) * np.log1p(-chance)
        return -float(made @ fitted) + 0.5 * (fit[0] ** 2 + (fit[1] - 1.0) ** 2)

    best = minimize(loss, [0.0, 1.0], tol=1e-12).x
    found = recalibrate(everyone)
    np.testing.assert_allclose([found.intercept, found.slope], best, atol=1e-4)
    other = cells_of(*((*arm[:2], 1 - arm[2]) for arm in (training, control)))
    assert recalibrate(other) == found
    for split in (control, training):  # the same records in other arms
        rows = np.arange(split[2].size) % 2 == 0
        halves = [tuple(part[chosen] for part in split) for chosen in (rows, ~rows)]
        rest = training if split is control else control
        dealt = recalibrate(cells_of(rest, *halves))
        np.testing.assert_allclose(
            [dealt.intercept, dealt.slope], [found.intercept, found.slope], rtol=1e-9
        )


def test_of_no_records_it_is_the_proxy_itself():
    nothing = recalibrate([OddsTally.zero().cells()])
    assert (nothing.intercept, nothing.slope) == (0.0, 1.0)
    assert nothing.apply(np.array([0.3]))[0] == pytest.approx(0.3)


def test_a_slope_is_fitted_where_the_intercept_needs_no_step():
    """Two cells, each other's mirror image, whose target is surer than the proxy."""
    odds = np.array([-1.53, 1.53])
    cells = odds_tally(*(np.repeat(each, 10**6, axis=0) for each in (both(1.6 * odds), both(odds))),
                       np.repeat([0, 1], 10**6)).cells()  # fmt: skip
    found = recalibrate([cells])
    assert abs(found.slope * cells.proxy[1] + found.intercept - cells.target[1]) < 1e-3


def test_a_proxy_that_the_target_contradicts_is_left_out():
    """The slope is at least 0: else every record is held against the target's mean."""
    world = Binary(proxy=scaled(-1.0)).world("", 0.0, 500, 500)
    training, control = world.draw(np.random.default_rng(1))
    found = recalibrate(cells_of(training, control))
    mean = np.concatenate([training[0][:, 1], control[0][:, 1]]).mean()
    assert found.slope == 0.0
    assert expit(found.intercept) == pytest.approx(mean, abs=0.01)
    likely = expit(np.array([3.0, 2.0])), np.array([0.2, 0.6])
    arm = (np.repeat(two_columns(ones), 900, axis=0) for ones in likely)
    found = recalibrate([odds_tally(*arm, np.ones(1_800, dtype=np.int64)).cells()])
    assert found.slope == 0.0
    assert expit(found.intercept) == pytest.approx(likely[0].mean(), abs=1e-2)


def test_what_moved_is_the_probability_with_its_sign():
    """The same step in log-odds moves 1/2 further than 1/1000; granted are both beliefs."""
    proxy = np.array([0.0, 0.0, -7.0])
    target = np.array([1.0, -1.0, -6.0])
    (cells,) = cells_of((both(target), both(proxy), np.zeros(3, dtype=np.int64)))
    fit = recalibrate([cells])
    moved = fit.moved(cells)
    np.testing.assert_allclose(moved, expit(cells.target) - expit(fit.apply(cells.proxy)))
    far, up, down = moved[cells.proxy < -5.0], moved.max(), moved.min()
    assert up > 0.1
    assert down < -0.1
    assert abs(far[0]) < 0.01
    believed, granted = fit.granted(cells.proxy)
    np.testing.assert_array_equal(believed, fit.apply(cells.proxy))
    np.testing.assert_array_equal(granted, cells.proxy)
