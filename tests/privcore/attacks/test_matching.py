"""Two-by-two tables of both arms: no label is looked at, and no holdout record is used twice."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import hypergeom

from privcore.attacks import OddsTally, generator, match, odds_tally
from privcore.attacks.matching import (
    SHARES,
    Recalibration,
    _log_odds_of_mean,
    _Remaining,
    _strata,
    _sureness_needed,
    recalibrate,
)
from privcore.attacks.odds import PLACES
from privcore.exceptions import InvalidInputError
from tests.worlds import RARE, Binary, scaled, some_drift

WORLD = Binary(proxy=scaled(1.5), drifts=some_drift(2.0, 0.2), noise=0.5).world("", 1.0, 900, 260)


def arms(seed=1, world=WORLD):
    return world.draw(np.random.default_rng(seed))


def tallies(*both):
    return tuple((odds_tally(*arm),) for arm in both)


def matched(training, control, seed=0):
    return match(*tallies(training, control), random=generator(seed))


def rows_of(arm):
    """Each record by itself: (proxy, target, label), at the middle of its bins."""
    cells = odds_tally(*arm).cells()
    return [
        (proxy, target, label)
        for proxy, target, zeros, ones in zip(
            cells.proxy, cells.target, cells.zeros, cells.ones, strict=True
        )
        for label, count in ((0, zeros), (1, ones))
        for _ in range(count)
    ]


def naive_tables(training, control):
    """Record by record, as `match` tells it; right ones of the control as an interval.

    Which of the records of a border cell are matched is a matter of chance, so the least and the
    most that may be right are returned.
    """
    trained, held_out = rows_of(training), rows_of(control)
    fit = recalibrate([odds_tally(*control).cells()])

    def lift(row):
        return row[1] - fit.apply(row[0])

    def sureness(row):
        return abs(expit(row[1]) - expit(fit.apply(row[0])))

    def mean_log_odds(rows, side, transform):
        sign = 1.0 if side else -1.0
        return logit(np.mean([expit(sign * transform(row[0])) for row in rows]))

    everyone = sorted(row[0] for row in trained + held_out)
    number = min(max(min(len(trained), len(held_out)) // 50, 1), 128)
    edges = sorted({everyone[math.ceil(i / number * len(everyone)) - 1] for i in range(1, number)})
    sets = []
    for share in SHARES:
        surest = sorted((sureness(row) for row in trained), reverse=True)
        least = 0.0 if share == 1.0 else surest[math.ceil(share * len(trained)) - 1]
        tables = []
        for place in range(len(edges) + 1):
            mine, unseen = (
                [row for row in rows if sum(row[0] >= edge for edge in edges) == place]
                for rows in (trained, held_out)
            )
            for side in (1, 0):
                chosen, alike = (
                    [row for row in rows if sureness(row) >= least and (lift(row) > 0) == side]
                    for rows in (mine, unseen)
                )
                if not chosen or not unseen:
                    continue
                expected = len(chosen) * len(unseen) / len(mine)
                pooled = (len(chosen) + len(alike)) / (len(mine) + len(unseen))
                chance = 3.0 * math.sqrt(
                    pooled * (1 - pooled) * (1 / len(mine) + 1 / len(unseen))
                ) * len(unseen)  # fmt: skip
                held = math.floor(min(expected, max(len(alike), expected - chance)) + 1e-9)
                if not held:
                    continue
                ranked = sorted(unseen, key=lift, reverse=bool(side))[:held]
                border = lift(ranked[-1])
                inside = [row for row in ranked if lift(row) != border]
                at = [row for row in unseen if lift(row) == border]
                drawn = held - len(inside)
                sure = sum(row[2] == side for row in inside)
                fit_right = sum(row[2] == side for row in at)
                offset = max(
                    0.0,
                    *(
                        mean_log_odds(chosen, side, transform)
                        - mean_log_odds(ranked, side, transform)
                        for transform in (fit.apply, lambda x: x)
                    ),
                )
                tables.append(
                    (
                        len(chosen),
                        sum(row[2] == side for row in chosen),
                        held,
                        sure + max(0, drawn - (len(at) - fit_right)),
                        sure + min(drawn, fit_right),
                        offset,
                    )
                )
        sets.append(tables)
    return sets


@pytest.mark.parametrize("seed", range(4))
def test_tables_are_those_of_a_naive_twin(seed):
    both = arms(seed)
    for found, expected in zip(matched(*both), naive_tables(*both), strict=True):
        rows = np.array(expected, dtype=np.float64).reshape(-1, 6)
        assert np.array_equal(found.records, rows[:, 0])
        assert np.array_equal(found.right, rows[:, 1])
        assert np.array_equal(found.control, rows[:, 2])
        assert np.all(found.control_right >= rows[:, 3])
        assert np.all(found.control_right <= rows[:, 4])
        np.testing.assert_allclose(found.offset, rows[:, 5], atol=1e-9)
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


def test_every_record_is_in_one_table_and_every_holdout_record_in_at_most_one():
    """All labels of one class: what is right on either side counts the records of that side."""
    training, control = arms(5)
    everyone = matched(training, control)[0]
    assert everyone.records.sum() <= 900
    assert everyone.records.sum() > 800
    assert everyone.control.sum() <= 260
    for label in (0, 1):
        alike = matched((*training[:2], np.full(900, label)), (*control[:2], np.full(260, label)))[
            0
        ]
        one_side = alike.right > 0
        assert np.array_equal(alike.right[one_side], alike.records[one_side])
        assert np.array_equal(alike.control_right[one_side], alike.control[one_side])
        assert np.all(alike.control_right[~one_side] == 0)


def test_shares_are_of_all_training_records_the_least_sure_among_them():
    """Nine cells of 5 records each, surest first, and one of 55 where nothing moved."""
    moved = np.repeat([*np.linspace(4.0, 2.4, 9), 0.0], [5] * 9 + [55])
    target = np.stack([1.0 - expit(moved), expit(moved)], axis=1)
    cells = odds_tally(target, np.full((100, 2), 0.5), np.zeros(100, dtype=np.int64)).cells()
    fit = Recalibration(0.0, 0.0)
    sureness = np.sort(np.abs(expit(cells.target) - 0.5))[::-1]
    assert _sureness_needed([cells], fit) == pytest.approx([0.0, sureness[3], *[sureness[0]] * 3])
    nobody = OddsTally.zero()
    assert _sureness_needed([nobody.cells()], fit) == [0.0] * len(SHARES)
    assert all(one.records.size == 0 for one in match([nobody], [nobody], random=generator(0)))


@pytest.mark.parametrize("seed", range(20))
def test_what_one_side_took_is_gone_for_the_other(seed):
    """From both ends until nothing is left, with a border in a large cell: all are taken once."""
    rows = [0.2] * 10 + [0.5] * 40 + [0.9] * 10
    proxy, labels = np.full((60, 2), 0.5), np.arange(60) % 2
    cells = odds_tally(np.array([[1.0 - one, one] for one in rows]), proxy, labels).cells()
    remaining = _Remaining(cells, cells.target - cells.proxy)
    both = [remaining.take(30, side=side, random=generator(seed)) for side in (1, 0)]
    assert [taken.sum() for taken in both] == [30, 30]
    np.testing.assert_array_equal(both[0] + both[1], np.stack([cells.zeros, cells.ones], axis=1))


@pytest.mark.parametrize(
    ("held", "strata"), [(49, 1), (99, 1), (100, 2), (249, 4), (250, 5), (20_000, 128)]
)
def test_a_stratum_has_fifty_records_of_the_smaller_arm_and_there_are_128_at_most(held, strata):
    """Proxies spread over all bins, which are more than there may be strata."""
    random = np.random.default_rng(9)
    arms = []
    for records in (20_000, held):
        chance = expit(random.uniform(-12.0, 12.0, records))
        proxy = np.stack([1.0 - chance, chance], axis=1)
        labels = (random.random(records) < chance).astype(np.int64)
        arms.append(odds_tally(proxy, proxy, labels).cells())
    for both in (arms, arms[::-1]):
        assert len(_strata(*both)) == strata
        assert sum(int((cells.zeros + cells.ones).sum()) for cells, _ in _strata(*both)) == int(
            (both[0].zeros + both[0].ones).sum()
        )


def test_shards_and_their_order_do_not_matter():
    training, control = arms(6)
    rows = np.random.default_rng(0).permutation(900)
    parts = [odds_tally(*(part[chosen] for part in training)) for chosen in np.split(rows, 3)]
    sharded = match((parts[2] + parts[0] + parts[1],), (odds_tally(*control),), random=generator(0))
    for one, two in zip(matched(training, control), sharded, strict=True):
        for name in ("records", "right", "control", "control_right", "offset"):
            assert np.array_equal(getattr(one, name), getattr(two, name))


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
    with pytest.raises(InvalidInputError, match="groups of the control is 1"):
        match(training, control[:1], random=generator(0))
    with pytest.raises(InvalidInputError, match="groups of the control is 0"):
        match((), (), random=generator(0))


def test_a_holdout_that_differs_no_more_than_chance_is_cut_in_value_like_training():
    """5% of the records drift by 12 and are right; the holdout's share of them is its own.

    No control of the drifted side holds more records than are drifted: none is filled up with
    records that the target holds for what they were. 20 nights, seed 10.
    """
    world = Binary(**RARE, drifts=some_drift(12.0)).world("", 0.0, 5_000, 2_000)
    random = np.random.default_rng(10)
    for night in range(20):
        training, control = world.draw(random)
        for table in matched(training, control, seed=night):
            side = table.right > 0.5 * table.records
            rare = side & (table.records < 30)
            wrong = table.control[rare] - table.control_right[rare]
            assert wrong.sum() <= 0.01 * table.control[rare].sum() + 3


def test_where_memory_lifts_training_only_a_cut_share_of_ranks_is_taken():
    """Every training record lies far from the proxy, no holdout record does: the surest are ranked.

    The middles of bins make one side's half of the 500 the surer one; the control's expected half
    is cut by three deviations.
    """
    half = np.full((500, 2), 0.5)
    labels = np.arange(500) % 2
    known = np.where(labels[:, None] == 1, [0.02, 0.98], [0.98, 0.02])
    slightly = np.linspace(0.47, 0.53, 500)
    training = known, half, labels
    control = np.stack([1.0 - slightly, slightly], axis=1), half, labels
    surest = matched(training, control)[2]
    cut = 3.0 * 500 * math.sqrt(0.25 * 0.75 * (2 / 500))  # 250 of training, none of the holdout
    assert surest.records.tolist() == [250]
    assert surest.control.tolist() == [math.floor(250 - cut)]
    assert surest.right.tolist() == [250]


def test_the_recalibration_is_the_penalised_fit_of_the_targets_probabilities():
    """Against a general optimiser; labels of the holdout do not enter."""
    for seed in range(3):
        _, control = arms(seed)
        cells = odds_tally(*control).cells()
        made = cells.zeros + cells.ones

        def loss(fit, cells=cells, made=made):
            chance = expit(fit[0] + fit[1] * cells.proxy)
            mean = expit(cells.target)
            fitted = mean * np.log(chance) + (1.0 - mean) * np.log1p(-chance)
            return -float(made @ fitted) + 0.5 * (fit[0] ** 2 + (fit[1] - 1.0) ** 2)

        best = minimize(loss, [0.0, 1.0], tol=1e-12).x
        found = recalibrate([cells])
        np.testing.assert_allclose([found.intercept, found.slope], best, atol=1e-4)
        other = odds_tally(*control[:2], 1 - control[2]).cells()
        assert recalibrate([other]) == found
    assert recalibrate([OddsTally.zero().cells()]).apply(np.array([0.3]))[0] == pytest.approx(0.3)


def test_a_slope_is_fitted_where_the_intercept_needs_no_step():
    """Two cells, each other's mirror image, whose target is surer than the proxy."""
    odds = np.array([-1.53, 1.53])
    rows = np.stack([1.0 - expit(odds), expit(odds)], axis=1)
    surer = np.stack([1.0 - expit(1.6 * odds), expit(1.6 * odds)], axis=1)
    cells = odds_tally(*(np.repeat(each, 10**6, axis=0) for each in (surer, rows)),
                       np.repeat([0, 1], 10**6)).cells()  # fmt: skip
    found = recalibrate([cells])
    assert abs(found.slope * cells.proxy[1] + found.intercept - cells.target[1]) < 1e-3


