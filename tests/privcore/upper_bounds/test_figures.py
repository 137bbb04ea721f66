"""The papers' figures: what each is known to show."""

import numpy as np
import pytest

from privcore.exceptions import InvalidInputError
from privcore.upper_bounds import leakage_curves, noise_needed, success_curves


def test_success_curves():
    curves = success_curves(choices=[2, 10, 1_000])
    found = {(curve.bound, curve.epsilon, curve.delta): curve.success for curve in curves}
    assert len(found) == 3 * (5 + 3)
    np.testing.assert_allclose(found["any_attack", 4.0, 0.0][0], 0.9820, atol=5e-5)
    for epsilon in (1.0, 2.0, 4.0):
        ours = found["any_attack", epsilon, 0.0]
        np.testing.assert_allclose(found["tradeoff", epsilon, 0.0], ours, rtol=1e-6)
        for other in ("reconstruction_robustness", "renyi", "narcissus"):
            assert np.all(ours <= found[other, epsilon, 0.0] * (1.0 + 1e-9))
        approximate = found["any_attack", epsilon, 1e-5]
        assert np.all(approximate >= found["tradeoff", epsilon, 1e-5])
        np.testing.assert_allclose(approximate, ours + 1e-5, rtol=1e-12)


def test_leakage_curves_show_what_figures_1_and_7_say():
    strong, middle, weak = leakage_curves(secret_bits=[1, 20], noise_multipliers=(0.8, 0.469, 0.33))
    # Figure 7: one bit leaks whole below epsilon 10, twenty bits only around 50.
    assert middle.epsilon == pytest.approx(8.8, abs=0.1)
    assert middle.leaked[0] == pytest.approx(1.0, abs=1e-3)
    assert middle.leaked[1] < 11.0
    assert weak.epsilon == pytest.approx(49.4, abs=1.0)
    assert 0.985 * 20 < weak.leaked[1] < 20.0
    # Figure 1: the new bound is below both conversions for secrets that are not tiny.
    for curve in (strong, middle):
        assert np.all(curve.leaked <= curve.direct)
        assert curve.leaked[1] < curve.direct[1]


def test_renyi_leakage_beats_the_improved_conversion_for_long_secrets_and_low_noise():
    (curve,) = leakage_curves(secret_bits=[20, 64], noise_multipliers=(0.5,))
    np.testing.assert_allclose(curve.leaked, [8.05, 21.10], atol=0.01)
    assert np.all(curve.leaked < curve.improved_conversion)


def test_noise_needed():
    for records in (36, 40, 44, 48):
        found = noise_needed(records)
        assert found.deviation == pytest.approx(1.0, abs=1e-3)
        assert found.rip_scale == pytest.approx(5625.0, rel=1e-3)
        assert found.rip_scale < found.dp_scale
    assert noise_needed(48).dp_scale == pytest.approx(16 * noise_needed(36).dp_scale, rel=1e-3)


def test_noise_needed_has_the_exact_deviation_and_sensitivity():
    # All 70 halves of 8 records, the first four marked.
    records = 8
    halves = np.array([h for h in np.ndindex(*(2,) * records) if sum(h) == records // 2])
    marked = halves[:, : records // 2].sum(axis=1).astype(float)
    statistic = (marked - marked.mean()) / marked.std() + 2.0 ** (records / 3) * (marked == 4)
    found = noise_needed(records)
    assert found.deviation == pytest.approx(statistic.std(), rel=1e-12)
    neighbours = np.abs(halves[:, None, :] - halves[None, :, :]).sum(axis=2) == 2
    changes = np.abs(statistic[:, None] - statistic[None, :])[neighbours]
    assert found.sensitivity == pytest.approx(changes.max(), rel=1e-12)


def test_bad_input_is_named():
    with pytest.raises(InvalidInputError, match="records is 37"):
        noise_needed(37)
    with pytest.raises(InvalidInputError, match=r"eta is 0\.0"):
        noise_needed(36, eta=0.0)
    with pytest.raises(InvalidInputError, match=r"choices is 1\.0"):
        success_curves(choices=[1])
