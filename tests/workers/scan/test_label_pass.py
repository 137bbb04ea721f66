"""Several models in one pass: one read of every shard, deadlines, progress, logs."""

import datetime as dt
import json
import logging
from collections import Counter

import polars as pl
import pyarrow.parquet as pq
import pytest

import workers.labels.parquet
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    PLAN,
    Shuffled,
    copied,
    figures,
    label_path,
    label_rows,
    put_labels,
    put_model,
)
from tests.support.tiers import rest_slow
from tests.support.two_models import REQUESTS, audited, lake_of_two
from workers.audit.request import Request
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.scan.work_unit import scan_work_unit


@pytest.fixture(scope="module")
def template_of_two(tmp_path_factory):
    return lake_of_two(tmp_path_factory.mktemp("passes") / "lake")


@pytest.fixture
def lake(template_of_two, tmp_path):
    return copied(template_of_two, tmp_path)


@pytest.fixture(scope="module")
def expected(template_of_two):
    """Return the records of the lake as it is, read unit by unit."""
    return [figures(record) for record in audited(template_of_two)]


@pytest.fixture
def reads(monkeypatch):
    """Count every byte of label files that is fetched."""
    counted: Counter[tuple[str, int]] = Counter()
    fetch = workers.labels.parquet._fetch

    def counting(lake, path, spans):
        for first, length in spans:
            counted.update((path, place) for place in range(first, first + length))
        return fetch(lake, path, spans)

    monkeypatch.setattr(workers.labels.parquet, "_fetch", counting)
    monkeypatch.setattr(workers.labels.parquet, "_GAP", 0)
    return counted


@pytest.mark.slow
def test_models_of_one_partition_share_one_read_of_the_columns_they_need(lake, reads):
    records = audited(lake)
    assert [record.audit.status for record in records] == ["evaluated"] * 2
    metadata = pq.read_metadata(label_path(lake, "flights"))
    chunks = [
        (group, metadata.row_group(group).column(place))
        for group in range(metadata.num_row_groups)
        for place in range(metadata.num_columns)
    ]
    path = f"labels/flights/day={DAY}/part-00000.parquet"
    times = Counter(count for (file, _), count in reads.items() if file == path)
    # Once before the pass, for the students' samples, and once in it; what no model takes once, in
    # the file's first rows, to see whether it names whom the rows are of.
    asked = sum(c.total_compressed_size for _, c in chunks if c.path_in_schema != "other")
    beside = sum(c.total_compressed_size for _, c in chunks if c.path_in_schema == "other")
    assert times == {2: asked, 1: beside}


@pytest.mark.slow
def test_only_a_files_first_rows_are_looked_at(lake, reads, monkeypatch):
    """Two row groups of 128 rows hold the first 200 rows."""
    monkeypatch.setattr("workers.looks.look.FIRST_ROWS", 200)
    audited(lake)
    metadata = pq.read_metadata(label_path(lake, "flights"))
    beside = [
        chunk.total_compressed_size
        for group in range(metadata.num_row_groups)
        for chunk in map(metadata.row_group(group).column, range(metadata.num_columns))
        if chunk.path_in_schema == "other"
    ]
    path = f"labels/flights/day={DAY}/part-00000.parquet"
    once = sum(count == 1 for (file, _), count in reads.items() if file == path)
    assert len(beside) > 2
    assert once == sum(beside[:2])


@pytest.mark.slow
def test_a_models_record_does_not_depend_on_its_company(lake, expected):
    for request, together in zip(REQUESTS, expected, strict=True):
        alone = run_audit(lake, request.model, DAY, plan=request.plan, executor=InProcess())
        assert together == figures(alone)
    assert [figures(record) for record in audited(lake, executor=Shuffled(3))] == expected


@pytest.mark.slow
def test_one_models_column_of_another_kind_is_not_the_others(lake):
    file = label_path(lake, "flights").with_name("part-00002.parquet")
    pl.read_parquet(file).with_columns(delay=pl.lit("long")).write_parquet(file)
    first, second = audited(lake)
    assert (first.audit.status, first.audit.detail) == ("not_evaluable", "feature_invalid")
    assert "feature_invalid 300" in first.audit.reason
    assert "the first in part-00002.parquet" in first.audit.reason
    assert figures(second) == figures(audited(lake, REQUESTS[1:])[0])
    assert second.audit.status == "evaluated"


@pytest.mark.slow
def test_one_models_damaged_column_is_not_the_others(lake):
    path = label_path(lake, "flights")
    chunk = next(
        column
        for column in map(pq.read_metadata(path).row_group(1).column, range(6))
        if column.path_in_schema == "delay"
    )
    with path.open("r+b") as file:
        file.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
        file.write(b"\xff" * 20)
    first, second = audited(lake)
    assert (first.audit.detail, second.audit.status) == ("labels_unreadable", "evaluated")
    assert "labels_unreadable 128" in first.audit.reason
    assert figures(second) == figures(audited(lake, REQUESTS[1:])[0])


