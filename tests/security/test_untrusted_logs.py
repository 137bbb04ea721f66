"""Logs and data files of Delta tables are bytes of strangers, which lead nowhere."""

import datetime as dt
import json
import os
import pathlib
import secrets

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privcore.exceptions import TerminalError
from tests.support.lake import DAY
from tests.support.warehouse import failed, forged_version
from workers.exceptions import NotEvaluableError, Reason
from workers.sources.tables.day_tables import TablePlace
from workers.sources.tables.table_files import find_day
from workers.warehouse.delta import commit_times
from workers.warehouse.sql import query
from workers.warehouse.store import Warehouse


@pytest.mark.parametrize("spelled", [b'"deletionV\\u0065ctor":{', b'"deletionVector"\t:\t{'])
def test_a_deletion_vector_is_found_however_a_log_spells_it(
    tmp_path: pathlib.Path, spelled: bytes
) -> None:
    """Before, its bytes were looked for: rows that the table had deleted took part."""
    table = tmp_path / "t"
    rows = pl.DataFrame({"day": [DAY] * 2, "x": range(2)})
    features = {"delta.enableDeletionVectors": "true"}
    deltalake.write_deltalake(str(table), rows, configuration=features)
    place = TablePlace(table=str(table), day="day")
    assert len(find_day(place, DAY).files) == 1
    log = table / "_delta_log" / "00000000000000000000.json"
    vector = (
        b'"storageType":"u","pathOrInlineDv":"ab","offset":4,"sizeInBytes":40,"cardinality":1},'
    )
    log.write_bytes(log.read_bytes().replace(b'"add":{', b'"add":{' + spelled + vector))
    with pytest.raises(NotEvaluableError) as refusal:
        find_day(place, DAY)
    assert refusal.value.reason is Reason.TABLE_UNSUPPORTED


@pytest.mark.parametrize("name", ["rows.parquet", "_delta_log/_last_checkpoint"])
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_warehouse_waits_for_no_pipe_and_follows_no_link(
    stored: pathlib.Path, name: str, kind: str
) -> None:
    """All commands waited for a pipe, and so did the night; a link named labels as a table."""
    path = stored / "audits" / name
    os.mkfifo(path) if kind == "pipe" else path.symlink_to(stored / "audits")
    with pytest.raises(TerminalError, match="is a link or no plain file"):
        Warehouse(str(stored)).current()
    with pytest.raises(TerminalError, match="is a link or no plain file"):
        Warehouse(str(stored)).commit(failed("good", DAY))


@pytest.mark.parametrize(
    "path", ["../../rows.parquet", "%2e%2e/rows.parquet", "../x://rows.parquet"]
)
def test_a_warehouse_reads_no_file_outside_of_its_table(stored: pathlib.Path, path: str) -> None:
    """Labels of the lake stood in exports, since their columns were joined to the table's."""
    add = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1}
    forged_version(stored, {"add": add | {"dataChange": True}})
    with pytest.raises(TerminalError, match="which lies elsewhere"):
        query(Warehouse(str(stored)), "from audits")


def test_rows_that_readers_would_see_otherwise_are_refused(stored: pathlib.Path) -> None:
    """`show` left out a row by a deletion vector, and `sql` and exports had it."""
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"],
    }
    forged_version(stored, {"protocol": protocol})
    with pytest.raises(TerminalError, match="other reader features"):
        query(Warehouse(str(stored)), "from audits")


@pytest.mark.parametrize("moment", [9 * 10**18, -(10**18)])
def test_a_commit_of_no_time_is_a_sentence(stored: pathlib.Path, moment: int) -> None:
    """Where the log began with it, `--as-of --by-log` ended with an unexpected error."""
    forged_version(stored, {"commitInfo": {"timestamp": moment}})
    with pytest.raises(TerminalError, match="holds what no commit does"):
        commit_times(str(stored), "audits")


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


def named(path: str) -> dict[str, object]:
    """Return what a log says of a data file."""
    return {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1}


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_folder_below_a_table_holds_no_rows(stored: pathlib.Path, kind: str) -> None:
    """A link in it put labels into `sql` and exports, and a pipe in it was waited for."""
    folder = stored / "audits" / "below"
    folder.mkdir()
    path = folder / "rows.parquet"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to(stored)
    forged_version(stored, {"add": named("below/rows.parquet") | {"dataChange": True}})
    with pytest.raises(TerminalError, match="which lies elsewhere"):
        query(Warehouse(str(stored)), "from audits")


def test_no_older_version_of_a_log_leads_elsewhere(stored: pathlib.Path) -> None:
    """The next commit took the path out again, and only the newest version was looked at."""
    forged_version(stored, {"add": named("../rows.parquet") | {"dataChange": True}})
    there = {"path": "../rows.parquet", "dataChange": True}
    forged_version(stored, {"commitInfo": {"timestamp": 4 * 10**12}}, {"remove": there})
    log = stored / "audits" / "_delta_log" / f"{1:020}.json"
    made = json.dumps({"commitInfo": {"timestamp": 1_900_000_000_000}})
    log.write_text(f"{made}\n{log.read_text('utf-8')}", "utf-8")
    known = dt.datetime(2031, 1, 1, tzinfo=dt.UTC)
    with pytest.raises(TerminalError, match="which lies elsewhere"):
        query(Warehouse(str(stored), as_of=known, by_log=True), "from audits")


