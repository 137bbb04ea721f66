import sys

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.feature_extraction.text import TfidfVectorizer

from privcore.exceptions import TerminalError
from tests.support.refusals import refused
from workers.training import networks
from workers.training.networks import (
    Network,
    Schedule,
    fit_network,
    one_hot,
    term_weights,
    text_network,
)


def texts(records, seed):
    """Two terms each of 50, of which the first 25 speak for class 0."""
    random = np.random.default_rng(seed)
    labels = random.integers(2, size=records)
    terms = (labels[:, None] * 25 + random.integers(25, size=(records, 2))).astype(np.int32)
    return (terms, np.full((records, 2), 0.7, dtype=np.float32)), labels


@pytest.mark.slow
def test_a_text_network_learns_and_the_same_seed_learns_the_same():
    (inputs, labels), (others, their) = texts(400, 1), texts(200, 2)
    schedule = Schedule(epochs=10, batch=50, rate=1e-2)
    known = one_hot(labels, 2)
    fitted = fit_network(text_network(50, 8), inputs, known, schedule, seed=1)
    chances = fitted.probabilities(others)
    assert chances.sum(axis=1) == pytest.approx(1.0)
    assert (chances.argmax(axis=1) == their).mean() > 0.95
    again = fit_network(text_network(50, 8), inputs, known, schedule, seed=1)
    assert (again.probabilities(others) == chances).all()
    other = fit_network(text_network(50, 8), inputs, known, schedule, seed=2)
    assert (other.probabilities(others) != chances).any()


@pytest.mark.slow
def test_the_first_layer_is_the_product_with_the_dense_vector():
    import jax  # noqa: PLC0415

    inputs, _ = texts(6, 3)
    network = text_network(50, 8)
    first, second, last = parameters = network.initial(jax.random.key(0))
    dense = np.zeros((6, 50))
    np.add.at(dense, (np.arange(6)[:, None], inputs[0]), inputs[1])
    hidden = np.maximum(dense @ first["weight"] + first["bias"], 0.0)
    hidden = np.maximum(hidden @ second["weight"] + second["bias"], 0.0)
    expected = hidden @ last["weight"] + last["bias"]
    assert network.logits(parameters, inputs) == pytest.approx(np.asarray(expected), abs=1e-5)


def linear():
    """The smallest network: its parameters are its logits' factors."""
    return Network(lambda _: np.zeros((3, 2), dtype=np.float32), lambda weight, x: x @ weight)


def descended(inputs, targets, steps, rate):
    """Naive twin of `fit_network` with Nesterov's momentum on the whole batch."""
    weight = velocity = np.zeros((3, 2))
    for step in range(steps):
        gradient = inputs.T @ (softmax(inputs @ weight, axis=1) - targets) / len(inputs)
        velocity = 0.9 * velocity + gradient
        weight = weight - rate * (1 + np.cos(np.pi * step / steps)) / 2 * (
            gradient + 0.9 * velocity
        )
    return weight


@pytest.mark.slow
def test_training_is_descent_along_the_gradient_of_the_cross_entropy():
    random = np.random.default_rng(4)
    inputs = random.normal(size=(40, 3)).astype(np.float32)
    targets = softmax(random.normal(size=(40, 2)), axis=1).astype(np.float32)
    schedule = Schedule(epochs=5, batch=100, rate=0.3, optimizer="sgd")
    fitted = fit_network(linear(), inputs, targets, schedule, seed=1)
    expected = descended(inputs, targets, 5, 0.3)
    assert np.asarray(fitted.parameters) == pytest.approx(expected, abs=1e-5)


def test_a_reading_of_labels_sees_the_network_s_softmax_and_no_gradient_flows_through_it():
    """The targets are the softmax itself: nothing is left to learn, though its entropy has slope.
    """  # fmt: skip
    random = np.random.default_rng(5)
    inputs = random.normal(size=(40, 3)).astype(np.float32)
    start = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.0]], dtype=np.float32)
    network = Network(lambda _: start, linear().logits)
    schedule = Schedule(epochs=3, batch=40, rate=0.3, optimizer="sgd")
    known = one_hot(np.zeros(40, dtype=np.int64), 2)
    fitted = fit_network(network, inputs, known, schedule, seed=1, reading=lambda _, own: own)
    assert np.asarray(fitted.parameters) == pytest.approx(start, abs=1e-6)
    kept = fit_network(network, inputs, known, schedule, seed=1, reading=lambda given, _: given)
    assert abs(np.asarray(kept.parameters) - start).max() > 0.01


def test_mixing_mixes_inputs_and_labels_alike():
    inputs = np.arange(6, dtype=np.float32)[:, None]
    given, target = networks._mixed(inputs, inputs * 2, np.random.default_rng(1), 4.0)
    assert target == pytest.approx(given * 2)
    assert (given != inputs).any()
    assert given.min() >= 0.0
    assert given.max() <= 5.0


def test_training_that_diverges_is_no_model():
    inputs = np.full((10, 3), 1e30, dtype=np.float32)
    schedule = Schedule(epochs=3, batch=10, rate=1e30, optimizer="sgd")
    with pytest.raises(TerminalError, match="diverged"):
        fit_network(linear(), inputs, one_hot(np.arange(10) % 2, 2), schedule, seed=1)


@pytest.mark.parametrize("missing", ["jax", "optax"])
def test_without_the_extra_the_message_names_it(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(TerminalError, match=r"privaudit\[networks\]"):
        fit_network(linear(), np.ones((2, 3)), np.eye(2), Schedule(1, 2, 0.1), seed=1)


def test_weights_are_those_of_scikit_learn():
    random = np.random.default_rng(3)
    texts = [" ".join(f"Word{w}" for w in random.zipf(1.5, 12) if w < 500) for _ in range(200)]
    texts += ["", "a i", "alone", "Käse käse, don't"]
    found = term_weights(texts)
    dense = np.zeros((len(texts), found.vocabulary))
    for row in range(len(texts)):
        np.add.at(dense[row], found.terms[row], found.weights[row])
    expected = TfidfVectorizer(min_df=2).fit_transform(texts).toarray()
    assert dense == pytest.approx(expected, abs=1e-6)
    assert (dense[-4:-1] == 0.0).all()


def test_texts_without_a_common_term_are_refused():
    refused("no term is in two of them", term_weights, ["one", "two"])
