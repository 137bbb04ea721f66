import contextlib
import pathlib
from collections import Counter

import deltalake
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.support.audits import audited, recorded
from tests.support.lake import DAY, PLAN, figures, label_path, label_rows
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.shards import BadRecords, divide, find_partition
from workers.lake.layout import LabelFile, Lake
from workers.sources.tables.day_tables import TablePlace
from workers.sources.tables.table_files import find_day, look


def add_file(lake: Lake, frame: pl.DataFrame, name: str = "part-00001.parquet") -> pathlib.Path:
    path = label_path(lake, "flights").with_name(name)
    pq.write_table(frame.to_arrow(), path, row_group_size=100)
    return path


def bad_labels(rows: int) -> pl.DataFrame:
    """Return rows of which one in ten has no label and one in ten a label of no class."""
    place = pl.int_range(pl.len()) % 10
    label = pl.when(place == 3).then(None).when(place == 7).then(9).otherwise("late")
    return label_rows(rows, seed=4).with_columns(late=label)


def test_bad_records_are_left_out_within_the_limit_and_end_the_audit_above_it(lake):
    add_file(lake, bad_labels(250))
    row = audited(lake, max_bad_records=50)
    assert (row.status, row.excluded_records) == ("evaluated", 50)
    assert row.records + row.control_records == 400 + 200
    assert "bad_records" in (row.remarks or ())
    row = audited(lake, max_bad_records=49)
    assert (row.status, row.detail) == ("not_evaluable", "label_invalid")
    assert "part-00001.parquet has in row 3 of row group 0 no label" in row.reason
    assert "label_invalid 50" in row.reason
    assert row.epsilon_lower is None


def test_what_is_left_out_is_as_if_it_had_never_been_there(lake):
    """The bits of a record depend on its row, so the bad rows stand last here."""
    good = label_rows(90, seed=4)
    add_file(lake, good)
    before = audited(lake)
    add_file(lake, good.vstack(good.head(7).with_columns(late=pl.lit(None, pl.Int64))))
    after = audited(lake, max_bad_records=7)
    for figure in ("records", "control_records", "epsilon_lower", "epsilon_paper",
                   "target_log_loss", "epsilon_game"):  # fmt: skip
        assert getattr(after, figure) == getattr(before, figure)


def test_reasons_are_counted_apart_and_the_first_file_is_named(lake):
    add_file(lake, bad_labels(100), "part-00003.parquet")
    add_file(lake, label_rows(300, seed=5).with_columns(hour=pl.lit("x")), "part-00002.parquet")
    damaged = add_file(lake, label_rows(120, seed=6), "part-00004.parquet")
    with damaged.open("r+b") as file:
        file.seek(4)
        file.write(b"\xff" * 30)
    row = audited(lake)
    assert row.detail == "feature_invalid"
    assert row.reason.startswith("labels/flights/")
    assert (
        "Bad records: 420 (feature_invalid 300, label_invalid 20, labels_unreadable 100), "
        "the first in part-00002.parquet; max_bad_records is 0." in row.reason
    )
    passed = audited(lake, max_bad_records=420)
    assert (passed.status, passed.excluded_records) == ("evaluated", 420)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not Parquet at all", None])
def test_a_file_that_does_not_say_how_many_rows_it_has_never_passes(lake, content):
    path = add_file(lake, label_rows(100, seed=5))
    whole = path.read_bytes()
    path.write_bytes(whole[:-30] if content is None else content)
    row = audited(lake, max_bad_records=10**9)
    assert row.detail == "labels_unreadable"
    assert "part-00001.parquet cannot be read as Parquet" in row.reason


def test_a_footer_that_points_outside_its_file_is_damage(lake):
    path = add_file(lake, label_rows(100, seed=5))
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little") + 8
    path.write_bytes(content[:4] + content[-length:])  # the footer of data that are gone
    row = audited(lake)
    assert row.detail == "labels_unreadable"
    assert "labels_unreadable 100" in row.reason


