"""A row of the warehouse that no audit writes costs no other model its figures, pages or alerts."""

import datetime as dt
import pathlib

import deltalake
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from flows.next_steps import next_steps_table
from flows.notify.incidents import Stage, incidents_before
from flows.notify.metrics import latest_records, metrics_text
from flows.report.known_windows import NightWindows
from flows.report.site import write_report
from flows.run.conclusion import _beside
from flows.settings import Settings
from privcore.exceptions import TerminalError
from tests.support.warehouse import START, evaluated, failed, put_rows
from workers.audit.verify import verify_all_stored
from workers.warehouse.acknowledgements import acknowledgements
from workers.warehouse.commit import insert_rows, shared
from workers.warehouse.input_changes import input_changes
from workers.warehouse.later_rows import AcknowledgementRow
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.schema import AuditRecord, AuditRow, WealthRow
from workers.warehouse.sql import query
from workers.warehouse.store import Warehouse
from workers.warehouse.table_row import typed_rows
from workers.warehouse.tables import TABLES, arrow_schema
from workers.warehouse.together import Together, together
from workers.warehouse.unlisted import unlisted_models
from workers.warehouse.with_windows import with_windows

FIRST = dt.date(2026, 4, 1)


def test_a_forged_acknowledgement_ends_as_others_do(tmp_path: pathlib.Path) -> None:
    """A row that covered a model until the year 9999 silenced its violations."""
    warehouse = Warehouse(str(tmp_path))
    refuted = {"verdict": "violated", "epsilon_lower": 1.0}
    first = evaluated("ads", FIRST, **refuted)
    later = [
        evaluated("ads", FIRST + dt.timedelta(days=days), hour=24 * days, **refuted)
        for days in (20, 40)
    ]
    put_rows(warehouse, [first, *later])
    row = AcknowledgementRow(
        **shared(first.audit),
        acknowledged_at=START,
        acknowledged_by="a writer of the bucket",
        why="Known.",
        until=dt.date(9999, 1, 1),
        epsilon_acknowledged=20.0,
    )
    insert_rows(warehouse, "audit_acknowledgements", (row,))
    rows = [record.audit for record in later]
    before = incidents_before(warehouse, rows)
    stages = [before[one.audit_id].stage(one, 1.0) for one in rows]
    assert stages == [Stage.ACKNOWLEDGED, Stage.EXPIRED]


def _forged(record: AuditRecord, **changes: object) -> AuditRecord:
    """Return a record with other values in its own row, or in its row of wealth."""
    of_wealth = {name: one for name, one in changes.items() if name in WealthRow.model_fields}
    rest = {name: one for name, one in changes.items() if name not in of_wealth}
    wealth = tuple(row.model_copy(update=of_wealth) for row in record.wealth)
    audit = record.audit.model_copy(update=rest)
    return record.model_copy(update={"audit": audit, "wealth": wealth})


NO_AUDIT_WRITES: dict[str, dict[str, object]] = {
    "level": {"significance": 0.0},
    "negative": {"claim_evalue": -1.0},
    "nan": {"claim_evalue": float("nan")},
    "short": {"window_log_wealth": (0.1, 0.2)},
    "empty": {"window_log_wealth": ()},
    "free": {"standing_price": None},
    "paid": {"window_price": -1e9},
    "plan": {"plan": "not JSON"},
    "sketch": {"holdout_sketch": "zz"},
}
"""By model: what a forged row of it says."""


@pytest.mark.slow
def test_rows_that_no_audit_writes_cost_no_other_model_its_report(tmp_path: pathlib.Path) -> None:
    """One forged row ended the report of every model, and the alerts of the night."""
    whole, warehouse = Warehouse(str(tmp_path / "whole")), Warehouse(str(tmp_path / "forged"))
    days = [FIRST + dt.timedelta(days=number) for number in range(3)]
    good = [evaluated("good", day, hour=number) for number, day in enumerate(days)]
    put_rows(whole, good)
    forged = []
    for model, changes in NO_AUDIT_WRITES.items():
        *before, last = (evaluated(model, day, hour=number) for number, day in enumerate(days))
        forged += [*before, _forged(last, **changes)]
    put_rows(warehouse, [*good, *forged])
    expected = epsilon_windows(whole, whole.current())
    audits = warehouse.current()
    found = epsilon_windows(warehouse, audits)
    assert_frame_equal(found.filter(pl.col("model") == "good"), expected)
    for model in NO_AUDIT_WRITES:
        row = found.filter(pl.col("model") == model).sort("day").row(-1, named=True)
        if row["epsilon_standing"] is None:
            assert "contradict each other" in row["nights_remark"], model
    index = write_report(warehouse, tmp_path / "report")
    assert "good" in index.read_text(encoding="utf-8")
    assert (index.parent / "models" / "good.html").exists()
    names = [{"name": name} for name in ("good", *NO_AUDIT_WRITES)]
    settings = Settings(lake="lake", warehouse=warehouse.uri, report="report", models=names)
    rows = typed_rows(AuditRow, audits.filter(pl.col("model") == "good"))
    windows = NightWindows(settings.report)
    assert all(alert.model == "good" for alert in _beside(rows, warehouse, settings, windows))


