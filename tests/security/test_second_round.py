"""The second independent round of 2026-11-25: what broke of the attacks that were written down."""

import datetime as dt
import pathlib
import random

import catboost
import deltalake
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal
from pydantic import ValidationError

from flows.notify.incidents import Stage, incidents_before
from flows.report.known_windows import NightWindows
from flows.report.site import write_report
from flows.run.conclusion import _beside
from flows.settings import Settings, SettingsError, load_settings
from privcore import audit_models
from privcore.exceptions import InvalidInputError, TerminalError
from privcore.lower_bounds.windows import WINDOW_EPSILONS
from tests.support.statements import statement
from tests.support.warehouse import START, evaluated, put_rows
from tests.workers.publication.conftest import exact
from workers.lake.model_sandbox import UnreadableModelError, describe_model
from workers.plan import Plan
from workers.publication.statement_row import NoStatementError, statement_from
from workers.publication.statement_store import Statements
from workers.warehouse.acknowledgements import acknowledge
from workers.warehouse.commit import insert_rows, shared
from workers.warehouse.later_rows import AcknowledgementRow
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.schema import AuditRecord, AuditRow, WealthRow
from workers.warehouse.serving_decision import Gate, audits_of, gate
from workers.warehouse.store import Warehouse
from workers.warehouse.table_row import typed_rows

FIRST = dt.date(2026, 4, 1)
stated = exact


def nights(folder: pathlib.Path, holdouts: list[int]) -> dict[str, list[object]]:
    """Return what nights of a weak leak prove together, beside the holdouts of these numbers."""
    warehouse, records = Warehouse(str(folder)), []
    against = np.tile(0.8 * (1.0 - WINDOW_EPSILONS / 1.5), 4).tolist()
    for number, holdout in enumerate(holdouts):
        record = evaluated("ads", FIRST + dt.timedelta(days=number), hour=number)
        changes = {
            "window_log_wealth": tuple(against),
            "claimed_log_wealth": (0.8,) * 4,
            "holdout_sketch": random.Random(holdout).randbytes(32).hex(),  # noqa: S311
        }
        wealth = tuple(row.model_copy(update=changes) for row in record.wealth)
        records.append(record.model_copy(update={"wealth": wealth}))
    put_rows(warehouse, records)
    found = epsilon_windows(warehouse, warehouse.current())
    return found.sort("day").to_dict(as_series=False)


def test_a_holdout_that_comes_again_is_told_once_and_takes_back_nothing(
    tmp_path: pathlib.Path,
) -> None:
    """One repeated holdout on the second night silenced the standing, and nobody was notified.

    After a standing was violated, its bound fell from 0.7 to 0.
    """
    fresh = nights(tmp_path / "fresh", list(range(14)))
    assert fresh["standing"].count("violated") == 8
    assert fresh["nights_remark"] == [None] * 14
    early = nights(tmp_path / "early", [0, 0, *range(2, 14)])
    assert early["standing"].count("violated") == 0
    told = [change for change in early["nights_remark"] if change]
    assert told == [early["nights_remark"][1]]
    assert str(told[0]).startswith("The holdout of 2026-04-02 is that of 2026-04-01: from now on")
    late = nights(tmp_path / "late", [*range(12), 3, 13])
    assert late["standing"] == fresh["standing"]
    assert late["epsilon_standing"][:12] == fresh["epsilon_standing"][:12]
    assert late["epsilon_standing"][12:] == [fresh["epsilon_standing"][11]] * 2
    assert "is that of 2026-04-04" in str(late["nights_remark"][12])


@pytest.mark.parametrize(
    ("verdict", "answer"), [("consistent", Gate.INCONCLUSIVE), ("violated", Gate.FAIL)]
)
def test_an_audit_by_a_plan_of_its_own_lets_no_file_pass(
    tmp_path: pathlib.Path, verdict: str, answer: Gate
) -> None:
    """Its seed and significance could be chosen, and of a file that no night knows it decided."""
    warehouse, digest = Warehouse(str(tmp_path)), "a" * 64
    known = {"target_sha256": digest, "epsilon_ceiling": 6.0, "epsilon_detectable": 0.55}
    put_rows(warehouse, [evaluated("ads", FIRST, verdict=verdict, exploratory=True, **known)])
    assert gate(audits_of(warehouse, digest))[0] is answer


