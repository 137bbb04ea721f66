import datetime as dt
import json
import pathlib
import resource
import urllib.parse
from typing import Any

import deltalake
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.lake import DAY, EVE
from tests.support.score_tables import score_rows, tables
from tests.support.tiers import rest_slow
from workers.exceptions import NotEvaluableError, Reason
from workers.sources.tables.day_tables import TablePlace, days_of
from workers.sources.tables.table_files import find_day, look, newest_day, read_rows

BOTH = pl.DataFrame({"day": [EVE] * 3 + [DAY] * 2, "x": range(5)})


def place(table: object, **more: Any) -> TablePlace:
    return TablePlace.model_validate({"table": str(table), "day": "day"} | more)


def put(place: pathlib.Path, *folders: str) -> None:
    """Write the same rows into each folder."""
    for folder in folders:
        (place / folder).mkdir(parents=True)
        BOTH.write_parquet(place / folder / "part.parquet")


def first_log(table: pathlib.Path) -> pathlib.Path:
    return table / "_delta_log" / f"{0:020d}.json"


@pytest.mark.parametrize("word", [f"day={DAY}", f"day={DAY:%Y%m%d}", f"day={DAY}/region=NL"])
def test_a_folder_of_the_day_is_found(tmp_path, word):
    put(tmp_path, word, f"day={EVE}", "_temporary/day=2026-03-02", f"other={DAY}")
    found = find_day(place(tmp_path), DAY)
    assert [file.name for file in found.files] == [f"{word}/part.parquet"]
    assert (found.kind, found.version, found.day_in_files) == ("parquet", None, False)


@pytest.mark.parametrize(
    ("folders", "zone", "found"),
    [
        (["day=2026-03-02 00%3A00%3A00"], "America/New_York", 1),
        (["day=2026-03-02T05%3A00%3A00Z", "day=2026-03-02T06%3A00%3A00Z"], "America/New_York", 2),
        (["day=2026-03-02T05%3A00%3A00Z", "day=2026-03-02T04%3A00%3A00Z"], "America/New_York", 1),
        (["year=2026/month=03/day=02", "year=2026/month=02/day=02"], "UTC", 1),
        (["year=2026/month=3/day=2/hour=7", "year=2026/month=3/day=12"], "UTC", 1),
        (["day=2026-3-2"], "UTC", 1),
        (["day=2026-03-02T23%3A59%3A59.999999"], "Asia/Tokyo", 1),  # its clock
        (["day=2026-03-01T23%3A30%3A00Z", "day=2026-03-03"], "Europe/Amsterdam", 1),
        (["day=2026-03-02", "day=2026-03-02T00%3A00%3A00.000000Z"], "America/New_York", 1),
        (["day=2026-03-02 05%3A00%3A00", "day=2026-03-02 06%3A00%3A00.5"], "UTC", 2),
        (["day=2026-03-02", "day=2026-03-02 00%3A30%3A00+01%3A00", "day=2026-03"], "UTC", 1),
        (["day=2026-03-02", "day=2026-13-02", "day=__HIVE_DEFAULT_PARTITION__"], "UTC", 1),
    ],
)
def test_folders_of_times_and_of_parts_of_a_date_are_of_their_day(tmp_path, folders, zone, found):
    put(tmp_path, *folders)
    named = find_day(place(tmp_path), DAY, zone=zone)
    assert [file.name for file in named.files] == [
        f"{each}/part.parquet" for each in folders[:found]
    ]
    assert not named.day_in_files
    assert look(str(tmp_path)).newest["day"] >= DAY


@pytest.mark.parametrize(
    "spelling", rest_slow(["{}T00:00:00.000000Z", "{} 00:00:00", "{} 00:00:00.000000"])
)
@pytest.mark.parametrize("within", [True, False])
def test_a_delta_partition_that_is_a_time_is_of_its_day(tmp_path, spelling, *, within):
    """Both spellings of the protocol, with the partition's folder and without."""
    table = tmp_path / "t"
    rows = pl.DataFrame({"day": [EVE, DAY], "x": [0, 1]})
    rows = rows.with_columns(pl.col("day").cast(pl.Datetime("us", "UTC")))
    deltalake.write_deltalake(str(table), rows, partition_by=["day"])
    log = first_log(table)
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            value = spelling.format(action["add"]["partitionValues"]["day"][:10])
            before = table / urllib.parse.unquote(action["add"]["path"])
            name = (
                f"day={urllib.parse.quote(value)}/p.parquet" if within else f"{value[:10]}.parquet"
            )
            (table / name).parent.mkdir(exist_ok=True)
            before.rename(table / name)
            action["add"] |= {"partitionValues": {"day": value}, "path": urllib.parse.quote(name)}
    log.write_text("\n".join(map(json.dumps, actions)))
    found = find_day(place(table), DAY)
    assert [pl.read_parquet(table / file.name)["x"].to_list() for file in found.files] == [[1]]
    assert look(str(table)).newest == {"day": DAY}
    of_new_york = EVE if spelling.endswith("Z") and within else DAY
    assert find_day(place(table), of_new_york, zone="America/New_York").files == found.files


