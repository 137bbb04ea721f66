"""Iceberg tables whose metadata was written by somebody who wants more than a row."""

import gzip
import json
import pathlib
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.conftest import Limit
from tests.support.lake import DAY, EVE
from tests.support.object_store import empty_bucket, object_store
from tests.support.tiers import rest_slow
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.sources.tables import table_child
from workers.sources.tables.day_tables import TablePlace
from workers.sources.tables.table_files import find_day, look

ROWS = pl.DataFrame({"day": [EVE] * 3 + [DAY] * 2, "x": range(5)}).to_arrow()
PLACE = TablePlace(table="ads.scores", catalog="here", day="day")
PLANTED = "planted"


def obeyed(properties: dict[str, str]) -> None:
    """Do what a table's property asked for; nobody should ever call this."""
    pathlib.Path(properties[PLANTED]).touch()


@pytest.fixture
def metadata(catalog: SqlCatalog) -> pathlib.Path:
    """The metadata file of a table that has one snapshot."""
    table = catalog.create_table("ads.scores", schema=ROWS.schema)
    table.append(ROWS)
    return pathlib.Path(table.metadata_location.removeprefix("file://"))


def edit(metadata: pathlib.Path, **changes: Any) -> None:
    content = json.loads(metadata.read_text("utf-8"))
    metadata.write_text(json.dumps(content | changes), "utf-8")


def snapshots(metadata: pathlib.Path, **changes: Any) -> list[dict[str, Any]]:
    content = json.loads(metadata.read_text("utf-8"))
    return [snapshot | changes for snapshot in content["snapshots"]]


def refused(reason: Reason) -> str:
    with pytest.raises(NotEvaluableError) as caught:
        find_day(PLACE, DAY)
    assert caught.value.reason is reason, caught.value
    return caught.value.sentence


@pytest.mark.parametrize(
    "implementation",
    [f"{__name__}.obeyed", "sys.exit", "builtins.print", "os.abort", "nobody.Nothing", "x"],
)
def test_a_tables_property_calls_nothing(
    metadata: pathlib.Path, tmp_path: pathlib.Path, implementation: str
) -> None:
    planted = tmp_path / PLANTED
    edit(metadata, properties={"py-io-impl": implementation, PLANTED: str(planted)})
    assert len(find_day(PLACE, DAY).files) == 1
    assert look("ads.scores", catalog="here").newest["day"] == DAY
    assert not planted.exists()


