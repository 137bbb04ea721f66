"""Labels that were written after their day's audit, and that training read."""

import datetime as dt
import os
import pathlib

import deltalake
import polars as pl
import pytest

from tests.support.lake import DAY, EVE
from tests.support.warehouse import START, evaluated
from workers.lake.layout import Lake
from workers.warehouse.late_labels import late_labels
from workers.warehouse.store import Warehouse


def unknown(dataset: str, day: dt.date, audited: str) -> None:
    """Not to be asked: the audits here kept no digest of their rows."""
    raise AssertionError((dataset, day, audited))


@pytest.fixture
def audited(tmp_path: pathlib.Path) -> tuple[Lake, Warehouse, pathlib.Path]:
    """Return a lake with a file of the day before, and the record of that day's audit."""
    file = tmp_path / "lake" / "labels" / "clicks" / f"day={EVE}" / "part.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"rows")
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    warehouse.commit(evaluated("ads", EVE, dataset="clicks"))
    return Lake(str(tmp_path / "lake")), warehouse, file


@pytest.mark.parametrize(
    ("since", "minutes", "told"), [(EVE, 60, True), (EVE, 5, False), (None, 60, False)]
)
@pytest.mark.parametrize("name", ["part.parquet", "part.parquet.gz"])
def test_labels_that_came_after_their_audit_are_told_where_training_read_them(
    audited: tuple[Lake, Warehouse, pathlib.Path],
    since: dt.date | None,
    minutes: int,
    told: bool,
    name: str,
) -> None:
    """No night plays them, and nothing was said."""
    lake, warehouse, first = audited
    file = first.rename(first.with_name(name))
    written = (START + dt.timedelta(minutes=minutes)).timestamp()
    os.utime(file, (written, written))
    tonight = evaluated("ads", DAY, hour=24, dataset="clicks", trained_since=since).audit
    found = list(late_labels([tonight], lake, warehouse, unknown))
    assert [row.audit_id for row, _ in found] == [tonight.audit_id] * told
    assert all(f"{name!r} among them was written on" in sentence for _, sentence in found)
    if told:
        played = tonight.model_copy(update={"label_days": (EVE, DAY)})
        assert list(late_labels([played], lake, warehouse, unknown)) == []
        file.unlink()
        assert list(late_labels([tonight], lake, warehouse, unknown)) == []


def test_a_forged_row_without_a_time_ends_no_alert(
    audited: tuple[Lake, Warehouse, pathlib.Path],
) -> None:
    lake, warehouse, _ = audited
    path = warehouse.path("audits")
    rows = pl.read_delta(path).with_columns(
        audit_id=pl.lit("f" * 32), recorded_at=pl.lit(None, dtype=pl.Datetime("us", "UTC"))
    )
    deltalake.write_deltalake(path, rows.with_columns(revision=9), mode="append")
    tonight = evaluated("ads", DAY, hour=24, dataset="clicks", trained_since=EVE).audit
    assert list(late_labels([tonight], lake, warehouse, unknown)) == []