def zigzag(number: int, size: int) -> bytes:
    """Return a whole number as Thrift writes it, in so many bytes."""
    parts = [(number << 1) >> (7 * place) & 127 for place in range(size)]
    return bytes(part | 128 for part in parts[:-1]) + bytes(parts[-1:])


def with_false_counts(file: pathlib.Path, true: int, false: int, *, which: int) -> None:
    """Let a footer say another number of rows: the file's own (0), or its last row group's (-1)."""
    content = file.read_bytes()
    start = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    footer, size = content[start:], (true << 1).bit_length() // 7 + 1
    place = footer.index(zigzag(true, size)) if which == 0 else footer.rindex(zigzag(true, size))
    changed = footer[:place] + zigzag(false, size) + footer[place + size :]
    file.write_bytes(content[:start] + changed)


def put_data_file(place: pathlib.Path, table: pa.Table) -> pathlib.Path:
    """Have `audits` name one file more, and return it."""
    file = place / "audits" / "forged.parquet"
    pq.write_table(table, file, compression="zstd", use_dictionary=False, store_schema=False)
    add = {"path": file.name, "partitionValues": {}, "size": 1, "modificationTime": 1}
    forged_version(place, {"add": add | {"dataChange": True}})
    return file


@pytest.mark.parametrize("which", [0, -1])
def test_a_warehouse_file_has_the_rows_that_it_says(tmp_path: pathlib.Path, which: int) -> None:
    """25 kB with a false count of rows took 600 MB, and more of 50 million."""
    warehouse = Warehouse(str(tmp_path))
    warehouse.commit(failed("good", DAY))
    ids = [secrets.token_hex(8) for _ in range(9_000)]
    with_false_counts(put_data_file(tmp_path, pa.table({"audit_id": ids})), 9_000, 3, which=which)
    with pytest.raises(TerminalError, match="its counts of rows differ"):
        warehouse.current()


def test_a_warehouse_file_has_no_word_of_gigabytes(tmp_path: pathlib.Path) -> None:
    """46 kB with one word of 1 GB took 2.9 GB of each command."""
    warehouse = Warehouse(str(tmp_path))
    warehouse.commit(failed("good", DAY))
    put_data_file(tmp_path, pa.table({"audit_id": ["x"], "reason": ["x" * (16 << 20)]}))
    with pytest.raises(TerminalError, match=r"'forged.parquet' has 16,77\d,\d{3} bytes in"):
        warehouse.current()


@pytest.mark.parametrize("spelled", ["part%2D", "./part-", "sub/../part-"])
def test_a_delta_log_that_lists_a_file_twice_is_refused(
    tmp_path: pathlib.Path, spelled: str
) -> None:
    """Each of its rows would count twice, and twice the evidence accuses sooner."""
    table = tmp_path / "t"
    deltalake.write_deltalake(str(table), pl.DataFrame({"day": [DAY] * 2, "x": range(2)}))
    log = table / "_delta_log" / "00000000000000000000.json"
    lines = log.read_text("utf-8").splitlines()
    (added,) = (line for line in lines if line.startswith('{"add"'))
    log.write_text("\n".join([*lines, added.replace("part-", spelled, 1)]), "utf-8")
    (table / "sub").mkdir()
    with pytest.raises(NotEvaluableError, match="lists a file twice") as caught:
        find_day(TablePlace(table=str(table), day="day"), DAY)
    assert caught.value.reason is Reason.TABLE_UNSUPPORTED


def test_a_delta_table_of_many_commits_and_no_checkpoint_is_read(tmp_path: pathlib.Path) -> None:
    table = tmp_path / "t"
    deltalake.write_deltalake(str(table), pl.DataFrame({"day": [DAY] * 2, "x": range(2)}))
    for version in range(1, 600):
        commit = json.dumps({"commitInfo": {"operation": "OPTIMIZE"}})
        (table / "_delta_log" / f"{version:020}.json").write_text(commit, "utf-8")
    found = find_day(TablePlace(table=str(table), day="day"), DAY)
    assert (found.version, len(found.files)) == (599, 1)


@pytest.mark.parametrize("commit", ["[" * 100_000, "5", '{"commitInfo": {}}', '{"commitInfo": 1}'])
def test_a_commit_that_is_none_is_said_to_be_so(tmp_path: pathlib.Path, commit: str) -> None:
    log = tmp_path / "audits" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text(commit)
    with pytest.raises(TerminalError, match="holds what no commit does"):
        commit_times(str(tmp_path), "audits")


def test_a_commit_that_is_a_pipe_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "audits" / "_delta_log"
    log.mkdir(parents=True)
    os.mkfifo(log / f"{0:020d}.json")
    assert commit_times(str(tmp_path), "audits") == []
