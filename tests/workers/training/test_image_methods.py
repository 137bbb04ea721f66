import math

import jax
import numpy as np
import pytest
from scipy.stats import binomtest

from privcore.mechanisms import LaplaceOneHot
from tests.support.refusals import refused
from workers.training import image_methods
from workers.training.image_methods import (
    NETWORKS,
    ImageMethod,
    _convolved,
    _normed,
    cluster_priors,
    clustered,
    most_probable_label,
    small_network,
)
from workers.training.networks import Schedule, fit_network, one_hot


def test_a_convolution_of_stride_two_is_the_naive_sum():
    random = np.random.default_rng(1)
    images = random.normal(size=(2, 6, 6, 3)).astype(np.float32)
    kernel = random.normal(size=(3, 3, 3, 4)).astype(np.float32)
    expected = np.zeros((2, 3, 3, 4))
    padded = np.pad(images, ((0, 0), (0, 1), (0, 1), (0, 0)))
    for row in range(3):
        for column in range(3):
            seen = padded[:, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
            expected[:, row, column] = np.einsum("nijc,ijco->no", seen, kernel)
    assert np.asarray(_convolved(images, kernel, 2)) == pytest.approx(expected, abs=1e-4)


def test_groups_of_channels_are_normalised_in_each_image():
    found = np.random.default_rng(2).normal(3.0, 5.0, size=(2, 4, 4, 16)).astype(np.float32)
    normed = np.asarray(_normed(found, np.ones(16), np.zeros(16))).reshape(2, 16, 8, 2)
    assert normed.mean(axis=(1, 3)) == pytest.approx(np.zeros((2, 8)), abs=1e-5)
    assert normed.std(axis=(1, 3)) == pytest.approx(np.ones((2, 8)), abs=1e-4)
    moved = np.asarray(_normed(found, np.full(16, 2.0), np.ones(16))).reshape(2, 16, 8, 2)
    assert moved == pytest.approx(2.0 * normed + 1.0, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("small", 105_866),
        pytest.param("resnet18", 11_172_000, marks=pytest.mark.slow),
        pytest.param("wrn-28-4", 5_847_000, marks=pytest.mark.slow),
    ],
)
def test_an_architecture_has_its_size_and_answers_for_each_image_alone(name, parameters):
    """ResNet18 for CIFAR-10 has 11.2 million parameters, WRN-28-4 5.8 million."""
    side, channels = (28, 1) if name == "small" else (32, 3)
    network = NETWORKS[name](side, channels)
    initial = network.initial(jax.random.key(1))
    many = sum(np.size(leaf) for leaf in jax.tree.leaves(initial))
    assert many == pytest.approx(parameters, rel=0.02)
    images = np.random.default_rng(3).normal(size=(3, side, side, channels)).astype(np.float32)
    ask = jax.jit(network.logits)
    together = np.asarray(ask(initial, images))
    assert together.shape == (3, 10)
    assert together[1:2] == pytest.approx(np.asarray(ask(initial, images[1:2])), abs=1e-3)


