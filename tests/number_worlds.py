"""Made days whose labels are numbers, and what an audit proves of them."""

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import above, above_odds, borders, match, odds_tally, places
from privcore.guarantees import PureDP
from privcore.lower_bounds import Claim, matched_epsilon_lower, stakes_for

CLAIM = Claim(PureDP(), 0.0, significance=0.04, epsilon=1.0)

Numbers = NDArray[np.float64]
Day = tuple[Numbers, Numbers, Numbers, NDArray[np.bool_]]
"""Labels, what the proxy predicts, what the target does, and which rows are held out."""


def bound(
    target: Numbers,
    proxy: Numbers,
    labels: Numbers,
    held: NDArray[np.bool_],
    seed: int,
    *,
    ordered: bool = True,
) -> float:
    """Return the headline; unless `ordered`, of records that are matched by nothing."""
    classes, (sure, undecided) = above(labels, proxy), above_odds(target, proxy)
    order = places(proxy, borders(proxy[::7]))
    training, control = (
        odds_tally(sure[arm], undecided[arm], classes[arm], order=order[arm] if ordered else None)
        for arm in (~held, held)
    )
    stakes = stakes_for(CLAIM, records=training.records, classes=2)
    random = np.random.default_rng(seed)
    return matched_epsilon_lower(
        match([training], [control], random=random, ordered=ordered), stakes=stakes
    )


def numbers(
    random: np.random.Generator,
    rows: int,
    *,
    skewed: bool = False,
    drift: float = 0.0,
    poor: float = 0.0,
) -> Day:
    """Return normal labels about what is known, `drift` more, which the target learned.

    The proxy is `poor` by so much noise. Where `skewed`, all are exponentials of that. A fifth is
    held out.
    """
    known = random.normal(0.0, 1.0, rows)
    labels = known + drift + random.normal(0.0, 1.0, rows)
    proxy = known + random.normal(0.0, poor, rows)
    target = known + drift + random.normal(0.0, 0.1, rows)
    if skewed:
        labels, proxy, target = np.exp(labels), np.exp(proxy), np.exp(target)
    return labels, proxy, target, random.random(rows) < 0.2


def uneven(random: np.random.Generator, rows: int, *, poor: float = 0.0, drift: float = 0.0) -> Day:
    """Return two segments, one mostly zeros and held out eight times as often as the other.

    Of the cheap segment one label in ten lies above the proxy's prediction, of the dear one half,
    and `drift` more of it, which the target learned. The proxy is right but for `poor` noise.
    """
    dear, noise = random.random(rows) < 0.5, random.normal(0.0, 0.3, rows)
    mean = np.where(dear, 50.0 + 10.0 * noise, 5.0 + noise)
    paid = np.where(random.random(rows) < 0.1, 10.0 * mean, 0.0)
    labels = np.where(dear, mean + drift + random.normal(0.0, 10.0, rows), paid)
    proxy = mean * np.exp(random.normal(0.0, poor, rows))
    target = np.where(dear, mean + drift, mean) * np.exp(random.normal(0.0, 0.05, rows))
    return labels, proxy, target, random.random(rows) < np.where(dear, 0.05, 0.4)
