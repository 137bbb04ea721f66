"""Iceberg tables whose metadata or catalogue was written by somebody who wants more than a row."""

import contextlib
import gzip
import json
import pathlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.rest import RestCatalog

from privcore.exceptions import TerminalError, TransientError
from tests.support.http_server import Answering, serving
from tests.support.lake import DAY, EVE
from tests.support.object_store import empty_bucket, object_store
from tests.support.rest_catalog import SECRET, handler_of
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.sources.tables import table_child
from workers.sources.tables.day_tables import TablePlace
from workers.sources.tables.table_files import find_day, look

TOKEN = "a-token-of-this-test"  # noqa: S105
ROWS = pl.DataFrame({"day": [EVE] * 3 + [DAY] * 2, "x": range(5)}).to_arrow()
HERE, FAR = (TablePlace(table="ads.scores", catalog=name, day="day") for name in ("here", "far"))
PLANTED = "planted"
Asked = list[tuple[str, dict[str, str]]]


def refused(place: TablePlace, reason: Reason) -> str:
    with pytest.raises(NotEvaluableError) as caught:
        find_day(place, DAY)
    assert caught.value.reason is reason, caught.value
    assert TOKEN not in caught.value.sentence
    return caught.value.sentence


def obeyed(properties: dict[str, str]) -> None:
    """Do what a table's property asked for; nobody should ever call this."""
    pathlib.Path(properties[PLANTED]).touch()


@pytest.fixture
def metadata(catalog):
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


@pytest.mark.parametrize("implementation", [f"{__name__}.obeyed", "sys.exit"])
def test_a_tables_property_and_a_catalogues_call_nothing(
    metadata, tmp_path, monkeypatch, implementation
):
    """Operators may have set a reader for other programs: it would read past the rules here."""
    planted = tmp_path / PLANTED
    edit(metadata, properties={"py-io-impl": implementation, PLANTED: str(planted)})
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__PY_IO_IMPL", f"{__name__}.obeyed")
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__PLANTED", str(planted))
    assert len(find_day(HERE, DAY).files) == 1
    assert look("ads.scores", catalog="here").newest["day"] == DAY
    assert not planted.exists()


@pytest.mark.parametrize("scheme", ["s3", "foo"])
def test_a_tables_endpoint_is_told_no_login(metadata, stranger, scheme):
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
        refused(HERE, reason)
    assert told == []


@pytest.mark.parametrize(
    "address",
    [
        "/etc",
        "abfs://container@127.0.0.1:{port}/t",
        "s3://bucket/t?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1",
        "hdfs://127.0.0.1:{port}/t",
        "file://{folder}/iceberg/../other",
    ],
)
@pytest.mark.parametrize("field", ["location", "manifest-list"])
def test_a_table_lies_at_no_host_or_folder_of_its_writers_choice(
    metadata, stranger, tmp_path, address, field
):
    port, told = stranger
    address = address.format(port=port, folder=tmp_path)
    if field == "location":
        edit(metadata, location=address)
    else:
        edit(metadata, snapshots=snapshots(metadata, **{field: f"{address}/list.avro"}))
    with pytest.raises(NotEvaluableError) as caught:
        find_day(HERE, DAY)
    assert caught.value.reason in {Reason.PATH_OUTSIDE, Reason.PATH_UNREADABLE}
    assert told == []


