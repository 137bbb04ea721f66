"""The nights that an auditor sits `privaudit study exam` with, and what is true in each.

A night has training records and holdout records of one day. What is true is known, since the night
is made: no label was read, or each was read through a mechanism of a known epsilon. Days of teams
are those of a LightGBM pipeline; everything else is drawn at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import lightgbm
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Random = np.random.Generator
Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]
Drawn = tuple[Numbers, Numbers, Labels]
"""Of each record the target's and the proxy's probabilities, (records, classes), and the label."""


Draw = Callable[..., Drawn]
"""What draws one arm of a night: from records, epsilon, a generator, and `training`."""


@dataclass(frozen=True)
class World:
    """A world and what is true in it.

    Attributes:
        told: what makes it hard.
        draw: from a random generator to (training, control), each (target, proxy, labels), or with
            features beside them.
        epsilon: the true privacy loss, which is also what was declared.
    """

    told: str
    draw: Callable[[Random], Sequence[tuple[NDArray[Any], ...]]]
    epsilon: float
    training: int
    control: int


def both(log_odds: Numbers) -> Numbers:
    """Probabilities of two classes from the second one's log-odds."""
    return np.stack([expit(-log_odds), expit(log_odds)], axis=1)


def response(labels: Labels, epsilon: float, random: Random) -> Labels:
    """Randomized response to labels of two classes."""
    return np.where(random.random(labels.size) < expit(epsilon), labels, 1 - labels)


def drawn(log_odds: Numbers, random: Random) -> Labels:
    """Labels of records with these log-odds."""
    return (random.random(log_odds.size) < expit(log_odds)).astype(np.int64)


def night(told: str, epsilon: float, sizes: tuple[int, int], trained: Draw, held: Draw) -> World:
    """Return the world whose arms two functions draw."""

    def draw(random: Random) -> tuple[Drawn, Drawn]:
        return (
            trained(sizes[0], epsilon, random, training=True),
            held(sizes[1], epsilon, random, training=False),
        )

    return World(told, draw, epsilon, *sizes)


@dataclass(frozen=True)
class Binary:
    """A family of worlds of two classes.

    A record has the log-odds `base + spread normal`, plus one of `drifts` at random: what is true
    of its label. The proxy says `proxy` of the log-odds before the drift. The target knows `known`
    of the drift, with `noise`, and on training records adds what it learned of the label.

    Attributes:
        learns: how the target learned the labels: `posterior` moves the log-odds by +-epsilon, as
            far as the answer is worth; `interpolates` by +-4, with half of the rest; `some` by +-6,
            on a twentieth of the records.
        fresh: whether the target moves holdout records likewise, by answers to labels drawn anew.
        hidden: standard deviation of a part of the truth that neither model knows.
        training_noise: of the target on training records, if it is another one there.
    """

    base: float = -0.85
    spread: float = 1.0
    drifts: tuple[tuple[float, float], ...] = ((1.0, 0.0),)
    proxy: Callable[[Numbers, Random], Numbers] = lambda log_odds, _: log_odds
    known: float = 1.0
    noise: float = 0.0
    learns: str = "posterior"
    fresh: bool = False
    hidden: float = 0.0
    training_noise: float | None = None

    def arm(self, records: int, epsilon: float, random: Random, *, training: bool) -> Drawn:
        """Draw one arm of a night."""
        before = random.normal(self.base, self.spread, records)
        share, by = zip(*self.drifts, strict=True)
        drift = random.choice(np.array(by), records, p=np.array(share))
        truth = before + drift + self.hidden * random.normal(size=records)
        labels = drawn(truth, random)
        noise = self.noise
        if training and self.training_noise is not None:
            noise = self.training_noise
        target = before + self.known * drift + noise * random.normal(size=records)
        if (training or self.fresh) and epsilon > 0.0:
            shown = labels if training else drawn(truth, random)
            answer = 2 * response(shown, epsilon, random) - 1
            target = self._learned(target, answer, epsilon, random)
        return both(target), both(self.proxy(before, random)), labels

    def _learned(self, target: Numbers, answer: Labels, epsilon: float, random: Random) -> Numbers:
        if self.learns == "posterior":
            return target + epsilon * answer
        if self.learns == "interpolates":
            return 0.5 * target + 4.0 * answer + random.normal(size=target.size)
        remembered = random.random(target.size) < 0.05
        return np.where(remembered, 0.2 * target + 6.0 * answer, target)

    def world(self, told: str, epsilon: float, training: int, control: int) -> World:
        """Return the family's world of an epsilon and two sizes."""
        return night(told, epsilon, (training, control), self.arm, self.arm)


