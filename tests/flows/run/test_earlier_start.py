"""A run that crashed and is started again comes to the same records, and alerts them again."""

import datetime as dt

import pytest

import flows.run.auditing
import flows.run.nightly
from flows.run.nightly import backfill, nightly_audit
from flows.run.runs import start
from tests.support.lake import DAY
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process", "no_pages")
BEFORE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def told(monkeypatch):
    """Models of which something was announced."""
    models = []
    announced = flows.run.auditing.announce

    def watched(record, *given, **more):
        models.append(record.audit.model)
        return announced(record, *given, **more)

    monkeypatch.setattr(flows.run.auditing, "announce", watched)
    return models


def night(settings, **given):
    return start(nightly_audit, day=DAY, settings=str(settings), **given)


@pytest.mark.slow
def test_a_second_start_of_a_night_comes_to_the_same_records(twins, told, monkeypatch):
    (good,) = night(twins, models=["good"])
    before = Warehouse(str(twins.parent / "warehouse")).record(good.audit_id)
    monkeypatch.setattr(flows.run.nightly, "first_start", lambda: BEFORE)
    rows = night(twins)
    assert [row.model for row in rows] == ["good", "twin"]
    assert sorted(told) == ["good", "good", "twin"]
    assert rows[0].audit_id == before.audit.audit_id
    assert rows[0].epsilon_lower == before.audit.epsilon_lower
    assert Warehouse(str(twins.parent / "warehouse")).current().height == 2


@pytest.mark.slow
def test_a_backfill_tells_again_what_its_first_start_committed(twins, told, monkeypatch):
    night(twins, models=["good"])
    given = {"first": DAY, "last": DAY, "settings": str(twins)}
    monkeypatch.setattr(flows.run.nightly, "first_start", lambda: BEFORE)
    assert sorted(row.model for row in start(backfill, **given)) == ["good", "twin"]
    assert sorted(told) == ["good", "good", "twin"]