def test_files_and_row_groups_without_rows_change_no_number(lake):
    before = audited(lake)
    add_file(lake, label_rows(100, seed=5).head(0))
    schema = label_rows(10, seed=5).to_arrow().schema
    pq.ParquetWriter(
        label_path(lake, "flights").with_name("part-00002.parquet"), schema
    ).close()  # a file without a row group
    after = audited(lake)
    assert (after.status, after.records) == ("evaluated", before.records)
    assert after.epsilon_paper == before.epsilon_paper


@pytest.mark.slow
def test_a_row_group_of_many_rows_is_played_batch_by_batch(lake, monkeypatch):
    path = label_path(lake, "flights")
    pq.write_table(label_rows(100_000, seed=3).to_arrow(), path, row_group_size=100_000)
    whole = recorded(lake)
    monkeypatch.setattr("workers.scan.work_unit._BATCH_ROWS", 7_777)
    parts = recorded(lake)
    assert whole.audit.records + whole.audit.control_records == 100_000
    assert figures(parts) == figures(whole)


def test_a_unit_has_at_most_500_files():
    files = [LabelFile(f"{number:04}", 1, 0) for number in range(1_200)]
    units = divide(Lake("/nowhere"), "", files)
    assert [len(unit) for unit in units] == [500, 500, 200]
    assert [piece.file for unit in units for piece in unit] == [file.name for file in files]


@pytest.mark.slow
def test_too_many_values_are_no_slices(lake):
    add_file(
        lake,
        label_rows(2_500, seed=3).with_columns(city=pl.format("person {}", pl.int_range(pl.len()))),
    )
    row = audited(lake, slices=("city",))
    assert (row.detail, "more than 1000 values" in row.reason) == ("feature_invalid", True)


def test_slices_are_shown_where_enough_records_are(lake):
    place = np.arange(3_000)
    city = np.select([place % 100 == 0, place % 2 == 0], ["TINY", "AMS"], "BER")
    path = label_path(lake, "flights")
    frame = label_rows(3_000, seed=3).with_columns(city=pl.Series(city))
    pq.write_table(frame.to_arrow(), path, row_group_size=700)
    plan = PLAN.model_copy(update={"slices": ("city",), "minimum_slice_records": 900})
    record = recorded(lake, plan)
    assert [(row.column, row.value) for row in record.slices] == [("city", "AMS"), ("city", "BER")]
    trained = frame.filter(pl.col("split") == "train")["city"].value_counts()
    counts = dict(trained.iter_rows())
    for row in record.slices:
        assert row.records == counts[row.value]
        assert 0.0 <= row.epsilon_lower < row.epsilon_ceiling
        assert row.audit_id == record.audit.audit_id
    fewer = recorded(lake, plan, minimum_slice_records=max(counts.values()))
    assert len(fewer.slices) == 1


@pytest.mark.slow
def test_the_record_tells_reliability(lake):
    add_file(lake, label_rows(2_000, seed=8))
    record = recorded(lake)
    row = record.audit
    for role, loss in (("target", row.target_log_loss), ("proxy", row.proxy_log_loss)):
        tenths = [tenth for tenth in record.reliability if tenth.role == role]
        assert sum(tenth.records for tenth in tenths) == row.control_records
        assert 0.5 < loss < 1.5
        assert all(tenth.bin / 10 <= tenth.predicted <= (tenth.bin + 1) / 10 for tenth in tenths)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_what_is_bad_adds_in_any_order(order):
    parts = [
        BadRecords.at(("b", 0, 4), 3, Reason.LABEL_INVALID, "Second."),
        BadRecords.none(),
        BadRecords.at(("a", 9, 0), 5, Reason.LABELS_UNREADABLE, "First."),
    ]
    first, second, third = (parts[place] for place in order)
    total = first + second + third
    assert total == first + (second + third)
    assert total.counts == Counter({"label_invalid": 3, "labels_unreadable": 5})
    assert (total.total, total.first, total.sentence) == (8, ("a", 9, 0), "First.")
    total.check(8)
    with pytest.raises(NotEvaluableError, match=r"^First\. Bad records: 8 .*max_bad_records is 7"):
        total.check(7)
    BadRecords.none().check(0)