def test_a_link_out_of_the_warehouse_is_not_followed(metadata, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    metadata.parent.rename(elsewhere)
    metadata.parent.symlink_to(elsewhere)
    refused(HERE, Reason.PATH_OUTSIDE)


def test_a_manifest_list_that_is_gone_is_said(metadata):
    for path in metadata.parent.glob("snap-*.avro"):
        path.unlink()
    assert "keep the metadata of a snapshot" in refused(HERE, Reason.LABELS_CHANGED)


@pytest.mark.parametrize(
    ("pattern", "content"),
    [
        ("snap-*.avro", b""),
        ("snap-*.avro", b"Obj\x01" + b"\xff" * 99),
        ("*-m0.avro", b"no Avro"),
        ("00001-*.metadata.json", b"{}"),
        ("00001-*.metadata.json", b"[" * 100_000),
        ("00001-*.metadata.json", b'{"format-version": 9}'),
    ],
)
def test_damaged_metadata_is_said(metadata, content, pattern):
    for path in metadata.parent.glob(pattern):
        path.write_bytes(content)
    assert "ads.scores is damaged" in refused(HERE, Reason.PATH_UNREADABLE)


@pytest.mark.slow
def test_metadata_that_unpacks_to_gigabytes_is_not_unpacked(catalog, metadata, limit):
    """4 MB that unpack to 4 GB; nobody but the contained child takes memory for them."""
    packed = metadata.with_name("00002-bomb.gz.metadata.json")
    packed.write_bytes(gzip.compress(b" " * (1 << 24), compresslevel=9) * 256)
    with catalog.engine.begin() as connection:
        connection.exec_driver_sql(
            "update iceberg_tables set metadata_location = ?", (f"file://{packed}",)
        )
    limit("TABLE_MEMORY_BYTES", 1 << 30)
    table_child._contained.cache_clear()
    assert "and 1 GiB of memory" in refused(HERE, Reason.TOO_LARGE)
    table_child._contained.cache_clear()


def test_an_iceberg_table_that_lists_a_file_twice_is_refused(catalog):
    """Two manifests name one file: each of its rows would count twice."""
    table = catalog.create_table("ads.scores", schema=ROWS.schema)
    table.append(ROWS)
    (file,) = table.inspect.files()["file_path"].to_pylist()
    table.add_files([file], check_duplicate_files=False)
    with pytest.raises(NotEvaluableError, match="lists a file twice") as caught:
        find_day(HERE, DAY)
    assert caught.value.reason is Reason.TABLE_UNSUPPORTED


@pytest.mark.parametrize(("name", "told"), [("x", False), ("y", True)])
def test_a_property_that_gives_a_number_to_another_column_is_refused(catalog, name, told):
    """Readers take the property's word of files without numbers, and an audit the names."""
    table = catalog.create_table("ads.scores", schema=ROWS.schema)
    table.append(ROWS)
    (file,) = table.inspect.files()["file_path"].to_pylist()
    pq.write_table(ROWS.select(["x", "day"]), file.removeprefix("file://"))
    mapping = [{"field-id": 1, "names": ["day"]}, {"field-id": 2, "names": [name]}]
    with table.transaction() as changes:
        changes.set_properties({"schema.name-mapping.default": json.dumps(mapping)})
    if told:
        assert "has renamed the column" in refused(HERE, Reason.TABLE_UNSUPPORTED)
    else:
        assert len(find_day(HERE, DAY).files) == 1


# Behind a REST catalogue that is honest


def environment(monkeypatch: pytest.MonkeyPatch, **given: str) -> None:
    """Describe the catalogue `far` as operators do."""
    for name, value in given.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__FAR__{name.upper()}", value)


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """A catalogue with the table ads.scores, written by its protocol; yield what it is asked."""
    handler, asked = handler_of(tmp_path / "far", TOKEN)
    with serving(handler) as address:
        environment(monkeypatch, uri=address, token=TOKEN, warehouse=f"{tmp_path}/far/iceberg")
        catalog = RestCatalog("far", uri=address, token=TOKEN)
        catalog.create_namespace("ads")
        catalog.create_table("ads.scores", schema=ROWS.schema).append(ROWS)
        asked.clear()
        yield asked


def test_a_day_is_read_with_the_token_and_without_asking_for_storage_logins(asked):
    found = find_day(FAR, DAY)
    assert (found.kind, len(found.files)) == ("iceberg", 1)
    assert look("ads.scores", catalog="far").newest["day"] == DAY
    assert {headers["Authorization"] for _, headers in asked} == {f"Bearer {TOKEN}"}
    assert not any("X-Iceberg-Access-Delegation" in headers for _, headers in asked)
    assert {path.partition("?")[0] for path, _ in asked} == {
        "/v1/config",
        "/v1/here/namespaces/ads/tables/scores",
    }


def test_a_client_and_its_secret_are_changed_for_a_token(asked, monkeypatch):
    monkeypatch.delenv("PYICEBERG_CATALOG__FAR__TOKEN")
    environment(monkeypatch, credential=SECRET)
    assert len(find_day(FAR, DAY).files) == 1
    assert "/v1/oauth/tokens" in {path for path, _ in asked}


@pytest.mark.parametrize(
    ("name", "value"), [("token", "a-wrong-token"), ("credential", "a-client:a-wrong-secret")]
)
def test_a_refused_login_is_said_and_not_repeated(asked, monkeypatch, name, value):
    assert asked == []
    monkeypatch.delenv("PYICEBERG_CATALOG__FAR__TOKEN")
    environment(monkeypatch, **{name: value})
    sentence = refused(FAR, Reason.PATH_UNREADABLE)
    assert "refuses the login" in sentence
    assert "PYICEBERG_CATALOG__FAR__TOKEN" in sentence
    assert value.rpartition(":")[2] not in sentence


@pytest.mark.parametrize("secret", ["token", "credential"])
def test_a_login_in_a_file_is_refused_and_not_repeated(tmp_path, monkeypatch, secret):
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    (tmp_path / ".pyiceberg.yaml").write_text(
        f"catalog:\n  far:\n    uri: http://127.0.0.1:9\n    {secret}: in-a-file\n"
    )
    with pytest.raises(TerminalError, match=f"PYICEBERG_CATALOG__FAR__{secret.upper()}") as caught:
        find_day(FAR, DAY)
    assert "in-a-file" not in str(caught.value)


@pytest.mark.slow
def test_a_catalogue_in_an_object_store_is_read_by_the_environments_login(tmp_path, monkeypatch):
    """As teams have it: the warehouse is a name, and the files lie in a bucket."""
    with object_store() as endpoint, empty_bucket(endpoint) as bucket:
        place = {"warehouse": f"{bucket}/tables", "s3.endpoint": endpoint}
        handler, _ = handler_of(tmp_path / "far", TOKEN, **place)
        with serving(handler) as address:
            environment(monkeypatch, uri=address, token=TOKEN, warehouse="prod")
            catalog = RestCatalog("far", uri=address, token=TOKEN, **{"s3.endpoint": endpoint})
            catalog.create_namespace("ads")
            catalog.create_table("ads.scores", schema=ROWS.schema).append(ROWS)
            found = find_day(FAR, DAY)
        assert (found.root.uri, len(found.files)) == (f"{bucket}/tables/ads/scores", 1)


# A catalogue that wants more


class Stranger(Answering):
    """A hostile catalogue: each test says what it answers, by the path that is asked."""

    protocol_version = "HTTP/1.1"
    answers: dict[str, Callable[["Stranger"], None]]
    asked: Asked

    def respond(self) -> None:
        """Answer as the test says."""
        self.asked.append((self.path, dict(self.headers)))
        path = self.path.partition("?")[0]
        found = [answer for end, answer in self.answers.items() if path.endswith(end)]
        with contextlib.suppress(OSError):
            (found or [self.says(404, {})])[0](self)

    @staticmethod
    def says(code: int, value: Any, **headers: str) -> Callable[["Stranger"], None]:
        """Return an answer of JSON."""
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        return lambda self: self.answer(code, content, **headers)


says = Stranger.says


@pytest.fixture
def table(metadata):
    """Return an honest catalogue's answer about the table ads.scores."""
    content = json.loads(metadata.read_text("utf-8"))
    return {"metadata-location": f"file://{metadata}", "metadata": content, "config": {}}


@pytest.fixture
def served(table, tmp_path, monkeypatch):
    """Return what serves a catalogue `far`, honest but for these answers, and what it is asked."""

    @contextlib.contextmanager
    def serve(**answers: Callable[[Stranger], None]) -> Iterator[Asked]:
        honest = {
            "config": says(200, {"defaults": {}, "overrides": {}}),
            "scores": says(200, table),
        }
        asked: Asked = []
        handler = type("Hostile", (Stranger,), {"answers": honest | answers, "asked": asked})
        with serving(handler) as address:
            environment(monkeypatch, uri=address, token=TOKEN, warehouse=f"{tmp_path}/iceberg")
            yield asked

    return serve


class Obeyed:
    """The class that a hostile catalogue names; no code may ever call it."""

    def __init__(self, folder: Any = None, **_: Any) -> None:
        place = folder if isinstance(folder, str) else folder["folder"]
        (pathlib.Path(place) / PLANTED).touch()


@pytest.mark.parametrize(
    ("said", "name"),
    [("defaults", "auth"), ("overrides", "py-catalog-impl"), ("overrides", "py-io-impl"),
     ("config", "py-io-impl")],
)  # fmt: skip
def test_no_function_of_a_catalogues_choice_is_called(served, table, tmp_path, said, name):
    impl = f"{__name__}.Obeyed"
    wanted = {name: impl, "folder": str(tmp_path)}
    if name == "auth":
        custom = {"folder": str(tmp_path)}
        wanted = {name: {"type": "custom", "impl": impl, "custom": custom}}
    config = {"defaults": {}, "overrides": {}} | ({} if said == "config" else {said: wanted})
    answer = table | ({"config": wanted} if said == "config" else {})
    with served(config=says(200, config), scores=says(200, answer)):
        assert len(find_day(FAR, DAY).files) == 1
    assert not (tmp_path / PLANTED).exists()


@pytest.mark.parametrize("said", ["defaults", "overrides", "config", "storage-credentials"])
def test_nothing_of_a_catalogues_config_leads_to_a_host_of_its_choice(
    served, table, stranger, said
):
    """The files lie in a bucket, so that an endpoint would be used; the operator's is asked."""
    port, told = stranger
    host = f"http://127.0.0.1:{port}"
    wanted = {
        "uri": host, "s3.endpoint": host, "s3.access-key-id": "theirs", "s3.region": "us-east-1",
        "s3.secret-access-key": "theirs", "s3.proxy-uri": host, "s3.signer.uri": host,
        "s3.signer": "S3V4RestSigner", "oauth2-server-uri": f"{host}/token",
        "credential": "theirs:theirs", "token": "theirs", "gcs.service.host": host,
        "rest.sigv4-enabled": "true", "warehouse": host, "header.Authorization": "theirs",
        "scan-planning-mode": "server", "rest-scan-planning-enabled": "true",
        "adls.connection-string": f"BlobEndpoint={host}",
    }  # fmt: skip
    listed = "s3://bucket/list.avro"
    snapshots = [one | {"manifest-list": listed} for one in table["metadata"]["snapshots"]]
    answer = table | {"metadata": table["metadata"] | {"snapshots": snapshots}}
    if said == "storage-credentials":
        answer |= {said: [{"prefix": "s3://", "config": wanted}]}
    elif said == "config":
        answer |= {said: wanted}
    config = {"defaults": {}, "overrides": {}}
    config |= {said: wanted} if said in config else {}
    with (
        object_store() as endpoint,
        empty_bucket(endpoint),
        served(config=says(200, config), scores=says(200, answer)) as asked,
    ):
        assert listed in refused(FAR, Reason.LABELS_CHANGED)
    assert told == []
    assert len(asked) == 2
    assert {headers["Authorization"] for _, headers in asked} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize(("path", "code"), [("config", 302), ("scores", 307), ("tokens", 307)])
def test_a_redirect_is_not_followed(served, monkeypatch, stranger, path, code):
    """To another host it would tell the token, and to this network what only we can reach."""
    port, told = stranger
    with served(**{path: says(code, {}, Location=f"http://127.0.0.1:{port}/v1/x")}):
        if path == "tokens":
            monkeypatch.delenv("PYICEBERG_CATALOG__FAR__TOKEN")
            environment(monkeypatch, credential=SECRET, header__x_key="a-key")
        assert "redirects" in refused(FAR, Reason.PATH_OUTSIDE)
    assert told == []


@pytest.mark.parametrize(("path", "packed"), [("config", False), ("scores", True)])
def test_an_answer_of_5_gb_is_not_read(served, path, packed):
    sent: list[int] = []
    piece = b" " * (1 << 20)
    member = gzip.compress(piece * 64, compresslevel=1)

    def endless(self: Stranger) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(5 << 30))
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        sent.extend(self.wfile.write(member if packed else piece) for _ in range(5 << 10))

    with served(**{path: endless}):
        assert f"more than {limits.CATALOG_BYTES:,} bytes" in refused(FAR, Reason.TOO_LARGE)
    assert sum(sent) < 2 * limits.CATALOG_BYTES