def test_a_proxy_that_the_target_contradicts_is_left_out():
    """The slope is at least 0: else every record is held against the target's mean."""
    _, control = arms(1, Binary(proxy=scaled(-1.0)).world("", 0.0, 500, 500))
    found = recalibrate([odds_tally(*control).cells()])
    assert found.slope == 0.0
    assert expit(found.intercept) == pytest.approx(control[0][:, 1].mean(), abs=0.01)
    likely = expit(np.array([3.0, 2.0])), np.array([0.2, 0.6])
    arm = (np.repeat(np.stack([1.0 - ones, ones], axis=1), 900, axis=0) for ones in likely)
    found = recalibrate([odds_tally(*arm, np.ones(1_800, dtype=np.int64)).cells()])
    assert found.slope == 0.0
    assert expit(found.intercept) == pytest.approx(likely[0].mean(), abs=1e-2)


def test_quantiles_are_of_all_records_the_likeliest_among_them():
    """Two strata of a hundred records, sixty of which are the proxy's likeliest: they are one."""
    chance = np.repeat([*np.linspace(0.1, 0.5, 9), 0.9], [5, 5, 5, 5, 4, 4, 4, 4, 4, 60])
    rows = np.stack([1.0 - chance, chance], axis=1)
    cells = odds_tally(rows, rows, np.zeros(100, dtype=np.int64)).cells()
    sizes = [int((one.zeros + one.ones).sum()) for one, _ in _strata(cells, cells)]
    assert sizes == [40, 60]


