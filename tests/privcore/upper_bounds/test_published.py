"""The figures of "Beyond the Worst Case" and of Stock et al. 2022: what each is known to show."""

import numpy as np
import pytest

from privcore.guarantees import DpSgd
from privcore.upper_bounds import (
    advantage_curves,
    epsilon_protect,
    generalised_advantage,
    leakage_curves,
    secret_priors,
    steps_curves,
    success_bound,
    success_curves,
    zipf_prior,
)
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
from tests.support.refusals import refused


@pytest.mark.paper("worst_case", "Figure 2")
def test_the_two_numbers_of_the_most_probable_name_leave_one_prior_open():
    # Neither this prior nor any other is printed: it is what both numbers have in common.
    def shown(prior):
        success = success_bound(prior, epsilon=5.0, delta=1e-5)
        protect = epsilon_protect(prior, advantage=0.05)
        return f"{protect:.2f}", f"{generalised_advantage(prior, success):.2f}"

    assert shown(0.005445) == ("2.37", "0.45")
    assert shown(0.00540) == ("2.37", "0.44")
    assert shown(0.00546) == ("2.36", "0.45")


@pytest.mark.paper("worst_case", "Figure 2", "Figure 3")
def test_no_prior_of_at_most_500_names_gives_the_printed_name_of_figure_3_too():
    # Each of 500 sequences has one name. The ten most probable share least where all others do.
    most = 0.00546
    of_ten = most / (most + 9.0 * (1.0 - most) / 499)
    assert of_ten == pytest.approx(0.233, abs=1e-3)
    assert success_bound(of_ten, epsilon=1.0, delta=1e-5) == pytest.approx(0.453, abs=1e-3)
    assert success_bound(of_ten, epsilon=1.0, delta=1e-5) < 0.525 - 2.0 * 0.0112


@pytest.mark.paper("worst_case", "Figure 2")
def test_the_password_numbers_are_those_of_another_exponent():
    for exponent, protect, advantage in ((1.1, 0.3993, 0.1556), (1.2, 0.2547, 0.2376)):
        prior = zipf_prior(1, exponent=exponent, size=10**9)
        success = success_bound(prior, epsilon=1.0)
        assert epsilon_protect(prior, advantage=0.05) == pytest.approx(protect, abs=1e-4)
        assert generalised_advantage(prior, success) == pytest.approx(advantage, abs=1e-4)


@pytest.mark.paper("worst_case", "Figure 1")
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


@pytest.mark.paper("worst_case", "Figure 2")
def test_advantage_curves():
    curves = {(curve.secrets, curve.rank): curve for curve in advantage_curves()}
    assert len(curves) == 3 * 3
    for (secrets, _), curve in curves.items():
        assert np.all(np.diff(curve.advantage) >= 0.0)
        assert curve.advantage[0] < curve.advantage[4] <= 1.0
        least, median, most = (curves[secrets, rank] for rank in ("least", "median", "most"))
        if secrets == "uniform":
            assert least.prior == median.prior == most.prior == 1e-9
        else:
            assert least.prior < median.prior < most.prior
            assert least.epsilon_protect > median.epsilon_protect > most.epsilon_protect
    # The median password is rarer than a uniform one, as the paper says of its figure.
    assert curves["Zipf 1.1", "median"].prior < 1e-9
    one = curves["Zipf 1.2", "most"].epsilons.tolist().index(1.0)
    assert curves["Zipf 1.2", "most"].advantage[one] == pytest.approx(0.24, abs=0.005)
    assert curves["Zipf 1.2", "most"].epsilon_protect == pytest.approx(0.2547, abs=1e-4)


@pytest.mark.paper("worst_case", "Figure 2")
def test_priors_of_figure_2():
    priors = secret_priors()
    assert priors["Zipf 1.1", "most"] == zipf_prior(1, exponent=1.1, size=10**9)
    assert priors["Zipf 1.1", "median"] == zipf_prior(5 * 10**8, exponent=1.1, size=10**9)
    assert priors["Zipf 1.2", "most"] == pytest.approx(0.1814, abs=5e-5)


def test_bad_input_is_named():
    refused(r"choices is 1\.0", success_curves, choices=[1])
    refused(r"epsilons is -1\.0", advantage_curves, epsilons=[-1])


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


def test_bad_input_of_leakage_figures_is_named():
    refused(r"steps is 0\.0", steps_curves, steps=[0])
    refused(r"secret_bits is -1\.0", leakage_curves, secret_bits=[-1], noise_multipliers=(0.5,))
