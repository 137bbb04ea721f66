"""Mechanisms' costs, against closed forms, numerical integration and dp_accounting."""

import math
import pickle

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from privcore.guarantees.accounts import (
    Composition,
    DpSgd,
    GaussianMechanism,
    LaplaceOneHotAccount,
    Neighbors,
    PureMechanism,
    RandomizedResponseAccount,
    RandomizedResponseWithPriorAccount,
    mechanism_from_manifest,
    noisy_max_gaussian,
    noisy_max_laplace,
)
from privcore.guarantees.conversions import renyi_epsilon
from tests.support.refusals import refused

ORDERS = np.array([1.05, 1.5, 2.0, 8.0, 32.0])


def by_name(name, **parameters):
    return mechanism_from_manifest(name, parameters)


ALL = [
    by_name("pure", epsilon=1.0),
    by_name("randomized_response", epsilon=1.0, classes=10),
    by_name("randomized_response_with_prior", epsilon=1.0),
    by_name("laplace_one_hot", deviation=2.0),
    by_name("gaussian", noise_multiplier=1.0),
    by_name("pate_laplace", scale=40.0, queries=50),
    by_name("pate_gaussian", deviation=100.0, queries=1_000),
    by_name("dp_sgd", noise_multiplier=1.1, sampling_rate=0.01, steps=300),
    Composition((RandomizedResponseAccount(0.5, 10), LaplaceOneHotAccount(8.0)), times=5),
]
names = [type(mechanism).__name__ for mechanism in ALL]


@pytest.mark.parametrize(
    "mechanism",
    [pytest.param(one, marks=pytest.mark.slow if isinstance(one, DpSgd) else ()) for one in ALL],
    ids=names,
)
def test_every_mechanism_is_coherent(mechanism):
    epsilons = [mechanism.epsilon(delta) for delta in (0.0, 1e-9, 1e-5, 1e-2)]
    assert epsilons == sorted(epsilons, reverse=True)
    assert np.all(np.diff(mechanism.renyi(ORDERS)) >= 0.0)
    # The PLD's grid rounds up, by 1e-4 per composed part at most.
    exact = mechanism.privacy_loss().get_epsilon_for_delta(1e-5)
    assert exact == pytest.approx(mechanism.epsilon(1e-5), abs=2e-3)
    # A Renyi curve is a weaker description of the same mechanism.
    orders = np.linspace(1.05, 60.0, 200)
    weaker = renyi_epsilon(orders, mechanism.renyi(orders), delta=1e-5)
    assert weaker >= mechanism.epsilon(1e-5) - 2e-3
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism  # noqa: S301
    refused(r"delta is 1\.5", mechanism.epsilon, 1.5)


@pytest.mark.parametrize("classes", [2, 10, 1_000])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 3.0, 12.0])
def test_randomized_response_in_closed_form(classes, epsilon):
    mechanism = RandomizedResponseAccount(epsilon, classes)
    assert mechanism.epsilon(0.0) == epsilon
    keep = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
    change = 1.0 / (math.exp(epsilon) + classes - 1)
    for delta in (1e-6, 1e-3, 0.1):
        found = mechanism.epsilon(delta)
        if found > 0.0:
            assert keep - math.exp(found) * change == pytest.approx(delta, rel=1e-6)
        else:
            assert keep - change <= delta * (1.0 + 1e-9)


def test_randomized_response_against_dp_accounting():
    mechanism = RandomizedResponseAccount(2.0, 7)
    noise = 7.0 / (math.exp(2.0) + 6.0)
    event = dp_accounting.RandomizedResponseDpEvent(noise, 7)
    accountant = RdpAccountant(ORDERS.tolist(), NeighboringRelation.REPLACE_ONE).compose(event)
    np.testing.assert_allclose(mechanism.renyi(ORDERS), accountant.rdp, rtol=1e-10)
    assert mechanism.renyi([2.0, np.inf])[1] == 2.0


def test_keep_probability():
    for classes in (2, 10):
        blind = RandomizedResponseAccount.from_keep_probability(1 / classes, classes)
        assert blind.epsilon(0.0) == pytest.approx(0.0, abs=1e-12)
        found = RandomizedResponseAccount.from_keep_probability(0.9, classes)
        assert found.pure_epsilon == pytest.approx(math.log(0.9 * (classes - 1) / 0.1))


