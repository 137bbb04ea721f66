"""The ninth round, strangers who write files (2026-11-27): what broke of 25 attacks."""

import contextlib
import datetime as dt
import gzip
import hashlib
import io
import os
import pathlib
import time
import zipfile
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import deltalake
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from flows.settings.file import Settings
from flows.settings.problems import problems
from privcore.exceptions import InvalidInputError, TerminalError
from tests.security.test_eighth_round_files import drawn, lake_of_two_days
from tests.support.joined_tables import Tables
from tests.support.lake import DAY, label_path, label_rows, put_labels
from tests.support.mlflow_stub import mlflow_stub
from tests.support.score_tables import audit, put_folder, score_rows, tables
from tests.support.warehouse import failed, forged_version
from workers.datasets import labelled_images
from workers.datasets.rated_texts import read_texts
from workers.exceptions import NotEvaluableError
from workers.labels.columns import Batch
from workers.labels.parquet import read_footer, read_row_group
from workers.lake import limits
from workers.lake.layout import Lake, labels_folder
from workers.lake.mlflow_promotion import Version, check_version
from workers.memorization import ngram
from workers.memorization.ngram import FORMAT, NgramCounts
from workers.release.table import read_frame
from workers.sources.scores.query_rows import _INFINITY, QueryDay
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.tables.table_files import find_day
from workers.training import drawn_decoys
from workers.warehouse.store import Warehouse


def added(table: pathlib.Path, name: str) -> None:
    """Have a table's log name one more file."""
    add = {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 1}
    forged_version(table.parent, {"add": add | {"dataChange": True}})


def test_a_warehouse_file_has_no_more_rows_than_its_bytes_can_hold(tmp_path: pathlib.Path) -> None:
    """635 kB that unpack to 50 million rows took 8 GB of each command, and of alerts."""
    warehouse = Warehouse(str(tmp_path))
    warehouse.commit(failed("good", DAY))
    rows = pl.select(audit_id=pl.lit("x").repeat_by(9_000)).explode("audit_id")
    rows.write_parquet(tmp_path / "audits" / "forged.parquet")
    added(tmp_path / "audits", "forged.parquet")
    with pytest.raises(TerminalError, match=r"forged.parquet' has 9,000 rows"):
        warehouse.current()


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_warehouse_reads_no_file_of_a_folder_below_its_table(
    tmp_path: pathlib.Path, kind: str
) -> None:
    """Only the table's own folder was looked through for links and pipes."""
    warehouse = Warehouse(str(tmp_path))
    warehouse.commit(failed("good", DAY))
    file = tmp_path / "audits" / "below" / "x.parquet"
    file.parent.mkdir()
    os.mkfifo(file) if kind == "pipe" else file.symlink_to("/etc/hostname")
    added(tmp_path / "audits", "below/x.parquet")
    with pytest.raises(TerminalError, match="which lies elsewhere"):
        warehouse.current()


def test_row_groups_share_no_bytes_in_a_file_of_holes(tmp_path: pathlib.Path) -> None:
    """Only all chunks' sum was compared with the file's size, which a hole makes as large."""
    lake = Lake(str(tmp_path))
    put_labels(lake, DAY, label_rows(400, seed=0))
    path = label_path(lake, "flights")
    metadata, sink = pq.read_metadata(path), io.BytesIO()
    metadata.append_row_groups(pq.read_metadata(path))
    metadata.write_metadata_file(sink)
    with path.open("r+b") as file:
        file.seek(1 << 32)
        file.write(sink.getvalue()[4:])
    assert pq.read_metadata(path).num_rows == 800
    within = f"{labels_folder('flights', DAY)}/{path.name}"
    footer = read_footer(lake, within, ["late"])
    with pytest.raises(NotEvaluableError, match="it is damaged"):
        read_row_group(lake, within, footer, 0, ["late"])