def scaled(by: float, shift: float = 0.0) -> Callable[[Numbers, Random], Numbers]:
    """Return a proxy that is wrong alike everywhere."""
    return lambda log_odds, _: by * log_odds + shift


def stale(log_odds: Numbers, random: Random) -> Numbers:
    """Log-odds of a proxy that knows less, and is noisy."""
    return 0.6 * log_odds + random.normal(0.0, 0.7, log_odds.size)


RARE: dict[str, Any] = {"base": float(logit(0.03)), "spread": 0.7}


def some_drift(by: float, share: float = 0.05) -> tuple[tuple[float, float], ...]:
    """Return drifts of which one moves a share of the records."""
    return ((1.0 - share, 0.0), (share, by))


Rows = tuple[Numbers, Labels]
Learner = dict[str, int]
SMOOTH: Learner = {"num_leaves": 31, "min_data_in_leaf": 20, "rounds": 80}
COLUMNS = 8


class Day(NamedTuple):
    """One day of a team: features and labels of both arms, its two models, and what is true."""

    trained: Rows
    held: Rows
    target: lightgbm.Booster
    proxy: lightgbm.Booster
    epsilon: float

    def arms(self) -> list[tuple[NDArray[Any], ...]]:
        """Return both arms: (target, proxy, labels, features)."""
        found: list[tuple[NDArray[Any], ...]] = []
        for features, labels in (self.trained, self.held):
            chances = (np.asarray(model.predict(features)) for model in (self.target, self.proxy))
            said = (np.stack([1.0 - chance, chance], axis=1) for chance in chances)
            found.append((*said, labels, features))
        return found


def log_odds_of(random: Random) -> Callable[[Numbers], Numbers]:
    """Return true log-odds that no learner of these has by heart."""
    weights = random.normal(size=(COLUMNS, 16)) / 1.5
    outer = 0.8 * random.normal(size=16)
    return lambda rows: np.tanh(rows @ weights) @ outer + 0.5 * rows[:, 0] * rows[:, 1] - 0.8


def rows_of(truth: Callable[[Numbers], Numbers], rows: int, random: Random) -> Rows:
    """Draw features and labels."""
    features = random.normal(size=(rows, COLUMNS))
    return features, drawn(truth(features), random)


def fit(rows: Rows, *, num_leaves: int, min_data_in_leaf: int, rounds: int) -> lightgbm.Booster:
    """Train on features and labels."""
    settings = {
        "objective": "binary",
        "num_leaves": num_leaves,
        "min_data_in_leaf": min_data_in_leaf,
        "num_threads": 1,
        "verbose": -1,
        "deterministic": True,
        "seed": 0,
    }
    return lightgbm.train(settings, lightgbm.Dataset(*rows), rounds)


def together(*parts: Rows) -> Rows:
    """Return the rows of all parts."""
    features, labels = zip(*parts, strict=True)
    return np.concatenate(features), np.concatenate(labels)


def read_by_training(rows: Rows, epsilon: float | None, random: Random) -> Rows:
    """Return rows with their labels by randomized response; as they are where `epsilon` is None."""
    return rows if epsilon is None else (rows[0], response(rows[1], epsilon, random))


def _refitted(
    before: Rows, rows: Rows, others: Rows, held: Rows, epsilon: float | None, random: Random
) -> Day:
    """Return the day of two fits; today's reads other rows where it shall read no label."""
    proxy = fit(read_by_training(before, epsilon, random), **SMOOTH)
    own = others if epsilon is None else read_by_training(rows, epsilon, random)
    return Day(rows, held, fit(own, **SMOOTH), proxy, epsilon or 0.0)


def fixed_holdout(random: Random, *, known: bool, epsilon: float | None = None) -> Day:
    """6,000 training rows and 1,500 held out, on which yesterday's model was trained if `known`.

    Where `epsilon` is None today's model reads no label of these rows: it saw others.
    """
    truth = log_odds_of(random)
    before, rows, others = (rows_of(truth, 6_000, random) for _ in range(3))
    held = rows_of(truth, 1_500, random)
    seen = together(before, held) if known else before
    return _refitted(seen, rows, others, held, epsilon, random)