def test_prior_never_costs_more_than_its_worst_record():
    pure = PureMechanism(1.0).epsilon(1e-3)
    assert RandomizedResponseWithPriorAccount(1.0).epsilon(1e-3) == pure
    assert RandomizedResponseWithPriorAccount(1.0, top=5).epsilon(1e-3) < pure
    # Three probable labels out of five: no two labels are told apart by more than two of the three.
    keep, change = np.exp(1.0) / (np.exp(1.0) + 2.0), 1.0 / (np.exp(1.0) + 2.0)
    answers = np.full((5, 3), 1.0 / 3.0)
    answers[:3] = np.where(np.eye(3), keep, change)
    ratios = answers[:, np.newaxis, :] / answers[np.newaxis, :, :]
    assert np.log(ratios).max() == pytest.approx(1.0)
    moments = (answers[:, np.newaxis, :] ** 8 * answers[np.newaxis, :, :] ** -7).sum(axis=2)
    expected = np.log(moments.max()) / 7.0
    assert RandomizedResponseWithPriorAccount(1.0, top=3).renyi(8.0) == pytest.approx(expected)


@pytest.mark.parametrize("deviation", [0.5, 2.0, 10.0])
def test_laplace_labels_against_dp_accounting(deviation):
    """ALIBI's one-hot label: two entries move by 1, each with its own noise."""
    mechanism = LaplaceOneHotAccount(deviation)
    assert mechanism.epsilon(0.0) == pytest.approx(2.0 * math.sqrt(2.0) / deviation)
    assert mechanism.renyi([2.0, np.inf])[1] == pytest.approx(mechanism.epsilon(0.0))
    event = dp_accounting.LaplaceDpEvent(deviation / math.sqrt(2.0))
    accountant = RdpAccountant(ORDERS.tolist()).compose(event, 2)
    np.testing.assert_allclose(mechanism.renyi(ORDERS), accountant.rdp, rtol=1e-9)


def test_gaussian_and_pate_against_dp_accounting():
    votes = noisy_max_gaussian(100.0, 1_000)
    event = dp_accounting.GaussianDpEvent(100.0 / math.sqrt(2.0))
    accountant = RdpAccountant(ORDERS.tolist()).compose(event, 1_000)
    np.testing.assert_allclose(votes.renyi(ORDERS), accountant.rdp, rtol=1e-12)
    np.testing.assert_allclose(votes.renyi(ORDERS), ORDERS * 1_000 / 100.0**2)
    expected = PLDAccountant().compose(event, 1_000).get_epsilon(1e-5)
    assert votes.epsilon(1e-5) == pytest.approx(expected, abs=1e-3)
    assert votes.epsilon(0.0) == math.inf
    assert GaussianMechanism(1.0).epsilon(1e-5) == pytest.approx(4.377178, abs=1e-6)


def test_noisy_max_with_laplace_noise():
    assert noisy_max_laplace(40.0, 1).epsilon(0.0) == pytest.approx(0.05)
    many = noisy_max_laplace(40.0, 100)
    assert many.epsilon(0.0) == pytest.approx(5.0)
    # Far less than the sum: about sqrt(queries), as in advanced composition.
    assert many.epsilon(1e-5) < 2.0


@pytest.mark.slow
def test_dp_sgd_against_dp_accounting():
    mechanism = DpSgd(1.1, 0.01, 1_000)
    event = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.1))
    accountant = RdpAccountant(ORDERS.tolist()).compose(event, 1_000)
    np.testing.assert_allclose(mechanism.renyi(ORDERS), accountant.rdp, rtol=1e-12)
    expected = PLDAccountant().compose(event, 1_000).get_epsilon(1e-5)
    assert mechanism.epsilon(1e-5) == pytest.approx(expected, rel=1e-3)
    assert mechanism.neighbors is Neighbors.ADD_REMOVE
    # Without sampling it is one Gaussian mechanism with sqrt(steps) times less noise.
    whole = DpSgd(10.0, 1.0, 25)
    assert whole.epsilon(1e-5) == pytest.approx(GaussianMechanism(2.0).epsilon(1e-5), abs=1e-3)
    np.testing.assert_allclose(whole.renyi(ORDERS), GaussianMechanism(2.0).renyi(ORDERS))


@pytest.mark.slow
def test_dp_sgd_under_replacement_costs_more_and_has_no_renyi_curve():
    replaced = DpSgd(1.1, 0.01, 300, neighbors=Neighbors.REPLACE)
    added = DpSgd(1.1, 0.01, 300)
    assert added.epsilon(1e-5) < replaced.epsilon(1e-5) < 2.0 * added.epsilon(1e-6)
    refused("neighbors is 'replace'", replaced.renyi, ORDERS)


