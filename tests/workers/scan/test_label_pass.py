"""Several models in one pass: one read of every shard, staged units, deadlines, progress, logs."""

import dataclasses
import datetime as dt
import hashlib
import io
import json
import logging
import os
import pathlib
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import workers.labels.parquet
import workers.scan.staging
from privcore.exceptions import TerminalError
from tests.support.audits import run_audits
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    FEATURES,
    PLAN,
    Shuffled,
    declared,
    figures,
    label_path,
    label_rows,
    put_labels,
    put_model,
)
from tests.support.tiers import rest_slow
from workers.audit.request import Request
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.labels.shards import Piece
from workers.lake.layout import Lake
from workers.scan.label_pass import scan_or_find
from workers.scan.partial_results import Game, PartialResults
from workers.scan.staging import Staging
from workers.sources.checkpoints.checkpoint_source import find_checkpoints
from workers.warehouse.schema import AuditRecord

NOBODY = pl.lit("nobody asks for this")
REQUESTS = [
    Request("first", PLAN),
    Request("second", PLAN.model_copy(update={"score": "log_ratio", "slices": ("city",)})),
]


@pytest.fixture(scope="module")
def template_of_two(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Two models of other features on the same labels, which lie in three files."""
    lake = Lake(str(tmp_path_factory.mktemp("passes") / "lake"))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(500, seed=seed).with_columns(other=NOBODY))
        for place in (1, 2):
            file = label_path(lake, "flights", day).with_name(f"part-0000{place}.parquet")
            rows = label_rows(300, seed=10 * place + seed).with_columns(other=NOBODY)
            pq.write_table(rows.to_arrow(), file, row_group_size=100)
        put_model(lake, day, model="first", features=FEATURES[:2], privacy=declared())
        put_model(lake, day, model="second", features=FEATURES[1:])
    return lake


@pytest.fixture
def lake(template_of_two: Lake, tmp_path: pathlib.Path) -> Lake:
    shutil.copytree(template_of_two.uri, tmp_path / "lake")
    return Lake(str(tmp_path / "lake"))


def audited(lake: Lake, requests: Iterable[Request] = REQUESTS, **more: Any) -> list[AuditRecord]:
    more = {"executor": InProcess(), "work_unit_bytes": 1} | more
    return list(run_audits(lake, DAY, requests, **more))


@pytest.fixture(scope="module")
def expected(template_of_two: Lake) -> list[dict[str, Any]]:
    """Return the records of the lake as it is, read unit by unit."""
    return [figures(record) for record in audited(template_of_two)]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, int]]:
    """Count every byte of label files that is fetched."""
    counted: Counter[tuple[str, int]] = Counter()
    fetch = workers.labels.parquet._fetch

    def counting(lake: Lake, path: str, spans: list[tuple[int, int]]) -> Any:
        for first, length in spans:
            counted.update((path, place) for place in range(first, first + length))
        return fetch(lake, path, spans)

    monkeypatch.setattr(workers.labels.parquet, "_fetch", counting)
    monkeypatch.setattr(workers.labels.parquet, "_GAP", 0)
    return counted


def test_models_of_one_partition_share_one_read_of_the_columns_they_need(
    lake: Lake, reads: Counter[tuple[str, int]]
) -> None:
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


def test_only_a_files_first_rows_are_looked_at(
    lake: Lake, reads: Counter[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two row groups of 128 rows hold the first 200 rows."""
    monkeypatch.setattr("workers.scan.rows_alike._ROWS", 200)
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


def test_a_models_record_does_not_depend_on_its_company(
    lake: Lake, expected: list[dict[str, Any]]
) -> None:
    for request, together in zip(REQUESTS, expected, strict=True):
        alone = run_audit(lake, request.model, DAY, plan=request.plan, executor=InProcess())
        assert together == figures(alone)
    assert [figures(record) for record in audited(lake, executor=Shuffled(3))] == expected


def test_one_models_missing_column_is_not_the_others(lake: Lake) -> None:
    file = label_path(lake, "flights").with_name("part-00002.parquet")
    pq.write_table(pq.read_table(file).drop(["delay"]), file)
    first, second = audited(lake)
    assert (first.audit.status, first.audit.reason_code) == ("not_evaluable", "feature_invalid")
    assert "feature_invalid 300" in first.audit.reason
    assert "the first in part-00002.parquet" in first.audit.reason
    assert figures(second) == figures(audited(lake, REQUESTS[1:])[0])
    assert second.audit.status == "evaluated"


def test_one_models_damaged_column_is_not_the_others(lake: Lake) -> None:
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
    assert (first.audit.reason_code, second.audit.status) == ("labels_unreadable", "evaluated")
    assert "labels_unreadable 128" in first.audit.reason


def test_the_labels_digest_speaks_of_what_was_read(lake: Lake) -> None:
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


def test_a_file_that_changes_its_name_is_other_content(lake: Lake) -> None:
    (before,) = audited(lake, REQUESTS[:1])
    path = label_path(lake, "flights").with_name("part-00001.parquet")
    path.rename(path.with_name("part-00009.parquet"))
    (after,) = audited(lake, REQUESTS[:1])
    assert after.audit.labels_digest != before.audit.labels_digest
    assert after.audit.audit_id != before.audit.audit_id


@pytest.mark.parametrize("work_unit_bytes", rest_slow([1, 4000, 1 << 30], always=2))
def test_the_size_of_work_units_changes_nothing(
    lake: Lake, expected: list[dict[str, Any]], work_unit_bytes: int
) -> None:
    assert [
        figures(record) for record in audited(lake, work_unit_bytes=work_unit_bytes)
    ] == expected


@dataclass(frozen=True)
class Dies:
    """An executor whose driver is killed after some units."""

    after: int

    def fold(self, function: Any, shared: Any, items: Any, *, on_done: Any, deadline: Any) -> Any:
        def some() -> Iterator[Any]:
            for done, item in enumerate(items):
                if done == self.after:
                    raise KeyboardInterrupt
                yield item

        return InProcess().fold(function, shared, some(), on_done=on_done, deadline=deadline)


def test_a_driver_that_starts_again_repeats_no_finished_unit(
    lake: Lake,
    expected: list[dict[str, Any]],
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    staging = str(tmp_path / "warehouse" / "_staging")
    with pytest.raises(KeyboardInterrupt):
        audited(lake, staging=staging, executor=Dies(after=4))
    assert len(list(pathlib.Path(staging).rglob("*.tally"))) == 4

    caplog.clear()  # another test's flow may have let the log through from the start
    with caplog.at_level(logging.INFO, "workers.scan.label_pass"):
        again = audited(lake, staging=staging)

    assert [figures(record) for record in again] == expected
    told = [record for record in caplog.records if record.name == "workers.scan.label_pass"]
    reused = [record.privaudit["reused"] for record in told]
    assert reused == [True] * 4 + [False] * (len(reused) - 4)
    assert len(reused) == 10
    assert list(pathlib.Path(staging).rglob("*.tally")) == []


def test_units_are_swept_only_after_the_record_was_committed(
    lake: Lake, tmp_path: pathlib.Path
) -> None:
    staging = tmp_path / "_staging"
    records = run_audits(
        lake, DAY, REQUESTS, executor=InProcess(), staging=str(staging), work_unit_bytes=1
    )
    next(records)
    next(records)
    assert len(list(staging.rglob("*.tally"))) == 10  # the caller may be committing the last
    assert list(records) == []
    assert list(staging.rglob("*.tally")) == []


def forged(content: bytes) -> bytes:
    """Return a unit's file as a writer of the warehouse makes it, who knows this code."""
    packed = content[32:]
    size = int.from_bytes(packed[:8], "little")
    plain = pa.decompress(packed[8:], decompressed_size=size, codec="zstd", asbytes=True)
    arrays = dict(np.load(io.BytesIO(plain)))
    arrays["0/correct"] = np.zeros_like(arrays["0/correct"])
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    packed = len(buffer.getvalue()).to_bytes(8, "little") + pa.compress(
        buffer.getvalue(), codec="zstd", asbytes=True
    )
    return hashlib.sha256(packed).digest() + packed


def test_another_drivers_units_are_played_again(
    lake: Lake,
    expected: list[dict[str, Any]],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A driver elsewhere does not know the secret, and the secret lies nowhere in the warehouse."""
    staging = tmp_path / "_staging"
    with pytest.raises(KeyboardInterrupt):
        audited(lake, staging=str(staging), executor=Dies(after=4))
    secret = workers.scan.staging.driver_secret()
    assert all(secret not in path.read_bytes() for path in staging.rglob("*.tally"))
    assert secret.hex() not in repr(Staging(str(staging), "key"))
    assert len(secret) == 32
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    workers.scan.staging.driver_secret.cache_clear()
    again = audited(lake, staging=str(staging))
    workers.scan.staging.driver_secret.cache_clear()
    assert [figures(record) for record in again] == expected


@pytest.mark.parametrize("damage", rest_slow(["forged", "moved", "cut off", "changed"], always=2))
def test_a_staged_unit_that_is_damaged_is_played_again(
    lake: Lake, expected: list[dict[str, Any]], tmp_path: pathlib.Path, damage: str
) -> None:
    staging = tmp_path / "_staging"
    with pytest.raises(KeyboardInterrupt):
        audited(lake, staging=str(staging), executor=Dies(after=4))
    one = next(staging.rglob("*.tally")).read_bytes()
    for path in staging.rglob("*.tally"):
        content = path.read_bytes()
        damaged = {
            "forged": lambda content=content: forged(content),
            "moved": lambda: one,
            "cut off": lambda content=content: content[: len(content) // 2],
            "changed": lambda content=content: content[:-1] + bytes([content[-1] ^ 1]),
        }
        path.write_bytes(damaged[damage]())
    again = audited(lake, staging=str(staging))
    assert [figures(record) for record in again] == expected


def test_labels_that_change_find_no_unit_of_before(lake: Lake, tmp_path: pathlib.Path) -> None:
    staging = str(tmp_path / "_staging")
    with pytest.raises(KeyboardInterrupt):
        audited(lake, staging=staging, executor=Dies(after=4))
    label_path(lake, "flights").unlink()
    put_labels(lake, DAY, label_rows(500, seed=44))
    assert figures(audited(lake, REQUESTS[:1], staging=staging)[0]) == figures(
        audited(lake, REQUESTS[:1])[0]
    )


def test_what_is_abandoned_for_a_week_is_swept(tmp_path: pathlib.Path) -> None:
    kept = (("old", 8), ("fresh", 6), ("mine", 0), ("3.rows", 3), ("1.rows", 1))
    for key, days in kept:
        file = tmp_path / key / "unit.tally"
        file.parent.mkdir()
        file.touch()
        when = (dt.datetime.now(dt.UTC) - dt.timedelta(days=days)).timestamp()
        os.utime(file, (when, when))
        os.utime(file.parent, (when, when))
    Staging(str(tmp_path), "mine").sweep()
    assert {path.name for path in tmp_path.iterdir()} == {"fresh", "1.rows"}


def test_a_folder_that_another_audit_has_just_made_is_not_swept(tmp_path: pathlib.Path) -> None:
    """It is empty until the first work unit is written: a sweep in between ended that audit."""
    (tmp_path / "another").mkdir()
    (tmp_path / "long ago").mkdir()
    os.utime(tmp_path / "long ago", (0, 0))
    Staging(str(tmp_path), "mine").sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["another"]


def test_a_unit_is_kept_although_its_folder_was_swept_meanwhile(
    lake: Lake, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another driver of the same audit ends between the folder's making and the file's."""
    source = find_checkpoints(lake, "first", DAY, plan=PLAN)
    results = PartialResults.zero((Game(source, PLAN),))
    staging, unit = Staging(str(tmp_path), "mine"), (Piece("part"),)
    whole, times = workers.scan.staging.open_filesystem, iter([True, False])

    class Swept:
        def create_dir(self, path: str, *, recursive: bool) -> None:
            whole(staging.uri).create_dir(path, recursive=recursive)
            if next(times):
                Staging(staging.uri, staging.key).sweep()

        def __getattr__(self, name: str) -> Any:
            return getattr(whole(staging.uri), name)

    monkeypatch.setattr(workers.scan.staging, "open_filesystem", lambda _: Swept())
    staging.save(unit, results)
    assert staging.load(unit) == results


def test_after_the_deadline_there_is_a_reason_and_no_number(
    lake: Lake, tmp_path: pathlib.Path
) -> None:
    staging = tmp_path / "_staging"
    past = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    for record in audited(lake, deadline=past, staging=str(staging)):
        assert (record.audit.status, record.audit.reason_code) == ("not_evaluable", "deadline")
        assert f"{past:%Y-%m-%d %H:%M:%S}" in record.audit.reason
        assert record.audit.epsilon_lower is None
        assert record.bounds == record.slices == record.scores == ()


def test_a_deadline_in_the_middle_keeps_what_was_finished(
    lake: Lake, tmp_path: pathlib.Path
) -> None:
    staging = tmp_path / "_staging"
    deadline = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    done: list[int] = []

    @dataclass(frozen=True)
    class Late:
        def fold(
            self, function: Any, shared: Any, items: Any, *, on_done: Any, deadline: Any
        ) -> Any:
            past = dt.datetime.now(dt.UTC)
            inside = InProcess()
            if function is not scan_or_find:  # students are fitted before
                return inside.fold(function, shared, items, on_done=on_done, deadline=deadline)
            inside.fold(function, shared, items[:4], on_done=on_done, deadline=deadline)
            return inside.fold(function, shared, items[4:], on_done=on_done, deadline=past)

    late = audited(
        lake,
        deadline=deadline,
        staging=str(staging),
        executor=Late(),
        progress=lambda so_far, _: done.append(so_far),
    )
    assert {record.audit.reason_code for record in late} == {"deadline"}
    assert done == [1, 2, 3, 4]
    assert len(list(staging.rglob("*.tally"))) == 4
    assert {record.audit.status for record in audited(lake, staging=str(staging))} == {"evaluated"}


def test_a_node_with_another_version_refuses_to_play(lake: Lake) -> None:
    class ExternalInputs(InProcess):
        """Plays where another version is installed."""

        def fold(self, function: Any, shared: Any, items: Any, **more: Any) -> Any:
            older = dataclasses.replace(shared, version="0.0.1 (method version 1)")
            return super().fold(function, older, items, **more)

    with pytest.raises(TerminalError, match=r"begun by 0\.0\.1 .*: install the same on every node"):
        audited(lake, executor=ExternalInputs())


def test_progress_counts_units(lake: Lake) -> None:
    told: list[tuple[int, int]] = []
    audited(lake, progress=lambda done, of: told.append((done, of)))
    assert told == [(done, 10) for done in range(1, 11)]


def test_each_unit_is_logged_once_with_what_it_cost(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "workers.scan.label_pass"):
        audited(lake)
    lines = [record for record in caplog.records if record.name == "workers.scan.label_pass"]
    fields = [record.privaudit for record in lines]
    assert len({field["shards"] for field in fields}) == len(fields) == 10
    assert sum(field["rows"] for field in fields) == 1100
    assert min(field["bytes_read"] for field in fields) > 0
    assert fields[0]["models"] == ["first", "second"]
    assert len({field["pass"] for field in fields}) == 1
    assert 'shards="part-00001.parquet row groups 2-2"' in lines[-4].getMessage()
    assert json.dumps(fields[0])


@pytest.mark.parametrize("late", [False, True])
def test_each_audit_is_logged_with_its_id_and_the_pass_of_its_units(
    lake: Lake, caplog: pytest.LogCaptureFixture, late: bool
) -> None:
    deadline = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1) if late else None
    with caplog.at_level(logging.INFO, "workers"):
        records = audited(lake, deadline=deadline)
    told = [record.privaudit for record in caplog.records if hasattr(record, "privaudit")]
    audits = [fields for fields in told if fields["event"] == "audit_done"]
    assert [fields["audit_id"] for fields in audits] == [r.audit.audit_id for r in records]
    assert [fields["status"] for fields in audits] == [r.audit.status for r in records]
    assert len({fields["pass"] for fields in told}) == 1


def test_the_longest_partition_comes_first(lake: Lake) -> None:
    for day in (EVE, DAY):
        put_labels(lake, day, label_rows(300, seed=1), dataset="short")
        put_model(lake, day, model="small", dataset="short", label=BINARY)
    requests = [Request("small", PLAN), Request("nobody", PLAN), *REQUESTS]
    models = [record.audit.model for record in audited(lake, requests)]
    assert models == ["nobody", "first", "second", "small"]


def test_a_unit_of_many_files_is_one_task(lake: Lake) -> None:
    told: list[tuple[int, int]] = []
    audited(lake, work_unit_bytes=1 << 30, progress=lambda *of: told.append(of))
    assert told == [(1, 1)]


def test_what_is_known_of_privacy_units_is_kept_nowhere(lake: Lake, tmp_path: pathlib.Path) -> None:
    path = label_path(lake, "flights")
    rows = pl.read_parquet(path).with_columns(person=pl.int_range(pl.len()) % 90)
    rows.write_parquet(path, row_group_size=100)
    plan = PLAN.model_copy(update={"privacy_unit": "person", "minimum_records": 1,
                                   "minimum_control_records": 1})  # fmt: skip
    staging = tmp_path / "_staging"
    with pytest.raises(KeyboardInterrupt):
        audited(lake, [Request("first", plan)], staging=str(staging), executor=Dies(after=4))
    assert list(tmp_path.rglob("*.tally")) == []
    (again,) = audited(lake, [Request("first", plan)], staging=str(staging))
    (expected,) = audited(lake, [Request("first", plan)])
    assert figures(again) == figures(expected)
