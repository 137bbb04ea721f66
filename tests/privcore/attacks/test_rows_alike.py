"""Rows that belong together: neither test is moved by chance, and sums keep whole values."""

import numpy as np

from privcore.attacks import ValueSketch, row_sums, value_hashes
from tests.simulate import assert_rate_at_most


def sketch_of(random: np.random.Generator, values: int, rows: int) -> ValueSketch:
    """Return a sketch of independent rows with a right proxy."""
    chance = random.uniform(0.1, 0.9, rows)
    odd = (random.random(rows) < chance).astype(np.int64)
    unit = 1 << 20
    residual = np.rint((odd - chance) * unit).astype(np.int64)
    variance = np.rint(chance * (1 - chance) * unit).astype(np.int64)
    train = random.random(rows) < 0.6
    sums = np.stack(
        [train, ~train, odd, residual, residual**2 // unit, variance, variance**2 // unit], axis=1
    )
    hashes = random.integers(0, values, rows).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ValueSketch.of(hashes, sums.astype(np.int64))


def test_neither_test_is_moved_by_chance() -> None:
    """2,000 sketches of independent rows, seed 333: standard errors are such, twins are none."""
    random = np.random.default_rng(333)
    agreements, twins, together = [], 0, 0
    for _ in range(2_000):
        sketch = sketch_of(random, 400, 700)
        agreements.append(sketch.agreement())
        twins += sketch.repeated() > 0.0
        together += sketch.held_together()
    assert abs(np.mean(agreements)) < 0.1
    assert 0.9 < np.std(agreements) < 1.1
    assert max(agreements) < 5.0
    assert_rate_at_most(twins, 2_000, 1e-5)
    assert together == 0


def test_sketches_add_to_the_same_whatever_the_order_and_keep_whole_values() -> None:
    """Against a dictionary of all values, seed 334; more values than are kept."""
    random = np.random.default_rng(334)
    hashes = random.integers(0, 2**63, 9_000).astype(np.uint64)[random.integers(0, 9_000, 20_000)]
    rows = random.integers(0, 50, (20_000, 7))
    whole = ValueSketch.of(hashes, rows)
    assert whole.hashes.size == 4_096
    totals: dict[int, np.ndarray] = {}
    for word, row in zip(hashes.tolist(), rows, strict=True):
        totals[word] = totals.get(word, 0) + row
    for word, sums in zip(whole.hashes.tolist(), whole.sums, strict=True):
        np.testing.assert_array_equal(sums, totals[word])
    assert whole.hashes.tolist() == sorted(totals)[:4_096]
    for seed in range(5):
        cuts = np.sort(np.random.default_rng(seed).integers(0, 20_000, 6))
        parts = [
            ValueSketch.of(one, two)
            for one, two in zip(np.split(hashes, cuts), np.split(rows, cuts), strict=True)
        ]
        order = np.random.default_rng(seed).permutation(len(parts))
        assert sum((parts[place] for place in order), start=ValueSketch.zero()) == whole


def test_what_rows_add_is_their_arm_label_and_what_the_proxy_leaves():
    """Against one row after the other; a label that cannot be read counts with its arm alone."""
    proxy = np.array([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]])
    found = row_sums(np.array([1, 0, -1]), np.array([True, False, True]), proxy)
    unit = 1 << 20
    first = [1, 0, 1, 3 * unit // 4, 9 * unit // 16, 3 * unit // 16, 9 * unit // 256]
    second = [0, 1, 0, -unit // 2, unit // 4, unit // 4, unit // 16]
    assert found.tolist() == [first, second, [1, 0, 0, 0, 0, 0, 0]]
    without = row_sums(np.array([1]), np.array([True]), None)
    assert without[0, 3] == unit // 2


def test_hashes_are_of_a_rows_numbers_and_spread():
    columns = np.random.default_rng(336).normal(size=(2_000, 3))
    found = value_hashes(columns)
    assert np.unique(found).size == 2_000
    assert abs(np.mean(found < 2**63) - 0.5) < 0.05
    assert np.array_equal(value_hashes(columns[::-1]), found[::-1])
    same = value_hashes(np.array([[0.0, np.nan], [-0.0, -np.nan], [0.0, 1.0]]))
    assert same[0] == same[1] != same[2]
