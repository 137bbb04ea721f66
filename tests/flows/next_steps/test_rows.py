"""Cards of rows of the warehouse, printed by `show --next` and `explain AUDIT_ID`."""

import json
import pathlib

import polars as pl
import pytest

from flows.next_steps import Conclusion, cards_of, next_steps_table
from flows.report.history import AuditedNight
from privcore.lower_bounds import Verdict
from tests.flows.conftest import Command
from tests.support.lake import DAY
from tests.support.report import frame, record

USAGE = 64


def test_a_standing_is_read_and_a_nan_is_no_figure() -> None:
    rows = [
        record("a", verdict=Verdict.CONSISTENT, standing="violated", epsilon_declared=2.0),
        record("b", epsilon_detectable=float("nan")),
    ]
    audits = frame(rows, AuditedNight).with_columns(later_column=1)
    cards = {row["model"]: card for row, card in cards_of(audits)}
    assert cards["a"].conclusion is Conclusion.REFUTED
    assert "No leak of all labels, however large, would have been detected." in cards["b"].figures


def test_the_table_has_one_row_for_each_record_and_none_where_there_are_none() -> None:
    audits = frame([record("a"), record("b", verdict=Verdict.VIOLATED)], AuditedNight)
    table = next_steps_table(audits)
    assert table["model"].to_list() == ["a", "b"]
    assert table["conclusion"].to_list() == ["nothing declared", "refuted"]
    assert next_steps_table(audits.clear()).schema == table.schema


@pytest.mark.slow
def test_show_and_explain_say_the_next_step_of_a_real_audit(
    folder: pathlib.Path, privaudit: Command
) -> None:
    assert folder.exists()
    privaudit("run", "--model", "good", "--day", str(DAY))
    (audit,) = json.loads(privaudit("show", "--json").out)
    assert audit["epsilon_detectable"] > 0.0
    (shown,) = json.loads(privaudit("show", "--next", "--json").out)
    assert (shown["model"], shown["day"]) == ("good", str(DAY))
    told = privaudit("explain", audit["audit_id"][:8])
    assert told.code == 0
    assert told.out.startswith(f"Conclusion: {shown['conclusion']}.\n")
    assert shown["next_step"] in told.out
    card = json.loads(privaudit("explain", audit["audit_id"][:8], "--json").out)
    assert card["steps"][0]["text"] == shown["next_step"]
    assert pl.read_csv(privaudit("explain", audit["audit_id"], "--csv").out.encode()).height == len(
        card["steps"]
    )
    both = privaudit("explain", audit["audit_id"], "--epsilon", "1")
    assert (both.code, both.out) == (USAGE, "")
