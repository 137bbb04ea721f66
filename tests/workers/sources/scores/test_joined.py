"""Labels, target and proxy in three tables, joined by record."""

import datetime as dt
import pathlib
import tempfile
from typing import Any

import deltalake
import numpy as np
import polars as pl
import pytest
from pyarrow import fs

import workers.sources.scores.joined
from privcore.exceptions import TransientError
from tests.support.audits import run_audits
from tests.support.lake import DAY, EVE, declared
from tests.support.object_store import empty_bucket, object_store
from tests.support.score_tables import EMPTY_LAKE, audit, put_folder, score_rows
from tests.support.score_tables import tables as named
from workers.audit.rehearsal import rehearse
from workers.audit.request import Request
from workers.audit.verify import Finding, verify
from workers.exceptions import NotEvaluableError
from workers.executors import InProcess, on_ray
from workers.lake.layout import Lake
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRecord, AuditRow

ROWS = 4_000
PRIVACY = Privacy.model_validate(declared(0.5))


def world() -> pl.DataFrame:
    frame = score_rows(np.random.default_rng(1), ROWS, leak=3.0)
    return frame.insert_column(1, pl.Series("event_id", [f"e{number}" for number in range(ROWS)]))


class Tables:
    """Three tables of one world, of three kinds, which a test may damage before they are joined."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        frame = world().sample(fraction=1.0, shuffle=True, seed=1)
        self.labels = frame.select("day", "event_id", "clicked", "split")
        self.target = frame.select("day", record="event_id", p="p_today").reverse()
        self.proxy = frame.select(ds=pl.col("day").dt.strftime("%Y%m%d"), event_id="event_id",
                                  p="p_yesterday")  # fmt: skip

    def put(self) -> ScoreTables:
        put_folder(self.folder / "labels", self.labels)
        for name in ("target", "proxy"):
            deltalake.write_deltalake(str(self.folder / name), getattr(self, name))
        target = {"table": str(self.folder / "target"), "column": "p", "record": "record"}
        proxy = {"table": str(self.folder / "proxy"), "column": "p", "day": "ds"}
        return named(self.folder / "labels", record="event_id", target=target, proxy=proxy)


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    return Tables(tmp_path)


def audited(tables: ScoreTables, **plan: Any) -> AuditRow:
    row = audit(tables, privacy=declared(0.5), plan=Plan(repetitions=4, **plan)).audit
    assert list(pathlib.Path(tempfile.gettempdir()).iterdir()) == []
    return row


def requested(tables: ScoreTables, privacy: Privacy | None = PRIVACY, **plan: Any) -> Request:
    supplied = SuppliedScores(tables, privacy)
    return Request("ads", Plan(repetitions=4, **plan), external_inputs=supplied)


def recorded(tables: ScoreTables, **given: Any) -> AuditRecord:
    """Return the record of an audit without a declaration."""
    given = {"executor": InProcess()} | given
    (record,) = run_audits(EMPTY_LAKE, DAY, [requested(tables, None)], **given)
    return record


@pytest.mark.parametrize(
    ("labels", "target", "proxy"),
    [(pl.Int64, pl.String, pl.String), (pl.Int16, pl.UInt64, pl.Int64)],
    ids=["numbers and text", "numbers of different sizes"],
)
def test_records_named_by_other_kinds_here_and_there_are_joined(tables, labels, target, proxy):
    number = pl.col("event_id").str.slice(1)
    tables.labels = tables.labels.with_columns(event_id=number.cast(labels))
    tables.target = tables.target.with_columns(record=pl.col("record").str.slice(1).cast(target))
    tables.proxy = tables.proxy.with_columns(event_id=number.cast(proxy))
    assert audited(tables.put()).verdict == "violated"


NOON = pl.datetime(DAY.year, DAY.month, DAY.day, 12)


def withdrawn(labels: pl.DataFrame) -> pl.DataFrame:
    first = labels.with_columns(known=NOON)
    none = pl.lit(None, dtype=first.schema["clicked"])
    gone = first.head(3).with_columns(clicked=none, known=NOON + pl.duration(hours=1))
    return pl.concat([first, gone])


@pytest.mark.parametrize(
    ("role", "damage", "changes", "words"),
    [
        ("target", lambda rows: rows.with_columns(record=pl.col("record") + "x"), {},
         f"record_unjoined: {ROWS:,} records have no row in"),
        ("proxy", lambda rows: rows.with_columns(event_id=pl.int_range(pl.len()).cast(pl.Float64)),
         {}, "label_invalid: stores 'event_id', scores.record, as double"),
        ("proxy", lambda rows: rows.rename({"p": "score"}), {},
         "label_invalid: it has ds, event_id, score"),
        ("labels", lambda rows: rows.rename({"split": "proxy: p"}), {"split": "proxy: p"},
         "label_invalid: would have two columns 'proxy: p': rename the first table's"),
        ("labels", withdrawn, {"known_at": "known"}, "label_invalid: 3"),
    ],
)  # fmt: skip
def test_what_cannot_be_joined_is_said(tables, role, damage, changes, words):
    setattr(tables, role, damage(getattr(tables, role)))
    row = audited(tables.put().model_copy(update=changes))
    assert row.status == "not_evaluable"
    detail, *said = words.split(": ", 1)
    assert (row.detail, all(one in row.reason for one in said)) == (detail, True), row.reason


def test_rows_that_name_no_record_are_counted(tables):
    nameless = pl.when(pl.int_range(pl.len()) >= 7).then(pl.col("event_id"))
    tables.labels = tables.labels.with_columns(event_id=nameless)
    given = tables.put()
    row = audited(given)
    assert row.detail == "record_unjoined"
    assert "7 rows of" in str(row.reason)
    assert "have no value in 'event_id', scores.record" in str(row.reason)
    assert audited(given, max_bad_records=7).status == "evaluated"


def test_three_tables_are_the_audit_of_one(tables, tmp_path):
    joined = audited(tables.put())
    alone = audited(named(put_folder(tmp_path / "one", world())))
    assert (joined.status, joined.verdict) == ("evaluated", "violated")
    # Streams are the files' own, so what is drawn differs; what is counted does not.
    for name in ("records", "control_records", "epsilon_if_proxy_right", "target_log_loss"):
        assert getattr(joined, name) == getattr(alone, name)
    assert joined.epsilon_lower == pytest.approx(alone.epsilon_lower, abs=0.3)


@pytest.mark.slow
def test_records_that_a_table_lacks_are_counted_and_bounded(tables):
    tables.target = tables.target.filter(pl.col("record") != "e7")
    tables.proxy = tables.proxy[:-5]
    given = tables.put()
    row = audited(given)
    assert (row.status, row.detail) == ("not_evaluable", "record_unjoined")
    assert "max_bad_records is 0" in row.reason
    # `privaudit check` refuses what the audit refuses, in its words.
    with pytest.raises(NotEvaluableError) as refused:
        rehearse(EMPTY_LAKE, DAY, requested(given))
    assert (refused.value.reason, refused.value.sentence) == (row.detail, row.reason)
    row = audited(given, max_bad_records=6)
    assert row.status == "evaluated"
    assert row.records + row.control_records + 6 == ROWS
    assert "record_unjoined 6" in row.reason
    tried = rehearse(EMPTY_LAKE, DAY, requested(given, max_bad_records=6))
    assert (tried.training, tried.holdout) == (row.records, row.control_records)


@pytest.mark.slow
def test_the_same_row_twice_is_one_and_two_values_for_one_record_are_bad(tables):
    once = audited(tables.put())
    again = Tables(tables.folder / "twice")
    again.labels = pl.concat([again.labels, again.labels[:50]])
    again.target = pl.concat([again.target, again.target])
    twice = audited(again.put())
    assert (twice.records, twice.epsilon_lower) == (once.records, once.epsilon_lower)
    differ = Tables(tables.folder / "differ")
    corrected = differ.labels[:3].with_columns(clicked=1 - pl.col("clicked"))
    differ.labels = pl.concat([differ.labels, corrected])
    given = differ.put()
    left = audited(given, max_bad_records=3)
    assert left.records + left.control_records + 3 == ROWS
    row = audited(given)
    assert row.detail == "record_repeated"
    assert "3 records of" in row.reason
    assert "name scores.known_at if labels were corrected" in row.reason


def test_of_corrected_labels_the_last_that_training_could_know_counts(tables):
    first = tables.labels.with_columns(clicked=1 - pl.col("clicked"), known=NOON)
    mended = tables.labels.with_columns(known=NOON + pl.duration(hours=1))
    late = first.with_columns(known=NOON + pl.duration(hours=24))
    tables.labels = pl.concat([first, mended, late])
    row = audited(tables.put().model_copy(update={"known_at": "known"}))
    assert (row.status, row.verdict) == ("evaluated", "violated")
    assert row.records + row.control_records == ROWS


def test_another_days_rows_and_rows_without_a_name_are_not_joined(tables):
    tables.target = pl.concat(
        [tables.target, tables.target.with_columns(day=pl.lit(EVE), p=pl.lit(0.5))]
    )
    nameless = pl.DataFrame({"ds": [f"{DAY:%Y%m%d}"], "event_id": [None], "p": [0.5]},
                            schema=tables.proxy.schema)  # fmt: skip
    tables.proxy = pl.concat([tables.proxy, nameless])
    row = audited(tables.put())
    assert row.status == "evaluated"
    assert row.records + row.control_records == ROWS


def test_columns_may_be_called_as_anything(tables):
    names = {"clicked": "record", "split": "rows", "event_id": "differ"}
    tables.labels = tables.labels.rename(names)
    tables.proxy = tables.proxy.rename({"event_id": "differ"})
    changes = {"label": "record", "record": "differ", "split": "rows"}
    assert audited(tables.put().model_copy(update=changes)).verdict == "violated"


@pytest.mark.parametrize(
    ("most", "left", "fits"),
    [(1 << 17, 1 << 40, False), (1 << 40, 1 << 19, False), (1 << 20, None, True)],
)
def test_tables_that_the_memory_does_not_hold_are_refused(
    tables, limit, monkeypatch, most, left, fits
):
    limit("JOIN_BYTES", most)
    monkeypatch.setattr(workers.sources.scores.joined, "memory_left", lambda: left)
    row = audited(tables.put())
    assert (row.detail == "too_large", row.status == "evaluated") == (not fits, fits)
    assert ("join them before the audit, into one table" in str(row.reason)) is not fits


def test_a_damaged_page_of_a_table_is_unreadable_input(tables):
    given = tables.put()
    path = next((tables.folder / "target").glob("*.parquet"))
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    row = audited(given)
    assert (row.status, row.detail) == ("not_evaluable", "labels_unreadable")
    assert "write it again" in str(row.reason)


def test_files_of_a_table_that_store_columns_otherwise_are_said(tables):
    given = tables.put()
    folder = tables.folder / "labels" / f"day={DAY}"
    rows = pl.read_parquet(folder / "part-0.parquet")
    (folder / "part-0.parquet").unlink()
    rows[:100].write_parquet(folder / "a.parquet")
    small = rows[100:].with_columns(pl.col("clicked").cast(pl.Int8))
    small.write_parquet(folder / "b.parquet")
    assert audited(given).verdict == "violated"
    small.with_columns(pl.lit("yes").alias("clicked")).write_parquet(folder / "b.parquet")
    row = audited(given)
    assert row.detail == "label_invalid"
    assert "clicked as int64" in str(row.reason)


def test_storage_that_fails_while_tables_are_read_is_tried_again(tables, monkeypatch):
    def away(*_: object) -> None:
        raise TransientError("Storage failed 7 times.")

    monkeypatch.setattr(workers.sources.scores.joined, "read_row_group", away)
    with pytest.raises(TransientError, match="Storage failed 7 times"):
        audited(tables.put())
    assert list(pathlib.Path(tempfile.gettempdir()).iterdir()) == []


@pytest.mark.slow
def test_the_same_rows_in_other_files_are_joined_to_the_same(tables):
    """Digest and figures depend on the rows alone, not on how tables are cut."""
    tables.labels = tables.labels.with_columns(known=NOON)
    corrected = tables.labels.with_columns(known=NOON + pl.duration(minutes=1))
    tables.labels = pl.concat(
        [tables.labels.with_columns(clicked=pl.col("clicked") * 0), corrected]
    )
    given = tables.put().model_copy(update={"known_at": "known"})
    record = recorded(given)
    assert verify(seal(record), EMPTY_LAKE, InProcess()).finding is Finding.REPRODUCED
    one = audited(given)
    assert (one.status, one.verdict) == ("evaluated", "violated")
    folder = tables.folder / "labels" / f"day={DAY}"
    again = tables.labels.drop("day").sample(fraction=1.0, shuffle=True, seed=4)
    (folder / "part-0.parquet").unlink()
    again[:3_000].write_parquet(folder / "a.parquet", row_group_size=170)
    again[3_000:].write_parquet(folder / "b.parquet", row_group_size=5_000)
    again[:0].write_parquet(folder / "c.parquet")
    other = audited(given)
    assert other.labels_digest == one.labels_digest
    assert other.epsilon_game == one.epsilon_game
    assert other.epsilon_lower == one.epsilon_lower


@pytest.mark.slow
def test_joined_rows_lie_in_the_staging_area_until_all_is_done(tables, tmp_path):
    staging, seen = tmp_path / "warehouse" / "_staging", []

    def look(done: int, _: int) -> None:
        if done == 1:
            (room,) = staging.glob("*.rows")
            assert room.stat().st_mode & 0o777 == 0o700
            seen.extend(path.name for path in room.iterdir())

    record = recorded(tables.put(), staging=str(staging), progress=look)
    assert record.audit.status == "evaluated"
    assert seen == ["joined.parquet"]
    assert list(staging.iterdir()) == []


def test_after_the_deadline_nothing_is_joined(tables, tmp_path):
    over = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    record = recorded(tables.put(), staging=str(tmp_path / "staged"), deadline=over)
    assert record.audit.detail == "deadline"
    assert "before the tables were joined" in str(record.audit.reason)
    assert list((tmp_path / "staged").iterdir()) == []


@pytest.mark.slow
def test_workers_on_ray_join_over_object_storage_to_the_same(tables):
    """Joined rows lie below the warehouse, where all workers reach them."""
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
        staging, seen = f"{bucket}/warehouse/_staging", set()

        def look(*_: int) -> None:
            seen.update(file.name.rpartition("/")[2] for file in store.files_below("warehouse"))

        with on_ray(cpus=2) as ray:
            (record,) = run_audits(
                EMPTY_LAKE, DAY, [requested(moved)], executor=ray, staging=staging, progress=look
            )
        assert "joined.parquet" in seen
        assert store.files_below("warehouse") == []
    row = record.audit
    assert (row.labels_digest, row.epsilon_game) == (here.labels_digest, here.epsilon_game)