@pytest.mark.parametrize(
    ("column", "bound", "said"),
    [
        ([0.5] * 99_999, "PROBABILITIES", "has 99,999 values"),
        (0.5, "SHARD_BYTES", "pages of 800,"),
    ],
)
def test_pages_are_believed_before_the_footer(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, column: object, bound: str, said: str
) -> None:
    """A list of a thousand million numbers was 5 kB, and pages of GiB were what a footer said."""
    rows = 1 if isinstance(column, list) else 100_000
    given = {"use_dictionary": isinstance(column, list), "data_page_size": 1 << 20}
    pq.write_table(pa.table({"p": [column] * rows}), tmp_path / "x.parquet", **given)
    lake = Lake(str(tmp_path))
    footer = read_footer(lake, "x.parquet", ["p"])
    footer = replace(footer, groups=(replace(footer.groups[0], unpacked=1),))
    monkeypatch.setattr(limits, bound, 90_000)
    with pytest.raises(NotEvaluableError, match=said):
        read_row_group(lake, "x.parquet", footer, 0, ["p"])


@pytest.mark.parametrize(
    ("folder", "values"),
    [
        ("late=true", [True, False]),
        ("late=__HIVE_DEFAULT_PARTITION__", [1, None]),
        ("late=yes", [1, 1]),
        ("l%61te=1", [1, 0]),
        ("Late=1", [1, 0]),
        ("late=2026-03-09", [dt.datetime(2026, 3, 2, 10, tzinfo=dt.UTC)]),
    ],
)
def test_a_folder_contradicts_columns_of_all_kinds(folder: str, values: list[object]) -> None:
    """Flags and times were not compared, nor words that are none, nor names in other letters."""
    table = pa.table({"late": values})
    with pytest.raises(NotEvaluableError, match="other values than its folder"):
        Batch(table, f"{folder}/x.parquet", ("x", 0, 0)).column("late")


def test_columns_that_say_what_their_folders_say_are_read() -> None:
    said = {
        "late=True": [True, None],
        "late=1.0": [1, None],
        "late=07": [7],
        "late=0.1": pa.array([0.1], pa.float32()),
        "late=2026-03-02": [dt.datetime(2026, 3, 3, 1, tzinfo=dt.UTC)],
        "late=20260302": [5],
        "late=%C3%A9": ["é"],
    }
    for folder, values in said.items():
        table = pa.table({"late": values})
        assert Batch(table, f"{folder}/x.parquet", ("x", 0, 0)).column("late").len()


@pytest.mark.parametrize("folder", [f"day=2026-03-01/day={DAY}", "day=20260302"])
def test_a_file_is_of_one_day_in_one_spelling(tmp_path: pathlib.Path, folder: str) -> None:
    """A file in two days' folders played on both days."""
    rows = score_rows(np.random.default_rng(0), 100)
    put_folder(tmp_path, rows)
    (tmp_path / folder).mkdir(parents=True)
    rows.write_parquet(tmp_path / folder / "x.parquet")
    with pytest.raises(NotEvaluableError, match="has the day twice"):
        find_day(tables(tmp_path), DAY)


def test_a_delta_table_whose_log_and_files_hold_a_label_is_refused(tmp_path: pathlib.Path) -> None:
    """Readers take the log's values, and the audit took the files'."""
    rows = score_rows(np.random.default_rng(0), 100)
    place = str(tmp_path)
    deltalake.write_deltalake(place, rows, partition_by=["clicked"])
    assert find_day(tables(place), DAY).files
    for file in tmp_path.rglob("*.parquet"):
        rows.write_parquet(file)
    with pytest.raises(NotEvaluableError, match="keeps 'clicked' in its log"):
        find_day(tables(place), DAY)


