"""The figures of Stock et al. 2022: what each is known to show."""

import numpy as np
import pytest

from privcore.exceptions import InvalidInputError
from privcore.guarantees import DpSgd
from privcore.upper_bounds import leakage_curves, steps_curves
from privcore.upper_bounds.published import (
    DELTA,
    DENSE_LEAST_ORDER,
    DENSE_SAMPLING_RATE,
    DENSE_STEPS,
    LONG_SECRET,
    SAMPLING_RATE,
    STEPS,
)
from tests.support.published import printed


@pytest.mark.paper("renyi", "Section 4.3")
def test_the_run_is_that_of_the_paper():
    stated = {(row["place"], row["quantity"]): row["value"] for row in printed("002_text_values")}
    assert float(stated["Fig 1, 2, 4.3", "training steps"]) == STEPS
    assert float(stated["Fig 1, 2, 4.3", "sampling rate q"]) == SAMPLING_RATE
    assert float(stated["Fig 1", "delta"]) == DELTA
    assert float(stated["Fig 2", "secret length (bits)"]) == LONG_SECRET
    rate, epochs = stated["Fig 6", "q, epochs"].split(", ")
    assert (float(rate), float(epochs) / float(rate)) == (DENSE_SAMPLING_RATE, DENSE_STEPS)


@pytest.mark.paper("renyi", "Figure 1", "Figure 7")
@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.paper("renyi", "Figure 5")
def test_renyi_leakage_beats_the_improved_conversion_for_long_secrets_and_low_noise():
    (curve,) = leakage_curves(secret_bits=[20, 64], noise_multipliers=(0.5,))
    np.testing.assert_allclose(curve.leaked, [8.05, 21.10], atol=0.01)
    assert np.all(curve.leaked < curve.improved_conversion)


@pytest.mark.slow
@pytest.mark.paper("renyi", "Figure 2")
def test_a_long_secret_leaks_with_the_steps_and_never_as_the_usual_conversion_fears():
    steps = [1_000, 30_000, STEPS]
    weak, strong = steps_curves(steps=steps, noise_multipliers=(0.3, 0.5))
    for curve in (weak, strong):
        assert np.all(np.diff(curve.leaked) > 0.0)
        assert np.all(curve.leaked <= curve.direct)
        assert curve.leaked[-1] < LONG_SECRET
    assert np.all(weak.leaked > strong.leaked)
    # Even at the lowest noise of section 4.3 the secret never leaks whole; the usual conversion
    # says that it may, from the first thousand steps on.
    assert weak.leaked[-1] == pytest.approx(57.6, abs=0.1)
    assert np.all(weak.direct == LONG_SECRET)
    # The last point is that of Figure 1 at 60 bits.
    (whole,) = leakage_curves(secret_bits=[60], noise_multipliers=(0.5,))
    assert strong.leaked[-1] == pytest.approx(whole.leaked[0], rel=1e-9)


@pytest.mark.slow
@pytest.mark.paper("renyi", "Figure 6")
def test_dense_sampling():
    loud, quiet = leakage_curves(
        secret_bits=[1, 10, 20, 64],
        noise_multipliers=(8.0, 2.0),
        sampling_rate=DENSE_SAMPLING_RATE,
        steps=DENSE_STEPS,
        least_order=DENSE_LEAST_ORDER,
    )
    # Without any order below 2, which would not converge: whatever the orders, it is a bound.
    run = DpSgd(8.0, DENSE_SAMPLING_RATE, DENSE_STEPS)
    assert np.isfinite(run.renyi([DENSE_LEAST_ORDER, 4.0, 63.0])).all()
    assert (loud.epsilon, quiet.epsilon) == pytest.approx((2.73, 14.53), abs=0.01)
    np.testing.assert_allclose(loud.leaked, [0.73, 2.80, 4.07, 7.53], atol=0.01)
    # At epsilon 14.5 a bit leaks whole and sixty-four keep more than half: the paper's point.
    assert quiet.leaked[0] == 1.0
    assert quiet.leaked[-1] < 32.0
    # Below one another: ours, then (for long secrets) the improved conversion, then the usual one.
    for curve in (loud, quiet):
        assert np.all(curve.leaked <= curve.direct)
        assert curve.leaked[-1] < curve.improved_conversion[-1] < curve.direct[-1]


def test_bad_input_is_named():
    with pytest.raises(InvalidInputError, match=r"steps is 0\.0"):
        steps_curves(steps=[0])
    with pytest.raises(InvalidInputError, match=r"secret_bits is -1\.0"):
        leakage_curves(secret_bits=[-1], noise_multipliers=(0.5,))
