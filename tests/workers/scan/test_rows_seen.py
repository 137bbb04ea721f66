"""Rows that come several times are counted the same in any order, and near ones by two digits."""

import numpy as np
import polars as pl
import pytest

from workers.labels.columns import Batch
from workers.lake.manifest import Feature
from workers.scan import rows_seen
from workers.scan.rows_seen import HashCounts, RowsSeen

FEATURES = (Feature(name="age", kind="numeric"), Feature(name="place", kind="categorical"))


def batch(ages: list[float | None], places: list[str | None]) -> Batch:
    return Batch(pl.DataFrame({"age": ages, "place": places}).to_arrow(), "table", ("file", 0, 0))


def test_rows_are_alike_wholly_or_to_two_digits() -> None:
    rows = batch(
        [1.51, 1.52, 7.0, 7.0, 7.0, None, None, 300.0],
        ["a", "a", "a", "a", "b", "a", "a", "a"],
    )
    seen = RowsSeen.of(rows, FEATURES, np.arange(8))
    assert seen.alike(rows, FEATURES).tolist() == [1, 1, 2, 2, 0, 2, 2, 0]


def test_rows_that_do_not_play_are_not_counted() -> None:
    rows = batch([7.0, 7.0, 3.0], ["a", "a", "a"])
    assert RowsSeen.of(rows, FEATURES, np.array([0, 2])).alike(rows, FEATURES).tolist() == [0, 0, 0]


def test_copies_in_other_batches_are_found_in_any_order() -> None:
    parts = [batch([1.0, 2.0], ["a", "b"]), batch([2.0], ["b"]), batch([9.0, 1.01], ["a", "a"])]
    one, two, three = (RowsSeen.of(each, FEATURES, np.arange(len(each.table))) for each in parts)
    for seen in ((one + two) + three, three + (two + one)):
        found = [seen.alike(each, FEATURES).tolist() for each in parts]
        assert found == [[1, 2], [2], [0, 1]]


def test_of_too_many_rows_those_with_the_smallest_hashes_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows_seen, "MOST_KEPT", 3)
    hashes = np.array([5, 1, 9, 1, 7, 5], dtype=np.uint64)
    whole = HashCounts.of(hashes)
    parts = HashCounts.of(hashes[:3]) + HashCounts.of(hashes[3:])
    for counts in (whole, parts):
        assert counts.hashes.tolist() == [1, 5, 7]
        assert counts.came_again(np.array([1, 5, 7, 9], dtype=np.uint64)).tolist() == [
            True, True, False, False,
        ]  # fmt: skip
    assert not HashCounts.of(hashes[:0]).came_again(hashes).any()
