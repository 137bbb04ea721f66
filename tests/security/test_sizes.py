"""Sizes are bounded: what is too large ends as a record that names the bound."""

import contextlib
import json
from collections.abc import Iterator

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.lake import (
    DAY,
    EVE,
    PLAN,
    edit_manifest,
    label_path,
    label_rows,
    manifest_of,
    model_path,
    put_labels,
)
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.labels.parquet import read_footer
from workers.lake import limits
from workers.lake.layout import Lake
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
    row = run_audit(lake, "bad", DAY, plan=PLAN, executor=InProcess()).audit
    assert row.status == "not_evaluable", row.reason
    return row


def test_a_huge_manifest_is_not_read(lake: Lake) -> None:
    manifest = model_path(lake, "bad") / "manifest.json"
    with manifest.open("r+b") as file:
        file.truncate(64 << 30)  # sparse: it takes no room
    row = audit(lake)
    assert (row.reason_code, f"{limits.MANIFEST_BYTES:,}" in row.reason) == ("too_large", True)


def test_a_huge_model_is_not_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [(model_path(lake, "bad", day) / "model.cbm").stat().st_size for day in (EVE, DAY)]
    size = max(sizes)
    monkeypatch.setattr(limits, "CHECKPOINT_BYTES", size - 1)
    row = audit(lake)
    assert (row.reason_code, f"{size - 1:,} bytes" in row.reason) == ("too_large", True)
    monkeypatch.setattr(limits, "CHECKPOINT_BYTES", size)
    read = run_audit(lake, "bad", DAY, plan=PLAN, executor=InProcess()).audit
    assert read.status == "evaluated"


@pytest.mark.parametrize("depth", [1_000, 1_000_000])
def test_a_deeply_nested_manifest_is_refused(lake: Lake, depth: int) -> None:
    text = json.dumps(manifest_of(lake, "bad", DAY) | {"privacy": "NESTED"})
    nested = "[" * depth + "]" * depth
    (model_path(lake, "bad") / "manifest.json").write_text(text.replace('"NESTED"', nested))
    row = audit(lake)
    assert (row.reason_code, "recursion limit" in row.reason) == ("manifest_invalid", True)


@pytest.mark.parametrize("number", ["9" * 5_000, "1e999", "1e308", "1000001", "NaN", "-Infinity"])
def test_an_epsilon_out_of_all_bounds_is_refused(lake: Lake, number: str) -> None:
    text = json.dumps(manifest_of(lake, "bad", DAY))
    assert text.count('"epsilon": 0.5') == 1
    path = model_path(lake, "bad") / "manifest.json"
    path.write_text(text.replace('"epsilon": 0.5', f'"epsilon": {number}'))
    assert audit(lake).reason_code == "manifest_invalid"