def test_a_catalogues_own_reader_is_not_used_either(
    metadata: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operators set it for other programs; here it would read past the rules for places."""
    planted = tmp_path / PLANTED
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__PY_IO_IMPL", f"{__name__}.obeyed")
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__PLANTED", str(planted))
    assert metadata.exists()
    assert len(find_day(PLACE, DAY).files) == 1
    assert not planted.exists()


@pytest.mark.parametrize("scheme", ["s3", "s3a", "foo"])
def test_a_tables_endpoint_is_told_no_login(
    metadata: pathlib.Path, stranger: tuple[int, list[bytes]], scheme: str
) -> None:
    port, told = stranger
    host = f"http://127.0.0.1:{port}"
    edit(
        metadata,
        properties={
            "s3.endpoint": host, "s3.access-key-id": "theirs", "s3.secret-access-key": "theirs",
            "gcs.service.host": host, "adls.connection-string": f"BlobEndpoint={host}",
            "s3.region": "us-east-1", "s3.proxy-uri": host,
        },
        snapshots=snapshots(metadata, **{"manifest-list": f"{scheme}://bucket/list.avro"}),
    )  # fmt: skip
    with object_store() as endpoint, empty_bucket(endpoint):
        reason = Reason.PATH_OUTSIDE if scheme == "foo" else Reason.LABELS_CHANGED
        refused(reason)
    assert told == []


@pytest.mark.parametrize(
    "address",
    rest_slow([
        "/etc",
        "abfs://container@127.0.0.1:{port}/t",
        "s3://bucket/t?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1",
        "hdfs://127.0.0.1:{port}/t",
        "viewfs://127.0.0.1:{port}/t",
        "abfs://account@elsewhere.example/t",
        "gs://bucket/t?endpoint_override=127.0.0.1:{port}&scheme=http",
        "http://127.0.0.1:{port}/t",
        "file:///etc",
        "file://{folder}/iceberg/../other",
        "",
        "s3://127.0.0.1:{port}/t",
    ], always=5),
)  # fmt: skip
@pytest.mark.parametrize("field", ["location", "manifest-list"])
def test_a_table_lies_at_no_host_or_folder_of_its_writers_choice(
    metadata: pathlib.Path,
    stranger: tuple[int, list[bytes]],
    tmp_path: pathlib.Path,
    address: str,
    field: str,
) -> None:
    port, told = stranger
    address = address.format(port=port, folder=tmp_path)
    if field == "location":
        edit(metadata, location=address)
    else:
        edit(metadata, snapshots=snapshots(metadata, **{field: f"{address}/list.avro"}))
    with pytest.raises(NotEvaluableError) as caught:
        find_day(PLACE, DAY)
    assert caught.value.reason in {Reason.PATH_OUTSIDE, Reason.PATH_UNREADABLE}
    assert told == []


def test_a_link_out_of_the_warehouse_is_not_followed(
    metadata: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    metadata.parent.rename(elsewhere)
    metadata.parent.symlink_to(elsewhere)
    refused(Reason.PATH_OUTSIDE)


def test_a_manifest_list_that_is_gone_is_said(metadata: pathlib.Path) -> None:
    for path in metadata.parent.glob("snap-*.avro"):
        path.unlink()
    assert "keep the metadata of a snapshot" in refused(Reason.LABELS_CHANGED)


@pytest.mark.parametrize("content", [b"", b"no Avro", b"Obj\x01" + b"\xff" * 99, b"\0" * 5000])
@pytest.mark.parametrize("pattern", ["snap-*.avro", "*-m0.avro"])
def test_damaged_metadata_is_said(metadata: pathlib.Path, content: bytes, pattern: str) -> None:
    for path in metadata.parent.glob(pattern):
        path.write_bytes(content)
    assert "metadata of the Iceberg table ads.scores is damaged" in refused(Reason.PATH_UNREADABLE)


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b'{"format-version": 9}', b"\xff"])
def test_a_damaged_metadata_file_is_said(metadata: pathlib.Path, content: bytes) -> None:
    metadata.write_bytes(content)
    assert "ads.scores is damaged" in refused(Reason.PATH_UNREADABLE)


@pytest.mark.slow
def test_metadata_that_unpacks_to_gigabytes_is_not_unpacked(
    catalog: SqlCatalog, metadata: pathlib.Path, limit: Limit
) -> None:
    """4 MB that unpack to 4 GB; nobody but the contained child takes memory for them."""
    packed = metadata.with_name("00002-bomb.gz.metadata.json")
    packed.write_bytes(gzip.compress(b" " * (1 << 24), compresslevel=9) * 256)
    with catalog.engine.begin() as connection:
        connection.exec_driver_sql(
            "update iceberg_tables set metadata_location = ?", (f"file://{packed}",)
        )
    limit("TABLE_MEMORY_BYTES", 1 << 30)
    table_child._contained.cache_clear()
    assert "and 1 GiB of memory" in refused(Reason.TOO_LARGE)
    table_child._contained.cache_clear()


@pytest.mark.slow
def test_a_huge_metadata_file_is_not_read(metadata: pathlib.Path) -> None:
    with metadata.open("r+b") as file:
        file.truncate(64 << 30)  # sparse: it takes no room
    assert f"{limits.TABLE_FILE_BYTES:,} bytes" in refused(Reason.TOO_LARGE)


def test_an_iceberg_table_that_lists_a_file_twice_is_refused(catalog: SqlCatalog) -> None:
    """Two manifests name one file: each of its rows would count twice."""
    table = catalog.create_table("ads.scores", schema=ROWS.schema)
    table.append(ROWS)
    (file,) = table.inspect.files()["file_path"].to_pylist()
    table.add_files([file], check_duplicate_files=False)
    with pytest.raises(NotEvaluableError, match="lists a file twice") as caught:
        find_day(PLACE, DAY)
    assert caught.value.reason is Reason.TABLE_UNSUPPORTED


@pytest.mark.parametrize(("name", "told"), [("x", False), ("y", True)])
def test_a_property_that_gives_a_number_to_another_column_is_refused(
    catalog: SqlCatalog, name: str, told: bool
) -> None:
    """Readers take the property's word of files without numbers, and an audit the names."""
    table = catalog.create_table("ads.scores", schema=ROWS.schema)
    table.append(ROWS)
    (file,) = table.inspect.files()["file_path"].to_pylist()
    pq.write_table(ROWS.select(["x", "day"]), file.removeprefix("file://"))
    mapping = [{"field-id": 1, "names": ["day"]}, {"field-id": 2, "names": [name]}]
    with table.transaction() as changes:
        changes.set_properties({"schema.name-mapping.default": json.dumps(mapping)})
    if told:
        assert "has renamed the column" in refused(Reason.TABLE_UNSUPPORTED)
    else:
        assert len(find_day(PLACE, DAY).files) == 1


def test_avro_that_says_it_has_2_to_the_60_records_ends_one_lookup(catalog: SqlCatalog) -> None:
    table = catalog.create_table("ads.scores", schema=ROWS.schema)
    table.append(ROWS)
    listed = pathlib.Path(table.current_snapshot().manifest_list.removeprefix("file://"))
    content = listed.read_bytes()
    start = content.index(content[-16:]) + 16  # behind the header's mark: records of a block
    assert content[start] == 2, "one record"
    many = bytes([128] * 8 + [32])  # 2 to the 60, as Avro writes it
    listed.write_bytes(content[:start] + many + content[start + 1 :])
    with pytest.raises(NotEvaluableError) as caught:
        find_day(PLACE, DAY)
    assert caught.value.reason in {Reason.PATH_UNREADABLE, Reason.TOO_LARGE}