def test_a_column_of_another_kind_is_a_sentence(stored: pathlib.Path) -> None:
    """Alerts, report and commits ended with errors of three libraries."""
    table = deltalake.DeltaTable(str(stored / "audits"))
    rows = table.to_pyarrow_table()
    changed = rows.set_column(rows.column_names.index("verdict"), "verdict", pa.array([5]))
    deltalake.write_deltalake(table, changed, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(TerminalError, match="its column verdict holds"):
        Warehouse(str(stored)).commit(failed("good", FIRST))


@pytest.mark.parametrize("day", [dt.date.min, dt.date.max])
@pytest.mark.parametrize("recorded", [START, dt.datetime(9999, 12, 31, tzinfo=dt.UTC)])
def test_a_forged_day_ends_no_metrics_and_no_report(
    tmp_path: pathlib.Path, day: dt.date, recorded: dt.datetime
) -> None:
    """Neither was written for any model."""
    warehouse = Warehouse(str(tmp_path))
    forged = evaluated("good", day, recorded_at=recorded, target_sha256="0" * 64)
    put_rows(warehouse, [evaluated("good", FIRST), forged])
    found = latest_records(warehouse, ["good"], lambda _, audits: audits.with_columns(
        standing=pl.lit(None, pl.String), epsilon_standing=pl.lit(None, pl.Float64)
    ))  # fmt: skip
    assert found[0].day == (FIRST if day == dt.date.min or recorded == START else day)
    assert "day_end_seconds" in metrics_text(found, dt.timezone(dt.timedelta(hours=14)))
    assert input_changes(warehouse, warehouse.current()) == {}


def test_a_row_of_a_time_that_python_has_not_ends_nothing(stored: pathlib.Path) -> None:
    """One of the year 29349 ended the report, the alerts of the night and `show` for all models."""
    warehouse, table = Warehouse(str(stored)), stored / "audits"
    rows = deltalake.DeltaTable(str(table)).to_pyarrow_table()
    late = {
        "audit_id": pa.array(["forged"]),
        "day": pa.array([10**7], pa.int32()).cast(pa.date32()),
        "declared_at": pa.array([2**60], pa.timestamp("us", "UTC")),
        "label_days": pa.array([[10**7]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
    }
    for name, column in late.items():
        rows = rows.set_column(rows.column_names.index(name), name, column)
    deltalake.write_deltalake(str(table), rows, mode="append")
    told = warehouse.collect(warehouse.scan("audits")).to_dicts()
    assert sorted(map(str, (row["day"] for row in told))) == ["2026-04-01", "None"]
    assert query(warehouse, "select max(day) as day from audits").to_dicts() == [{"day": None}]
    # Nor does a day to come hide that a model was taken out of the settings.
    (missed,) = unlisted_models(warehouse, [], FIRST + dt.timedelta(days=1))
    assert missed.last_day == FIRST


def append(warehouse: Warehouse, table: str, row: dict[str, object]) -> None:
    """Write a row as a writer of the warehouse could, with nulls where no audit has any."""
    kinds = arrow_schema(TABLES[table].row)
    schema = pa.schema([pa.field(field.name, field.type) for field in kinds])
    rows = pa.Table.from_pylist([row], schema=schema)
    deltalake.write_deltalake(warehouse.path(table), rows, mode="append")


@pytest.mark.slow
@pytest.mark.parametrize("column", ["model", "day"])
def test_a_row_that_names_no_model_or_day_costs_no_report(
    tmp_path: pathlib.Path, column: str
) -> None:
    """One row ended the report of every model."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    put_rows(warehouse, [evaluated("good", FIRST)])
    append(warehouse, "audits", evaluated("bad", FIRST).audit.model_dump() | {column: None})
    assert warehouse.current()["model"].to_list() == ["good"]
    assert unlisted_models(warehouse, [("good", "label")], FIRST + dt.timedelta(days=1)) == ()
    index = write_report(warehouse, tmp_path / "report")
    assert (index.parent / "models" / "good.html").exists()


def test_a_withdrawal_without_a_time_is_shown(tmp_path: pathlib.Path) -> None:
    """It ended the report of every model."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    record = evaluated("bad", FIRST)
    put_rows(warehouse, [record, evaluated("good", FIRST)])
    row = {**shared(record.audit), "withdrawn_at": None, "why": "No time is given."}
    append(warehouse, "audit_withdrawals", row)
    index = write_report(warehouse, tmp_path / "report")
    assert "No time is given." in index.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ("audit_wealth", {"day": None}),
        ("audit_wealth", {"day": dt.date(1, 1, 1)}),
        ("audit_wealth", {"window_log_wealth": None}),
        ("audits", {"day": dt.date(1, 1, 1)}),
    ],
    ids=str,
)
def test_evidence_of_no_day_costs_no_other_model_its_own(
    tmp_path: pathlib.Path, table: str, changes: dict[str, object]
) -> None:
    """One row ended what is said of all nights, and with it the report and the alerts."""
    warehouse, whole = Warehouse(str(tmp_path / "forged")), Warehouse(str(tmp_path / "whole"))
    bad = evaluated("bad", FIRST)
    rows = {"audits": [bad.audit.model_dump()], "audit_wealth": [bad.wealth[0].model_dump()]}
    rows[table][0] |= changes
    if "day" in changes and table == "audits":
        rows["audit_wealth"][0] |= changes
    for name, some in rows.items():
        append(warehouse, name, some[0])
    put_rows(warehouse, [evaluated("good", FIRST)])
    put_rows(whole, [evaluated("good", FIRST)])
    found = epsilon_windows(warehouse, warehouse.current())
    expected = epsilon_windows(whole, whole.current())
    assert_frame_equal(found.filter(pl.col("model") == "good"), expected)


def shared_with(folder: pathlib.Path, **changes: object) -> Together:
    """Return what two models promise together whose second row was forged."""
    warehouse, named = Warehouse(str(folder)), {"dataset": "flights", "declared_by": "an owner"}
    records = [evaluated(name, FIRST, neighbors="replace", **named) for name in ("good", "bad")]
    audit = records[1].audit.model_copy(update=changes)
    forged = records[1].model_copy(update={"audit": audit})
    put_rows(warehouse, [records[0], forged])
    (found,) = together(warehouse, day=FIRST)
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {"neighbors": None},
        {"neighbors": "strange"},
        {"epsilon_declared": -1.0},
        {"epsilon_declared": float("nan")},
        {"epsilon_declared": float("inf")},
        {"delta_declared": 2.0},
    ],
    ids=str,
)
def test_a_forged_declaration_is_none_and_ends_no_alerts(
    tmp_path: pathlib.Path, changes: dict[str, object]
) -> None:
    """One row ended the alerts of a night for all models, where the settings have a total."""
    found = shared_with(tmp_path, **changes)
    assert (found.undeclared, found.exceeds(100.0)) == (("bad",), True)


