"""A holdout that was chosen by what the proxy says is told, and a random one is not."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from privcore.attacks import LabelCounts, OddsTally, unlike_arms


def arm(proxy: np.ndarray[Any, Any]) -> OddsTally:
    """Return records by the proxy's log-odds, which is all that the comparison reads."""
    bins = np.clip(((proxy + 14.0) * 16).astype(int), 0, 447)
    counts = np.zeros((448, 224, 2), dtype=np.int64)
    np.add.at(counts[:, 100, 0], bins, 1)
    return OddsTally(proxy.size, counts)


def compared(*arms: np.ndarray[Any, Any], classes: int = 2) -> str:
    one, other = map(arm, arms)
    given = SimpleNamespace(classes=classes, odds=(one,), control_odds=(other,))
    given.labels = given.control_labels = None
    if classes > 2:  # of which all but two have no label
        counts = np.zeros((2, 1, classes, 448, 2), dtype=np.int64)
        counts[:, 0, 1, :, 0] = [each.counts.sum(axis=(1, 2)) for each in (one, other)]
        counts[:, 0, 0] = counts[:, 0, 1, ::-1]
        counts[:, 0, 2:, 0, 0] = [[one.records], [other.records]]
        given.labels, given.control_labels = map(LabelCounts, counts)
    return unlike_arms(cast("Any", given))


def test_a_holdout_of_the_rows_that_the_proxy_is_surest_of_is_told() -> None:
    """A leak on the others proved 0.00, and nothing was said."""
    random = np.random.default_rng(0)
    odds = random.normal(size=3_000)
    surest = np.abs(odds) > np.quantile(np.abs(odds), 0.6)
    assert "answers otherwise of the holdout" in compared(odds[~surest], odds[surest])
    # An invented third class was enough for nothing to be said.
    assert "answers otherwise of the holdout" in compared(odds[~surest], odds[surest], classes=3)
    assert compared(odds[1::2], odds[::2], classes=3) == ""


def test_a_random_holdout_is_not_remarked_on() -> None:
    for seed in range(200):
        random = np.random.default_rng(seed)
        odds = random.normal(scale=random.uniform(0.1, 4.0), size=int(random.integers(300, 3_000)))
        chosen = random.random(odds.size) < random.uniform(0.1, 0.6)
        assert compared(odds[~chosen], odds[chosen]) == ""
