"""CatBoost's files count the training rows of each word; a table that training read has as many."""

from typing import Any

import catboost
import numpy as np
import polars as pl
import pytest

from workers.lake.formats import format_named
from workers.lake.formats.words import bins_of_words, counted_words

ROWS = 900
RANDOM = np.random.default_rng(5)
LETTERS = np.array(list('abcXYZ 0189_-"\\/é語😀'))
LONG = ["".join(RANDOM.choice(LETTERS, length)) for length in (*range(90), 127, 128, 129, 400)]
TABLE = pl.DataFrame(
    {
        "number": RANDOM.normal(size=ROWS),
        "town": RANDOM.choice([f"t{place}" for place in range(30)], ROWS),
        "word": [LONG[place] for place in RANDOM.integers(0, len(LONG), ROWS)],
        "yes": RANDOM.choice(["n", "y"], ROWS),
    }
)
CATEGORIES = {1: "town", 2: "word", 3: "yes"}
CHANCE = RANDOM.random(ROWS)


def fitted(rows: int = ROWS, *, classes: int = 2, begin: Any = None, **more: Any) -> Any:
    pool = catboost.Pool(
        TABLE.head(rows),
        (CHANCE * classes).astype(int)[:rows],
        cat_features=list(CATEGORIES.values()),
    )
    model = catboost.CatBoostClassifier(
        **{"iterations": 8, "thread_count": 1, "verbose": 0, "allow_writing_files": False} | more
    )
    return model.fit(pool, init_model=begin)


def counted(model: Any, *, rows: int = ROWS, first: int = 0) -> dict[int, Any]:
    loaded = format_named("catboost").load(bytes(model._serialize_model()))
    return counted_words("catboost", loaded, rows=rows, first=first)


def agrees(found: dict[int, Any]) -> bool:
    """Return whether the file counts what the table has, word by word."""
    return all(
        (
            np.bincount(bins_of_words(TABLE[CATEGORIES[place]]), minlength=counts.size) == counts
        ).all()
        for place, counts in found.items()
    )


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"classes": 3},
        {"bootstrap_type": "Bernoulli", "subsample": 0.5},
        {"grow_policy": "Lossguide"},
        {"grow_policy": "Depthwise"},
        {"boosting_type": "Ordered"},
        {"class_weights": [1, 3]},
        {"max_ctr_complexity": 1, "simple_ctr": ["Buckets", "BinarizedTargetMeanValue", "Counter"]},
        {"iterations": 60},
    ],
    ids=str,
)
def test_a_file_counts_each_word_of_the_rows_that_trained_it(more: dict[str, Any]) -> None:
    """Words of up to 1,600 bytes, two classes and more, whatever sample grew the trees."""
    found = counted(fitted(**more))
    assert 1 in found
    assert 3 not in found  # two words are compared one by one, in the trees
    assert agrees(found)


@pytest.mark.parametrize(
    ("changed", "least"),
    [(pl.lit("t3"), 0.9), (pl.col("town").str.to_uppercase(), 0.8), (pl.col("town").reverse(), 0)],
    ids=["one for all", "upper case", "other rows have them"],
)
def test_another_word_is_in_another_bin(changed: pl.Expr, least: float) -> None:
    counts = counted(fitted())[1]
    words = TABLE.with_columns(changed.alias("town"))["town"]
    seen = np.bincount(bins_of_words(words), minlength=counts.size)
    differs = np.abs(seen - counts).sum() / (2 * ROWS)
    assert differs > least if least else differs == 0


@pytest.mark.parametrize(
    "model",
    [
        lambda: fitted(ctr_leaf_count_limit=5),
        lambda: fitted(one_hot_max_size=200),
        lambda: fitted(600, begin=fitted()),
        lambda: fitted(max_ctr_complexity=1, simple_ctr="Counter"),
    ],
    ids=["seldom words left out", "one by one", "resumed", "counters"],
)
def test_nothing_is_known_where_a_file_does_not_count_all_rows(model: Any) -> None:
    assert not counted(model())


def test_nothing_is_known_of_other_rows_and_other_formats() -> None:
    model = fitted()
    assert not counted(model, rows=ROWS + 1)
    loaded = format_named("catboost").load(bytes(model._serialize_model()))
    assert not counted_words("onnx", loaded, rows=ROWS, first=0)


def test_a_damaged_file_that_still_scores_ends_no_audit() -> None:
    """Of 400 files with one to eight bytes changed some 25 could not be written as JSON."""
    model = fitted()
    model.get_metadata()["note"] = "marker"
    damaged = bytes(model._serialize_model()).replace(b"marker", b"mark\xffr")
    loaded = format_named("catboost").load(damaged)
    assert np.isfinite(loaded.model.predict(TABLE.head(2).to_numpy())).all()
    assert not counted_words("catboost", loaded, rows=ROWS, first=0)


def test_the_rounds_that_are_read_are_drawn() -> None:
    """Of a long model some rounds are read, and each model once."""
    model = fitted(iterations=60)
    assert all(agrees(counted(model, first=first)) for first in (0, 17, 59))
    loaded = format_named("catboost").load(bytes(model._serialize_model()))
    found = [counted_words("catboost", loaded, rows=ROWS, first=3)[2] for _ in range(2)]
    assert found[0] is found[1]
