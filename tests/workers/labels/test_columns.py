import io
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from tests.support.audits import audited
from tests.support.lake import DAY, copied, label_path
from workers.exceptions import NotEvaluableError
from workers.labels.columns import Batch, other_words
from workers.labels.parquet import read_footer, read_row_group, unpacked_sizes
from workers.labels.shards import find_partition
from workers.lake.layout import Lake
from workers.lake.manifest import Feature, LabelColumn

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
def test_integers_are_found_among_the_classes_at_the_ends_of_their_types(dtype, values, as_text):
    first, *_, last = values
    column = pl.Series("late", [*values, last, first], dtype=dtype)
    classes = tuple(map(str, (last, first))) if as_text else (last, first)
    labels, bad = batch(column).labels(LabelColumn(column="late", classes=classes))
    assert labels.tolist() == [1, *[-1] * (len(values) - 2), 0, 0, 1]
    assert bad.total == len(values) - 2


def test_a_table_and_text_agree_on_random_integers():
    """10,000 labels of 300 values, seed 3, of which every third is a class."""
    values = np.random.default_rng(3).integers(-150, 150, 10_000)
    label = LabelColumn(column="late", classes=tuple(range(-150, 150, 3)))
    found, bad = batch(pl.Series("late", values)).labels(label)
    text, bad_text = batch(pl.Series("late", values.astype(str))).labels(label)
    assert np.array_equal(found, text)
    assert bad == bad_text
    assert np.array_equal(found, np.where(values % 3 == 0, (values + 150) // 3, -1))


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Boolean])
def test_a_missing_label_is_bad_and_the_others_are_found(dtype):
    column = pl.Series("late", [1, None, 0], dtype=pl.Int8).cast(dtype)
    labels, bad = batch(column).labels(LabelColumn(column="late", classes=(0, 1)))
    assert labels.tolist() == [1, -1, 0]
    assert bad.total == 1


ONE_CLASS: list[tuple[pl.Series, tuple[int, ...]]] = [
    (pl.Series([True, False, None]), (1, 0, -1)),
    (pl.Series([1, 0, None], dtype=pl.Int8), (1, 0, -1)),
    (pl.Series([1, 0, None], dtype=pl.UInt64), (1, 0, -1)),
    (pl.Series([1.0, 0.0, float("nan")]), (1, 0, -1)),
    (pl.Series([1.0, -0.0, None], dtype=pl.Float32), (1, 0, -1)),
    (pl.Series([1.0, 0.5, 0.0]), (1, -1, 0)),
    (pl.Series(["1.00", "0.00", None]).cast(pl.Decimal(22, 2)), (1, 0, -1)),
    (pl.Series(["1", "0", "2"]), (1, 0, -1)),
    (pl.Series(["1.0", "0.0", ""]), (1, 0, -1)),
    (pl.Series(["True", "false", "yes"]), (1, 0, -1)),
    (pl.Series(["01", " 1", "1e0"]), (-1, -1, -1)),
    (pl.Series(["1", "0", "01"], dtype=pl.Categorical), (1, 0, -1)),
]


@pytest.mark.parametrize("classes", [(0, 1), (False, True), ("0", "1"), ("0.0", "1.0"),
                                     ("False", "True"), ("false", "true")])  # fmt: skip
@pytest.mark.parametrize(("column", "expected"), ONE_CLASS)
def test_a_class_is_one_whatever_the_column_and_the_model_call_it(column, expected, classes):
    label = LabelColumn(column="late", classes=classes)
    labels, bad = batch(column.alias("late")).labels(label)
    assert tuple(labels.tolist()) == expected
    assert bad.total == expected.count(-1)


@pytest.mark.parametrize(
    "classes", [(1, True), ("1", 1), ("1", "1.0"), ("01", "1"), ("True", "true"), (0, False, 2)]
)
def test_classes_that_no_column_tells_apart_are_refused(classes):
    with pytest.raises(ValidationError, match="write each class once"):
        LabelColumn(column="late", classes=classes)


def test_a_batch_without_one_class_tells_how_many_values_it_has_instead(hold_sentences):
    label = LabelColumn(column="late", classes=("no", "yes"))
    columns = (
        pl.Series("late", ["Y", "N", "N"]),
        pl.Series("late", [0.25, 0.5, 0.5]),
        pl.Series("late", ["yes", "Y", "no"]),
        pl.Series("late", ["yes", None, "no"]),
    )
    hold_sentences(*(batch(column).labels(label)[1].sentence for column in columns))


def test_labels_that_a_mechanism_made_are_classes_as_others():
    """Who said so in label.state could not train: its parameters have no hash."""
    made = {"privatised_by": {"name": "randomized_response", "parameters": {"epsilon": 1.0}}}
    label = LabelColumn.model_validate({"column": "late", "classes": [0, 1], "state": made})
    assert batch(pl.Series("late", [1, 0])).labels(label)[0].tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
def test_the_arms_are_the_same_as_text_and_as_codes(dtype):
    split = pl.Series("split", ["train", None, "holdout", "test", "train"], dtype=pl.String)
    train, holdout = batch(split.cast(dtype)).arms()
    assert train.tolist() == [True, False, False, False, True]
    assert holdout.tolist() == [False, False, True, False, False]


