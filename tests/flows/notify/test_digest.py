"""One message a week: what stands, is new, resolved, acknowledged, and ends soon."""

import datetime as dt
import pathlib
from typing import Any

import pytest
import typer.testing

from flows.commands.notify import app
from flows.notify.alerts import Event
from flows.notify.digest import public_week_sentences
from flows.run.weekly import digest_of, weekly_digest
from flows.settings import Settings, load_settings
from flows.settings.publication_settings import PublicationSettings
from tests.flows.report.test_public_site import made
from tests.support.lake import DAY, write_settings
from tests.support.warehouse import START, evaluated
from workers.warehouse.acknowledgements import acknowledge
from workers.warehouse.store import Warehouse

SEEING = {"epsilon_ceiling": 3.0, "epsilon_detectable": 0.8}
VIOLATED = {"verdict": "violated", "epsilon_lower": 0.9} | SEEING
TODAY = START.date()


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> Settings:
    names = ["ads", "loans", "mail", "quiet", "gone"]
    return load_settings(write_settings(tmp_path, names))


@pytest.fixture
def warehouse(settings: Settings) -> Warehouse:
    """Commit models' nights: refuted long ago and still, newly, no longer, and doubtful."""
    warehouse = Warehouse(settings.warehouse)
    nights: dict[str, dict[int, dict[str, Any]]] = {
        "ads": {-9: VIOLATED, -1: VIOLATED},
        "loans": {-9: SEEING, 0: VIOLATED},
        "mail": {-9: VIOLATED, -2: SEEING},
        "quiet": {-9: SEEING, 0: SEEING | {"verdict": "doubtful"}},
        "gone": {-9: VIOLATED},
    }
    records = [
        evaluated(model, DAY + dt.timedelta(days=number), hour=1, **changes)
        for model, days in nights.items()
        for number, changes in days.items()
    ]
    assert warehouse.commit_all(records) == (True,) * len(records)
    return warehouse


def lines(settings: Settings) -> dict[str, str]:
    alert = digest_of(settings, DAY, today=TODAY)
    return dict(line.split(": ", 1) for line in alert.reason.splitlines())


def test_a_week_is_said_by_what_stands_is_new_and_is_resolved(
    settings: Settings, warehouse: Warehouse
) -> None:
    assert warehouse.newest_day() == DAY
    assert lines(settings) == {
        "Refuted and not resolved": "ads (declared 0.5, proved at least 0.90 on 2026-03-01); "
        "gone (declared 0.5, proved at least 0.90 on 2026-02-21); "
        "loans (declared 0.5, proved at least 0.90 on 2026-03-02).",
        "New": "loans (declared 0.5, proved at least 0.90 on 2026-03-02).",
        "Resolved": "mail (declared 0.5).",
        "Doubtful": "quiet (declared 0.5, on 1 night).",
        "Acknowledged": "none.",
        "Acknowledgement ends within a week": "none.",
        "Without a result all week": "gone.",
    }


@pytest.mark.slow
@pytest.mark.parametrize(("days", "ends"), [(7, "ads (declared 0.5)."), (8, "none.")])
def test_what_is_acknowledged_and_ends_soon_is_said(
    settings: Settings, warehouse: Warehouse, days: int, ends: str
) -> None:
    (audit_id,) = warehouse.current().filter(model="ads", day=DAY - dt.timedelta(days=1))[
        "audit_id"
    ]
    until = TODAY + dt.timedelta(days=days)
    acknowledge(warehouse, audit_id, why="In repair.", until=until, by="user anna", now=START)
    said = lines(settings)
    assert said["Acknowledged"].startswith("user anna acknowledged on 2026-04-01")
    assert said["Acknowledged"].endswith("In repair.")
    assert said["Acknowledgement ends within a week"] == ends
    assert "ads" in said["Refuted and not resolved"]


@pytest.mark.usefixtures("warehouse")
def test_in_public_it_is_made_of_statements_alone(settings: Settings) -> None:
    """The exact records of the week refute two declarations, of which no statement tells."""
    place = pathlib.Path(settings.warehouse).parent / "statements"
    published = settings.model_copy(
        update={"publication": PublicationSettings(statements=str(place), key_file="key")}
    )
    alert = digest_of(published, DAY, today=TODAY)
    assert "ads" not in alert.reason.split("Without a result")[0]
    assert "0.9" not in alert.reason
    sentences = public_week_sentences(
        [made(model="ads"), made(model="calm", evidence_figure=0)],
        first=DAY - dt.timedelta(days=6),
        last=DAY,
        acknowledged={("ads", DAY): TODAY, ("calm", DAY): TODAY},
        settings=published,
    )
    assert sentences[:3] == [
        f"Refuted by a statement: ads (statement of {DAY}).",
        "New: ads.",
        f"Acknowledged: ads until {TODAY}.",
    ]


@pytest.mark.usefixtures("warehouse")
def test_the_flow_and_the_command_send_the_same_message(
    settings: Settings, tmp_path: pathlib.Path, alerts: list[Any]
) -> None:
    file = str(tmp_path / "privaudit.toml")
    weekly_digest.fn(day=DAY, settings=file)
    ran = typer.testing.CliRunner().invoke(app, ["--digest", "--day", str(DAY), "--config", file])
    assert ran.exit_code == 0, ran.output
    assert [alert.event for alert in alerts] == [Event.DIGEST] * 2
    assert alerts[0].id == alerts[1].id
    assert "New: loans" in ran.output
    both = typer.testing.CliRunner().invoke(app, ["--digest", "--test", "--config", file])
    assert both.exit_code == 2
    assert settings.webhook is None
