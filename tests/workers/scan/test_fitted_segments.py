"""Segments of rows: their names say which rows are in them."""

import numpy as np
import polars as pl

from workers.labels.columns import Batch
from workers.lake.manifest import Feature
from workers.scan.fitted_segments import FittedSegments, fitted_segments
from workers.scan.fitted_student import StudentSample, read_context

ROWS = 2_000
FEATURES = (
    Feature(name="age", kind="numeric"),
    Feature(name="place", kind="categorical"),
    Feature(name="visitor", kind="categorical"),
)


def fitted() -> tuple[FittedSegments, pl.DataFrame, Batch]:
    """Return segments of rows whose last feature is another word in each row, with these."""
    random = np.random.default_rng(0)
    age = random.normal(size=ROWS).round(2)
    place = random.choice(["A", "B", "rare", "Rome"], ROWS, p=[0.5, 0.3, 0.005, 0.195])
    frame = pl.DataFrame(
        {"age": age, "place": place, "visitor": [f"v{place}" for place in range(ROWS)]}
    ).with_columns(age=pl.when(pl.int_range(ROWS) % 50 > 0).then("age"))
    batch = Batch(frame.to_arrow(), "table", ("file", 0, 0))
    whole = np.arange(ROWS)
    words = frame.select("place", "visitor").to_numpy().astype(np.object_)
    moved = (np.abs(age) + 4.0 * ((place == "B") & (age > 0.5)))[:, None]
    numbers, _ = read_context(batch, FEATURES[:1], whole)
    sample = StudentSample(
        FEATURES, whole.astype(np.uint64), 0 * whole, numbers, words, moved, 0 * moved, whole
    )
    return fitted_segments(sample, share=0.05), frame, batch


def named(segments: FittedSegments, batch: Batch) -> list[dict[str, np.ndarray]]:
    """Return of each division which rows lie in the segment of each name in words."""
    return [
        {segments.words(division, name): groups == place for place, name in enumerate(names)}
        for division, (names, groups) in enumerate(segments.groups(batch))
    ]


def test_the_rows_of_a_segment_are_those_that_its_name_says() -> None:
    segments, frame, batch = fitted()
    tree, by_age, by_place, *_ = named(segments, batch)
    assert len(segments.groups(batch)) == segments.divisions == 4
    place = frame["place"].to_numpy()
    assert {"place is A", "place is B", "place is Rome"} <= set(by_place)
    assert np.array_equal(by_place["place is B"], place == "B")
    (others,) = (name for name in by_place if name.startswith("place is none of"))
    assert others.removeprefix("place is none of ").split(", ")[:3] == ["A", "B", "Rome"]
    (last,) = (name for name in by_age if name.startswith("age > "))
    border = float(last.removeprefix("age > "))
    age = frame["age"].fill_null(np.inf).to_numpy()
    assert np.array_equal(by_age[last], age > border)
    middle = next(name for name in by_age if " < age <= " in name)
    low, high = map(float, middle.split(" < age <= "))
    assert np.array_equal(by_age[middle], (age > low) & (age <= high))
    there = (place == "B") & (age > 0.5) & np.isfinite(age)
    assert any(there[rows].mean() > 0.9 and "place is B" in name for name, rows in tree.items())


def test_unusual_values_are_those_at_the_ends_and_rare_words() -> None:
    """A missing number is none, and a column of words that are all rare has none."""
    segments, frame, batch = fitted()
    unusual = named(segments, batch)[-1]
    age = read_context(batch, FEATURES[:1], np.arange(ROWS))[0][:, 0]
    low, high = np.nanquantile(age, (0.01, 0.99))
    ends = (age < low) | (age > high)
    rare = (frame["place"] == "rare").to_numpy()
    assert np.array_equal(unusual["rows with one unusual value"], ends ^ rare)
    assert np.array_equal(unusual["rows with several unusual values"], ends & rare)
    assert unusual["rows without unusual values"].sum() > 0.9 * ROWS


def test_words_that_the_sample_lacks_are_rare() -> None:
    segments, _, _ = fitted()
    new = pl.DataFrame({"age": [0.0, 0.0], "place": ["A", "never seen"], "visitor": ["v1", "x"]})
    unusual = named(segments, Batch(new.to_arrow(), "table", ("file", 0, 0)))[-1]
    assert unusual["rows with one unusual value"].tolist() == [False, True]