@pytest.mark.parametrize("side", [0, 1])
def test_the_log_odds_of_a_mean_are_told_where_doubles_end(side):
    odds = np.array([-2.0, 0.5, 1.5])
    mean = np.average(expit(odds if side else -odds), weights=[1, 3, 2])
    assert _log_odds_of_mean(odds, np.array([1, 3, 2]), side) == pytest.approx(logit(mean))
    certain = _log_odds_of_mean(np.array([50.0, 60.0]), np.array([1, 0]), side)
    assert certain == pytest.approx(50.0 if side else -50.0)


def test_the_fit_of_an_order_may_fall_and_has_no_proxy_to_believe():
    """Places from both ends; the target says less of higher ones."""
    order = np.repeat([20, PLACES - 21], 500)
    chance = np.where(order == 20, 0.9, 0.2)
    target = np.stack([1.0 - chance, chance], axis=1)
    even, labels = np.full((1_000, 2), 0.5), np.arange(1_000) % 2
    cells = odds_tally(target, even, labels, order=order).cells()
    fit = recalibrate([cells], ordered=True)
    assert fit.slope < 0.0
    np.testing.assert_allclose(expit(fit.apply(cells.proxy)), [0.9, 0.2], atol=0.02)
    assert recalibrate([cells]).slope == 0.0
    # Surest is who moved furthest in log-odds, and granted is the fit alone.
    np.testing.assert_allclose(fit.sureness(cells), np.abs(cells.target - fit.apply(cells.proxy)))
    assert len(fit.granted(cells.proxy)) == 1
    assert len(recalibrate([cells]).granted(cells.proxy)) == 2
    nothing = recalibrate([OddsTally.zero().cells()], ordered=True)
    assert (nothing.intercept, nothing.slope) == (0.0, 0.0)


@pytest.mark.parametrize(("held", "strata"), [(20, 4), (199, 4), (249, 4), (250, 5)])
def test_an_order_has_four_strata_at_least(held, strata):
    random = np.random.default_rng(10)
    arms = []
    for records in (5_000, held):
        even, labels = np.full((records, 2), 0.5), np.zeros(records, dtype=np.int64)
        order = random.integers(0, PLACES, records)
        arms.append(odds_tally(even, even, labels, order=order))
    assert len(_strata(*(arm.cells() for arm in arms), fewest=4)) == strata
    # All are predicted to be of the other class, which they are: a table in every stratum.
    assert match(*([arm] for arm in arms), random=generator(1), ordered=True)[0].records.size in {
        strata,
        strata - 1,
    }
