"""Whether a day's rows are those that were audited, where its files were written anew."""

import datetime as dt
import os
import pathlib
from collections.abc import Callable

import polars as pl
import pytest

from privcore.lower_bounds.secret import Secret
from tests.support.lake import DAY, EVE, edit_manifest, label_path, small_lake
from workers.audit import rows_again
from workers.audit.rows_again import RowsAgain
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.plan import Plan
from workers.warehouse.late_labels import late_labels
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import Warehouse

BEFORE = EVE - dt.timedelta(days=1)
COMPACTED = dt.timedelta(minutes=30)


@pytest.fixture
def nights(tmp_path: pathlib.Path) -> tuple[Lake, Warehouse, AuditRow]:
    """Return a lake whose model reads two days, with the audits of both; the last is an hour on."""
    lake = small_lake(tmp_path / "lake", days=(BEFORE, EVE, DAY))
    warehouse, rows = Warehouse(str(tmp_path / "warehouse")), []
    for day in (EVE, DAY):
        first = day - dt.timedelta(days=1)
        edit_manifest(
            lake,
            "good",
            day,
            trained_on={"first": str(first), "last": str(day), "split": "train"},
        )
        record = run_audit(lake, "good", day, plan=Plan(repetitions=2), executor=InProcess())
        assert record.audit.rows_digest is not None
        warehouse.commit(record)
        rows.append(record.audit)
    later = rows[1].recorded_at + dt.timedelta(hours=1)
    return lake, warehouse, rows[1].model_copy(update={"recorded_at": later})


def rewrite(lake: Lake, frame: pl.DataFrame) -> None:
    """Write the rows of the day before anew, as a nightly compaction would."""
    path = label_path(lake, "flights", EVE)
    path.unlink()
    other = path.with_name("compacted.parquet")
    frame.write_parquet(other, compression="zstd", row_group_size=frame.height)
    written = (dt.datetime.now(dt.UTC) + COMPACTED).timestamp()
    os.utime(other, (written, written))


def told(lake: Lake, warehouse: Warehouse, tonight: AuditRow) -> list[str]:
    """Return what the night says of labels that came after their audit."""
    return [one for _, one in late_labels([tonight], lake, warehouse, RowsAgain(lake).same)]


def exchanged(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with the labels of two of them exchanged."""
    labels = frame["late"].to_list()
    place = labels.index(1 - labels[0])
    labels[0], labels[place] = labels[place], labels[0]
    return frame.with_columns(pl.Series("late", labels, dtype=frame["late"].dtype))


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda frame: frame.sample(fraction=1.0, shuffle=True, seed=2), True),
        (exchanged, False),
        (lambda frame: pl.concat([frame, frame.head(1)]), False),
        (lambda frame: pl.concat([frame.tail(-1), frame.tail(1)]), False),
        (lambda frame: frame.with_columns(split=pl.lit("train")), False),
    ],
)
def test_a_compaction_is_no_alert_unless_rows_changed(
    nights: tuple[Lake, Warehouse, AuditRow],
    change: Callable[[pl.DataFrame], pl.DataFrame],
    same: bool,
) -> None:
    """Each nightly compaction of an old partition was a false alert."""
    lake, warehouse, tonight = nights
    rewrite(lake, change(pl.read_parquet(label_path(lake, "flights", EVE))))
    found = told(lake, warehouse, tonight)
    assert len(found) == (not same)
    assert all(
        "are no longer those that were audited: audit that day again" in one for one in found
    )


def test_no_digest_is_kept_that_nobody_may_ask_for(
    nights: tuple[Lake, Warehouse, AuditRow],
) -> None:
    lake, _, _ = nights
    plan = Plan(repetitions=2, secret=Secret.MEMBERSHIP)
    record = run_audit(lake, "good", DAY, plan=plan, executor=InProcess())
    assert record.audit.rows_digest is None


def test_what_cannot_be_compared_is_said(
    nights: tuple[Lake, Warehouse, AuditRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an alert as if rows had come, nor silence."""
    lake, warehouse, tonight = nights
    rewrite(lake, pl.read_parquet(label_path(lake, "flights", EVE)))
    monkeypatch.setattr(rows_again, "_MOST_BYTES", 10)
    (sentence,) = told(lake, warehouse, tonight)
    assert "could not be compared" in sentence
    assert "Unless the same rows were only written anew" in sentence


def test_a_file_that_is_not_read_is_told_beside_a_compaction(
    nights: tuple[Lake, Warehouse, AuditRow],
) -> None:
    """The digest is of rows that are read; those of other files may have been trained on."""
    lake, warehouse, tonight = nights
    rewrite(lake, pl.read_parquet(label_path(lake, "flights", EVE)))
    path = label_path(lake, "flights", EVE).with_name("compacted.parquet")
    beside = path.with_name("more.parquet.gz")
    beside.write_bytes(b"rows")
    os.utime(beside, (path.stat().st_mtime, path.stat().st_mtime))
    assert len(told(lake, warehouse, tonight)) == 1


def test_a_day_is_read_once_for_all_models_of_the_same_columns(
    nights: tuple[Lake, Warehouse, AuditRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, _, tonight = nights
    found, asked = RowsAgain(lake), str(tonight.rows_digest)
    assert found.same("flights", DAY, asked) is True
    monkeypatch.setattr(rows_again, "find_partition", None)  # a second read would end here
    assert found.same("flights", DAY, asked) is True
    assert found.same("flights", DAY, "no digest") is None


def test_a_night_reads_for_two_minutes_at_most(
    nights: tuple[Lake, Warehouse, AuditRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 10,000 row groups of one row each takes two minutes, and 1 MB."""
    lake, _, tonight = nights
    monkeypatch.setattr(rows_again, "_MOST_SECONDS", -1.0)
    assert RowsAgain(lake).same("flights", DAY, str(tonight.rows_digest)) is None


@pytest.mark.parametrize("damage", ["gone", "damaged", "a column less"])
def test_rows_that_cannot_be_read_are_unknown(
    nights: tuple[Lake, Warehouse, AuditRow], damage: str
) -> None:
    lake, _, tonight = nights
    path = label_path(lake, "flights", DAY)
    if damage == "gone":
        path.unlink()
    elif damage == "damaged":
        path.write_bytes(path.read_bytes()[:-5])
    else:
        pl.read_parquet(path).drop("city").write_parquet(path)
    assert RowsAgain(lake).same("flights", DAY, str(tonight.rows_digest)) is None
