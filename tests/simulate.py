"""Mechanisms whose privacy loss is known, played as games; shared by the statistical tests."""

import functools
from dataclasses import replace

import numpy as np
from scipy.special import expit
from scipy.stats import binomtest, norm

from privcore.attacks import (
    PaperScore,
    Predictions,
    Tallies,
    Tally,
    generator,
    label_counts,
    label_inference,
    match,
    odds_tally,
)
from privcore.guarantees import PureDP
from privcore.lower_bounds import (
    WINDOW_EPSILONS,
    WINDOW_NIGHTS,
    Claim,
    Evidence,
    Grid,
    Night,
    bets_epsilon_lower,
    matched_epsilon_lower,
    matched_log_wealth,
    read_evidence,
    stakes_for,
)
from privcore.lower_bounds.matched import night_log_wealth

# The level at which simulated error rates are judged: a correct estimator fails here once in a
# million runs of a test.
JUDGING_LEVEL = 1e-6

PURE = Claim(family=PureDP(), delta=0.0)


def assert_rate_at_most(errors: int, trials: int, rate: float) -> None:
    """Fail if `errors` of `trials` refute an error probability of at most `rate`."""
    pvalue = binomtest(errors, trials, rate, alternative="greater").pvalue
    assert pvalue > JUDGING_LEVEL, f"{errors} errors in {trials} trials at a rate of {rate}"


def two_columns(probability):
    return np.stack([1.0 - probability, probability], axis=1)


def randomized_response(records, epsilon, random, priors=(0.01, 0.05, 0.3, 0.5)):
    """Return (target, proxy, labels) when the adversary knows every noisy label and prior."""
    prior = np.resize(np.array(priors), records)
    labels = (random.random(records) < prior).astype(np.int64)
    keep = expit(epsilon)
    noisy = np.where(random.random(records) < keep, labels, 1 - labels)
    proxy = two_columns(prior)
    likelihood = np.where(np.arange(2) == noisy[:, None], keep, 1.0 - keep)
    posterior = proxy * likelihood
    return posterior / posterior.sum(axis=1, keepdims=True), proxy, labels


def gaussian_label(records, mu, random, prior=0.5):
    """Return (target, proxy, labels) when the adversary sees each label plus N(0, 1/mu^2)."""
    chance = np.full(records, prior)
    labels = (random.random(records) < chance).astype(np.int64)
    seen = labels + random.normal(0.0, 1.0 / mu, records)
    ones = chance * norm.pdf(seen, 1.0, 1.0 / mu)
    zeros = (1.0 - chance) * norm.pdf(seen, 0.0, 1.0 / mu)
    return two_columns(ones / (ones + zeros)), two_columns(chance), labels


def unread(world, random):
    """Return the records of a world with labels drawn anew: a holdout, unknown to the target."""
    target, proxy, _ = world
    return target, proxy, (random.random(len(proxy)) < proxy[:, 1]).astype(np.int64)


def unrelated(records, random):
    """Return (target, proxy, labels) of a target that knows nothing of these labels."""
    prior = random.uniform(0.02, 0.98, records)
    labels = (random.random(records) < prior).astype(np.int64)
    return two_columns(random.uniform(0.02, 0.98, records)), two_columns(prior), labels


class Model:
    """A model of two classes that says what it is told."""

    def __init__(self, chance, classes=None):
        self.chance = chance
        if classes is not None:
            self.classes_ = np.array(classes)

    def predict_proba(self, rows):
        return np.stack([1.0 - self.chance, self.chance], axis=1)[: len(rows)]


def play(target, proxy, labels, random, *, repetitions=1, score=None) -> Tally:
    return label_inference(
        target,
        proxy,
        labels,
        score=score or PaperScore(),
        repetitions=repetitions,
        key=int(random.integers(2**63)),
    )


def predictions(target, proxy, labels) -> Predictions:
    return odds_tally(target, proxy, labels).predictions()


def believed(world, *, claim=PURE, choices=1.0) -> float:
    """Return the bound of the bets that take the proxy at its word."""
    tally, classes = odds_tally(*world), world[0].shape[1]
    stakes = stakes_for(claim, records=tally.records, classes=classes, choices=choices)
    return stakes.in_claim(bets_epsilon_lower(tally.predictions(), stakes=stakes))


def matched(training, control, *, claim=PURE, seed=0) -> float:
    """Return the bound of training records beside holdout records, if nothing lowers it."""
    tables, staked = tables_of(training, control, seed)
    stakes = staked(claim)
    return stakes.in_claim(matched_epsilon_lower(tables, stakes=stakes))


def refuted_each(training, control, epsilon, *, claims, seed=0) -> list[bool]:
    """Return whether each claim is refuted, if this is declared: at its own point, as verdicts are.

    From one comparison. A bound above epsilon rejects that point, too.
    """
    tables, staked = tables_of(training, control, seed)
    each = [staked(claim) for claim in claims]
    return [
        matched_log_wealth(tables, epsilon, stakes=one) >= one.log_needed(epsilon) for one in each
    ]


def evidence_of(tallies, claim=PURE, *, seed=0, choice=Grid(), **options) -> Evidence:  # noqa: B008  # frozen
    """Return what an audit reads of tallies."""
    stream = generator(seed)
    return read_evidence(
        tallies, claim=claim, choice=choice, paper_delta=1e-5, random=stream, **options
    )


def night(training, control, *, claim=PURE, seed=0) -> Night:
    """Return what a night leaves for windows, as one of as many as may pay for delta together."""
    tables, staked = tables_of(training, control, seed)
    stakes = staked(claim, nights=WINDOW_NIGHTS)
    grid = np.array([stakes.replacement(float(epsilon)) for epsilon in WINDOW_EPSILONS])
    wealth = night_log_wealth(tables, epsilons=grid, stakes=stakes)
    return Night(wealth, float(stakes.prices.max()))


def tallied(training, control, **changes) -> Tallies:
    """Return the tallies of two arms, (target, proxy, labels) each, without a game."""
    classes = training[0].shape[1]
    games = (replace(Tally.zero(0), records=len(arm[2])) for arm in (training, control))
    if classes > 2:
        changes["labels"] = label_counts(*training[1:])
        changes["control_labels"] = label_counts(*control[1:])
    odds = ((odds_tally(*arm),) for arm in (training, control))
    return Tallies(*games, *odds, classes=classes, **changes)


def tables_of(training, control, seed):
    """Return the tables of both arms, and the stakes by the claim."""
    arms = odds_tally(*training), odds_tally(*control)
    classes = training[0].shape[1]
    tables = match((arms[0],), (arms[1],), random=generator(seed), classes=classes)
    sizes = {"records": arms[0].records, "control": arms[1].records}
    return tables, functools.partial(stakes_for, classes=classes, **sizes)
