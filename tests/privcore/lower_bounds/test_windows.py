import numpy as np
import pytest

from privcore.exceptions import InvalidInputError
from privcore.lower_bounds import (
    WINDOW_EPSILONS,
    Fixed,
    Grid,
    Night,
    Previous,
    bets_claim_pvalue,
    bets_epsilon_lower,
    calibrate_pvalue,
    false_discovery_qvalues,
    log_wealth,
    window_epsilon_lower,
)
from tests.simulate import assert_rate_at_most, names, randomized_response, unrelated


def night(world, records) -> Night:
    return Night(log_wealth(names(*world).cells(), epsilons=WINDOW_EPSILONS), records)


def test_a_window_of_nights_without_a_leak_is_silent():
    """N = 300 windows of 7 nights of 100 records, seed 21."""
    random = np.random.default_rng(21)
    errors = sum(
        window_epsilon_lower([night(unrelated(100, random), 100) for _ in range(7)], classes=2) > 0
        for _ in range(300)
    )
    assert_rate_at_most(errors, 300, 0.05)


def test_watching_every_night_keeps_the_error_rate():
    """Ville: over 28 nights the chance that any prefix is rejected is 5%. N = 150, seed 22."""
    random = np.random.default_rng(22)
    errors = 0
    for _ in range(150):
        nights = [night(unrelated(60, random), 60) for _ in range(28)]
        wealth = np.cumsum([n.log_wealth[0] for n in nights])
        errors += bool(np.any(wealth >= np.log(20.0)))
    assert_rate_at_most(errors, 150, 0.05)


@pytest.mark.parametrize(("delta", "floor"), [(0.0, 0.6), (1e-6, 0.6)])
def test_nights_add_power_and_stay_below_the_truth(delta, floor):
    """Randomized response at epsilon 1, 7 nights of 300 records, N = 60, seed 23."""
    random = np.random.default_rng(23)
    single, windows = [], []
    for _ in range(60):
        worlds = [randomized_response(300, 1.0, random) for _ in range(7)]
        nights = [night(world, 300) for world in worlds]
        windows.append(window_epsilon_lower(nights, classes=2, delta=delta))
        single.append(bets_epsilon_lower(names(*worlds[0]).cells(), records=300, classes=2))
    assert_rate_at_most(sum(bound > 1.0 for bound in windows), 60, 0.05)
    assert np.mean(windows) > floor, np.mean(windows)
    assert np.mean(windows) > np.mean(single) + 0.2


def test_one_night_agrees_with_the_single_bound_on_the_coarser_grid():
    random = np.random.default_rng(24)
    world = randomized_response(2_000, 2.0, random)
    single = bets_epsilon_lower(names(*world).cells(), records=2_000, classes=2)
    window = window_epsilon_lower([night(world, 2_000)], classes=2)
    assert single - 0.05 <= window <= single + 1e-9


def test_delta_is_paid_by_every_night_however_large_the_wealth():
    random = np.random.default_rng(25)
    nights = [night(randomized_response(1_000, 3.0, random), 1_000) for _ in range(20)]
    free = window_epsilon_lower(nights, classes=2)
    paid = window_epsilon_lower(nights, classes=2, delta=1e-6)
    silenced = window_epsilon_lower(nights, classes=2, delta=1e-4)
    assert free >= paid > 2.0
    assert sum(n.log_wealth[0] for n in nights) > 750.0  # more than a double's exponent
    assert silenced == 0.0


def test_the_claims_pvalue_is_small_where_it_is_false_and_valid_where_it_is_true():
    """Randomized response at epsilon 1, 400 records, N = 400, seed 26."""
    random = np.random.default_rng(26)
    cells = [names(*randomized_response(400, 1.0, random)).cells() for _ in range(400)]
    true = [bets_claim_pvalue(c, records=400, classes=2, epsilon=1.0) for c in cells]
    assert_rate_at_most(sum(p <= 0.05 for p in true), 400, 0.05)
    false = [bets_claim_pvalue(c, records=400, classes=2, epsilon=0.1) for c in cells]
    assert np.median(false) < 0.01
    paid = bets_claim_pvalue(cells[0], records=400, classes=2, epsilon=0.1, delta=1e-3)
    assert paid > bets_claim_pvalue(cells[0], records=400, classes=2, epsilon=0.1)


def test_calibrated_pvalues_are_evalues():
    """The mean of 1/(2 sqrt(p)) over uniform p is 1; numerically, on a fine grid."""
    edges = np.linspace(0.0, 1.0, 2_000_001)
    middle = 0.5 * (edges[1:] + edges[:-1])
    assert calibrate_pvalue(middle).mean() == pytest.approx(1.0, abs=1e-3)
    assert calibrate_pvalue(1e-4) == pytest.approx(50.0)


def test_qvalues_by_hand():
    found = false_discovery_qvalues([0.01, 0.04, 0.03, 1.0])
    np.testing.assert_allclose(found, [0.04, 4 * 0.04 / 3, 4 * 0.04 / 3, 1.0])


def test_bad_input_is_named():
    good = Night(np.zeros(WINDOW_EPSILONS.size), 10)
    with pytest.raises(InvalidInputError, match="at least one night"):
        window_epsilon_lower([], classes=2)
    with pytest.raises(InvalidInputError, match="grid's shape"):
        window_epsilon_lower([Night(np.zeros(3), 10)], classes=2)
    with pytest.raises(InvalidInputError, match="at least 2 classes"):
        window_epsilon_lower([good], classes=1)
    with pytest.raises(InvalidInputError, match="p-value lies"):
        false_discovery_qvalues([0.0, 0.5])
    with pytest.raises(InvalidInputError, match="p-value lies"):
        calibrate_pvalue(1.5)
    for choice in (lambda: Grid(()), lambda: Fixed(0.0), lambda: Previous(1.5)):
        with pytest.raises(InvalidInputError, match="fractions"):
            choice()
    assert Previous(None).fractions == (0.1,)
    assert Previous(0.02).fractions == (0.02,)