def test_composition_over_days():
    day = RandomizedResponseAccount(0.5, 10)
    month = Composition((day,), times=30)
    assert month.epsilon(0.0) == pytest.approx(15.0)
    assert month.neighbors is Neighbors.REPLACE
    np.testing.assert_allclose(month.renyi(ORDERS), 30.0 * day.renyi(ORDERS))
    assert Composition((day,)).epsilon(1e-5) == pytest.approx(day.epsilon(1e-5), abs=2e-4)
    assert month.epsilon(1e-5) < 7.0
    mixed = Composition((day, GaussianMechanism(2.0)))
    assert mixed.epsilon(0.0) == math.inf
    assert mixed.epsilon(1e-5) > GaussianMechanism(2.0).epsilon(1e-5)
    nested = Composition((Composition((day,), times=5), Composition((day,), times=25)))
    assert nested.epsilon(1e-5) == pytest.approx(month.epsilon(1e-5), abs=1e-3)


def test_binary_composition_against_the_exact_binomial():
    # After 3 binary answers the loss is epsilon times (kept - changed).
    composed = Composition((PureMechanism(1.0),), times=3)
    keep = math.e / (1.0 + math.e)
    chances = {3: keep**3, 1: 3 * keep**2 * (1 - keep)}
    delta = sum(p * (1.0 - math.exp(1.2 - loss)) for loss, p in chances.items() if loss > 1.2)
    assert composed.epsilon(delta) == pytest.approx(1.2, abs=1e-3)


def test_manifest_of_a_composition():
    found = by_name(
        "composition",
        mechanisms=[
            {"name": "randomized_response", "parameters": {"epsilon": 0.5, "classes": 10}},
            {"name": "gaussian", "parameters": {"noise_multiplier": 2, "neighbors": "replace"}},
        ],
        times=3,
    )
    assert found == Composition((RandomizedResponseAccount(0.5, 10), GaussianMechanism(2)), times=3)


def test_manifest_takes_either_parametrisation_of_randomized_response():
    assert by_name("randomized_response", epsilon=1, classes=3) == RandomizedResponseAccount(1, 3)
    by_keeping = by_name("randomized_response", keep_probability=0.6, classes=3)
    assert by_keeping.pure_epsilon == pytest.approx(math.log(0.6 * 2 / 0.4))


RESPONSE, WITH_PRIOR = "randomized_response", "randomized_response_with_prior"


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("magic", {}, "mechanism is 'magic'"),
        (RESPONSE, {"epsilon": 1.0}, "missing parameter is 'classes'"),
        (RESPONSE, {"epsilon": 1.0, "clases": 3}, "unknown parameter is 'clases'"),
        (RESPONSE, {"epsilon": 1, "keep_probability": 0.5, "classes": 3}, "is 'keep_probability'"),
        (RESPONSE, {"epsilon": -1.0, "classes": 3}, "epsilon is -1.0"),
        (RESPONSE, {"epsilon": 1.0, "classes": 1}, "classes is 1"),
        (RESPONSE, {"epsilon": 1.0, "classes": 2.5}, "classes is 2.5"),
        (RESPONSE, {"keep_probability": 0.2, "classes": 3}, "keep_probability is 0.2"),
        (WITH_PRIOR, {"epsilon": 1.0, "top": 1}, "top is 1"),
        *(
            (WITH_PRIOR, {"epsilon": 1.0, "prior_from_outside": prior}, "prior_from_outside is")
            for prior in ([0.5, 0.4], [1.0], [1.5, -0.5], ["a", "b"], 0.5)
        ),
        ("laplace_one_hot", {"deviation": 0.0}, "deviation is 0.0"),
        ("gaussian", {"noise_multiplier": "1"}, "noise_multiplier is '1'"),
        ("gaussian", {"noise_multiplier": True}, "noise_multiplier is True"),
        ("gaussian", {"noise_multiplier": 1, "neighbors": "near"}, "neighbors is 'near'"),
        ("pate_laplace", {"scale": 1.0, "queries": 0}, "queries is 0"),
        ("dp_sgd", {"noise_multiplier": 1, "sampling_rate": 1.5, "steps": 3}, "sampling_rate is"),
        ("composition", {"mechanisms": []}, r"neighbors is \[\]"),
        ("composition", {"mechanisms": [{"name": "pure"}]}, "mechanisms is"),
        ("composition", {"mechanisms": [{"name": [], "parameters": {}}]}, "mechanisms is"),
    ],
)
def test_manifest_refuses_what_it_cannot_account_for(name, parameters, message):
    refused(message, mechanism_from_manifest, name, parameters)


def test_composition_refuses_mixed_relations():
    refused("neighbors is", Composition, (RandomizedResponseAccount(1.0, 2), DpSgd(1.0, 0.1, 3)))
