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
def test_models_of_one_partition_share_one_read_of_the_columns_they_need(lake, reads, monkeypatch):
    """Once before the pass, for the students' samples, and once in it.

    What no model takes is read once, in the file's first rows, to see whether it names whom the
    rows are of: two row groups of 128 rows hold the first 200.
    """
    monkeypatch.setattr("workers.looks.look.FIRST_ROWS", 200)
    records = audited(lake)
    assert [record.audit.status for record in records] == ["evaluated"] * 2
    metadata = pq.read_metadata(label_path(lake, "flights"))
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    asked, beside = 0, []
    for chunk in (group.column(place) for group in groups for place in range(group.num_columns)):
        if chunk.path_in_schema == "other":
            beside.append(chunk.total_compressed_size)
        else:
            asked += chunk.total_compressed_size
    path = f"labels/flights/day={DAY}/part-00000.parquet"
    times = Counter(count for (file, _), count in reads.items() if file == path)
    assert len(beside) > 2
    assert times == {2: asked, 1: sum(beside[:2])}


@pytest.mark.slow
def test_a_models_record_does_not_depend_on_its_company(lake, expected):
    for request, together in zip(REQUESTS, expected, strict=True):
        alone = run_audit(lake, request.model, DAY, plan=request.plan, executor=InProcess())
        assert together == figures(alone)


def of_another_kind(lake):
    file = label_path(lake, "flights").with_name("part-00002.parquet")
    pl.read_parquet(file).with_columns(delay=pl.lit("long")).write_parquet(file)


def damaged(lake):
    path = label_path(lake, "flights")
    chunk = chunk_of(path, 1, "delay")
    with path.open("r+b") as file:
        file.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
        file.write(b"\xff" * 20)


def chunk_of(path, group, column):
    metadata = pq.read_metadata(path).row_group(group)
    chunks = map(metadata.column, range(metadata.num_columns))
    return next(chunk for chunk in chunks if chunk.path_in_schema == column)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "detail", "words"),
    [
        (of_another_kind, "feature_invalid", "300 in part-00002.parquet"),
        (damaged, "labels_unreadable", "128 in part-00000.parquet"),
    ],
)
def test_one_models_bad_column_is_not_the_others(lake, damage, detail, words):
    damage(lake)
    first, second = audited(lake)
    assert (first.audit.status, first.audit.detail) == ("not_evaluable", detail)
    rows, file = words.split(" in ")
    assert f"{detail} {rows}" in first.audit.reason
    assert f"the first in {file}" in first.audit.reason
    assert figures(second) == figures(audited(lake, REQUESTS[1:])[0])
    assert second.audit.status == "evaluated"


@pytest.mark.slow
def test_the_labels_digest_speaks_of_what_was_read_and_of_files_names(lake, expected):
    before = [record["audit"]["labels_digest"] for record in expected]
    path = label_path(lake, "flights").with_name("part-00001.parquet")
    content, chunk = bytearray(path.read_bytes()), chunk_of(path, 0, "city")
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
    path.rename(path.with_name("part-00009.parquet"))
    (renamed,) = audited(lake, REQUESTS[:1])
    assert renamed.audit.labels_digest != before[0]
    assert renamed.audit.audit_id != expected[0]["audit"]["audit_id"]


@pytest.mark.parametrize(
    ("size", "executor"), rest_slow([(4000, InProcess()), (1 << 30, Shuffled(3))])
)
def test_neither_size_nor_order_of_work_units_changes_anything(lake, expected, size, executor):
    records = audited(lake, work_unit_bytes=size, executor=executor)
    assert [figures(record) for record in records] == expected


def test_after_the_deadline_there_is_a_reason_and_no_number(lake, caplog):
    past = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    with caplog.at_level(logging.INFO, "workers"):
        records = audited(lake, deadline=past)
    assert len(records) == 2
    for record in records:
        assert (record.audit.status, record.audit.detail) == ("not_evaluable", "deadline")
        assert f"{past:%Y-%m-%d %H:%M:%S}" in record.audit.reason
        assert record.audit.epsilon_lower is None
        assert record.bounds == record.slices == ()
    check_logged(caplog, records)


def check_logged(caplog, records):
    """Assert that each audit was logged with its id, and return what was logged of work units."""
    told = [record.privaudit for record in caplog.records if hasattr(record, "privaudit")]
    audits = [fields for fields in told if fields["event"] == "audit_done"]
    assert [(fields["audit_id"], fields["status"]) for fields in audits] == [
        (record.audit.audit_id, record.audit.status) for record in records
    ]
    return [fields for fields in told if fields["event"] == "work_unit_done"]


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


@pytest.mark.slow
def test_each_unit_is_told_and_logged_once_with_what_it_cost(lake, caplog):
    told: list[tuple[int, int]] = []
    with caplog.at_level(logging.INFO, "workers"):
        records = audited(lake, progress=lambda *of: told.append(of))
    fields = check_logged(caplog, records)
    assert told == [(done, 10) for done in range(1, 11)]
    assert len({field["shards"] for field in fields}) == len(fields) == 10
    assert sum(field["rows"] for field in fields) == 1100
    assert min(min(field["bytes_read"], field["seconds"]) for field in fields) > 0
    known = {"event": "work_unit_done", "dataset": "flights", "day": str(DAY)}
    assert fields[0].items() >= (known | {"models": ["first", "second"]}).items()
    assert {"read", "decode", "play"} <= set(fields[0]["cpu_seconds"])
    assert 'shards="part-00001.parquet row groups 2-2"' in caplog.text
    assert json.dumps(fields[0])


@pytest.mark.slow
def test_the_longest_partition_comes_first(lake):
    for day in (EVE, DAY):
        put_labels(lake, day, label_rows(300, seed=1), dataset="short")
        put_model(lake, day, model="small", dataset="short", label=BINARY)
    requests = [Request("small", PLAN), Request("nobody", PLAN), *REQUESTS]
    models = [record.audit.model for record in audited(lake, requests)]
    assert models == ["nobody", "first", "second", "small"]