@pytest.mark.parametrize("source", ["t", "other"])
def test_a_shallow_clone_is_said_and_absolute_paths_of_the_table_are_its_own(tmp_path, source):
    deltalake.write_deltalake(str(tmp_path / "t"), BOTH)
    log = first_log(tmp_path / "t")
    log.write_text(log.read_text().replace('"path":"', f'"path":"file://{tmp_path}/{source}/'))
    if source == "t":
        assert len(find_day(place(tmp_path / "t"), DAY).files) == 1
        return
    for door in (lambda: find_day(place(tmp_path / "t"), DAY), lambda: look(str(tmp_path / "t"))):
        with pytest.raises(NotEvaluableError, match="names files outside of its folder") as caught:
            door()
        assert caught.value.reason is Reason.TABLE_UNSUPPORTED


def test_a_delta_table_by_year_month_and_day_is_read(tmp_path):
    table = str(tmp_path / "t")
    rows = pl.DataFrame({"year": [2026] * 2, "month": [3, 2], "day": [2, 2], "x": [1, 0]})
    deltalake.write_deltalake(table, rows, partition_by=["year", "month", "day"])
    (file,) = find_day(place(table), DAY).files
    assert pl.read_parquet(tmp_path / "t" / file.name)["x"].to_list() == [1]
    assert look(table).newest == {"day": DAY}


@pytest.mark.parametrize(
    "name",
    ["PART-0.PARQUET", "part.parq", "part.pq", "20260302_144951_00037_v74wa_1ad6f92e", "000000_0"],
)
def test_parquet_is_known_by_its_ending_or_its_first_bytes(tmp_path, name):
    folder = tmp_path / f"day={DAY}"
    folder.mkdir()
    BOTH.write_parquet(folder / name)
    (folder / "README").write_text("No rows.")
    (folder / "rows.csv").write_text("x\n1\n")
    found = find_day(place(tmp_path), DAY)
    assert ([file.name for file in found.files], found.kind) == ([f"day={DAY}/{name}"], "parquet")
    assert look(str(tmp_path)).sample.equals(BOTH)
    assert look(str(folder / name)).sample.equals(BOTH)


def test_a_folder_without_rows_is_told_which_endings_are_read(tmp_path):
    (tmp_path / "rows.orc").write_bytes(b"ORC")
    with pytest.raises(NotEvaluableError, match="none of its 1 files is one of rows: check") as one:
        find_day(place(tmp_path), DAY)
    assert "end in .parquet, .parq, .pq, .csv, .csv.gz, .csv.zst (Parquet may" in str(one.value)


def test_files_without_such_folders_are_read_and_each_row_is_asked(tmp_path):
    BOTH.write_parquet(tmp_path / "all.parquet")
    found = find_day(place(tmp_path), DAY)
    assert found.day_in_files
    assert len(found.files) == 1


def test_a_delta_table_gives_the_files_that_may_hold_the_day(tmp_path):
    for number, frame in enumerate((BOTH[:3], BOTH[3:], BOTH[2:4])):
        deltalake.write_deltalake(str(tmp_path / "t"), frame, mode="append")
        found = find_day(place(tmp_path / "t"), EVE)
        assert (found.version, len(found.files)) == (number, [1, 1, 2][number])
    assert len(find_day(place(tmp_path / "t", version=0), EVE).files) == 1
    with pytest.raises(NotEvaluableError, match=r"no day = 2026-03-02: .* text like 2026-03-02"):
        find_day(place(tmp_path / "t", version=0), DAY)


def test_deleted_rows_of_a_delta_table_are_not_read_back(tmp_path):
    table = tmp_path / "t"
    deltalake.write_deltalake(str(table), BOTH)
    deltalake.DeltaTable(str(table)).delete("x = 4")
    found = find_day(place(table), DAY)
    (file,) = found.files
    assert pl.read_parquet(table / file.name)["x"].to_list() == [0, 1, 2, 3]


