"""Bytes of strangers take bounded memory and time: what is too large names its bound."""

import contextlib
import json
import pathlib
import time
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.failures import in_one_sentence
from privcore.exceptions import InvalidInputError, TerminalError
from tests.support.audits import audited
from tests.support.lake import (
    DAY,
    EVE,
    edit_manifest,
    label_path,
    label_rows,
    manifest_of,
    model_path,
    put_labels,
    small_lake,
)
from workers.exceptions import NotEvaluableError
from workers.labels.parquet import read_footer, read_row_group
from workers.lake import limits
from workers.lake.layout import Lake
from workers.sources.proposal import proposed_manifest
from workers.warehouse.schema import AuditRow


@contextlib.contextmanager
def counted_memory() -> Iterator[pa.MemoryPool]:
    """Count what Arrow takes within the block, whatever this process took at its peak before."""
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    try:
        yield counting
    finally:
        pa.set_memory_pool(usual)


def audit(lake: Lake) -> AuditRow:
    row = audited(lake, model="bad")
    assert row.status == "not_evaluable", row.reason
    return row


def test_a_huge_manifest_is_not_read(lake):
    manifest = model_path(lake, "bad") / "manifest.json"
    with manifest.open("r+b") as file:
        file.truncate(64 << 30)  # sparse: it takes no room
    row = audit(lake)
    assert (row.detail, f"{limits.MANIFEST_BYTES:,}" in row.reason) == ("too_large", True)


def test_a_huge_model_is_not_read(lake, limit):
    sizes = [(model_path(lake, "bad", day) / "model.cbm").stat().st_size for day in (EVE, DAY)]
    size = max(sizes)
    limit("CHECKPOINT_BYTES", size - 1)
    row = audit(lake)
    assert (row.detail, f"{size - 1:,} bytes" in row.reason) == ("too_large", True)
    limit("CHECKPOINT_BYTES", size)
    read = audited(lake, model="bad")
    assert read.status == "evaluated"


@pytest.mark.parametrize("depth", [1_000, 1_000_000])
def test_a_deeply_nested_manifest_is_refused(lake, depth):
    text = json.dumps(manifest_of(lake, "bad", DAY) | {"privacy": "NESTED"})
    nested = "[" * depth + "]" * depth
    (model_path(lake, "bad") / "manifest.json").write_text(text.replace('"NESTED"', nested))
    row = audit(lake)
    assert (row.detail, "recursion limit" in row.reason) == ("manifest_invalid", True)


@pytest.mark.parametrize("number", ["9" * 5_000, "1e999", "1e308", "1000001", "NaN", "-Infinity"])
def test_an_epsilon_out_of_all_bounds_is_refused(lake, number):
    text = json.dumps(manifest_of(lake, "bad", DAY))
    assert text.count('"epsilon": 0.5') == 1
    path = model_path(lake, "bad") / "manifest.json"
    path.write_text(text.replace('"epsilon": 0.5', f'"epsilon": {number}'))
    assert audit(lake).detail == "manifest_invalid"


def test_a_row_group_that_declares_too_much_is_not_read(lake, monkeypatch):
    path = label_path(lake, "bad-labels")
    size = max(
        pq.read_metadata(path).row_group(group).total_byte_size
        for group in range(pq.read_metadata(path).num_row_groups)
    )
    for bound, value in (("SHARD_ROWS", 127), ("SHARD_BYTES", size - 1)):
        with monkeypatch.context() as patched:
            patched.setattr(limits, bound, value)
            row = audit(lake)
        assert (row.detail, f"{value:,}" in row.reason) == ("too_large", True)


def test_too_many_classes_for_the_rows_are_refused(lake, limit):
    limit("PROBABILITIES", 2 * 200 - 1)
    row = audit(lake)
    assert (row.detail, "200 rows of 2 classes" in row.reason) == ("too_large", True)


def test_a_reason_quotes_only_so_much_of_the_input(lake):
    features = [{"name": f"feature {n}", "kind": "numeric"} for n in range(20_000)]
    edit_manifest(lake, "bad", DAY, features=features)
    row = audit(lake)
    assert row.detail == "checkpoint_invalid"
    assert len(row.reason) == limits.REASON_CHARACTERS + len("...")


@pytest.mark.parametrize(
    ("name", "value", "kind", "encoding"),
    [
        ("city", "a" * 20_000, pa.large_string(), "DELTA_BYTE_ARRAY"),
        ("city", "a" * 200, pa.string(), "DELTA_LENGTH_BYTE_ARRAY"),
        ("late", b"a" * 20_000, pa.binary(20_000), "DELTA_BYTE_ARRAY"),
        ("late", b"a" * 20_000, pa.binary(20_000), "RLE_DICTIONARY"),
    ],
    ids=["prefixes", "lengths", "fixed", "fixed-dictionary"],
)
def test_bytes_that_may_unpack_to_any_size_are_not_decoded(lake, name, value, kind, encoding):
    """Some kilobytes of them took gigabytes of a worker before they were refused."""
    frame = label_rows(400, seed=1).drop(name).to_arrow()
    table = frame.append_column(name, pa.array([value] * 400, kind))
    given: dict[str, object] = {"use_dictionary": [name]}
    if encoding != "RLE_DICTIONARY":
        given = {"use_dictionary": False, "column_encoding": {name: encoding}}
    path = label_path(lake, "bad-labels")
    pq.write_table(table, path, **given)
    del table
    with counted_memory() as pool:
        row = audit(lake)
    assert (row.detail, f"stores '{name}' " in row.reason) == ("too_large", True), row.reason
    assert pool.max_memory() < 1 << 20


