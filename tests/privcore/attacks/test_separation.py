"""The share of pairs that numbers order alike, against every pair."""

import numpy as np
import pytest

from privcore.attacks import separation


@pytest.mark.parametrize("values", [2, 5, 1_000])
def test_the_share_is_that_of_all_pairs(values: int) -> None:
    """60 records, some numbers missing or infinite; a pair of equal numbers counts half; seed 6."""
    random = np.random.default_rng(6)
    numbers = random.integers(0, values, 60).astype(float)
    numbers[:3], numbers[3], numbers[4] = np.nan, np.inf, -np.inf
    kinds = random.random(60) < 0.4
    held = np.where(np.isnan(numbers), -np.inf, np.clip(numbers, -1e300, 1e300))
    pairs = [(a > b) + 0.5 * (a == b) for a in held[kinds] for b in held[~kinds]]
    share = float(np.mean(pairs))
    assert separation(numbers, kinds) == pytest.approx(max(share, 1.0 - share))
    assert separation(-numbers[5:], kinds[5:]) == pytest.approx(separation(numbers[5:], kinds[5:]))


def test_numbers_that_tell_both_kinds_order_all_pairs() -> None:
    kinds = np.arange(10) < 4
    assert separation(np.arange(10.0), kinds) == 1.0
    assert separation(np.zeros(10), kinds) == 0.5