def test_a_delta_table_with_deletion_vectors_is_refused(tmp_path):
    table = tmp_path / "t"
    deltalake.write_deltalake(
        str(table), BOTH, configuration={"delta.enableDeletionVectors": "true"}
    )
    find_day(place(table), DAY)  # it may have some, and has none
    log = first_log(table)
    added = '"deletionVector":{"storageType":"u","pathOrInlineDv":"ab","sizeInBytes":1}'
    log.write_text(log.read_text().replace('"add":{', f'"add":{{{added},'))
    with pytest.raises(NotEvaluableError) as caught:
        find_day(place(table), DAY)
    assert caught.value.reason in {Reason.TABLE_UNSUPPORTED, Reason.PATH_UNREADABLE}


def test_an_iceberg_snapshot_is_read_and_a_later_one_is_not(catalog):
    table = catalog.create_table("ads.scores", schema=BOTH.to_arrow().schema)
    with pytest.raises(NotEvaluableError, match="no snapshot yet"):
        find_day(place("ads.scores", catalog="here"), DAY)
    table.append(BOTH.to_arrow())
    first = find_day(place("ads.scores", catalog="here"), DAY)
    table.append(BOTH[4:].to_arrow())
    assert len(find_day(place("ads.scores", catalog="here"), DAY).files) == 2
    again = find_day(place("ads.scores", catalog="here", version=first.version), DAY)
    assert again == first
    assert len(find_day(place("ads.scores", catalog="here"), EVE).files) == 1
    with pytest.raises(NotEvaluableError, match="has no day"):
        find_day(place("ads.scores", catalog="here"), DAY + dt.timedelta(days=5))


def test_an_iceberg_table_that_renamed_a_column_is_refused(catalog):
    table = catalog.create_table("ads.scores", schema=BOTH.to_arrow().schema)
    table.append(BOTH.to_arrow())
    with table.update_schema() as update:
        update.rename_column("x", "y")
    with pytest.raises(NotEvaluableError, match="renamed the column") as caught:
        find_day(place("ads.scores", catalog="here"), DAY)
    assert caught.value.reason is Reason.TABLE_UNSUPPORTED


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"table": "ads.none", "catalog": "here"}, "has no table ads.none"),
        ({"table": "ads.scores", "catalog": "nobody"}, "PYICEBERG_CATALOG__NOBODY__URI"),
        ({"table": "ads.scores", "catalog": "here", "day": "ds"}, "no column 'ds'"),
        ({"table": "ads.scores", "catalog": "here", "version": 7}, "no snapshot 7"),
    ],
)
def test_what_an_iceberg_catalogue_does_not_have_is_said(catalog, given, words):
    catalog.create_table("ads.scores", schema=BOTH.to_arrow().schema).append(BOTH.to_arrow())
    with pytest.raises(NotEvaluableError, match=words):
        find_day(TablePlace.model_validate({"day": "day"} | given), DAY)


def test_a_delta_table_that_keeps_split_in_its_log_is_refused(tmp_path):
    rows = score_rows(np.random.default_rng(0), 100)
    deltalake.write_deltalake(str(tmp_path), rows, partition_by=["split"])
    with pytest.raises(NotEvaluableError, match="keeps 'split' in its log"):
        find_day(tables(tmp_path), DAY)


OLD = EVE - dt.timedelta(days=30)


def rows(day: object, mark: int, *, name: str = "ds") -> pl.DataFrame:
    return pl.DataFrame({name: [day] * 50, "x": [mark] * 50})


def marks(seen: object) -> set[int]:
    return set(seen.sample["x"])  # type: ignore[attr-defined]


@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize(
    "spelled", rest_slow([str, lambda day: day, lambda day: int(f"{day:%Y%m%d}")], always=2)
)
def test_a_delta_tables_newest_day_is_told_by_partition_or_by_statistics(
    tmp_path, spelled, *, partitioned
):
    for mark, day in enumerate((EVE, DAY, OLD)):
        by = ["ds"] if partitioned else None
        written = rows(spelled(day), mark)
        deltalake.write_deltalake(str(tmp_path), written, mode="append", partition_by=by)
    seen = look(str(tmp_path))
    assert seen.newest["ds"] == DAY
    assert marks(seen) == {1}
    assert seen.folders == (("ds",) if partitioned else ())
    assert ("ds" in seen.sample.columns) != partitioned
    place = TablePlace(table=str(tmp_path), day="ds")
    assert newest_day(place) == DAY
    assert newest_day(place.model_copy(update={"version": 0})) == EVE
    assert newest_day(place.model_copy(update={"day": "x"})) is None