@pytest.mark.slow
def test_a_file_that_is_laid_beside_decoys_is_not_committed_to(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lay there before was refused, and what came while the copies were written was not."""
    lake = lake_of_two_days(tmp_path)
    copied = drawn_decoys._with_decoys

    def beside(*given: Any) -> pa.Table:
        lake.write(f"{labels_folder('decoys', DAY)}/zzz.parquet", b"an owner's own")
        return copied(*given)

    monkeypatch.setattr(drawn_decoys, "_with_decoys", beside)
    with pytest.raises(NotEvaluableError, match="got files of somebody else"):
        drawn(lake)


def test_a_file_that_storage_lists_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows played twice: 1.41 became 1.80."""
    found = [pa.fs.FileInfo("labels/x.parquet", pa.fs.FileType.File, size=1)] * 2
    store = SimpleNamespace(base_fs=None, get_file_info=lambda _: found)
    monkeypatch.setattr(Lake, "files", store)
    with pytest.raises(NotEvaluableError, match=r"lists labels/x\.parquet twice"):
        Lake("s3://bucket").files_below("labels")


@pytest.mark.parametrize(
    "fields",
    [
        '"counts": {"a\\u0101": 1}',
        '"counts": {"a": "1"}',
        '"counts": {"a": true}',
        '"counts": {"a": 1}, "more": []',
        '"counts": [[], []], "counts": {"a": 1}',
    ],
)
def test_an_ngram_model_is_its_counts_alone(fields: str) -> None:
    """One ended the command, and lists beside the counts took memory of each process."""
    good = f'"format": "{FORMAT}", "order": 2, '
    assert NgramCounts.from_json(b"{%s}" % (good + '"counts": {"a": 1}').encode()).counts
    with pytest.raises(InvalidInputError, match="it is a file of the format"):
        NgramCounts.from_json(b"{%s}" % (good + fields).encode())


@pytest.mark.parametrize(("code", "taken"), [("null", True), ("code", False)])
def test_a_version_that_mlflow_serves_with_code_is_not_promoted(
    monkeypatch: pytest.MonkeyPatch, code: str, *, taken: bool
) -> None:
    """Its folder comes before MLflow's own modules, and may hold another `xgboost`."""
    serves = f"  python_function:\n    loader_module: mlflow.xgboost\n    code: {code}\n"
    with mlflow_stub() as registry:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", registry.address)
        flavors = f"flavors:\n  xgboost:\n    data: model.ubj\n{serves}"
        registry.register("ads", "today", flavors, b"a model")
        refused = pytest.raises(TerminalError, match="with code of its own")
        with contextlib.nullcontext() if taken else refused:
            check_version(Version("ads", "1"), hashlib.sha256(b"a model").hexdigest())


@pytest.mark.parametrize("kind", ["encrypted", "lzma", "other", "words"])
def test_an_archive_of_another_kind_is_a_sentence(tmp_path: pathlib.Path, kind: str) -> None:
    """Encrypted and unknown ones were unexpected errors."""
    method = zipfile.ZIP_LZMA if kind == "lzma" else zipfile.ZIP_STORED
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as wheel:
        wheel.writestr(labelled_images._WITHIN, gzip.compress(b"a,b\n" * 50))
    raw = bytearray(content.getvalue())
    place = raw.find(b"PK\x01\x02")
    if kind == "encrypted":
        raw[6], raw[place + 8] = 1, 1
    elif kind == "other":
        raw[8], raw[place + 10] = 99, 99
    elif kind == "lzma":
        data = 30 + len(labelled_images._WITHIN)
        raw[data + 4 : data + 9] = b"\xff" * 5
    (tmp_path / "x.whl").write_bytes(raw)
    with pytest.raises(InvalidInputError, match="or it is damaged"):
        labelled_images.read_images(tmp_path / "x.whl", seed=0)


def test_texts_of_a_study_are_bounded_as_a_whole(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row group was bounded: 450 kB took 4.5 GB, and could have taken any size."""
    rows = pl.DataFrame({"text": ["x" * 100] * 900, "sentiment": ["0", "4", "2"] * 300})
    rows.write_parquet(tmp_path / "x.parquet", row_group_size=100)
    assert read_texts(tmp_path / "x.parquet").texts.len() == 900
    monkeypatch.setattr(limits, "CSV_BYTES", 50_000)
    with pytest.raises(InvalidInputError, match="texts have more than 50,000 bytes"):
        read_texts(tmp_path / "x.parquet")


def test_counts_of_text_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 MB of one sequence took 1.7 GB of `privaudit memorization fit`, and there was no bound."""
    tokens = np.random.default_rng(0).integers(0, 256, 3_000)
    monkeypatch.setattr(ngram, "_MOST_RUNS", 3_000)
    one = NgramCounts.of([tokens], 1)
    assert (one + one).counts
    with pytest.raises(InvalidInputError, match="holds at most 3,000"):
        NgramCounts.of([tokens], 3)
    halves = [NgramCounts.of([half], 2) for half in np.split(tokens, 2)]
    with pytest.raises(InvalidInputError, match="holds at most 3,000"):
        halves[0] + halves[1]


def test_a_number_of_more_than_64_bits_is_a_sentence(tmp_path: pathlib.Path) -> None:
    """In a CSV file for `privaudit release` it was an unexpected error."""
    (tmp_path / "x.csv").write_text(f"a\n{'9' * 26}\n", "utf-8")
    with pytest.raises(InvalidInputError, match="more than 64 bits"):
        read_frame(str(tmp_path / "x.csv"))


def test_a_warehouse_file_is_listed_once(tmp_path: pathlib.Path) -> None:
    """A checkpoint of 33 kB that names a file 30,000 times took 74 seconds and 3.6 GB."""
    warehouse = Warehouse(str(tmp_path))
    warehouse.commit(failed("good", DAY))
    table, log = tmp_path / "audits", tmp_path / "audits" / "_delta_log"
    deltalake.DeltaTable(table).create_checkpoint()
    checkpoint = next(log.glob("*.checkpoint.parquet"))
    rows = pl.read_parquet(checkpoint)
    added = rows.filter(pl.col("add").is_not_null())
    pl.concat([rows, added]).write_parquet(checkpoint)
    for commit_file in log.glob("0*.json"):
        commit_file.unlink()
    with pytest.raises(TerminalError, match="names a file twice"):
        warehouse.current()


def test_problems_of_many_lists_are_told_in_a_second() -> None:
    """Each list that was too short was compared with all problems: 4 MiB would have taken hours."""
    models = [{"name": f"m{place}", "plan": {"fractions": []}} for place in range(3_000)]
    with pytest.raises(ValidationError) as error:
        Settings.model_validate({"models": models})
    begun = time.process_time()
    told = problems(error.value, Settings)
    assert sum("plan.fractions" in one for one in told) == 3_000
    assert time.process_time() - begun < 0.4


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_label_that_is_never_known_does_not_play(zone: str | None) -> None:
    """PostgreSQL's `infinity` was a time of long ago, so that rows without a label played."""
    columns = {"label": "y", "target": "p", "proxy": "q", "record": "id", "known_at": "known"}
    asked = {"table": "bank", "database": "bank", "query": "select 1 where day = $1"}
    day = QueryDay(ScoreTables.model_validate(asked | columns), DAY)
    kind, others = pa.timestamp("us", zone), [0, None, -(1 << 63) + 946_684_800_000_000]
    given = pa.table({"known": pa.array([_INFINITY, *others], pa.int64()).cast(kind)})
    stored = day._stored(given)["known"]
    assert stored.type == kind
    assert stored.cast(pa.int64()).to_pylist() == [(1 << 63) - 1, *others]


@pytest.mark.slow
def test_joined_tables_are_compared_with_their_folders(tmp_path: pathlib.Path) -> None:
    given = Tables(tmp_path).put()
    (file,) = (tmp_path / "labels").rglob("*.parquet")
    (file.parent / "clicked=1").mkdir()
    file.rename(file.parent / "clicked=1" / file.name)
    assert "other values than its folder clicked=1" in audit(given).audit.reason