def test_a_split_of_lists_says_no_arm():
    with pytest.raises(NotEvaluableError, match="stores 'split' as List"):
        batch(pl.Series("split", [["train"]])).arms()


@pytest.mark.parametrize("numbers", [pl.Float32, pl.Float64])
@pytest.mark.parametrize(
    ("kind", "typed"), [("numeric", pl.Float64), ("numeric", pl.Int64), ("categorical", pl.String)]
)
@pytest.mark.parametrize("as_text", [False, True])
def test_a_feature_without_a_kind_is_missing_as_one_of_its_kind_is(
    kind, typed, numbers, *, as_text
):
    without, of_its_kind = (
        batch(pl.Series("b", [None, None], dtype)).feature(
            Feature(name="b", kind=kind), numbers=numbers, as_text=as_text
        )
        for dtype in (pl.Null, typed)
    )
    assert without.to_list() == of_its_kind.to_list()
    assert without.dtype == (pl.String if kind == "categorical" else numbers)


def batch(column: pl.Series) -> Batch:
    return Batch(pl.DataFrame([column]).to_arrow(), "labels/part.parquet", ("part.parquet", 0, 0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "values"), [("late.x", "text"), ("Late", "parts"), ("late.list.element", "numbers")]
)
def test_a_column_beside_the_labels_is_no_part_of_them(lake, name, values):
    """Before, text in a column `late.x` made labels in `late` unreadable: `label_invalid`."""
    undisturbed = audited(lake)
    assert undisturbed.status == "evaluated"
    table = pq.read_table(label_path(lake, "flights"))
    more = {"text": "x", "parts": {"late": "x"}, "numbers": 0.5}[values]
    table = table.append_column(name, pa.array([more] * len(table)))
    pq.write_table(table, label_path(lake, "flights"), row_group_size=128)
    row = audited(lake)
    assert row.records == undisturbed.records, row.reason
    assert row.target_log_loss == undisturbed.target_log_loss


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "holdout"], ""),
        (["train", "test"], " They say 'test'."),
        (["Validation", "train", None], " They say 'Validation', 'null'."),
        (["ann@example.org", "bob@example.org", "test"], " They say 'test', 2 other values."),
        (["ann@example.org", "train"], " They say 1 other value."),
    ],
)
def test_common_words_are_told_and_others_counted(lake, words, told):
    file = label_path(lake, "flights")
    rows = pl.read_parquet(file)
    splits = pl.Series("split", [words[row % len(words)] for row in range(rows.height)])
    rows.with_columns(splits).write_parquet(file)
    assert other_words(lake, find_partition(lake, "flights", DAY)) == told


@pytest.fixture
def lake(remembered, tmp_path):
    """Return a copy of it for one attempt."""
    return copied(remembered, tmp_path)


def test_a_footer_is_unpacked_once_for_all_row_groups(tmp_path, monkeypatch):
    """It grows with their number: 10,000 groups took 50 ms more for each of them."""
    for name, first in (("one", 0), ("two", 100)):
        pq.write_table(pa.table({"a": range(first, first + 6)}), tmp_path / name, row_group_size=1)
    whole, unpacked = pq.read_metadata, []

    def counted(source: Any) -> pq.FileMetaData:
        unpacked.append(source)
        return whole(source)

    monkeypatch.setattr(pq, "read_metadata", counted)
    lake = Lake(str(tmp_path))
    read = []
    for name in ("one", "two"):
        footer = read_footer(lake, name, ["a"])
        for index in range(6):
            group = read_row_group(lake, name, footer, index, ["a"])
            read += [table["a"].to_pylist() for table in group.batches(["a"], rows=10)]
    assert read == [[value] for value in (*range(6), *range(100, 106))]
    assert len(unpacked) == 2


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("more", [{}, {"use_dictionary": False, "write_page_checksum": True}])
def test_pages_say_what_the_footer_says(version, more):
    rows, sink = 5_000, io.BytesIO()
    numbers = np.arange(rows)
    table = pa.table(
        {
            "n": pa.array(numbers, mask=numbers % 7 == 0),
            "t": numbers.astype(str),
            "l": [[1.0] * int(n % 3) for n in numbers],
        }
    )
    given: dict[str, Any] = {"data_page_version": version, "data_page_size": 1_000, **more}
    pq.write_table(table, sink, compression="zstd", **given)
    group = pq.read_metadata(sink).row_group(0)
    for place in range(group.num_columns):
        column = group.column(place)
        first = column.dictionary_page_offset or column.data_page_offset
        chunk = memoryview(sink.getvalue())[first : first + column.total_compressed_size]
        size, values = unpacked_sizes(chunk, column.num_values)
        assert values == column.num_values
        # The footer counts the headers as well.
        assert 0.75 * column.total_uncompressed_size < size < column.total_uncompressed_size


def test_other_bytes_are_no_pages():
    random = np.random.default_rng(0)
    refused = 0
    for length in range(300):
        try:
            unpacked_sizes(memoryview(random.bytes(length)), 1 << 40)
        except ValueError:
            refused += 1
    assert refused > 290
    for content in (b"\x15\x00\x15\x01\x15\x00\x00", b"\x1c" * 100, b"\x18" + b"\xff" * 20):
        with pytest.raises(ValueError, match=r"a page|number"):
            unpacked_sizes(memoryview(content), 1)