@pytest.mark.slow
def test_the_labels_digest_speaks_of_what_was_read(lake):
    before = [record.audit.labels_digest for record in audited(lake)]
    path = label_path(lake, "flights").with_name("part-00001.parquet")
    content = bytearray(path.read_bytes())
    chunk = next(
        column
        for column in map(pq.read_metadata(path).row_group(0).column, range(6))
        if column.path_in_schema == "city"
    )
    # Two cities change places in the dictionary page; only the second model reads them.
    start = chunk.dictionary_page_offset
    page = bytes(content[start : start + chunk.total_compressed_size])
    swapped = page.replace(b"AMS", b"\0\0\0").replace(b"BER", b"AMS").replace(b"\0\0\0", b"BER")
    assert swapped != page
    content[start : start + len(page)] = swapped
    path.write_bytes(content)
    after = [record.audit.labels_digest for record in audited(lake)]
    assert after[0] == before[0]
    assert after[1] != before[1]


@pytest.mark.slow
def test_a_file_that_changes_its_name_is_other_content(lake):
    (before,) = audited(lake, REQUESTS[:1])
    path = label_path(lake, "flights").with_name("part-00001.parquet")
    path.rename(path.with_name("part-00009.parquet"))
    (after,) = audited(lake, REQUESTS[:1])
    assert after.audit.labels_digest != before.audit.labels_digest
    assert after.audit.audit_id != before.audit.audit_id


@pytest.mark.parametrize("work_unit_bytes", rest_slow([4000, 1, 1 << 30]))
def test_the_size_of_work_units_changes_nothing(lake, expected, work_unit_bytes):
    assert [
        figures(record) for record in audited(lake, work_unit_bytes=work_unit_bytes)
    ] == expected


def test_after_the_deadline_there_is_a_reason_and_no_number(lake):
    past = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    records = audited(lake, deadline=past)
    assert len(records) == 2
    for record in records:
        assert (record.audit.status, record.audit.detail) == ("not_evaluable", "deadline")
        assert f"{past:%Y-%m-%d %H:%M:%S}" in record.audit.reason
        assert record.audit.epsilon_lower is None
        assert record.bounds == record.slices == ()


@pytest.mark.slow
def test_a_deadline_in_the_middle_gives_no_partial_number(lake):
    deadline = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    done: list[int] = []

    class Late(InProcess):
        def total(self, function, shared, items, *, on_done, deadline):
            past = dt.datetime.now(dt.UTC)
            inside = super()
            if function is not scan_work_unit:  # students are fitted before
                return inside.total(function, shared, items, on_done=on_done, deadline=deadline)
            inside.total(function, shared, items[:4], on_done=on_done, deadline=deadline)
            return inside.total(function, shared, items[4:], on_done=on_done, deadline=past)

    late = audited(
        lake, deadline=deadline, executor=Late(), progress=lambda so_far, _: done.append(so_far)
    )
    assert {record.audit.detail for record in late} == {"deadline"}
    assert done == [1, 2, 3, 4]
    assert {record.audit.epsilon_lower for record in late} == {None}
    assert {record.audit.status for record in audited(lake)} == {"evaluated"}


@pytest.mark.slow
@pytest.mark.parametrize(("size", "units"), [(1, 10), (1 << 30, 1)])
def test_each_unit_is_told_and_logged_once_with_what_it_cost(lake, caplog, size, units):
    told: list[tuple[int, int]] = []
    with caplog.at_level(logging.INFO, "workers.scan.label_pass"):
        audited(lake, work_unit_bytes=size, progress=lambda *of: told.append(of))
    assert told == [(done, units) for done in range(1, units + 1)]
    lines = [record for record in caplog.records if record.name == "workers.scan.label_pass"]
    fields = [record.privaudit for record in lines]
    assert len({field["shards"] for field in fields}) == len(fields) == units
    assert sum(field["rows"] for field in fields) == 1100
    assert min(min(field["bytes_read"], field["seconds"]) for field in fields) > 0
    known = {"event": "work_unit_done", "dataset": "flights", "day": str(DAY)}
    assert fields[0].items() >= (known | {"models": ["first", "second"]}).items()
    assert {"read", "decode", "play"} <= set(fields[0]["cpu_seconds"])
    assert units == 1 or 'shards="part-00001.parquet row groups 2-2"' in lines[-4].getMessage()
    assert json.dumps(fields[0])


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True])
def test_each_audit_is_logged_with_its_id(lake, caplog, late):
    deadline = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1) if late else None
    with caplog.at_level(logging.INFO, "workers"):
        records = audited(lake, deadline=deadline)
    told = [record.privaudit for record in caplog.records if hasattr(record, "privaudit")]
    audits = [fields for fields in told if fields["event"] == "audit_done"]
    assert [fields["audit_id"] for fields in audits] == [r.audit.audit_id for r in records]
    assert [fields["status"] for fields in audits] == [r.audit.status for r in records]


@pytest.mark.slow
def test_the_longest_partition_comes_first(lake):
    for day in (EVE, DAY):
        put_labels(lake, day, label_rows(300, seed=1), dataset="short")
        put_model(lake, day, model="small", dataset="short", label=BINARY)
    requests = [Request("small", PLAN), Request("nobody", PLAN), *REQUESTS]
    models = [record.audit.model for record in audited(lake, requests)]
    assert models == ["nobody", "first", "second", "small"]
