"""The best membership attack on noisy outputs: Bayes by hand, and no more than eta-RIP allows."""

import numpy as np
import pytest
from scipy.stats import binomtest

from privcore.attacks.reidentification_attack import (
    anisotropic_log_likelihood,
    member_probabilities,
    radial_log_likelihood,
)
from privcore.exceptions import InvalidInputError
from privcore.upper_bounds import (
    anisotropic_noise,
    least_noise_scale,
    rip_noise_scale,
    training_sets,
)
from tests.support.tiers import rest_slow

LEVEL = 1e-6


def test_bayes_by_hand():
    members = np.array([[True, False], [False, True], [True, True]])
    logs = np.log([0.2, 0.6, 0.2])
    assert member_probabilities(logs, members) == pytest.approx([0.4, 0.8])
    assert member_probabilities([-np.inf, 0.0, -np.inf], members).tolist() == [0.0, 1.0]
    # However small: only ratios matter.
    assert member_probabilities(logs - 2_000.0, members) == pytest.approx([0.4, 0.8])


@pytest.mark.slow
def test_the_likelihood_is_the_noises_own():
    # One dimension: Laplace noise. Shares of draws in two intervals against the two densities.
    random = np.random.default_rng(0)
    noise = np.array(
        [anisotropic_noise([2.0], eta=0.5, generator=random)[0] for _ in range(40_000)]
    )
    scale = float(rip_noise_scale(0.5))
    places = np.array([[0.0], [2.0 * scale * 1.5]])
    logs = anisotropic_log_likelihood([0.0], -places, deviations=[2.0], scale=scale)
    near, far = (np.mean(np.abs(noise - place[0]) < 0.2 * scale) for place in places)
    assert far / near == pytest.approx(np.exp(logs[1] - logs[0]), rel=0.1)
    assert radial_log_likelihood([0.0], -places, scale=2.0 * scale) == pytest.approx(logs, abs=1e-9)


def test_in_more_dimensions_the_laplace_radius_has_a_spike():
    outputs = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    logs = radial_log_likelihood([1e-6, 0.0, 0.0], outputs, scale=1.0)
    assert logs[0] - logs[1] == pytest.approx(1.0 + 2.0 * np.log(1e6), rel=1e-4)


def test_a_coordinate_without_noise_rules_training_sets_out():
    outputs = np.array([[1.0, 5.0], [1.0, 6.0], [2.0, 5.0]])
    logs = anisotropic_log_likelihood([1.0, 5.5], outputs, deviations=[0.0, 1.0], scale=1.0)
    assert logs[0] == logs[1] == pytest.approx(-0.5 / np.sqrt(2.0))
    assert logs[2] == -np.inf


@pytest.mark.slow
@pytest.mark.paper("reidentification", "Theorem 7", "Proposition 2")
@pytest.mark.parametrize("eta", rest_slow([0.1, 0.3]))
def test_the_best_attack_wins_no_more_than_eta(eta):
    # A mean of three of six records in two dimensions, known deviations, least noise: 4,000 draws,
    # every record by an exact binomial test at 1e-6.
    random = np.random.default_rng(int(10 * eta))
    records = random.standard_normal((6, 2))
    records[0] = [8.0, -8.0]
    members = training_sets(6, size=3)
    outputs = members @ records / 3.0
    deviations = outputs.std(axis=0)
    scale = float(least_noise_scale(eta))
    right, draws = np.zeros(6, dtype=int), 4_000
    for _ in range(draws):
        drawn = int(random.integers(len(members)))
        radius = random.gamma(2, scale)
        direction = random.standard_normal(2)
        direction /= np.linalg.norm(direction)
        published = outputs[drawn] + radius * np.sqrt(2.0) * deviations * direction
        logs = anisotropic_log_likelihood(published, outputs, deviations=deviations, scale=scale)
        right += (member_probabilities(logs, members) >= 0.5) == members[drawn]
    for count in right:
        pvalue = binomtest(int(count), draws, 0.5 + eta, alternative="greater").pvalue
        assert pvalue > LEVEL
    # It is an attack: on the outlier it wins something.
    assert binomtest(int(right[0]), draws, 0.5, alternative="greater").pvalue < LEVEL


def test_bad_input_is_refused():
    members = np.array([[True], [False]])
    for call in (
        lambda: member_probabilities([0.0], members),
        lambda: member_probabilities([-np.inf, -np.inf], members),
        lambda: member_probabilities([0.0, np.nan], members),
        lambda: member_probabilities([0.0, 0.0], members.astype(int)),
        lambda: radial_log_likelihood([0.0], [[0.0]], scale=0.0),
        lambda: radial_log_likelihood([0.0, 1.0], [[0.0]], scale=1.0),
        lambda: radial_log_likelihood([np.nan], [[0.0]], scale=1.0),
        lambda: anisotropic_log_likelihood([0.0], [[0.0]], deviations=[-1.0], scale=1.0),
        lambda: anisotropic_log_likelihood([0.0], [[0.0]], deviations=[1.0, 1.0], scale=1.0),
    ):
        with pytest.raises(InvalidInputError):
            call()