def test_forged_days_of_labels_end_no_alerts(tmp_path: pathlib.Path) -> None:
    assert shared_with(tmp_path, label_days=(None,)).models == ("bad", "good")


def test_a_row_of_two_thousand_years_is_of_ten(tmp_path: pathlib.Path) -> None:
    """It made 740,000 partitions of labels."""
    shared_with(tmp_path, trained_since=dt.date(1, 1, 1))
    assert len(together(Warehouse(str(tmp_path)))) == 3_660


@pytest.mark.parametrize(
    "changes",
    [
        {"acknowledged_at": None},
        {"acknowledged_at": dt.datetime(9990, 1, 1, tzinfo=dt.UTC)},
        {"until": None},
        {"why": None},
        {"epsilon_acknowledged": None},
        {"epsilon_acknowledged": float("nan")},
    ],
    ids=str,
)
def test_a_forged_acknowledgement_is_none(
    tmp_path: pathlib.Path, changes: dict[str, object]
) -> None:
    """Most ended report, metrics and digest of every model; one of 9990 silenced one for ever."""
    warehouse = Warehouse(str(tmp_path))
    record = evaluated("ads", FIRST, verdict="violated", epsilon_lower=1.0)
    put_rows(warehouse, [record])
    row = {
        **shared(record.audit),
        "acknowledged_at": START,
        "why": "Known.",
        "until": dt.date(9999, 1, 1),
        "epsilon_acknowledged": 20.0,
    }
    append(warehouse, "audit_acknowledgements", row)
    (known,) = acknowledgements(warehouse)
    assert known.row.why == "Known."
    append(warehouse, "audit_acknowledgements", row | changes)
    assert acknowledgements(warehouse) == (known,)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": None},
        {"verdict": "strange"},
        {"status": "strange"},
        {"reason": None},
        {"recorded_at": None},
        {"seed": None},
    ],
    ids=str,
)
def test_next_steps_are_printed_beside_a_row_that_is_no_audits(
    tmp_path: pathlib.Path, changes: dict[str, object]
) -> None:
    """`show --next` printed none, and `verify --stored` ended."""
    warehouse = Warehouse(str(tmp_path))
    put_rows(warehouse, [evaluated("good", FIRST)])
    append(warehouse, "audits", evaluated("bad", FIRST).audit.model_dump() | changes)
    audits = with_windows(warehouse, warehouse.current())
    steps = dict(next_steps_table(audits).select("model", "next_step").iter_rows())
    assert steps.keys() == {"good", "bad"}
    assert steps["bad"].startswith("This row cannot be read as an audit's.")
    assert "cannot be read" not in steps["good"]
    found = {one.audit_id: one.finding for one in verify_all_stored(warehouse)}
    assert [found[row] for row in audits.sort("model")["audit_id"]] == ["altered", "intact"]
