"""Proposition 9 and Figure 1 of Izzo et al.: against all halves, and against another's numbers."""

import itertools

import numpy as np
import pytest
from mpmath import binomial, mp, mpf

from privcore.exceptions import InvalidInputError
from privcore.upper_bounds import (
    least_noise_scale,
    noise_needed,
    reciprocal_sum_deviation,
    reciprocal_sum_sensitivity,
)
from tests.support.published import printed


def all_halves(records):
    """Half -> statistic, as the proposition says it, in 60 digits."""
    rare = 1 / binomial(records, records // 2)
    odd_one = mp.sqrt(rare) - sum(mpf(2) ** i for i in range(records // 2 - 1))
    data = [mpf(2) ** i for i in range(records - 1)] + [odd_one]
    halves = itertools.combinations(range(records), records // 2)
    return {frozenset(half): 1 / mp.fsum(data[i] for i in half) for half in halves}


@pytest.mark.paper("reidentification", "Proposition 9")
@pytest.mark.parametrize("records", [4, 6, 8, 10])
def test_every_half_gives_these_moments(records):
    with mp.workdps(60):
        found = all_halves(records)
        values = list(found.values())
        mean = mp.fsum(values) / len(values)
        deviation = mp.sqrt(mp.fsum((value - mean) ** 2 for value in values) / len(values))
        sensitivity = max(
            abs(found[one] - found[other])
            for one, other in itertools.combinations(found, 2)
            if len(one & other) == records // 2 - 1
        )
        # The one half that sums to sqrt(p), and all others in [0, 1].
        assert max(values) == pytest.approx(float(mp.sqrt(len(values))), rel=1e-14)
        assert all(0 <= value <= 1 for value in values if value != max(values))
    assert reciprocal_sum_deviation(records) == pytest.approx(float(deviation), rel=1e-13)
    assert reciprocal_sum_sensitivity(records) == pytest.approx(float(sensitivity), rel=1e-13)


@pytest.mark.paper("reidentification", "Proposition 9")
def test_the_deviation_stays_while_the_sensitivity_grows():
    for records in range(18, 200, 2):
        assert reciprocal_sum_deviation(records) == pytest.approx(1.0, abs=2e-5)
        assert reciprocal_sum_sensitivity(records) > 2.0 ** (records / 3.0)


def test_the_bound_beyond_enumeration_goes_on_where_enumeration_ends(monkeypatch):
    exact = {records: reciprocal_sum_deviation(records) for records in (16, 18, 20, 22)}
    monkeypatch.setattr("privcore.upper_bounds.reidentification._ENUMERATED", 4)
    for records, deviation in exact.items():
        bound = reciprocal_sum_deviation(records)
        assert deviation <= bound
        assert bound == pytest.approx(deviation, rel=2.0 ** (5 - records))


@pytest.mark.paper("reidentification", "Figure 1")
@pytest.mark.parametrize("row", printed("001_figure1_recomputed"), ids=lambda row: row["records"])
def test_figure_1_is_that_of_another_implementation(row):
    found = noise_needed(int(row["records"]), eta=float(row["eta"]))
    assert found.sensitivity == pytest.approx(float(row["sensitivity"]), rel=1e-5)
    assert found.dp_scale == pytest.approx(float(row["dp_laplace_scale"]), rel=1e-5)
    assert found.rip_scale == pytest.approx(float(row["rip_laplace_scale"]), rel=1e-5)


@pytest.mark.paper("reidentification", "Figure 1")
def test_figure_1_shows_what_the_paper_says_of_it():
    for records in (36, 40, 44, 48):
        for eta in np.linspace(0.01, 0.49, 25):
            found = noise_needed(records, eta=float(eta))
            assert found.rip_scale < found.dp_scale
            assert least_noise_scale(eta) * found.deviation < found.rip_scale
    # DP needs less at a very small eta: "for almost all values", not for all.
    tiny = noise_needed(36, eta=0.001)
    assert tiny.dp_scale < tiny.rip_scale


@pytest.mark.slow
@pytest.mark.paper("reidentification", "Figure 1")
@pytest.mark.parametrize("eta", [0.05, 0.2, 0.4])
def test_the_drawn_noise_keeps_its_promise_on_the_statistic(eta):
    # The best adversary's accuracy on every record of n = 8, by integration over the noisy output;
    # with a hundredth of the least noise the strictest promise is broken.
    with mp.workdps(30):
        found = {half: float(value) for half, value in all_halves(8).items()}
    needed = noise_needed(8, eta=eta)
    least = float(least_noise_scale(eta)) * needed.deviation

    def accuracy(scale):
        """Best accuracy on the record told best, with Laplace noise of this scale."""
        reach = 40.0 * scale + 20.0
        grid = np.linspace(-reach, reach, 100_001)
        densities = {half: np.exp(-np.abs(grid - at) / scale) for half, at in found.items()}
        best = 0.0
        for record in range(8):
            taking = sum(density for half, density in densities.items() if record in half)
            without = sum(density for half, density in densities.items() if record not in half)
            step = grid[1] - grid[0]
            best = max(best, float(np.sum(np.maximum(taking, without)) * step))
        return best / (len(found) * 2.0 * scale)

    for scale in (needed.rip_scale, least):
        assert accuracy(scale) <= 0.5 + eta + 1e-3
    if eta == 0.05:
        assert accuracy(least / 100.0) > 0.5 + eta


def test_bad_input_is_named():
    for wrong in (37, 2, 1_002):
        with pytest.raises(InvalidInputError, match=f"records is {wrong}"):
            noise_needed(wrong)
    with pytest.raises(InvalidInputError, match=r"eta is 0\.0"):
        noise_needed(36, eta=0.0)
