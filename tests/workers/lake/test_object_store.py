"""Lake and warehouse on S3: a real server of that protocol, on the loopback interface."""

import logging
import pathlib

import deltalake
import polars as pl
import pytest
from pyarrow import fs

from flows.report.site import write_report
from privcore.exceptions import AuditError
from tests.support.audits import audited, recorded, run_audits
from tests.support.lake import DAY, EVE, PLAN, declared, figures, label_rows, put_labels, put_model
from tests.support.object_store import empty_bucket, object_store
from workers.audit.request import Request
from workers.audit.run import run_audit
from workers.audit.verify import Finding, verify
from workers.executors import InProcess
from workers.lake.layout import Lake, open_filesystem
from workers.sources.checkpoints.in_place import InPlace
from workers.sources.checkpoints.in_place_settings import CheckpointPaths, LabelTable
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRecord
from workers.warehouse.sql import query
from workers.warehouse.store import Warehouse

SECRETS = ("AKIAPLANTEDINTESTS00", "planted/secret+in/tests", "planted-session-token")
"""What is planted in the environment, and must be found nowhere else."""


@pytest.fixture(scope="module")
def store():
    """Yield the URI of an empty bucket, with the environment that leads there."""
    with object_store() as endpoint, empty_bucket(endpoint, SECRETS) as bucket:
        yield bucket


@pytest.fixture(scope="module")
def lake(store, template):
    lake = Lake(f"{store}/lake")
    for path in sorted(pathlib.Path(template.uri).rglob("*")):
        if path.is_file():
            lake.write(path.relative_to(template.uri).as_posix(), path.read_bytes())
    return lake


@pytest.mark.slow
def test_a_lake_in_an_object_store_is_written_as_one_on_disk(store):
    lake = Lake(f"{store}/written")
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(400, seed=seed))
        put_model(lake, day, privacy=declared())
    row = audited(lake)
    assert (row.status, row.proxy_day) == ("evaluated", EVE)


@pytest.mark.slow
def test_labels_and_model_files_in_place_in_an_object_store(lake, store):
    place = Lake(f"{store}/own")
    for day in (EVE, DAY):
        content = lake.read(f"models/good/day={day}/model.cbm", at_most=1 << 24)
        place.write(f"models/ads/{day:%Y/%m/%d}/model.cbm", content)
        rows = lake.read(f"labels/flights/day={day}/part-00000.parquet", at_most=1 << 24)
        deltalake.write_deltalake(
            f"{store}/own/clicks",
            pl.read_parquet(rows).with_columns(ds=pl.lit(day)),
            mode="append",
            partition_by=["ds"],
        )
    given = InPlace(
        LabelTable(table=f"{store}/own/clicks", day="ds", label="late"),
        CheckpointPaths(path=f"{store}/own/models/{{model}}/{{day:%Y/%m/%d}}/model.cbm"),
    )
    nowhere = Lake("/nowhere")
    record = run_audit(nowhere, "ads", DAY, plan=PLAN, executor=InProcess(), external_inputs=given)
    there = audited(lake)
    row = record.audit
    assert (row.status, row.verdict, row.proxy_day) == ("evaluated", "undeclared", EVE), row.reason
    assert (row.records, row.target_log_loss) == (there.records, there.target_log_loss)
    assert verify(seal(record), nowhere, InProcess()).finding is Finding.REPRODUCED


def test_a_relative_path_is_a_lake_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Lake("somewhere").write("folder/file", b"content")
    assert (tmp_path / "somewhere" / "folder" / "file").read_bytes() == b"content"
    assert Lake("somewhere").read("folder/file") == b"content"


@pytest.mark.slow
def test_an_audit_with_its_warehouse_in_a_bucket_is_as_on_disk_and_tells_no_secret(
    lake, store, template, caplog, tmp_path
):
    assert list(lake.models()) == ["good"]
    warehouse = Warehouse(f"{store}/whole")
    assert warehouse.current().height == 0
    told: list[str] = []

    def audits(at: Lake = lake) -> list[AuditRecord]:
        requests = [Request("good", PLAN), Request("nobody", PLAN)]
        found = []
        for record in run_audits(at, DAY, requests, executor=InProcess(), work_unit_bytes=1):
            warehouse.commit([record])
            found.append(record)
        return found

    with caplog.at_level(logging.DEBUG):
        records = audits()
        for uri in ("s3://no-such-bucket-here/lake", f"{store}/empty"):
            try:
                told += [record.audit.reason for record in audits(Lake(uri))]
            except (OSError, AuditError) as error:
                told.append(f"{error} {error!r}")
    assert [record.audit.status for record in records] == ["not_evaluable", "evaluated"]
    assert records[0].audit.detail == "missing_target"
    assert figures(records[1]) == figures(recorded(template))
    assert warehouse.commit([records[1]]) == (False,)
    assert warehouse.record(records[1].audit.audit_id).audit.reason == records[1].audit.reason
    bounds = sum(len(record.bounds) for record in records)
    assert query(warehouse, "select count(*) from audit_bounds").item() == bounds
    # It lies in the bucket, and not in a folder named like a URI.
    assert "whole/audits/_delta_log/00000000000000000000.json" in stored(store)
    assert not pathlib.Path("s3:").exists()
    page = write_report(warehouse, str(tmp_path / "report"))
    report = [path.read_bytes() for path in pathlib.Path(page).parent.rglob("*") if path.is_file()]
    assert len(report) > 0
    everything = "\n".join([*told, caplog.text, *map(str, records)]).encode()
    for content in (everything, *stored(store).values(), *report):
        for secret in SECRETS:
            assert secret.encode() not in content


def stored(store: str) -> dict[str, bytes]:
    """Return every object of the bucket."""
    files = open_filesystem(store)
    entries = files.get_file_info(fs.FileSelector("", recursive=True))
    paths = [entry.path for entry in entries if entry.type == fs.FileType.File]
    return {path: files.open_input_stream(path).read() for path in paths}