@pytest.mark.slow
def test_a_file_of_highly_compressed_text_is_not_unpacked(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text stands in the file once; 200,000 rows point at it."""
    rows = 200_000
    plain = label_rows(100, seed=1).drop("city")
    frame = plain.select(pl.all().repeat_by(rows // 100).explode()).to_arrow()
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * 5_000])
    path = label_path(lake, "bad-labels")
    pq.write_table(frame.append_column("city", text), path, store_schema=False, row_group_size=rows)
    assert path.stat().st_size < 5_000_000
    monkeypatch.setattr(limits, "SHARD_BYTES", 500_000_000)
    before = pa.default_memory_pool().max_memory()
    row = audit(lake)
    assert (row.reason_code, "unpacks to 1,006," in row.reason) == ("too_large", True), row.reason
    assert pa.default_memory_pool().max_memory() <= max(before, 500_000_000)


def test_a_row_group_that_declares_too_much_is_not_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = label_path(lake, "bad-labels")
    size = max(
        pq.read_metadata(path).row_group(group).total_byte_size
        for group in range(pq.read_metadata(path).num_row_groups)
    )
    for bound, value in (("SHARD_ROWS", 127), ("SHARD_BYTES", size - 1)):
        with monkeypatch.context() as patched:
            patched.setattr(limits, bound, value)
            row = audit(lake)
        assert (row.reason_code, f"{value:,}" in row.reason) == ("too_large", True)


def test_a_row_group_of_a_thousand_million_declared_rows_is_not_read(lake: Lake) -> None:
    """The footer's row counts (twice 400, as the varint of 800 that Thrift writes) are forged."""
    path = label_path(lake, "bad-labels")
    table = pa.table(label_rows(400, seed=1).to_arrow())
    pq.write_table(table, path, row_group_size=400)
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    # A field header (delta 1, type i64) and then 400 zigzagged; a billion takes five bytes.
    forged = content[footer:-8].replace(varint(400), varint(1_000_000_000))
    assert forged.count(varint(1_000_000_000)) >= 2
    path.write_bytes(content[:footer] + forged + len(forged).to_bytes(4, "little") + b"PAR1")
    assert pq.read_metadata(path).row_group(0).num_rows == 1_000_000_000
    row = audit(lake)
    assert (row.reason_code, "1,000,000,000 rows" in row.reason) == ("too_large", True), row.reason


def varint(number: int) -> bytes:
    """Return a number as Thrift's compact protocol writes it in a field of 64 bits."""
    zigzag, content = number << 1, bytearray()
    while zigzag > 127:
        content.append(zigzag & 127 | 128)
        zigzag >>= 7
    return bytes([*content, zigzag])


def test_too_many_classes_for_the_rows_are_refused(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PROBABILITIES", 2 * 200 - 1)
    row = audit(lake)
    assert (row.reason_code, "200 rows of 2 classes" in row.reason) == ("too_large", True)


def test_a_reason_quotes_only_so_much_of_the_input(lake: Lake) -> None:
    features = [{"name": f"feature {n}", "kind": "numeric"} for n in range(20_000)]
    edit_manifest(lake, "bad", DAY, features=features)
    row = audit(lake)
    assert row.reason_code == "checkpoint_invalid"
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
def test_bytes_that_may_unpack_to_any_size_are_not_decoded(
    lake: Lake, name: str, value: object, kind: pa.DataType, encoding: str
) -> None:
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
    assert (row.reason_code, f"stores '{name}' " in row.reason) == ("too_large", True), row.reason
    assert pool.max_memory() < 1 << 20


def test_lists_of_text_are_refused_without_their_text(lake: Lake) -> None:
    frame = label_rows(40_000, seed=1).drop("late").to_arrow()
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 40_000, pa.int32()), ["x" * 5_000])
    lists = pa.ListArray.from_arrays(pa.array(range(40_001), pa.int32()), text)
    path = label_path(lake, "bad-labels")
    pq.write_table(frame.append_column("late", lists), path, store_schema=False)
    assert path.stat().st_size < 2_000_000
    with counted_memory() as pool:
        row = audit(lake)
    assert (row.reason_code, "List(String)" in row.reason) == ("label_invalid", True), row.reason
    assert pool.max_memory() < 150_000_000


def test_a_digest_of_fixed_size_is_read(lake: Lake) -> None:
    """A column that names records may hold digests of 64 bytes."""
    frame = label_rows(400, seed=1).to_arrow()
    digests = pa.array([bytes([n % 256]) * 64 for n in range(400)], pa.binary(64))
    pq.write_table(frame.append_column("record", digests), label_path(lake, "bad-labels"))
    footer = read_footer(lake, f"labels/bad-labels/day={DAY}/part-00000.parquet", ["record"])
    assert footer.unbounded == ()


@pytest.mark.slow
def test_a_file_of_too_many_row_groups_is_refused(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs 15 ms: 40,000 of one row each were read for minutes."""
    monkeypatch.setattr(limits, "ROW_GROUPS", 20)
    found = []
    for size in (20, 19):  # 400 rows in 20 row groups, and in 22
        put_labels(lake, DAY, label_rows(400, seed=1), dataset="bad-labels", row_group_size=size)
        found.append(run_audit(lake, "bad", DAY, plan=PLAN, executor=InProcess()).audit)
    (within, row) = found
    assert within.status == "evaluated", within.reason
    assert (row.verdict, row.reason_code) == ("not_evaluable", "too_large")
    assert "has 22 row groups, more than the 20 that are read" in row.reason