def test_a_catalogue_that_is_busy_or_away_is_asked_again_later(served, monkeypatch):
    for code in (429, 503):
        with served(config=says(code, {})), pytest.raises(TransientError, match="far does not an"):
            find_day(FAR, DAY)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    environment(monkeypatch, uri=f"http://127.0.0.1:{port}", token=TOKEN)
    with pytest.raises(TransientError, match="PYICEBERG_CATALOG__FAR__URI") as caught:
        find_day(FAR, DAY)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        b"", b"[]", b"{", b'{"defaults": null, "overrides": null}', b"[" * 100_000,
        b'{"overrides": {"prefix": 7}}', b'{"endpoints": ["X"]}', b"\xff\xfe",
    ],
)  # fmt: skip
def test_a_garbled_config_is_said(served, config):
    with served(config=says(200, config)):
        assert "cannot be asked" in refused(FAR, Reason.PATH_UNREADABLE)


@pytest.mark.parametrize("prefix", ["@127.0.0.1:{port}", "../..", "//127.0.0.1:{port}"])
def test_a_prefix_stays_on_the_catalogues_own_host(served, stranger, prefix):
    port, told = stranger
    said = {"overrides": {"prefix": prefix.format(port=port)}}
    with served(config=says(200, said)) as asked, contextlib.suppress(NotEvaluableError):
        find_day(FAR, DAY)
    assert told == []
    assert len(asked) in {1, 2}
