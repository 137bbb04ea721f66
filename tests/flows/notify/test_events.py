"""Events of one night: which there are, what they say, and to whom."""

import datetime as dt
import json
import math

import pytest

from flows.notify.events import FIGURES, Kind, at_commit, events, missing
from flows.notify.incidents import Incident, Stage
from flows.settings import TogetherSettings, load_settings
from privcore.lower_bounds.verdicts import ReasonCode, Trust, Verdict
from tests.support import warehouse as built
from tests.support.lake import DAY, write_settings
from tests.support.warehouse import put_rows
from workers.audit.declaration import label_column_warning, said_of_labels_in
from workers.warehouse.nights_together import AuditedNight
from workers.warehouse.schema import Status
from workers.warehouse.store import Warehouse

MANIFEST = said_of_labels_in(None)
SETTINGS = said_of_labels_in("{}")


@pytest.fixture
def settings(tmp_path):
    file = tmp_path / "privaudit.toml"
    file.write_text(
        'lake = "l"\nwarehouse = "w"\nreport = "r"\nreport_url = "https://example.com/r/"\n'
        '[[models]]\nname = "ads"\nnotify = ["ads@example.com"]\ndeadline = "07:30"\n'
        '[night]\ntime_zone = "Europe/Amsterdam"\n'
    )
    return load_settings(file)


def row(code=None, **changes):
    """Return a night that no warehouse has, with the verdict of its reason."""
    empty = dict.fromkeys(AuditedNight.model_fields)
    verdict = Verdict.NOT_REFUTED if code is None else code.verdict
    given = {
        "audit_id": "0" * 32, "model": "ads", "day": DAY, "verdict": verdict, "reason_code": code,
        "status": Status.EVALUATED, "reason": "It is so.", "epsilon_lower": 1.239,
        "epsilon_declared": 0.5, "secret": "label", "trust": Trust.SELF,
    }  # fmt: skip
    return AuditedNight.model_construct(**empty | given | changes)


def commit_event(night, settings):
    event = at_commit(night, Incident(), settings)
    assert event is not None
    return event


@pytest.mark.parametrize("code", list(ReasonCode))
def test_of_each_reason_there_is_one_event_or_none(settings, code):
    """A violation and a failure at the commit, a doubt or an empty declaration at the flow's end.

    What is inconclusive by size alone alerts nobody.
    """
    status = Status.ERROR if code is ReasonCode.NOT_RUN else Status.EVALUATED
    first = at_commit(row(code, status=status), Incident(), settings)
    kinds = [one.kind for one in (*([first] if first else []), *events([row(code)], settings))]
    if code.verdict in {Verdict.VIOLATED, Verdict.FAILED}:
        assert kinds == [Kind.VIOLATED if code.verdict is Verdict.VIOLATED else Kind.FAILED]
    elif code.verdict is Verdict.INCONCLUSIVE and not code.by_size:
        assert kinds == [Kind.INCONCLUSIVE]
    else:
        assert kinds == []


def test_a_payload_has_verdict_reason_and_one_first_step(settings):
    night = row(ReasonCode.OVER_POLICY, sees_from=1.5, control_records=40)
    (event,) = events([night], settings)
    payload = json.loads(json.dumps(event.payload(), allow_nan=False))
    assert (payload["model"], payload["day"]) == ("ads", str(DAY))
    assert (payload["verdict"], payload["reason_code"]) == ("inconclusive", "over_policy")
    assert payload["event"] == "privaudit.inconclusive"
    assert payload["next_step"].startswith("inconclusive: over_policy. Next (model owner): Train")
    assert set(payload["figures"]) == set(FIGURES)
    assert payload["figures"]["epsilon_lower"] == 1.239
    assert (payload["figures"]["sees_from"], payload["figures"]["control_records"]) == (1.5, 40)
    assert payload["report"] == "https://example.com/r/"
    assert payload["notify"] == ["ads@example.com"]


def test_a_new_doubt_is_told_with_what_is_new(settings):
    given = {"detail": "rows_miscounted", "remarks": ("rows_miscounted", "rows_left_out")}
    (event,) = events([row(ReasonCode.ROWS_UNACCOUNTED, **given)], settings)
    assert event.subject.endswith("it is inconclusive: rows_unaccounted")
    assert event.reason == "New since 28 days: rows miscounted. It is so."


def test_the_same_record_gives_the_same_id_and_another_gives_another(settings):
    def identity(code=ReasonCode.THIS_NIGHT, **changes):
        return commit_event(row(code, **changes), settings).id

    assert identity() == identity(reason="Said otherwise.")
    others = {identity(model="b"), identity(audit_id="1"), identity(ReasonCode.NOT_RUN)}
    assert len({identity(), *others}) == 4


