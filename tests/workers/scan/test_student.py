"""A student's sample of holdout rows adds; its words are told apart by how often they come."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl
import pytest
from catboost import CatBoost

from privcore.attacks.student import FOLDS
from workers.labels.columns import Batch
from workers.lake.manifest import Feature
from workers.scan.student import StudentSample, as_objects, fitted, read_context


def test_samples_add_in_any_order_and_keep_the_smallest_streams() -> None:
    def some(streams: list[int]) -> StudentSample:
        values = np.array(streams, dtype=np.uint64)
        column = values.astype(np.float64)[:, None]
        words = np.array([[str(one)] for one in streams], dtype=np.object_).reshape(-1, 1)
        whole = values.astype(np.int64)
        return StudentSample((), values, whole % 5, column, words, column, column, whole)

    parts = [some([5, 9]), some([1]), StudentSample.none(), some([7, 3])]
    one = parts[0] + parts[1] + (parts[2] + parts[3])
    other = parts[3] + (parts[2] + (parts[1] + parts[0]))
    assert one.streams.tolist() == other.streams.tolist() == [1, 3, 5, 7, 9]
    assert one.words[:, 0].tolist() == ["1", "3", "5", "7", "9"]
    assert one.labels.tolist() == other.labels.tolist() == [1, 3, 5, 7, 9]


def test_nothing_is_learned_of_no_rows() -> None:
    assert fitted(StudentSample.none()) is None


def sample(rows: int = 400) -> StudentSample:
    """Return rows of which the target says what their city is, and one number that says nothing."""
    random = np.random.default_rng(1)
    city = random.integers(0, 3, rows)
    words = np.array([[f"city {one}" if number % 50 else f"rare {number}"]
                      for number, one in enumerate(city)], dtype=np.object_)  # fmt: skip
    target = np.array([-1.0, 0.0, 2.0])[city][:, None] + 0.05 * random.normal(size=(rows, 1))
    features = (Feature(name="delay", kind="numeric"), Feature(name="city", kind="categorical"))
    whole = np.arange(rows)
    return StudentSample(
        features,
        whole.astype(np.uint64),
        whole % 5,
        random.normal(size=(rows, 1)),
        words,
        target,
        np.zeros((rows, 1)),
        random.integers(0, 2, rows),
    )


def batch(cities: list[str | None]) -> Batch:
    table = pl.DataFrame({"delay": [0.0] * len(cities), "city": cities}).to_arrow()
    return Batch(table, "somewhere", ("file", 0, 0))


def test_frequent_words_are_known_and_rare_ones_are_one() -> None:
    student = fitted(sample())
    assert student is not None
    assert student.known == (("city 1", "city 0", "city 2"),) or set(student.known[0]) == {
        "city 0", "city 1", "city 2",
    }  # fmt: skip
    asked = batch(["city 0", "city 2", "rare 50", "never seen", None])
    said = student.probabilities(asked, np.arange(5), np.zeros(5, dtype=np.int64))
    log_odds = np.log(said[:, 0, 1] / said[:, 0, 0])
    assert abs(log_odds[0] + 1.0) < 0.4
    assert abs(log_odds[1] - 2.0) < 0.4
    assert log_odds[2] == log_odds[3] == log_odds[4]


def test_threads_fit_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """CatBoost ends the process where threads fit at the same time: 1 of 3 trials of 6,000 fits."""
    fit, now, most = CatBoost.fit, [], []

    def watched(self: CatBoost, *given: Any, **more: Any) -> Any:
        now.append(self)
        time.sleep(0.002)
        most.append(len(now))
        try:
            return fit(self, *given, **more)
        finally:
            now.remove(self)

    monkeypatch.setattr(CatBoost, "fit", watched)
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(fitted, [sample()] * 4))
    assert len(most) >= 4 * FOLDS
    assert set(most) == {1}
    assert all(student is not None for student in made)


def test_what_it_was_taught_with_is_said() -> None:
    student = fitted(sample())
    assert student is not None
    assert (student.taught.records, student.taught.columns) == (400, 2)
    assert abs(student.taught.suspicion) < 5.0


def test_rows_are_read_as_numbers_and_words_of_one_length_at_most() -> None:
    features = sample().features
    numbers, words = read_context(batch(["x" * 1_000, "y"]), features, np.array([1, 0]))
    assert numbers.shape == (2, 1)
    assert [len(word) for word in as_objects(words, 2)[:, 0]] == [1, 200]