def test_lists_of_text_are_refused_without_their_text(lake):
    frame = label_rows(40_000, seed=1).drop("late").to_arrow()
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 40_000, pa.int32()), ["x" * 5_000])
    lists = pa.ListArray.from_arrays(pa.array(range(40_001), pa.int32()), text)
    path = label_path(lake, "bad-labels")
    pq.write_table(frame.append_column("late", lists), path, store_schema=False)
    assert path.stat().st_size < 2_000_000
    with counted_memory() as pool:
        row = audit(lake)
    assert (row.detail, "List(String)" in row.reason) == ("label_invalid", True), row.reason
    assert pool.max_memory() < 150_000_000


def test_a_digest_of_fixed_size_is_read(lake):
    """A column that names records may hold digests of 64 bytes."""
    frame = label_rows(400, seed=1).to_arrow()
    digests = pa.array([bytes([n % 256]) * 64 for n in range(400)], pa.binary(64))
    pq.write_table(frame.append_column("record", digests), label_path(lake, "bad-labels"))
    footer = read_footer(lake, f"labels/bad-labels/day={DAY}/part-00000.parquet", ["record"])
    assert footer.unbounded == ()


@pytest.mark.slow
def test_a_file_of_too_many_row_groups_is_refused(lake, limit):
    """Each costs 15 ms: 40,000 of one row each were read for minutes."""
    limit("ROW_GROUPS", 20)
    found = []
    for size in (20, 19):  # 400 rows in 20 row groups, and in 22
        put_labels(lake, DAY, label_rows(400, seed=1), dataset="bad-labels", row_group_size=size)
        found.append(audited(lake, model="bad"))
    (within, row) = found
    assert within.status == "evaluated", within.reason
    assert (row.status, row.detail) == ("not_evaluable", "too_large")
    assert "has 22 row groups, more than the 20 that are read" in row.reason


def test_a_sentence_of_a_command_is_bounded():
    """A number of 100 MB in a CSV file was printed whole."""
    for error in (InvalidInputError("x", "9" * 1_000_000, "no"), ValueError("9" * 1_000_000)):
        assert len(in_one_sentence(error)) <= limits.REASON_CHARACTERS + 3
    assert in_one_sentence(ValueError("short")) == "ValueError: short"


MIB = 1 << 20


def packed(path: pathlib.Path, rows: int = 20_000) -> None:
    """A label file whose text stands there once: 100 MB where it is spelled out."""
    words = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * 5_000])
    plain = label_rows(rows, seed=1).drop("city").to_arrow()
    pq.write_table(plain.append_column("city", words), path, store_schema=False)
    assert path.stat().st_size < MIB


def test_what_trains_reads_label_files_within_bounds(tmp_path, limit):
    """A trial's description and a manifest unpacked the whole text in their own process."""
    lake = small_lake(tmp_path)
    path = label_path(lake, "flights")
    packed(path)
    limit("SHARD_BYTES", 50 * MIB)
    model = tmp_path / f"models/good/day={EVE}/model.cbm"
    given = {"model": "m", "day": DAY, "dataset": "d"}
    nested = tmp_path / "nested.parquet"
    pq.write_table(pa.table({"city": [["a"]], "delay": [0.0], "hour": [1]}), nested)
    with pytest.raises(TerminalError, match="stores the label 'city' as list"):
        proposed_manifest(model, nested, label="city", **given)
    assert proposed_manifest(model, path, label="late", **given)["label"]["classes"] == [0, 1]
    with counted_memory() as pool:
        assert proposed_manifest(model, path, label="city", **given)["label"]
        assert pool.max_memory() < 20 * MIB


@pytest.mark.parametrize(
    ("column", "bound", "said"),
    [([0.5] * 99_999, "PROBABILITIES", "has 99,999 values"), (0.5, "SHARD_BYTES", "pages of 800,")],
)
def test_pages_are_believed_before_the_footer(tmp_path, limit, column, bound, said):
    """A list of a thousand million numbers was 5 kB, and pages of GiB were what a footer said."""
    rows = 1 if isinstance(column, list) else 100_000
    given = {"use_dictionary": isinstance(column, list), "data_page_size": 1 << 20}
    pq.write_table(pa.table({"p": [column] * rows}), tmp_path / "x.parquet", **given)
    lake = Lake(str(tmp_path))
    footer = read_footer(lake, "x.parquet", ["p"])
    footer = replace(footer, groups=(replace(footer.groups[0], unpacked=1),))
    limit(bound, 90_000)
    with pytest.raises(NotEvaluableError, match=said):
        read_row_group(lake, "x.parquet", footer, 0, ["p"])


def test_a_footer_that_says_it_has_gigabytes_is_not_read(lake):
    with label_path(lake, "bad-labels").open("wb") as file:
        file.truncate((4 << 30) + 8)  # sparse: it takes no room
        file.seek(4 << 30)
        file.write(b"\xf0\xff\xff\xffPAR1"[-8:])
    begin = time.monotonic()
    found = audit(lake)
    assert (found.detail, "are read" in found.reason) == ("too_large", True), found.reason
    assert time.monotonic() - begin < 20.0