def settings_in() -> Settings:
    return Settings(lake="lake", warehouse="w", report="r", models=[{"name": "ads"}])  # type: ignore[list-item]


@pytest.mark.parametrize("charge", [-1000.0, 0.0, float("nan"), float("inf")])
def test_an_entry_that_gives_charges_back_is_no_statement(charge: float) -> None:
    """With -1000 as its price, a label could be charged without end."""
    made = statement(1)
    with pytest.raises(NoStatementError):
        statement_from(made.model_copy(update={"epsilon_public": charge}).content())
    assert statement_from(made.content()) == made


@pytest.mark.parametrize(
    "changed", [{"model": "rival"}, {"dataset": "other"}, {"day": FIRST}, {"statement_id": "0"}]
)
def test_a_statement_is_found_under_its_own_name_alone(
    tmp_path: pathlib.Path, changed: dict[str, object]
) -> None:
    """By the columns beside it, a statement was another model's, or was charged to no label."""
    statements, made = Statements(str(tmp_path)), statement(1)
    statements.append(lambda _: [made])
    assert statements.all() == [made]
    row = {"position": 1, "content": made.content()} | {
        name: getattr(made, name) for name in ("statement_id", "model", "day", "dataset")
    }
    table = pa.Table.from_pylist([row | changed])
    deltalake.write_deltalake(str(tmp_path / "statements"), table, mode="append")
    with pytest.raises(NoStatementError, match="beside another"):
        statements.all()


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


def test_a_reason_without_end_is_refused(tmp_path: pathlib.Path) -> None:
    warehouse, day = Warehouse(str(tmp_path)), START.date()
    record = evaluated("ads", FIRST, verdict="violated", epsilon_lower=1.0)
    put_rows(warehouse, [record])
    given = {"until": day, "by": None, "now": START}
    with pytest.raises(TerminalError, match="1,000,000 characters"):
        acknowledge(warehouse, record.audit.audit_id, why="x" * 1_000_000, **given)


def test_a_model_that_names_a_class_twice_is_refused() -> None:
    """All labels were read as the last of these, and nothing was proved."""
    with pytest.raises(InvalidInputError, match="each class is named once"):
        audit_models(Named(), Named(), np.zeros((2, 1)), [1, 1], [True, False])


class Named:
    classes_ = (1, True)

    def predict_proba(self, rows: object) -> object:
        raise AssertionError(rows)


def test_a_classifier_of_several_labels_is_refused() -> None:
    """Its answers do not add up to one, and were played as if they did."""
    rows = np.random.default_rng(1).normal(size=(60, 2))
    labels = np.stack([rows[:, 0] > 0.0, rows[:, 1] > 0.0], axis=1).astype(int)
    model = catboost.CatBoostClassifier(
        loss_function="MultiLogloss", iterations=3, verbose=0, allow_writing_files=False
    )
    model.fit(rows, labels)
    with pytest.raises(UnreadableModelError, match="do not add up to one"):
        describe_model(model._serialize_model())


def test_settings_without_end_are_refused(tmp_path: pathlib.Path) -> None:
    """A person who may start a flow names the file: the first took all memory."""
    with pytest.raises(SettingsError, match="is no plain file"):
        load_settings("/dev/zero")
    path = tmp_path / "privaudit.toml"
    with path.open("wb") as file:
        file.truncate((4 << 20) + 1)
    with pytest.raises(SettingsError, match="is no settings file"):
        load_settings(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"fractions": (0.5,) * 1001},
        {"slices": tuple(f"c{number}" for number in range(101))},
        {"secrets": {f"s{number}": 0.5 for number in range(101)}},
    ],
    ids=["fractions", "slices", "secrets"],
)
def test_a_plan_without_end_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="at most"):
        Plan.model_validate(changes)
    name, values = next(iter(changes.items()))
    fewer = dict(list(values.items())[:-1]) if isinstance(values, dict) else values[:-1]  # type: ignore[index]
    assert Plan.model_validate({name: fewer})


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
