"""Alerts in a deployment that publishes statements."""

import datetime as dt
from typing import Any

import pytest

from flows.notify.alerts import Event
from flows.notify.public import (
    PublicNight,
    public_acknowledgement_alert,
    public_alert,
    public_change_alerts,
    public_counted,
    public_summary,
)
from flows.settings import Settings
from tests.flows.report.test_public_site import made
from tests.support.lake import DAY
from workers.warehouse.public_changes import PublicChange


def night(**changes: Any) -> PublicNight:
    return PublicNight("ads", DAY, made(**changes))


def test_an_alert_is_about_a_statement_that_is_refuted_doubtful_or_vacuous(
    settings: Settings,
) -> None:
    alerts = {
        "privaudit.claim.violated": night(),
        "privaudit.claim.not_evaluable": night(premises_figure=90_000),
        "privaudit.claim.vacuous": night(vacuous=True),
    }
    for event, told in alerts.items():
        alert = public_alert(told, settings)
        assert alert is not None
        assert alert.event == event
        assert told.statement is not None
        assert alert.audit_id == told.statement.statement_id
        assert dict(alert.figures)["claim_pvalue"] == told.statement.pvalue
        assert ". Next (" in alert.next_step
    assert public_alert(night(evidence_figure=0), settings) is None


def test_that_there_is_no_statement_is_told_without_a_reason(settings: Settings) -> None:
    alert = public_alert(PublicNight("ads", DAY, None), settings)
    assert alert is not None
    assert alert.event == "privaudit.claim.not_evaluable"
    assert alert.figures == ()
    assert "No statement was published" in alert.reason
    assert alert.next_step.startswith("no statement. Next (")


@pytest.mark.parametrize(
    ("declaration", "event"),
    [
        ("It declares 2 instead of 1.", "privaudit.claim.declaration_changed"),
        ("Declared was 1 until then, and is nothing on that day.", "privaudit.claim.declaration_w"),
    ],
)
def test_a_changed_declaration_is_told_without_figures(
    settings: Settings, declaration: str, event: str
) -> None:
    (alert,) = public_change_alerts(PublicChange("ads", DAY, declaration, None), settings)
    assert alert.event.startswith(event)
    assert alert.figures == ()
    assert alert.audit_id is None
    assert declaration in alert.reason


def test_changed_settings_are_told_beside_a_changed_declaration(settings: Settings) -> None:
    change = PublicChange("ads", DAY, "Another.", "plan.significance was 0.05 and is 1e-09.")
    _, alert = public_change_alerts(change, settings)
    assert alert.event is Event.SETTINGS_CHANGED
    assert alert.reason.startswith("plan.significance was 0.05 and is 1e-09.")
    assert alert.audit_id is None


@pytest.mark.parametrize(
    ("change", "event"),
    [
        (PublicChange("ads", DAY, checkpoint="Replaced."), Event.INPUTS_CHANGED),
        (PublicChange("ads", DAY, training="Again."), Event.SETTINGS_CHANGED),
    ],
)
def test_what_comes_again_or_is_replaced_is_told_without_figures(
    settings: Settings, change: PublicChange, event: Event
) -> None:
    (alert,) = public_change_alerts(change, settings)
    assert alert.event is event
    assert alert.reason.startswith((change.checkpoint or "") + (change.training or ""))
    assert (alert.audit_id, alert.figures) == (None, ())


def test_the_summary_counts_public_verdicts() -> None:
    nights = [night(), night(evidence_figure=0), PublicNight("other", DAY, None)]
    assert public_counted(nights) == "1 violated, 1 not_refuted, 1 no statement."
    assert public_counted([]) == "No audit."
    text = public_summary("Night", nights, report="https://example.com")
    assert "| **violated** |" in text
    assert text.count("\n|") == 5
    assert "epsilon_lower" not in text


def test_an_acknowledgement_has_no_reason_in_public(settings: Settings) -> None:
    """A person may have written an exact figure into it."""
    moments = [dt.datetime(2026, 3, 3, hour, tzinfo=dt.UTC) for hour in (1, 2)]
    first, second = (
        public_acknowledgement_alert(made(), until=DAY, moment=moment, settings=settings)
        for moment in moments
    )
    assert first.event is Event.ACKNOWLEDGED
    assert "epsilon_lower" not in dict(first.figures)
    assert first.id != second.id
