"""Tables with more rows than are joined at once: bucket by bucket, and by several workers."""

import datetime as dt
import pathlib

import deltalake
import polars as pl
import pytest
from pyarrow import fs

import workers.sources.scores.joined
from tests.support.audits import run_audits
from tests.support.joined_tables import IN_PROCESS, ROWS, Tables, audited, world
from tests.support.lake import DAY, declared
from tests.support.object_store import empty_bucket, object_store
from tests.support.score_tables import EMPTY_LAKE
from workers.audit.request import Request
from workers.executors import on_ray
from workers.lake.layout import Lake
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores


@pytest.fixture
def dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a worker join 1,100 rows at once: the three tables come to eleven buckets."""
    monkeypatch.setattr(workers.sources.scores.joined, "ROWS_OF_BUCKET", 1_100)


@pytest.mark.slow
@pytest.mark.usefixtures("dealt")
def test_dealt_records_are_joined_as_all_at_once(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = pl.col("event_id").str.slice(1)
    tables.labels = pl.concat([tables.labels, tables.labels[:50]])
    tables.target = pl.concat([tables.target[3:], tables.target[:3].with_columns(p=0.5)]).extend(
        tables.target[:3]
    )
    tables.proxy = tables.proxy.with_columns(event_id=number)[:-7]
    tables.target = tables.target.with_columns(record=pl.col("record").str.slice(1))
    nameless = pl.when(pl.int_range(pl.len()) >= 2).then(number.cast(pl.Int64))
    tables.labels = tables.labels.with_columns(event_id=nameless)
    given = tables.put()
    dealt = audited(given, max_bad_records=100)
    assert dealt.status == "evaluated", dealt.reason
    monkeypatch.setattr(workers.sources.scores.joined, "ROWS_OF_BUCKET", 1 << 22)
    at_once = audited(given, max_bad_records=100)
    assert at_once.records + at_once.control_records > ROWS - 13
    # Streams are the files' own, so what is drawn differs; what is counted does not.
    same = ("records", "control_records", "verdict", "target_log_loss", "epsilon_if_proxy_right")
    for name in same:
        assert getattr(dealt, name) == getattr(at_once, name)
    assert dealt.reason.partition(",")[2] == at_once.reason.partition(",")[2]
    assert audited(given).reason.startswith("2 rows of")


@pytest.mark.slow
@pytest.mark.usefixtures("dealt")
def test_the_same_rows_in_other_files_are_dealt_into_the_same(tables: Tables) -> None:
    """Digest and figures depend on the rows alone, not on how tables are cut."""
    at = pl.datetime(DAY.year, DAY.month, DAY.day, 12)
    tables.labels = tables.labels.with_columns(known=at)
    corrected = tables.labels.with_columns(known=at + pl.duration(minutes=1))
    tables.labels = pl.concat(
        [tables.labels.with_columns(clicked=pl.col("clicked") * 0), corrected]
    )
    given = tables.put().model_copy(update={"known_at": "known"})
    one = audited(given)
    assert (one.status, one.verdict) == ("evaluated", "violated")
    folder = tables.folder / "labels" / f"day={DAY}"
    again = tables.labels.drop("day").sample(fraction=1.0, shuffle=True, seed=4)
    (folder / "part.parquet").unlink()
    again[:3_000].write_parquet(folder / "a.parquet", row_group_size=170)
    again[3_000:].write_parquet(folder / "b.parquet", row_group_size=5_000)
    again[:0].write_parquet(folder / "c.parquet")
    other = audited(given)
    assert other.labels_digest == one.labels_digest
    assert other.epsilon_game == one.epsilon_game
    assert other.epsilon_lower == one.epsilon_lower


@pytest.mark.slow
@pytest.mark.usefixtures("dealt")
def test_a_table_without_rows_is_said(tables: Tables) -> None:
    tables.labels = tables.labels[:0]
    row = audited(tables.put())
    assert row.status == "not_evaluable"
    tables.folder = tables.folder / "again"
    tables.labels, tables.target = (
        world().select("day", "event_id", "clicked", "split"),
        tables.target[:0],
    )
    row = audited(tables.put())
    assert row.reason_code in {"record_unjoined", "missing_labels"}


@pytest.mark.slow
@pytest.mark.usefixtures("dealt")
def test_joined_rows_lie_in_the_staging_area_until_all_is_done(
    tables: Tables, tmp_path: pathlib.Path
) -> None:
    staging, seen = tmp_path / "warehouse" / "_staging", []
    request = Request("ads", Plan(repetitions=4), external_inputs=SuppliedScores(tables.put()))

    def look(done: int, _: int) -> None:
        if done == 1:
            (room,) = staging.glob("*.rows")
            assert room.stat().st_mode & 0o777 == 0o700
            seen.extend(sorted(path.name.partition("-")[0] for path in room.iterdir()))

    (record,) = run_audits(
        EMPTY_LAKE, DAY, [request], executor=IN_PROCESS, staging=str(staging), progress=look
    )
    assert record.audit.status == "evaluated"
    assert seen.count("joined") == 11
    assert list(staging.iterdir()) == []


@pytest.mark.usefixtures("dealt")
def test_after_the_deadline_nothing_is_joined(tables: Tables, tmp_path: pathlib.Path) -> None:
    over = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    request = Request("ads", Plan(repetitions=4), external_inputs=SuppliedScores(tables.put()))
    (record,) = run_audits(
        EMPTY_LAKE,
        DAY,
        [request],
        executor=IN_PROCESS,
        staging=str(tmp_path / "staged"),
        deadline=over,
    )
    assert record.audit.reason_code == "deadline"
    assert "before the tables were joined" in str(record.audit.reason)
    assert list((tmp_path / "staged").iterdir()) == []


@pytest.mark.usefixtures("dealt")
@pytest.mark.slow
def test_workers_on_ray_join_to_the_same(tables: Tables) -> None:
    given = tables.put()
    here = audited(given)
    with on_ray(cpus=2) as ray:
        there = audited(given, ray)
    assert there.labels_digest == here.labels_digest
    assert there.audit_id == here.audit_id
    assert (there.epsilon_game, there.epsilon_lower) == (here.epsilon_game, here.epsilon_lower)


@pytest.mark.slow
@pytest.mark.usefixtures("dealt")
def test_workers_on_ray_join_over_object_storage_to_the_same(tables: Tables) -> None:
    """Dealt and joined rows lie below the warehouse, where all workers reach them."""
    here = audited(given := tables.put())
    with object_store() as endpoint, empty_bucket(endpoint) as bucket:
        store = Lake(bucket)
        fs.copy_files(
            str(tables.folder), "", source_filesystem=fs.LocalFileSystem(),
            destination_filesystem=store.files,
        )  # fmt: skip
        there = {
            role: getattr(given, role).model_copy(update={"table": f"{bucket}/{role}"})
            for role in ("target", "proxy")
        }
        moved = given.model_copy(update={"table": f"{bucket}/labels", **there})
        supplied = SuppliedScores(moved, Privacy.model_validate(declared(0.5)))
        request = Request("ads", Plan(repetitions=4), external_inputs=supplied)
        staging, seen = f"{bucket}/warehouse/_staging", set()

        def look(*_: int) -> None:
            seen.update(path.rpartition("/")[2] for path in names(store, "warehouse"))

        with on_ray(cpus=2) as ray:
            (record,) = run_audits(
                EMPTY_LAKE, DAY, [request], executor=ray, staging=staging, progress=look
            )
        assert {name for name in seen if name.startswith("joined")}
        assert names(store, "warehouse") == []
    row = record.audit
    assert (row.labels_digest, row.epsilon_game) == (here.labels_digest, here.epsilon_game)


def names(store: Lake, below: str) -> list[str]:
    selector = fs.FileSelector(below, recursive=True, allow_not_found=True)
    entries = store.files.get_file_info(selector)
    return [entry.path for entry in entries if entry.type == fs.FileType.File]


@pytest.mark.slow
@pytest.mark.parametrize("rows_at_once", [1 << 20, 1_100], ids=["one bucket", "several buckets"])
@pytest.mark.parametrize("word", [None, "soon"])
def test_rows_without_a_day_are_told(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, word: str | None, rows_at_once: int
) -> None:
    """Rows that leak were in no day of either table: 4.3 became 0, unsaid."""
    monkeypatch.setattr(workers.sources.scores.joined, "ROWS_OF_BUCKET", rows_at_once)
    frame = world().with_columns(day=pl.lit(str(DAY)), kept=pl.int_range(pl.len()) % 3 == 0)
    for told in (False, True):
        undated = (pl.col("split") == "train") & ~pl.col("kept") & told
        rows = frame.with_columns(
            day=pl.when(undated).then(pl.lit(word, pl.String)).otherwise("day")
        )
        folder = tables.folder / str(told)
        deltalake.write_deltalake(str(folder / "first"), rows.drop("p_today", "kept"))
        deltalake.write_deltalake(str(folder / "target"), rows.select("day", "event_id", "p_today"))
        row = audited(
            ScoreTables.model_validate(
                {
                    "table": str(folder / "first"),
                    "record": "event_id",
                    "label": "clicked",
                    "target": {"table": str(folder / "target"), "column": "p_today"},
                    "proxy": "p_yesterday",
                }
            )
        )
        assert ("are of no day, or have no time" in row.reason) is told, row.reason
