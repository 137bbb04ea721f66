"""Labels as class indices: a table of integers says what comparing their text says."""

import numpy as np
import polars as pl
import pytest

from workers.labels.columns import Batch
from workers.lake.manifest import LabelColumn

INTEGERS = [
    (pl.Int8, (-128, 100, 127)),
    (pl.UInt8, (0, 200, 255)),
    (pl.Int16, (-32768, 0, 32767)),
    (pl.Int64, (-(2**63), 0, 2**63 - 1)),
    (pl.Int64, (2**62, 2**62 + 1, 2**62 + 5)),
    (pl.UInt64, (2**64 - 3, 2**64 - 2, 2**64 - 1)),
    (pl.UInt64, (2**63 - 2, 2**63 - 1, 2**63)),
]


@pytest.mark.parametrize(("dtype", "values"), INTEGERS)
@pytest.mark.parametrize("as_text", [False, True])
def test_integers_are_found_among_the_classes_at_the_ends_of_their_types(
    dtype: type[pl.DataType], values: tuple[int, ...], as_text: bool
) -> None:
    first, *_, last = values
    column = pl.Series("late", [*values, last, first], dtype=dtype)
    classes = tuple(map(str, (last, first))) if as_text else (last, first)
    labels, bad = batch(column).labels(LabelColumn(column="late", classes=classes))
    assert labels.tolist() == [1, *[-1] * (len(values) - 2), 0, 0, 1]
    assert bad.total == len(values) - 2


def test_a_table_and_text_agree_on_random_integers() -> None:
    """10,000 labels of 300 values, seed 3, of which every third is a class."""
    values = np.random.default_rng(3).integers(-150, 150, 10_000)
    label = LabelColumn(column="late", classes=tuple(range(-150, 150, 3)))
    found, bad = batch(pl.Series("late", values)).labels(label)
    text, bad_text = batch(pl.Series("late", values.astype(str))).labels(label)
    assert np.array_equal(found, text)
    assert bad == bad_text
    assert np.array_equal(found, np.where(values % 3 == 0, (values + 150) // 3, -1))


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Boolean])
def test_a_missing_label_is_bad_and_the_others_are_found(dtype: type[pl.DataType]) -> None:
    column = pl.Series("late", [1, None, 0], dtype=pl.Int8).cast(dtype)
    labels, bad = batch(column).labels(LabelColumn(column="late", classes=(0, 1)))
    assert labels.tolist() == [1, -1, 0]
    assert bad.total == 1


def test_labels_with_a_fraction_are_no_classes() -> None:
    column = pl.Series("late", [1.0, 0.0, float("nan")])
    labels, bad = batch(column).labels(LabelColumn(column="late", classes=(0, 1)))
    assert labels.tolist() == [-1, -1, -1]
    assert "(stored as Float64, 1 is 1.0: store classes as integers" in bad.sentence
    words = LabelColumn(column="late", classes=("1.0", "0.0"))
    assert batch(column).labels(words)[0].tolist() == [0, 1, -1]


def test_no_rows_have_no_labels() -> None:
    column = pl.Series("late", [], dtype=pl.Int64)
    labels, bad = batch(column).labels(LabelColumn(column="late", classes=(0, 1)))
    assert labels.size == bad.total == 0


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
def test_the_arms_are_the_same_as_text_and_as_codes(dtype: type[pl.DataType]) -> None:
    split = pl.Series("split", ["train", None, "holdout", "test", "train"], dtype=pl.String)
    train, holdout = batch(split.cast(dtype)).arms()
    assert train.tolist() == [True, False, False, False, True]
    assert holdout.tolist() == [False, False, True, False, False]


def test_the_arms_of_a_batch_are_compared_once() -> None:
    """Each model that shares a read asks for them four times."""
    rows = batch(pl.Series("split", ["train", "holdout"]))
    assert all(one is again for one, again in zip(rows.arms(), rows.arms(), strict=True))


def batch(column: pl.Series) -> Batch:
    return Batch(pl.DataFrame([column]).to_arrow(), "labels/part.parquet", ("part.parquet", 0, 0))