def down_sampled(random: Random, *, kept: float, epsilon: float | None = None) -> Day:
    """Training keeps all positives and some of the negatives of 20,000 rows; the holdout all.

    Where `epsilon` is None today's model reads no label: it saw other rows, sampled likewise.
    """
    truth = log_odds_of(random)

    def sampled() -> Rows:
        features, labels = rows_of(truth, 20_000, random)
        stays = (labels == 1) | (random.random(labels.size) < kept)
        return features[stays], labels[stays]

    before, rows, others = (sampled() for _ in range(3))
    held = rows_of(truth, 5_000, random)
    return _refitted(before, rows, others, held, epsilon, random)


SIZES = SMALL, LARGE = (1_000, 250), (4_000, 1_000)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
RESPONSE = "randomized response"


def _laplace(records: int, epsilon: float, random: Random, *, training: bool) -> Drawn:
    """Labels plus Laplace noise of scale 1/epsilon, of which the target says the posterior."""
    before = random.normal(-0.85, 1.0, records)
    labels, others = drawn(before, random), drawn(before, random)
    seen = (labels if training else others) + random.laplace(0.0, 1.0 / epsilon, records)
    target = before + epsilon * (np.abs(seen) - np.abs(seen - 1.0))
    return both(target), both(before), labels


def _wrong_proxies() -> list[World]:
    families = {
        "overconfident": Binary(proxy=scaled(1.7), spread=1.5),
        "stale": Binary(proxy=stale),
        "before the base rate moved by 1 in log-odds": Binary(drifts=((1.0, 1.0),)),
        "before a segment moved, 3% positives": Binary(**RARE, drifts=some_drift(3.0), noise=0.5),
    }
    heart = Binary(proxy=stale, learns="interpolates", noise=0.5)
    return [
        *(family.world(told, 0.0, *LARGE) for told, family in families.items()),
        heart.world("stale, and labels by heart, 1", 1.0, *LARGE),
    ]


def _teams() -> list[World]:
    days: list[tuple[str, float | None, Callable[..., Day]]] = [
        ("new holdout", None, partial(fixed_holdout, known=False)),
        ("new holdout", 1.0, partial(fixed_holdout, known=False)),
        ("holdout that yesterday's model read", None, partial(fixed_holdout, known=True)),
        ("holdout that yesterday's model read", 1.0, partial(fixed_holdout, known=True)),
        ("half of the negatives trained on", None, partial(down_sampled, kept=0.5)),
        ("a fifth of the negatives trained on", 1.0, partial(down_sampled, kept=0.2)),
    ]

    def of_day(told: str, epsilon: float | None, make: Callable[..., Day]) -> World:
        true = epsilon or 0.0
        draw = lambda random: make(random, epsilon=epsilon).arms()  # noqa: E731
        return World(f"{told}, {true:g}", draw, true, 6_000, 1_500)

    return [of_day(*day) for day in days]


def _broken() -> list[World]:
    agrees, moved = float(logit(0.8)), Binary(drifts=((0.5, 1.5), (0.5, -1.5)), noise=0.3)
    unknown = replace(moved, known=0.0)
    surely_wrong = replace(unknown, noise=1.5)
    second = Binary(fresh=True).world("a second label, by heart", agrees, *LARGE)
    return [
        replace(second, epsilon=0.0),
        night("the last hours held out", 0.0, LARGE, moved.arm, surely_wrong.arm),
        night("a student of a teacher with more features", 0.0, LARGE, moved.arm, unknown.arm),
    ]


TEAMS = "days of teams"
WORLDS: dict[str, list[World]] = {
    "no label is read": [
        Binary(noise=0.5).world(f"yesterday's model with noise, {size[0]:,} records", 0.0, *size)
        for size in SIZES
    ],
    "epsilon is known": [
        *(
            Binary(fresh=True).world(
                f"{RESPONSE}, {epsilon:g}, {size[0]:,} records", epsilon, *size
            )
            for size in SIZES
            for epsilon in EPSILONS
        ),
        night("Laplace noise on labels, 1", 1.0, LARGE, _laplace, _laplace),
    ],
    "yesterday's model is wrong": _wrong_proxies(),
    TEAMS: _teams(),
    "a condition is broken": _broken(),
}
"""Kinds of worlds, of 4,000 training records where no other number is said.

In the last kind the target knows its training rows better than it knows others, without having read
a label of theirs, and no test can see that.
"""
