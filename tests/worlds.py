"""Worlds in which a declaration is true: what an honest audit must not call a violation.

Each world draws both arms of one night: training records, whose labels the target learned through
randomized response at the declared epsilon (at 0 it read no label at all), and holdout records.
What makes it hard is told in its line of `WORLDS`. In `FALSE_WORLDS` assumption E is broken, and
accusations are expected: they say what the assumption is worth.
"""

import numpy as np
from scipy.special import logit

from flows.study.exam_worlds import RARE, Binary, World, both, drawn, scaled, some_drift, stale

STEPS = ((0.6, 0.0), (0.1, 3.0), (0.1, 6.0), (0.1, 9.0), (0.1, 14.0))


def ten_classes(epsilon, *, wrong=0.0):
    """Ten classes by randomized response; the proxy mixes in `wrong` of another distribution."""

    def arm(records, random, *, training):
        scores = random.normal(0.0, 1.5, (records, 10))
        truth = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        labels = (random.random((records, 1)) >= truth.cumsum(axis=1)[:, :-1]).sum(axis=1)
        other = random.dirichlet(np.ones(10), records)
        target = truth.copy()
        if training and epsilon > 0.0:
            kept = np.exp(epsilon) / (np.exp(epsilon) + 9.0)
            anew = (labels + random.integers(1, 10, records)) % 10
            answer = np.where(random.random(records) < kept, labels, anew)
            target[np.arange(records), answer] *= np.exp(epsilon)
            target /= target.sum(axis=1, keepdims=True)
        return target, (1.0 - wrong) * truth + wrong * other, labels

    def draw(random, training=5_000, control=2_000):
        return arm(training, random, training=True), arm(control, random, training=False)

    told = "10 classes" + (", the proxy half of something else" if wrong else "")
    return World(told, draw, epsilon, 5_000, 2_000)


def _wrong_proxies() -> dict[str, World]:
    families = {
        "right proxy": {},
        "base rate drifts by 1": {"drifts": ((1.0, 1.0),)},
        "base rate drifts by -1.5": {"drifts": ((1.0, -1.5),)},
        "proxy overconfident by 1.7": {"proxy": scaled(1.7), "spread": 1.5},
        "proxy underconfident by 0.5": {"proxy": scaled(0.5), "spread": 1.5},
        "stale proxy": {"proxy": stale},
        "constant proxy": {"proxy": scaled(0.0)},
        "adversarially wrong proxy": {"proxy": scaled(-1.0)},
        "hidden heterogeneity": {"hidden": 2.0},
    }
    worlds = {}
    for told, family in families.items():
        for epsilon in (0.0, 0.5, 1.0, 2.0):
            worlds[f"{told}, {epsilon:g}"] = Binary(**family).world(told, epsilon, 5_000, 2_000)
            if epsilon:
                how = f"{told}, interpolates"
                learner = Binary(**family, learns="interpolates", noise=0.5)
                worlds[f"{how}, {epsilon:g}"] = learner.world(how, epsilon, 5_000, 2_000)
    return worlds


def _learned_drifts() -> dict[str, World]:
    worlds = {}
    noisy = {"base": float(logit(0.2)), "spread": 0.7, "noise": 1.0}
    for control in (50, 180, 2_000, 20_000):
        for epsilon in (0.0, 0.5, 1.0):
            for name, told, family in (
                ("learned drift", "3% positives, 5% drift by 2.5, learned", RARE),
                ("drift by segment", "5% drift by 3, target noisy", noisy),
            ):
                by = 2.5 if family is RARE else 3.0
                worlds[f"{name}, {control}, {epsilon:g}"] = Binary(
                    **family, drifts=some_drift(by)
                ).world(told, epsilon, 5_000, control)
    for name, drifts, noise in (
        ("5% drift by 7", some_drift(7.0), 0.0),
        ("5% drift by 12", some_drift(12.0), 0.0),
        ("20% drift by 7, target noisy", some_drift(7.0, 0.2), 0.3),
        ("drifts of 3, 6, 9 and 14", STEPS, 0.0),
    ):
        family = Binary(**RARE, drifts=drifts, noise=noise)
        for epsilon in (0.0, 0.5):
            for training, control in ((5_000, 2_000), (50_000, 12_500)):
                worlds[f"{name}, {control}, {epsilon:g}"] = family.world(
                    f"3% positives, {name}, learned", epsilon, training, control
                )
    for training, control in ((100, 5_000), (500, 20_000)):
        for name, drifts in (("5% by 7", some_drift(7.0)), ("30% by 12", some_drift(12.0, 0.3))):
            worlds[f"few trained, {training}, {name}"] = Binary(**RARE, drifts=drifts).world(
                f"3% positives, {name}, learned", 0.0, training, control
            )
    return worlds