@pytest.mark.slow
def test_the_small_network_learns_where_the_light_is():
    random = np.random.default_rng(4)
    labels = random.integers(4, size=400)
    images = random.normal(size=(400, 8, 8, 1)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 2)
        image[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 2.0
    schedule = Schedule(epochs=10, batch=40, rate=0.1, optimizer="sgd")
    known = one_hot(labels[:200], 4)
    fitted = fit_network(small_network(8, 1, 4), images[:200], known, schedule, seed=1)
    assert (fitted.probabilities(images[200:]).argmax(axis=1) == labels[200:]).mean() > 0.9


NAMES = ("lp-1st", "lp-1st-out-of-domain-prior", "alibi")
SCHEDULE = Schedule(1, 10, 0.1)


def learnt(monkeypatch, method, pixels, labels, seed=1):
    """Return what the network is given to learn, and how it reads it."""
    given = {}

    def fit_network(network, inputs, known, schedule, *, seed, reading=None):  # noqa: ARG001
        given.update(known=known, reading=reading, inputs=inputs)

    monkeypatch.setattr(image_methods, "fit_network", fit_network)
    random = np.random.default_rng(seed)
    method.fit(None, pixels, labels, SCHEDULE, classes=10, seed=1, random=random)
    assert given["inputs"] is pixels  # no augmentation, and none that sees labels
    return given["known"], given["reading"]


@pytest.mark.parametrize("name", NAMES)
def test_without_noise_labels_are_learnt_as_they_are(monkeypatch, name):
    labels = np.arange(50) % 10
    method = ImageMethod(name, math.inf)
    known, reading = learnt(monkeypatch, method, np.zeros((50, 2, 2, 1)), labels)
    assert (known == one_hot(labels, 10)).all()
    assert reading is None


@pytest.mark.parametrize("epsilon", [0.025, 0.01, -1.0, math.nan])
def test_an_epsilon_of_which_the_prior_leaves_nothing_is_refused(epsilon):
    refused(r"measuring the prior takes 0\.025", ImageMethod, "lp-1st-out-of-domain-prior", epsilon)


def test_answers_get_what_the_prior_leaves_of_epsilon(monkeypatch):
    given, response = [], image_methods.RandomizedResponseWithPrior

    def told(epsilon, classes):
        given.append(epsilon)
        return response(epsilon, classes)

    monkeypatch.setattr(image_methods, "RandomizedResponseWithPrior", told)
    method = ImageMethod("lp-1st-out-of-domain-prior", 0.026)
    learnt(monkeypatch, method, np.zeros((50, 2, 2, 1)), np.arange(50) % 10)
    assert given == pytest.approx([0.001])


def test_lp_1st_keeps_labels_as_randomized_response_does(monkeypatch):
    """20,000 labels at epsilon 2: kept with e^2/(e^2 + 9) = 0.451."""
    labels = np.arange(20_000) % 10
    known, _ = learnt(monkeypatch, ImageMethod("lp-1st", 2.0), np.zeros((20_000, 1, 1, 1)), labels)
    kept = int((known.argmax(axis=1) == labels).sum())
    assert binomtest(kept, 20_000, math.exp(2) / (math.exp(2) + 9)).pvalue > 1e-6
    assert binomtest(kept, 20_000, math.exp(2.6) / (math.exp(2.6) + 9)).pvalue < 1e-6


def test_alibi_s_targets_are_the_most_probable_labels_of_the_posterior(monkeypatch):
    """2,000 labels: the network gets the noisy vectors, and its softmax is the prior."""
    random = np.random.default_rng(2)
    labels = random.integers(10, size=2_000)
    mechanism = LaplaceOneHot.from_epsilon(2.0, 10)
    known, reading = learnt(
        monkeypatch, ImageMethod("alibi", 2.0), np.zeros((2_000, 1, 1, 1)), labels
    )
    noise = known - one_hot(labels, 10)
    assert abs(noise).mean() == pytest.approx(mechanism.scale, rel=0.03)
    prior = random.dirichlet(np.ones(10), 2_000)
    density = -np.abs(known.astype(np.float64)[:, None] - np.eye(10)).sum(axis=2) / mechanism.scale
    expected = (np.log(prior) + density).argmax(axis=1)
    found = np.asarray(reading(known, prior.astype(np.float32)))
    assert (found.sum(axis=1) == 1.0).all()
    assert (found.argmax(axis=1) == expected).mean() > 0.999
    uniform = np.asarray(most_probable_label(mechanism)(known, np.full((2_000, 10), 0.1)))
    assert (uniform.argmax(axis=1) != expected).any()


def test_the_prior_is_the_clusters_shares_with_laplace_noise_of_scale_two_over_epsilon():
    """100,000 labels in 50 clusters, epsilon 0.25: noise 8 on counts of 2,000 and 0."""
    labels = np.arange(100_000) % 50 // 5
    clusters = np.arange(100_000) % 50
    random = np.random.default_rng(3)
    priors = cluster_priors(labels, clusters, 10, epsilon=0.25, random=random)
    assert priors.sum(axis=1) == pytest.approx(1.0)
    own = priors[np.arange(50), np.arange(50) // 5]
    assert (own > 0.94).all()
    # What is left of an empty bin's noise is half of it: mean scale / 2.
    others = priors[priors < 0.5] * 2_000
    assert others.mean() == pytest.approx(4.0, rel=0.2)
    noiseless = cluster_priors(labels[:50], clusters[:50], 10, epsilon=1e12, random=random)
    assert noiseless == pytest.approx(one_hot(labels[:50], 10), abs=1e-6)


def test_a_cluster_of_which_noise_leaves_nothing_has_a_uniform_prior():
    class Downwards:
        def laplace(self, _, scale, shape):
            return np.full(shape, -scale)

    priors = cluster_priors(np.zeros(3, int), np.zeros(3, int), 4, epsilon=0.1, random=Downwards())
    assert priors == pytest.approx(np.full((1, 4), 0.25))


def test_clusters_are_of_like_images_and_a_prior_of_them_keeps_more_labels(monkeypatch):
    """2,000 images of 10 kinds, epsilon 3: without a prior 0.69 of the labels would be kept."""
    random = np.random.default_rng(4)
    labels = random.integers(10, size=2_000)
    pixels = random.normal(size=(10, 4, 4, 1))[labels] + random.normal(0, 0.05, (2_000, 4, 4, 1))
    clusters = clustered(pixels.astype(np.float32), np.random.default_rng(1))
    assert len(set(zip(clusters, labels, strict=True))) == len(set(clusters))
    method = ImageMethod("lp-1st-out-of-domain-prior", 100.0)
    monkeypatch.setattr(image_methods, "PRIOR_EPSILON", 2.5)  # clusters of 40, not of 1,000
    known, reading = learnt(monkeypatch, method, pixels.astype(np.float32), labels)
    assert reading is None
    assert (known.argmax(axis=1) == labels).mean() > 0.99
    monkeypatch.setattr(image_methods, "PRIOR_EPSILON", 1.5)
    known, _ = learnt(monkeypatch, ImageMethod(method.name, 3.0), pixels.astype(np.float32), labels)
    assert (known.argmax(axis=1) == labels).mean() > 0.6
