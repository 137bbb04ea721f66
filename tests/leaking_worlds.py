"""Worlds in which every label shows a leak: what an audit is said to see from some size on.

A world draws the tallies of one night at a leak. Of each training record the target remembers an
answer to the label by randomized response and says the posterior; of a holdout record an answer to
a label drawn anew. The prior is what features tell, and what the proxy says unless it is told.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import expit, softmax

from privcore.attacks import Tallies, decoy_tally, generator, label_counts, odds_tally
from privcore.attacks.tally import BINS, Tally
from privcore.guarantees import ApproxDP, PureDP
from privcore.lower_bounds import Claim, Evidence, Grid, read_evidence
from tests.simulate import two_columns

World = Callable[[float, np.random.Generator], Tallies]


def claimed(epsilon, *, delta=0.0, **changes):
    family = ApproxDP() if delta else PureDP()
    return Claim(**{"family": family, "delta": delta, "epsilon": epsilon} | changes)


def tallied(training, control, classes=2, **changes):
    """Return the tallies of two arms, (target, proxy, labels) each, without a game."""
    none = np.zeros((0, BINS), dtype=np.int64)
    several = classes > 2
    return replace(
        Tallies.zero(repetitions=0, classes=classes),
        game=Tally(len(training[2]), none, none),
        control_game=Tally(len(control[2]), none, none),
        odds=(odds_tally(*training),),
        control_odds=(odds_tally(*control),),
        labels=label_counts(*training[1:]) if several else None,
        control_labels=label_counts(*control[1:]) if several else None,
        **changes,
    )


def binary(records, held, *, base=-0.7, spread=1.2, unknown=0.0):
    """Two classes whose log-odds are normal; `unknown` is the deviation of what the proxy lacks."""

    def draw(leak, random):
        arms = []
        for size in (records, held):
            proxy = random.normal(base, spread, size)
            prior = proxy + unknown * random.normal(size=size)
            labels, fresh = (random.random(size) < expit(prior) for _ in range(2))
            shown = labels if not arms else fresh
            answer = np.where(random.random(size) < expit(leak), shown, ~shown)
            target = expit(prior + np.where(answer, leak, -leak))
            arms.append((two_columns(target), two_columns(expit(proxy)), labels.astype(np.int64)))
        return tallied(*arms)

    return draw


def several(records, held, classes, *, spread=1.2):
    """More classes, whose scores are normal."""

    def draw(leak, random):
        arms = []
        kept = np.exp(leak) / (np.exp(leak) + classes - 1.0)
        for size in (records, held):
            prior = softmax(random.normal(0.0, spread, (size, classes)), axis=1)
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
            arms.append((target / target.sum(axis=1, keepdims=True), prior, labels))
        return tallied(*arms, classes=classes)

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


def decoyed(number, classes=2):
    """Decoys whose trained-on label the target remembers by randomized response."""

    def draw(leak, random):
        pair = np.stack([random.permutation(classes)[:2] for _ in range(number)])
        kept = np.exp(leak) / (np.exp(leak) + classes - 1.0)
        other = (pair[:, 0] + random.integers(1, classes, number)) % classes
        answer = np.where(random.random(number) < kept, pair[:, 0], other)
        target = np.ones((number, classes))
        target[np.arange(number), answer] = np.exp(leak)
        chance = np.full((number, classes), 1.0 / classes)
        tally = decoy_tally(
            target / target.sum(axis=1, keepdims=True), chance, pair[:, 0], pair[:, 1]
        )
        none = np.zeros((0, BINS), dtype=np.int64)
        others = Tally(5_000, none, none)
        return replace(tallied(*nobody(classes), classes, decoys=tally), game=others)

    return draw


def nobody(classes=2):
    """Return two arms without records."""
    none = np.zeros((0, classes))
    return ((none, none, np.zeros(0, dtype=np.int64)),) * 2


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