def test_a_figure_that_json_has_not_is_null(settings):
    night = row(ReasonCode.THIS_NIGHT, epsilon_lower=math.inf, claim_pvalue=math.nan)
    figures = commit_event(night, settings).payload()["figures"]
    assert figures["epsilon_lower"] is None
    assert figures["claim_pvalue"] is None


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({}, MANIFEST),
        ({"source": "{}"}, SETTINGS),
        ({"label_column_holds": "secret"}, None),
        ({"mechanism": None}, MANIFEST),
        ({"secret": "membership"}, None),
    ],
)
def test_nights_together_ask_what_the_label_column_holds_where_nobody_says(
    settings, changes, where
):
    given = {"mechanism": "randomized_response", "epsilon_standing": 0.7319}
    together = {
        "refuted_together": True,
        "verdict_together": "violated",
        "reason_code_together": "nights_together",
    }
    (event,) = events([row(**given | together | changes)], settings)
    assert (event.kind, event.stage) == (Kind.VIOLATED, Stage.BEGINS)
    assert (event.verdict, event.reason_code) == ("violated", "nights_together")
    assert event.payload()["figures"]["epsilon_standing"] == 0.7319
    told = (
        "The nights up to this one, each held against what was declared for it, refute together "
        "that every declaration was true; this night alone does not. Under this night's family and "
        "delta they prove that the loss is at least 0.73."
    )
    if where is not None:
        told += f" {label_column_warning((given | changes)['mechanism'], None, said=where)}"
    assert event.reason == told


def test_all_that_changed_of_a_night_is_one_event(settings):
    """A receiver drops an event whose id it knows: another change has another."""
    change = "Declared was 3.6 for replacing until 2026-03-01, and is nothing on 2026-03-02."
    (event,) = events([row(declaration_change=change, inputs_changed="Labels did.")], settings)
    assert (event.kind, event.subject) == (Kind.CHANGED, f"ads on {DAY}: its declaration changed")
    kept = "Each night stays held against what was declared for it."
    assert event.reason == f"{change} {kept} Labels did."
    (other,) = events([row(inputs_changed="Labels did.")], settings)
    (later,) = events([row(inputs_changed="Labels came late.")], settings)
    assert len({event.id, other.id, later.id}) == 3


def test_a_model_that_leaves_the_settings_is_told_to_all_others(settings):
    warehouse = Warehouse(settings.warehouse)
    put_rows(warehouse, [built.evaluated("gone", DAY - dt.timedelta(days=1))])
    (event,) = events([row()], settings)
    assert (event.kind, event.model) == (Kind.MISSING, "gone")
    assert event.subject == f"gone on {DAY}: the settings no longer list it"
    assert event.notify == ("ads@example.com",)


def test_absence_is_told_with_the_deadline_in_its_zone(settings):
    event = missing("ads", dt.date(2026, 3, 2), settings)
    assert event.kind is Kind.MISSING
    assert event.reason == "No audit of ads for 2026-03-02 was committed by 2026-03-03 07:30 CET."


SAME = {"dataset": "clicks", "neighbors": "replace", "delta_declared": 0.0}


def test_models_that_exceed_the_total_of_their_labels_are_told(tmp_path):
    settings = load_settings(write_settings(tmp_path, ["a", "b"]))
    records = [built.evaluated(name, DAY, epsilon_declared=1.0, **SAME) for name in ("a", "b")]
    put_rows(Warehouse(settings.warehouse), records)
    nights = [row(model=name) for name in ("a", "b")]
    assert events(nights, settings) == []
    for total, told in ((1.5, 1), (2.0, 0)):
        limited = settings.model_copy(update={"together": TogetherSettings(epsilon=total)})
        found = events(nights, limited)
        assert len(found) == told
        assert all(one.kind is Kind.CHANGED for one in found)
        assert all("compose to 2. The total of 1.5 is exceeded." in one.reason for one in found)


def test_a_total_that_is_exceeded_by_more_is_another_event(tmp_path):
    """A receiver drops an event whose id it knows: 9 and 59 about the same labels had one."""
    settings = load_settings(write_settings(tmp_path, ["ads"]))
    limited = settings.model_copy(update={"together": TogetherSettings(epsilon=8.0)})
    given = {"dataset": "clicks", "neighbors": "replace", "declared_by": "anna"}
    ids = set()
    for ahead, epsilon in enumerate((9.0, 50.0)):
        record = built.night(ahead, epsilon_declared=epsilon, trained_since=DAY, **given)
        put_rows(Warehouse(settings.warehouse), [record])
        (found,) = events([row(day=DAY + dt.timedelta(days=ahead))], limited)
        assert found.day == DAY
        ids.add(found.id)
    assert len(ids) == 2


def test_an_event_about_one_runs_plan_says_that_seeds_can_be_tried(settings):
    """Of a hundred seeds some accuse an honest model, in the words of a night's own verdict."""
    tried = commit_event(row(ReasonCode.THIS_NIGHT, exploratory=True), settings)
    asked = commit_event(row(ReasonCode.THIS_NIGHT), settings)
    assert "by another plan" in tried.subject
    assert "of several plans or seeds one may refute what is true" in tried.reason
    assert "by another plan" not in asked.subject
    assert "seeds" not in asked.reason
    assert (tried.incident, asked.incident is None) == (None, False)
    assert (tried.is_new_violation, asked.is_new_violation) == (False, True)
