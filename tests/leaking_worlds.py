"""Worlds in which every label shows a leak: what an audit is said to see from some size on.

A world draws the tallies of one night at a leak. Of each training record the target remembers an
answer to the label by randomized response and says the posterior; of a holdout record an answer to
a label drawn anew. The prior is what features tell, and what the proxy says unless it is told.
"""

import functools
import operator
from dataclasses import replace

import numpy as np
from scipy.special import expit, softmax

from privcore.attacks import (
    PaperScore,
    ScoredRecords,
    generator,
    stream_key,
    unit_records,
    unit_tallies,
)
from privcore.guarantees import ApproxDP, PureDP
from privcore.lower_bounds import Arm, Claim, Evidence, Grid, read_evidence
from privcore.lower_bounds.notebook_input import checked_arm, second_reference
from tests.simulate import tallied, two_columns


def claimed(epsilon, *, delta=0.0, **changes):
    family = ApproxDP() if delta else PureDP()
    return Claim(**{"family": family, "delta": delta, "epsilon": epsilon} | changes)


def binary(records, held, *, base=-0.7, spread=1.2, unknown=0.0, trees=0):
    """Two classes whose log-odds are normal; `unknown` is the deviation of what the proxy lacks.

    Both models say their chances themselves, or are forests of so many trees that each say a class.
    """

    def draw(leak, random):
        arms = []
        for size in (records, held):
            proxy = random.normal(base, spread, size)
            prior = proxy + unknown * random.normal(size=size)
            labels, answer = _answered(prior, leak, random, trained=not arms)
            target = expit(prior + np.where(answer, leak, -leak))
            said = (voted(two_columns(each), trees, random) for each in (target, expit(proxy)))
            arms.append((*said, labels))
        return tallied(*arms)

    return draw


def voted(chances, trees, random):
    """Return the shares of so many trees that say each class; the chances where there is none."""
    return random.multinomial(trees, chances) / trees if trees else chances


def several(records, held, classes, *, spread=1.2, unknown=0.0, trees=0):
    """More classes, whose scores are normal; see `binary`."""

    def draw(leak, random):
        arms = []
        kept = np.exp(leak) / (np.exp(leak) + classes - 1.0)
        for size in (records, held):
            scores = random.normal(0.0, spread, (size, classes))
            proxy = softmax(scores, axis=1)
            prior = softmax(scores + unknown * random.normal(size=scores.shape), axis=1)
            labels, fresh = (
                np.minimum(
                    (random.random((size, 1)) > prior.cumsum(axis=1)).sum(axis=1), classes - 1
                )
                for _ in range(2)
            )
            shown = labels if not arms else fresh
            other = (shown + random.integers(1, classes, size)) % classes
            answer = np.where(random.random(size) < kept, shown, other)
            target = prior.copy()
            target[np.arange(size), answer] *= np.exp(leak)
            target /= target.sum(axis=1, keepdims=True)
            said = (voted(each, trees, random) for each in (target, proxy))
            arms.append((*said, labels))
        return tallied(*arms)

    return draw


def read(tallies, claim, seed, **options) -> Evidence:
    """Return what an audit reads of a night."""
    stream = generator(seed, "leaking worlds")
    return read_evidence(
        tallies, claim=claim, choice=Grid(), paper_delta=1e-5, random=stream, **options
    )


def refutes(evidence: Evidence) -> bool:
    """Return whether a night alone refutes what was declared."""
    return evidence.epsilon_lower > (evidence.claim.epsilon or 0.0)


def taught(records, held, *, unknown=1.0):
    """Two classes of which features tell what the proxy lacks: a student is a second reference."""

    def draw(leak, random):
        arms, answers = [], []
        for size in (records, held):
            features = random.normal(size=(size, 4))
            prior = -0.7 + 0.6 * features.sum(axis=1)
            labels, answer = _answered(prior, leak, random, trained=not arms)
            proxy = prior + unknown * (random.normal(size=size) - 0.5 * features[:, 0])
            target = expit(prior + np.where(answer, leak, -leak))
            arms.append(Arm(two_columns(target), two_columns(expit(proxy)), labels, features))
            answers.append(np.zeros(size, dtype=np.int64))
        seen = [checked_arm(name, arm) for name, arm in zip(("one", "other"), arms, strict=True)]
        beside = second_reference(*seen, 0, (*answers, 1))
        return tallied(
            *((arm.target, arm.proxy, arm.labels) for arm in arms),
            student=beside.training,
            control_student=beside.control,
        )

    return draw


def people(trained, held, *, rows=4):
    """Persons of several rows each, of whom one row is bet on; rows do not share a level."""

    def draw(leak, random):
        arms = []
        for place, size in enumerate((trained, held)):
            prior = random.normal(-0.7, 1.2, size * rows)
            labels, answer = _answered(prior, leak, random, trained=not arms)
            target = two_columns(expit(prior + np.where(answer, leak, -leak)))
            key = stream_key(place, "people")
            scored = ScoredRecords(target, two_columns(expit(prior)), labels, key)
            names = np.repeat(np.arange(size), rows) + place * trained
            arms.append(unit_records(scored, names, unit_key=stream_key(0, "people")))
        return unit_tallies(*arms, score=PaperScore(), repetitions=1, key=0)

    return draw


def grouped(world, groups):
    """The world's records in several groups, within which they are matched."""

    def draw(leak, random):
        parts = [world(leak, random) for _ in range(groups)]
        whole = functools.reduce(operator.add, parts)
        odds = tuple(part.odds[0] for part in parts)
        return replace(whole, odds=odds, control_odds=tuple(part.control_odds[0] for part in parts))

    return draw


def _answered(prior, leak, random, *, trained):
    """Return labels, and the answers by randomized response to them, or to labels drawn anew."""
    labels, fresh = (random.random(prior.size) < expit(prior) for _ in range(2))
    shown = labels if trained else fresh
    answer = np.where(random.random(prior.size) < expit(leak), shown, ~shown)
    return labels.astype(np.int64), answer


def members(records, held):
    """Of membership: a member's own label is likelier by randomized response to its presence."""

    def draw(leak, random):
        arms = []
        for place, size in enumerate((records, held)):
            told = random.random(size) < expit(leak / 2.0 if place == 0 else -leak / 2.0)
            own = random.normal(0.5, 0.7, size)
            target = expit(own + np.where(told, 1.0, -1.0))
            arms.append(
                (two_columns(target), two_columns(expit(own)), np.ones(size, dtype=np.int64))
            )
        return tallied(*arms)

    return draw
