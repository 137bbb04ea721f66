"""A student of holdout rows, and segments: what they are fitted to, and what they say of rows."""

from dataclasses import replace

import numpy as np
import polars as pl

from privcore.attacks import Context, fit_student, holdout_suspicion
from workers.labels.columns import Batch
from workers.lake.manifest import Feature
from workers.scan.fitted import (
    StudentSample,
    as_objects,
    context_of,
    fitted,
    fitted_segments,
    read_context,
)


def test_samples_add_in_any_order_and_keep_the_smallest_streams():
    def some(streams):
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


def test_a_sample_keeps_20_000_rows_and_those_of_the_smallest_streams():
    whole = sample(30_000)
    names = set(StudentSample.__slots__) - {"features", "seen"}
    one, other = (
        replace(whole, **{name: getattr(whole, name)[rows] for name in names}, seen=15_000)
        for rows in (slice(1, None, 2), slice(0, None, 2))
    )
    kept = one + other
    assert (kept + StudentSample.none(seen=5)).seen == 30_005
    assert np.array_equal(kept.streams, np.arange(20_000))
    assert np.array_equal(kept.numbers, whole.numbers[:20_000])


def test_a_full_sample_wants_smaller_streams_alone(monkeypatch):
    """Places of rows, ascending; of equal streams the earlier row is kept."""
    monkeypatch.setattr("workers.scan.fitted.MOST_RECORDS", 3)
    made = sample(4)
    streams = np.array([9, 2, 7, 1, 3], dtype=np.uint64)
    for held, wanted in (
        ([0, 2], [1, 3, 4]),
        ([0, 8, 4], [1, 3, 4]),
        ([8, 3, 0], [1, 3, 4]),
        ([3, 2, 0], [1, 3]),
        ([0, 2, 1], [3]),
    ):
        before = replace(made, streams=np.array(held, dtype=np.uint64))
        assert before.wanted(streams).tolist() == wanted


def sample(rows=400):
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


def batch(cities):
    table = pl.DataFrame({"delay": [0.0] * len(cities), "city": cities}).to_arrow()
    return Batch(table, "somewhere", ("file", 0, 0))


def test_frequent_words_are_known_and_rare_ones_are_one():
    student = fitted(sample())
    assert set(student.known[0]) == {"city 0", "city 1", "city 2"}
    asked = batch(["city 0", "city 2", "rare 50", "never seen", None])
    said = student.probabilities(asked, np.arange(5), np.zeros(5, dtype=np.int64))
    log_odds = np.log(said[:, 0, 1] / said[:, 0, 0])
    assert abs(log_odds[0] + 1.0) < 0.4
    assert abs(log_odds[1] - 2.0) < 0.4
    assert log_odds[2] == log_odds[3] == log_odds[4]


def test_rows_are_read_as_numbers_and_words_of_one_length_at_most():
    features = sample().features
    numbers, words = read_context(batch(["x" * 1_000, "y"]), features, np.array([1, 0]))
    assert numbers.shape == (2, 1)
    assert [len(word) for word in as_objects(words, 2)[:, 0]] == [1, 200]


def test_255_words_are_known_and_each_comes_five_times_at_least():
    words = [f"w{number:03}" for number in range(256) for _ in range(5)] + ["x"] * 4 + ["y"] * 6
    made = sample(len(words))
    student = fitted(replace(made, words=np.array(words, dtype=np.object_)[:, None]))
    assert student.known == (("y", *(f"w{number:03}" for number in range(254))),)


def test_of_samples_of_other_kinds_one_is_kept_in_either_order():
    """The scan refuses such a column; the sum is defined, so that it is the same in any order."""
    numeric = sample(10)
    first = Feature(name="delay", kind="categorical")
    other = replace(numeric, features=(first, *numeric.features[1:]), seen=3)
    for both in (numeric + other, other + numeric):
        assert (both.features, both.streams, both.seen) == (other.features, other.streams, 3)
    none = StudentSample.none()
    assert fitted(none) is None
    for both in (none + numeric, numeric + none):
        assert (both.features, both.streams, both.seen) == (numeric.features, numeric.streams, 0)
    assert (none.numbers.shape, none.words.shape, none.target.shape) == ((0, 0),) * 3


def test_words_are_their_places_among_those_that_are_known():
    """Words are told apart by their first 200 characters; one that is missing is not known."""
    long = "x" * 200
    words = (pl.Series(["b", None, "a", long + "y", "c"]), pl.Series(["a", "b", "c", "a", None]))
    context = context_of(np.ones((5, 1)), words, (("a", "b", long), ()))
    assert context.codes.tolist() == [[1, -1], [-1, -1], [0, -1], [2, -1], [-1, -1]]
    assert context.numbers.tolist() == [[1.0]] * 5


def test_a_word_that_comes_four_times_is_rare():
    made = sample(400)
    words = np.array(["a"] * 391 + ["b"] * 5 + ["c"] * 4, dtype=np.object_)[:, None]
    assert replace(made, words=words).context()[0] == (("a", "b"),)


def test_a_student_is_fitted_to_codes_of_known_words():
    """Words are coded by their place, all others are -1; the suspicion is what it then gives."""
    made = sample()
    made = replace(made, proxy=made.target + np.where(made.labels[:, None] > 0, 0.4, -0.4))
    student = fitted(made)
    (known,) = student.known
    codes = np.array([known.index(word) if word in known else -1 for word in made.words[:, 0]])
    context = Context(made.numbers, codes[:, None])
    for outputs, found, of_proxy in (
        (made.target, student.student, False),
        (made.proxy, student.of_proxy, True),
    ):
        expected = fit_student(context, outputs, made.folds, of_proxy=of_proxy)
        said = expected.predict(context, made.folds)
        assert np.array_equal(found.predict(context, made.folds), said)
        if not of_proxy:
            suspicion = holdout_suspicion(made.target, said, made.proxy, made.labels)
            assert student.suspicion == suspicion != 0.0
    asked = student.probabilities(batch(["city 1"]), np.zeros(1, int), np.zeros(1, int))
    alone = replace(student, of_proxy=None).probabilities(
        batch(["city 1"]), np.zeros(1, int), np.zeros(1, int)
    )
    assert alone[0, 0].tolist() == asked[0, 0].tolist()
    assert alone[0, 1].tolist() == [0.5, 0.5] != asked[0, 1].tolist()


ROWS = 2_000
FEATURES = (
    Feature(name="age", kind="numeric"),
    Feature(name="place", kind="categorical"),
    Feature(name="visitor", kind="categorical"),
)


def leaky():
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


def named(segments, batch):
    """Return of each division which rows lie in the segment of each name in words."""
    return [
        {segments.words(division, name): groups == place for place, name in enumerate(names)}
        for division, (names, groups) in enumerate(segments.groups(batch))
    ]


def test_the_rows_of_a_segment_are_those_that_its_name_says():
    segments, frame, batch = leaky()
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


def test_unusual_values_are_those_at_the_ends_and_rare_words():
    """A missing number is none, and a column of words that are all rare has none."""
    segments, frame, batch = leaky()
    unusual = named(segments, batch)[-1]
    age = read_context(batch, FEATURES[:1], np.arange(ROWS))[0][:, 0]
    low, high = np.nanquantile(age, (0.01, 0.99))
    ends = (age < low) | (age > high)
    rare = (frame["place"] == "rare").to_numpy()
    assert np.array_equal(unusual["rows with one unusual value"], ends ^ rare)
    assert np.array_equal(unusual["rows with several unusual values"], ends & rare)
    assert unusual["rows without unusual values"].sum() > 0.9 * ROWS
