"""FixMatch: its loss held against a naive twin, and what unlabelled images add."""

import itertools

import jax
import numpy as np
import pytest

from workers.training import fixmatch
from workers.training.fixmatch import FixMatch, consistency, fixmatch_trainer
from workers.training.image_networks import small_network
from workers.training.networks import Network, softmax


def test_the_unlabelled_loss_is_the_naive_one_and_no_gradient_flows_through_guesses():
    random = np.random.default_rng(1)
    guessed, learnt = random.normal(size=(2, 40, 4)) * 2.0
    settings = FixMatch(1, confidence=0.7, temperature=0.8)
    expected, sure = 0.0, 0
    chances, logs = softmax(guessed / 0.8), np.log(softmax(learnt))
    for own, other in zip(chances, logs, strict=True):
        if own.max() >= 0.7:
            expected -= other[own.argmax()] / 40
            sure += 1
    assert 5 < sure < 35
    assert float(consistency(guessed, learnt, settings)) == pytest.approx(expected, rel=1e-5)
    gradient = jax.grad(lambda given: consistency(given, learnt, settings))(guessed)
    assert not np.asarray(gradient).any()
    assert float(consistency(guessed, learnt, FixMatch(1, confidence=1.1))) == 0.0


@pytest.mark.slow
def test_labels_reach_the_supervised_loss_alone(monkeypatch):
    """Augmentation and the unlabelled loss get keys, pixels and logits: no label."""
    seen = {}

    def recorded(name, function):
        def call(*given, **more):
            seen.setdefault(name, []).extend(jax.tree.leaves((given, more)))
            return function(*given, **more)

        return call

    for name in ("weakly", "strongly", "consistency"):
        monkeypatch.setattr(fixmatch, name, recorded(name, getattr(fixmatch, name)))
    pixels, labels = np.zeros((30, 8, 8, 1), np.float32), np.arange(20) % 4
    settings = FixMatch(1, batch=10, unlabelled=2, flips=False)
    train = fixmatch_trainer.__wrapped__(small_network(8, 1, 4), settings, 4)
    train(pixels[:20], labels, pixels, seed=1)
    assert set(seen) == {"weakly", "strongly", "consistency"}
    # A batch's labels are the only integers of shape (10,).
    shapes = [np.shape(leaf) for leaves in seen.values() for leaf in leaves]
    assert (10,) not in shapes
    assert (30, 8, 8, 1) in shapes


def test_the_moving_average_answers_and_the_rate_falls_along_the_cosine(monkeypatch):
    """A network of one number whose loss has a constant slope: by hand in ten lines."""
    monkeypatch.setattr(fixmatch, "weak_and_strong", lambda _key, given, others, **_: (
        jax.numpy.concatenate([given, others]), others))  # fmt: skip
    network = Network(
        lambda _key: jax.numpy.zeros(()),
        lambda own, images: jax.numpy.stack(
            [own * images[:, 0, 0, 0], 0.0 * images[:, 0, 0, 0]], 1
        ),
    )
    settings = FixMatch(
        6, batch=2, unlabelled=1, weight=0.0, weight_decay=0.01, averaging=0.5, rate=0.1
    )
    pixels, labels = np.ones((2, 1, 1, 1), np.float32), np.zeros(2, np.int64)
    found = fixmatch_trainer.__wrapped__(network, settings, 2)(pixels, labels, pixels, seed=1)
    own = average = velocity = 0.0
    for at in range(6):
        slope = 1.0 / (1.0 + np.exp(-own)) - 1.0 + 0.01 * own
        velocity = 0.9 * velocity + slope
        rate = 0.1 * np.cos(np.pi * 7 / 16 * at / 6)
        own -= rate * (slope + 0.9 * velocity)
        kept = min(0.5, (1 + at) / (10 + at))
        average = kept * average + (1 - kept) * own
    assert float(found.parameters) == pytest.approx(average, rel=1e-4)
    assert float(found.parameters) != pytest.approx(own, rel=1e-2)


def test_batches_hold_every_record_once_before_one_comes_again():
    drawn = list(itertools.islice(fixmatch._batches(10, 4, np.random.default_rng(1)), 5))
    assert np.bincount(np.concatenate(drawn)).tolist() == [2] * 10
