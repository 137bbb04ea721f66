"""The figures of "Beyond the Worst Case": what each is known to show."""

import numpy as np
import pytest

from privcore.exceptions import InvalidInputError
from privcore.upper_bounds import advantage_curves, secret_priors, success_curves, zipf_prior


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
    with pytest.raises(InvalidInputError, match=r"choices is 1\.0"):
        success_curves(choices=[1])
    with pytest.raises(InvalidInputError, match=r"epsilons is -1\.0"):
        advantage_curves(epsilons=[-1])