ROWS = pl.DataFrame({"x": [1, 2]})


def refused(table: object, words: str) -> None:
    """See that an audit and `attach` refuse a folder in one sentence with these words."""
    place = TablePlace.model_validate({"table": str(table), "day": "ds"})
    for door in (lambda: find_day(place, DAY), lambda: look(str(table))):
        with pytest.raises(NotEvaluableError) as caught:
            door()
        assert caught.value.reason is Reason.TABLE_UNSUPPORTED
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("form", "mark"),
    [
        ("Hudi", ".hoodie/hoodie.properties"),
        ("Hudi", f"ds={DAY}/.hoodie_partition_metadata"),
        ("Iceberg", "metadata/version-hint.text"),
        ("Iceberg", "metadata/00001-5f.metadata.json"),
        ("Delta", f"ds={DAY}/_delta_log/{0:020d}.json"),
        ("Paimon", "snapshot/snapshot-1"),
        ("DuckLake", f"ds={DAY}/ducklake-5f.parquet"),
        ("Hive ACID", f"ds={DAY}/delta_0000002_0000002_0000/000000_0"),
        ("Hive ACID", f"ds={DAY}/base_0000003/000000_0"),
        ("Spark streaming", "_spark_metadata/0"),
    ],
)
def test_a_folder_of_a_table_format_is_refused_by_its_name(tmp_path, form, mark):
    table = tmp_path / "table"
    (table / f"ds={DAY}").mkdir(parents=True)
    ROWS.write_parquet(table / f"ds={DAY}" / "part.parquet")
    assert look(str(table)).sample.equals(ROWS)
    (table / mark).parent.mkdir(parents=True, exist_ok=True)
    (table / mark).write_bytes(b"")
    refused(table, f"{table} is the folder of a table in the {form} format (")
    if "ds=" not in mark:
        refused(table / f"ds={DAY}", f"ds={DAY} lies in {table}, a table in the {form} format (")


def test_a_part_of_a_table_and_a_folder_of_tables_are_refused(tmp_path):
    rows = ROWS.with_columns(ds=pl.lit(DAY), hour=pl.lit(3))
    for _ in range(2):
        deltalake.write_deltalake(
            str(tmp_path / "all" / "t"), rows, mode="overwrite", partition_by=["ds", "hour"]
        )
    refused(
        tmp_path / "all" / "t" / f"ds={DAY}" / "hour=3",
        "all/t, a table in the Delta format (_delta_log/), where",
    )
    refused(
        tmp_path / "all", "all is the folder of a table in the Delta format (t/_delta_log/), where"
    )
    with contextlib.closing(
        SqlCatalog("here", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/ice")
    ) as catalog:
        catalog.create_namespace("ads")
        table = catalog.create_table("ads.rows", schema=rows.to_arrow().schema)
        table.append(rows.to_arrow())
    folder = pathlib.Path(table.location().removeprefix("file://"))
    refused(folder, "is the folder of a table in the Iceberg format (metadata/0")
    refused(folder / "data", "catalog in the settings, --catalog")


def test_a_day_of_the_lakes_own_labels_is_refused_alike(tmp_path):
    folder = tmp_path / "labels" / "ads" / f"day={DAY}"
    deltalake.write_deltalake(str(folder), ROWS)
    (folder / "_SUCCESS").write_bytes(b"")
    with pytest.raises(
        NotEvaluableError, match=f"labels/ads/day={DAY} is the folder of a table in the Del"
    ):
        find_partition(Lake(str(tmp_path)), "ads", DAY)


def test_folders_of_other_uses_are_no_tables(tmp_path):
    for name in ("metadata/notes.json", "snapshot/x.parquet", "delta_20260302/base_20260302/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    for folder in (tmp_path / "rows", tmp_path / "delta_20260302"):
        folder.mkdir(exist_ok=True)
        ROWS.write_parquet(folder / "part.parquet")
        assert look(str(folder)).sample.equals(ROWS)