def test_files_that_a_delta_table_no_longer_has_are_not_looked_at(tmp_path):
    deltalake.write_deltalake(str(tmp_path), rows(DAY, 0))
    deltalake.write_deltalake(str(tmp_path), rows(EVE, 1), mode="overwrite")
    rows(DAY + dt.timedelta(days=9), 2).write_parquet(tmp_path / "zz-stray.parquet")
    seen = look(str(tmp_path))
    assert (marks(seen), seen.newest["ds"]) == ({1}, EVE)
    deltalake.DeltaTable(str(tmp_path)).delete()
    with pytest.raises(NotEvaluableError, match="has no files yet"):
        look(str(tmp_path))


def test_the_day_that_was_named_decides_which_file_is_looked_at(tmp_path):
    for mark, (sent, day) in enumerate(((DAY, EVE), (EVE, DAY))):
        frame = rows(day, mark).with_columns(sent=pl.lit(sent))
        deltalake.write_deltalake(str(tmp_path), frame, mode="append")
    assert marks(look(str(tmp_path), day="sent")) == {0}
    assert marks(look(str(tmp_path), day="ds")) == {1}


@pytest.mark.parametrize("text", [True, False])
def test_the_newest_day_of_an_iceberg_table_is_looked_at(catalog, *, text):
    table = None
    for mark, day in enumerate((EVE, DAY, OLD)):
        content = rows(str(day) if text else day, mark).to_arrow()
        table = table or catalog.create_table("ads.scores", schema=content.schema)
        table.append(content)
    seen = look("ads.scores", catalog="here")
    assert (seen.newest["ds"], marks(seen), seen.folders) == (DAY, {1}, ())
    with pytest.raises(NotEvaluableError, match=r"has no table ads\.others"):
        look("ads.others", catalog="here")
    place = TablePlace(table="ads.scores", catalog="here", day="ds")
    assert newest_day(place) == DAY
    assert table is not None
    pinned = place.model_copy(update={"version": table.metadata.snapshots[0].snapshot_id})
    assert newest_day(pinned) == EVE
    assert newest_day(place.model_copy(update={"day": "x"})) is None


@pytest.mark.parametrize("words", [("2026-03-01", "2026-03-02"), ("20260301", "20260302")])
def test_folders_name_their_newest_day(tmp_path, words):
    for word in words:
        folder = tmp_path / f"ds={word}" / "country=DE"
        folder.mkdir(parents=True)
        rows(DAY, 0).write_parquet(folder / "part.parquet")
    (tmp_path / "ds=later").mkdir()
    assert newest_day(TablePlace(table=str(tmp_path), day="ds")) == DAY
    assert newest_day(TablePlace(table=str(tmp_path), day="day")) is None
    with pytest.raises(NotEvaluableError, match="and holds no file: check the address"):
        newest_day(TablePlace(table=str(tmp_path / "none"), day="ds"))


@pytest.mark.parametrize(
    "folders",
    [
        (f"day={DAY}", "day=20260302"),
        (f"day={DAY}", f"day=2026-03-01/day={DAY}"),
        ("year=2026/month=03/day=02", "year=2026/month=3/day=2"),
        ("day=2026-3-2", f"day={DAY}"),
        (f"day={DAY}", f"day={DAY} 05%3A00%3A00"),
        (f"day={DAY} 05%3A00%3A00", f"day={DAY} 05%3A00%3A00.000"),
        (f"day={DAY}T05%3A00%3A00Z", f"day={DAY} 05%3A00%3A00"),
    ],
)
def test_a_day_of_two_spellings_is_refused(tmp_path, folders):
    """Rows that lie there twice prove twice: 5.49 became 6.01."""
    put(tmp_path, *folders)
    with pytest.raises(NotEvaluableError, match="has the day twice, as day = 2026-03-0"):
        find_day(place(tmp_path), DAY)


def test_a_day_has_one_spelling_in_a_column_and_in_a_delta_table(tmp_path):
    rows = score_rows(np.random.default_rng(0), 100)
    words = pl.Series("day", ["2026-03-02", "20260302"])
    with pytest.raises(NotEvaluableError, match="spells the day"):
        days_of(words, DAY, "UTC", "x.parquet", said="scores.day")
    place = str(tmp_path / "delta")
    for day in words:
        said = rows.with_columns(day=pl.lit(day))
        deltalake.write_deltalake(place, said, partition_by=["day"], mode="append")
    with pytest.raises(NotEvaluableError, match="has the day twice"):
        find_day(tables(place), DAY)


