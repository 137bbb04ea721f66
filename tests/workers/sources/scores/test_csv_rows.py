"""CSV files as score tables: the same audit as of Parquet, pinned by their own bytes."""

import contextlib
import datetime as dt
import gzip
import pathlib
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.support.lake import DAY, EVE
from tests.support.score_tables import (
    EMPTY_LAKE,
    PLAN,
    audit,
    leaking_rows,
    reason_or_bound,
    score_rows,
    tables,
)
from workers.audit.verify import Finding, verify
from workers.executors import InProcess
from workers.sources.join_context import JoinContext
from workers.sources.scores.supplied import as_parquet
from workers.sources.tables.table_files import find_day, look
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRecord


def scored(day: dt.date = DAY, rows: int = 2_000) -> pl.DataFrame:
    random = np.random.default_rng(0)
    frame = score_rows(random, rows, leak=3.0, day=day)
    frame.insert_column(1, pl.Series("customer", [f"{number:06d}" for number in range(rows)]))
    return frame.with_columns(
        age=pl.Series(random.integers(18, 90, rows)),
        code=pl.Series(random.choice(["01", "02", "NA"], rows)),
    )


def counted(record: AuditRecord) -> tuple[Any, ...]:
    row = record.audit
    assert row.status == "evaluated", row.reason
    return (row.records, row.control_records, row.epsilon_if_proxy_right, row.target_log_loss)


@pytest.mark.slow
def test_a_file_folders_of_days_and_parquet_are_one_audit(tmp_path):
    frame = scored()
    both = pl.concat([scored(EVE), frame])
    both.write_csv(tmp_path / "flat.csv")
    frame.write_parquet(tmp_path / "flat.parquet")
    for day in (EVE, DAY):
        folder = tmp_path / "days" / f"day={day}"
        folder.mkdir(parents=True)
        scored(day).drop("day").write_csv(folder / "part.csv", separator=";")
    found = [audit(tables(tmp_path / name)) for name in ("flat.csv", "flat.parquet", "days")]
    assert len({counted(record) for record in found}) == 1
    assert found[0].audit.epsilon_lower > 1.0


@pytest.mark.slow
def test_the_files_own_bytes_are_pinned(tmp_path):
    place = tmp_path / "scores.csv"
    scored().write_csv(place)
    record = seal(audit(tables(place)))
    assert audit(tables(place)).audit.audit_id == record.audit.audit_id
    again = verify(record, EMPTY_LAKE, InProcess())
    assert again.finding is Finding.REPRODUCED
    # A line break at the end changes no value, and yet it is another file.
    place.write_bytes(place.read_bytes() + b"\n")
    assert verify(record, EMPTY_LAKE, InProcess()).finding is Finding.INPUTS_CHANGED


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 100_000])
def test_records_are_joined_by_their_names_across_csv_and_parquet(tmp_path, first):
    """Text in all tables, whether names look like numbers or have leading zeros."""
    frame = scored()
    names = [f"{first + number:06d}" for number in range(frame.height)]
    frame = frame.with_columns(customer=pl.Series(names))
    frame.select("day", "customer", "clicked", "split").write_csv(tmp_path / "labels.csv")
    frame.select("day", "customer", "p_today").write_parquet(tmp_path / "today.parquet")
    shuffled = frame.select("day", "customer", "p_yesterday").sample(fraction=1.0, shuffle=True)
    shuffled.write_csv(tmp_path / "served.csv")
    joined = tables(
        tmp_path / "labels.csv",
        record="customer",
        target={"table": str(tmp_path / "today.parquet"), "column": "p_today"},
        proxy={"table": str(tmp_path / "served.csv"), "column": "p_yesterday"},
    )
    frame.write_parquet(tmp_path / "whole.parquet")
    assert counted(audit(joined)) == counted(audit(tables(tmp_path / "whole.parquet")))


def test_a_feature_that_one_file_holds_as_text_is_text_in_all(tmp_path):
    for name, shop, bonus in (("a", "7", "1"), ("b", "07", "2"), ("c", "NA", "")):
        (tmp_path / f"{name}.csv").write_text(f"shop,bonus,note\n{shop},{bonus},\n")
    kinds = dict.fromkeys(("shop", "bonus", "note"), "feature")
    found = find_day(tables(tmp_path, day="day"), DAY)
    with contextlib.ExitStack() as made:
        laid = as_parquet(found, kinds, JoinContext(InProcess(), made))
        assert [file.name for file in laid.files] == ["a.csv", "b.csv", "c.csv"]
        frames = [pl.read_parquet(laid.root.read(file.name)) for file in laid.files]
    assert {frame.schema["shop"] for frame in frames} == {pl.String()}
    assert {frame.schema["bonus"] for frame in frames} == {pl.Float64()}
    assert pl.concat(frames)["shop"].to_list() == ["7", "07", "NA"]
    assert pl.concat(frames)["bonus"].to_list() == [1.0, 2.0, None]


