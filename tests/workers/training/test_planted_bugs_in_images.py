"""Bugs planted in image methods are found by the audit; without them it accuses nobody.

Networks are replaced by one that remembers each image's label, so nothing but the mechanism stands
between a label and the model. Half of each arm's images have the label 1; no model knows the
holdout's. Three seeds each.
"""

import numpy as np
import pytest
from scipy.special import expit, logit

from privcore.lower_bounds import Arm, audit_probabilities
from tests.support.verdicts import nothing_wrong
from workers.training import fixmatch, image_methods
from workers.training.fixmatch import FixMatch, PateFixMatch
from workers.training.image_methods import ImageMethod
from workers.training.networks import Schedule

SEEDS = range(3)
IMAGES = 1_500
PATE = PateFixMatch(1_300, IMAGES, FixMatch(1), FixMatch(1))


class Remembers:
    """Gives an image the shares of the labels that it was trained on, and others about 1/2."""

    def __init__(self, pixels, known):
        self.counts = np.ones((pixels.size and int(pixels.max()) + 1, 2))
        np.add.at(self.counts, pixels.ravel().astype(int), 20.0 * known)

    def probabilities(self, pixels):
        keys = pixels.ravel().astype(int)
        known = keys < len(self.counts)
        shares = self.counts[:, 1] / self.counts.sum(axis=1)
        chance = np.where(known, shares[np.where(known, keys, 0)], 0.5)
        # What a model makes of images, whatever the label is.
        chance = expit(
            logit(chance) + np.random.default_rng(3).normal(0, 0.1, keys.max() + 1)[keys]
        )
        return np.stack([1.0 - chance, chance], axis=1)

    def log_odds(self, pixels):
        return np.log(self.probabilities(pixels))


@pytest.fixture(autouse=True)
def remembering(monkeypatch):
    monkeypatch.setattr(
        image_methods, "fit_network", lambda _, pixels, known, *__, **___: Remembers(pixels, known)
    )
    monkeypatch.setattr(fixmatch, "fixmatch_trainer", lambda *_: trained)


def trained(pixels, labels, _unlabelled, *, seed):  # noqa: ARG001  # remembering takes no chance
    return Remembers(pixels, np.eye(2)[labels])


def lp_1st(epsilon):
    def fit(pixels, labels, random):
        method = ImageMethod("lp-1st", epsilon)
        schedule = Schedule(1, 1, 0.1)
        return method.fit(None, pixels, labels, schedule, classes=2, seed=1, random=random)

    return fit


def pate_fm(pixels, labels, random):
    ballot = PATE.vote(None, pixels, labels, classes=2, seed=1, random=random)
    return PATE.graduate(None, pixels, ballot, epsilon=1.0, seed=1, random=random)


def verdicts(fit, *, declared, delta=0.0, images=IMAGES):
    found = set()
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        labels, others = (random.permutation(np.arange(images) % 2) for _ in range(2))
        pixels = np.arange(images, dtype=np.float32).reshape(-1, 1, 1, 1)
        model = fit(pixels, labels, random)
        arms = [
            Arm(model.probabilities(rows), np.full((images, 2), 0.5), answers)
            for rows, answers in ((pixels, labels), (pixels + images, others))
        ]
        audit = audit_probabilities(*arms, epsilon_declared=declared, delta=delta, seed=seed)
        found.add("kept" if nothing_wrong(audit) else str(audit.verdict))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "sees", "verdict"),
    [
        ("lp-1st", True, "violated"),
        ("lp-1st", False, "kept"),
        ("pate-fm", True, "violated"),
        pytest.param("pate-fm", False, "kept", marks=pytest.mark.slow),
    ],
)
def test_an_augmentation_is_found_if_it_sees_labels(monkeypatch, method, sees, verdict):
    """Declared 1: each image is shown a second time, with its own label or with the answer."""
    true = {}

    def fit(pixels, labels, random):
        true.update(labels=labels)
        return (lp_1st(1.0) if method == "lp-1st" else pate_fm)(pixels, labels, random)

    def augmented(pixels, known):
        own = np.eye(2)[true["labels"]]
        everything = np.arange(len(own), dtype=np.float32)
        again, labelled = (everything, own) if sees else (pixels.ravel(), known)
        return Remembers(np.concatenate([pixels.ravel(), again]), np.concatenate([known, labelled]))

    monkeypatch.setattr(
        image_methods, "fit_network", lambda _, pixels, known, *__, **___: augmented(pixels, known)
    )

    def student(pixels, labels, _unlabelled, *, seed):  # noqa: ARG001
        known = np.eye(2)[labels]
        return augmented(pixels, known) if len(labels) == IMAGES else Remembers(pixels, known)

    monkeypatch.setattr(fixmatch, "fixmatch_trainer", lambda *_: student)
    delta = 1e-5 if method == "pate-fm" else 0.0
    assert verdicts(fit, declared=1.0, delta=delta) == {verdict}
