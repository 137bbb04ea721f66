"""The reference model as the target sees it: a penalised fit over both arms that reads no label."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from privcore.attacks import OddsTally, odds_tally
from privcore.attacks.matching import recalibrate
from tests.worlds import Binary, both, scaled, some_drift

WORLD = Binary(proxy=scaled(1.5), drifts=some_drift(2.0, 0.2), noise=0.5).world("", 1.0, 900, 260)


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
    arm = (np.repeat(np.stack([1.0 - ones, ones], axis=1), 900, axis=0) for ones in likely)
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
