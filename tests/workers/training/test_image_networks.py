"""Networks that read images, held against naive twins."""

import jax
import numpy as np
import pytest

from workers.training.image_networks import NETWORKS, _convolved, _normed, small_network
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