def _targets() -> dict[str, World]:
    worlds = {}
    remembered = Binary(**RARE, drifts=some_drift(7.0), learns="some")
    alike = Binary(noise=2.0, drifts=some_drift(2.5), proxy=scaled(1.7))
    noisier = Binary(noise=0.5, training_noise=2.0, drifts=some_drift(2.5))
    for epsilon in (0.0, 0.5, 2.0):
        few = Binary(**RARE).world("3% positives", epsilon, 5_000, 2_000)
        told = "3% positives, 5% drift by 7, 5% of the records remembered"
        some = remembered.world(told, epsilon, 20_000, 5_000)
        told = "target overfits the features of both arms, proxy overconfident"
        both_arms = alike.world(told, epsilon, 5_000, 2_000)
        told = "target overfits the features of training records"
        one_arm = noisier.world(told, epsilon, 5_000, 2_000)
        worlds |= {
            f"3% positives, {epsilon:g}": few,
            f"a few remembered, {epsilon:g}": some,
            f"features overfitted alike, {epsilon:g}": both_arms,
            f"training's features overfitted, {epsilon:g}": one_arm,
            f"ten classes, {epsilon:g}": ten_classes(epsilon),
            f"ten classes, wrong, {epsilon:g}": ten_classes(epsilon, wrong=0.5),
        }
    return worlds


WORLDS = _wrong_proxies() | _learned_drifts() | _targets()
"""Where assumption E holds, or what breaks it errs towards silence."""


def _anti(training, control, random):
    """Two segments whose rates only the labels tell; on unseen records the target has them swapped.

    Its answers on training records are coins, remembered one by one.
    """

    def arm(records, seen):
        segment = random.integers(0, 2, records)
        labels = drawn(np.where(segment == 1, 1.5, -1.5), random)
        coins = 2 * random.integers(0, 2, records) - 1
        target = 4.0 * coins if seen else 1.0 - 2.0 * segment
        return both(target + 0.0), both(np.zeros(records)), labels

    return arm(training, True), arm(control, False)


FALSE_WORLDS = {
    "training's features printed": Binary(
        noise=2.0, training_noise=0.5, drifts=some_drift(2.5)
    ).world(
        "reads no label, but is less noisy about training rows' features than about the holdout's",
        0.0,
        5_000,
        2_000,
    ),
    "holdout misjudged": World(
        "reads no label; on records it has not seen it is worse than chance, in two segments",
        lambda random: _anti(5_000, 2_000, random),
        0.0,
        5_000,
        2_000,
    ),
    "the holdout is an easier population": World(
        "the proxy's log-odds are worth half in the holdout: more noise in its labels",
        lambda random: (
            Binary(spread=1.5).arm(5_000, 0.0, random, training=True),
            Binary(spread=1.5, proxy=scaled(1.0), hidden=3.0, noise=1.0).arm(
                2_000, 0.0, random, training=False
            ),
        ),
        0.0,
        5_000,
        2_000,
    ),
}
"""Where assumption E is false: nobody can tell these from a leak by the labels alone."""