def test_text_that_rows_share_is_held_once(tmp_path):
    """A file of 16 kB became 16 GB of `privaudit memorization`: here 2 kB would be 400 MB."""
    shared = pa.DictionaryArray.from_arrays([0, 1, None, 1] * 250, ["a", "x" * 800_000])
    with pq.ParquetWriter(tmp_path / "t.parquet", pa.schema([("text", shared.type)])) as file:
        for _ in range(2):
            file.write_table(pa.table({"text": shared}))
    before = pa.total_allocated_bytes()
    found = read_rows(str(tmp_path / "t.parquet"))
    assert pa.total_allocated_bytes() - before < 10_000_000
    assert found.schema == {"text": pl.String}
    lengths = found["text"].str.len_bytes().to_list()
    assert lengths == [1, 800_000, None, 800_000] * 500


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"text": ["x" * 6_000]}, "1 rows in 6,"),
        ({"text": [[7] * 700]}, "700 values in a column"),
        ({f"f{place}": [1.5] * 10 for place in range(63)}, "10 rows of 63 columns"),
        ({"text": ["x" * 4_500]}, "bytes that are held at once, with t.parquet"),
    ],
)
def test_a_table_is_read_within_a_bound(tmp_path, columns, words):
    """Row groups have at most half of 10,000 bytes, whatever they are packed to."""
    path = tmp_path / "t.parquet"
    table, runs = pa.table(columns), ["text.list.element"]
    with pq.ParquetWriter(path, table.schema, compression="zstd", use_dictionary=runs) as file:
        for _ in range(3):
            file.write_table(table)
    assert read_rows(str(path), most=1_000_000).height == 3 * table.num_rows
    with pytest.raises(NotEvaluableError, match=words) as caught:
        read_rows(str(path), most=10_000)
    assert caught.value.reason == Reason.TOO_LARGE


# Delta logs that were written by somebody who wants the night to end


@pytest.fixture
def table(tmp_path):
    deltalake.write_deltalake(str(tmp_path / "t"), BOTH[3:])
    return tmp_path / "t"


def refused(table: pathlib.Path) -> NotEvaluableError:
    with pytest.raises(NotEvaluableError) as caught:
        find_day(place(table), DAY)
    return caught.value


def make_bomb(table: pathlib.Path, *, copies: int) -> int:
    """Let the log's checkpoint list one file many times, under a long name; return its bytes."""
    deltalake.DeltaTable(str(table)).create_checkpoint()
    checkpoint = table / "_delta_log" / "00000000000000000000.checkpoint.parquet"
    before = pq.read_table(checkpoint)
    added = next(row for row in before.to_pylist() if row["add"])
    added["add"]["path"] = "x" * 2000
    bomb = pa.Table.from_pylist([added], before.schema).take(pa.array([0] * copies))
    pq.write_table(pa.concat_tables([before, bomb]), checkpoint, compression="zstd")
    first_log(table).unlink()
    told = {"version": 0, "size": before.num_rows + copies}
    (table / "_delta_log" / "_last_checkpoint").write_text(json.dumps(told))
    return checkpoint.stat().st_size


@pytest.mark.slow
def test_a_checkpoint_that_unpacks_to_gigabytes_takes_none_of_this_process(table):
    assert make_bomb(table, copies=1_000_000) < 1_000_000  # to 2.4 GB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error = refused(table)
    assert (error.reason, "and 4 GiB of memory" in error.sentence) == (Reason.TOO_LARGE, True)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 500_000  # kilobytes; making the bomb took what it took


@pytest.mark.slow
def test_a_delta_log_of_3_000_commits_and_no_checkpoint_is_read(table):
    """Its reader starts up to 512 threads. That a listed file is gone shows that it was read."""
    (added,) = (line for line in first_log(table).read_text().splitlines() if '"add"' in line)
    for version in range(1, 3_000):
        log = table / "_delta_log" / f"{version:020}.json"
        log.write_text(added.replace('"path":"', f'"path":"{version}-', 1) + "\n")
    assert "which is gone" in refused(table).sentence


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[" * 100_000, b"\xff\xfe", b'{"add":{"path":"x"}}', b'{"protocol":{}}'],
    ids=lambda content: ascii(content[:20]),
)
def test_a_damaged_commit_is_said(table, content):
    first_log(table).write_bytes(content)
    error = refused(table)
    assert error.reason in {Reason.PATH_UNREADABLE, Reason.MISSING_LABELS}
    assert str(table) in error.sentence