@pytest.mark.slow
def test_persons_and_slices_are_text(tmp_path):
    scored().write_csv(tmp_path / "scores.csv")
    given = tables(tmp_path / "scores.csv")
    sliced = {"slices": ("code",), "minimum_slice_records": 20}
    record = audit(given, plan=PLAN.model_copy(update=sliced))
    assert {row.value for row in record.slices} == {"01", "02", "NA"}
    record = audit(given, plan=PLAN.model_copy(update={"privacy_unit": "customer"}))
    assert record.audit.status == "evaluated", record.audit.reason


def test_a_hash_of_what_has_no_type_holds_out_nothing(tmp_path):
    scored().write_csv(tmp_path / "scores.csv")
    record = audit(tables(tmp_path / "scores.csv", holdout="bucket(customer, 5) = 0"))
    assert record.audit.status == "not_evaluable"
    assert "both have different buckets" in record.audit.reason


def test_a_fault_is_a_record(tmp_path):
    (tmp_path / "scores.csv").write_text("day,clicked\n2026-03-02,1,1\n")
    record = audit(tables(tmp_path / "scores.csv"))
    assert (record.audit.status, record.audit.detail) == ("not_evaluable", "labels_unreadable")
    assert "no column 'split'" in record.audit.reason


@pytest.mark.parametrize("name", ["scores.csv", "day=2026-03-02/scores.csv"])
def test_a_look_finds_kinds_and_the_newest_day(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    frame = pl.concat([scored(), scored(EVE)])
    frame.rename({"day": "ds"}).write_csv(tmp_path / name)
    seen = look(str(tmp_path / name if "/" not in name else tmp_path))
    assert seen.newest["ds"] == DAY
    assert dict(seen.sample.schema) == {
        "ds": pl.Date, "customer": pl.String, "clicked": pl.Int64, "p_today": pl.Float64,
        "p_yesterday": pl.Float64, "split": pl.String, "age": pl.Int64, "code": pl.String,
    }  # fmt: skip


def csv_lines() -> list[str]:
    """Return the lines of a day's scores, with a record's name first."""
    frame = leaking_rows().drop("day").with_columns(id=pl.format("r{}", pl.int_range(2_000)))
    return frame.select("id", pl.exclude("id")).write_csv().splitlines()


def put_csv(place: pathlib.Path, content: bytes, name: str = "x.csv") -> pathlib.Path:
    """Write a day's CSV file."""
    (place / f"day={DAY}").mkdir()
    (place / f"day={DAY}" / name).write_bytes(content)
    return place


def renamed(names: str) -> bytes:
    """Return the lines, every third with another name."""
    lines = csv_lines()
    for place in range(1, len(lines), 3):
        lines[place] = names + lines[place][lines[place].index(",") :]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (renamed('"x\\"'), "a backslash before a quotation mark"),
        (renamed('"say ""x"", ok"'), "4.9"),
        (renamed("C:\\x"), "4.9"),
        (renamed('"two\nlines"'), "4.9"),
        (renamed('"old\rlines"'), "4.9"),
        ("\r\n".join(csv_lines()).encode(), "4.9"),
        ("\r".join(csv_lines()).encode(), "4.9"),
    ],
)
def test_csv_of_which_readers_take_other_rows_is_refused(tmp_path, content, expected):
    """Spark takes a backslash for an escape."""
    assert expected in reason_or_bound(put_csv(tmp_path, content))


def test_a_packed_csv_file_is_read_from_the_staging_area(tmp_path):
    """Arrow packed what was written below a name that ends with .gz, which was then refused."""
    lines = csv_lines()
    parts = "\n".join(lines[:900]) + "\n", "\n".join(lines[900:])
    packed = b"".join(gzip.compress(part.encode()) for part in parts)
    assert reason_or_bound(put_csv(tmp_path, packed, "x.csv.gz")) == "4.9"
