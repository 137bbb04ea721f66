"""One public test over nights: its state, its charge, and who tries to look for free."""

import datetime as dt
import pathlib
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from privcore.exceptions import TerminalError
from privcore.publication import RecurringTest
from tests.support.lake import DAY
from workers.publication.charges import OverspentError
from workers.publication.erased import entry_of, erased
from workers.publication.publish import differences, opening_of, publish
from workers.publication.published_nights import nights_of
from workers.publication.recurring import AskedError
from workers.publication.statement_conclusion import conclusion_of
from workers.publication.statement_row import PublicVerdict, Statement
from workers.publication.statement_store import ErasedError, Statements
from workers.publication.threshold_night import ThresholdNight

KEY = bytes(range(32))
Maker = Callable[..., Any]
NIGHTS = 5
LOUD, QUIET = 10**7, -(10**7)


@pytest.fixture
def statements(tmp_path: pathlib.Path) -> Statements:
    return Statements(str(tmp_path / "statements"))


@pytest.fixture
def night(exact: Maker) -> Maker:
    """Return a maker of nights of labels that recur: the n-th day, silent unless told."""

    def make(number: int = 0, **changes: Any) -> Any:
        day = DAY + dt.timedelta(days=number)
        threshold = RecurringTest(Fraction(1, 10), 0.04, NIGHTS).alarms.threshold(0.04)
        given = {
            "day": day, "audit_id": f"{number:032x}", "labels_digest": f"{number:064x}",
            "labels_recur": True, "test_nights": NIGHTS, "threshold": threshold,
            "evidence_figure": QUIET, "premises_figure": -5_000, "epsilon_detectable": 1.5,
            "target_sha256": f"{number:064x}",
        }  # fmt: skip
        return exact(**given | changes)

    return make


def ask(statements: Statements, exact: Any, limit: float = 0.1, **more: Any) -> ThresholdNight:
    told = publish(exact, statements=statements, key=KEY, epsilon_per_label=limit, **more)
    assert isinstance(told, ThresholdNight)
    return told


def spent(statements: Statements) -> float:
    return float(sum(one.charge for one in statements.all()))


def test_all_nights_of_a_test_cost_once(statements: Statements, night: Maker) -> None:
    """Three silent nights and an alarm fit where one statement does; the next test does not.

    A limit that is lowered in the middle refuses no night that is paid for.
    """
    told = [ask(statements, night(number)) for number in range(3)]
    told.append(ask(statements, night(3, evidence_figure=LOUD), limit=0.05))
    assert [one.test_night for one in told] == [1, 2, 3, 4]
    assert [one.alarm for one in told] == [False, False, False, True]
    assert {one.test_id for one in told} == {told[0].test_id}
    assert [float(one.charge) for one in told] == [0.1, 0, 0, 0]
    assert [one.verdict for one in told[2:]] == ["not_refuted", "violated"]
    assert told[2].premises_figure is told[2].premises_pvalue is None
    assert spent(statements) == 0.1
    with pytest.raises(OverspentError, match=r"0.1, |exceed"):
        ask(statements, night(4))
    anew = ask(statements, night(4), limit=0.2)
    assert (anew.test_night, float(anew.charge)) == (1, 0.1)
    assert anew.test_id != told[0].test_id


def test_a_test_ends_with_its_last_night(statements: Statements, night: Maker) -> None:
    told = [ask(statements, night(number), limit=0.2) for number in range(NIGHTS + 1)]
    assert [one.test_night for one in told] == [1, 2, 3, 4, 5, 1]
    assert told[NIGHTS - 1].ends_test
    assert "next night begins a new one" in conclusion_of(told[NIGHTS - 1])
    assert spent(statements) == 0.2


def test_doubtful_assumptions_take_an_alarm_back_and_end_the_test(
    statements: Statements, night: Maker
) -> None:
    told = ask(statements, night(0, evidence_figure=LOUD, premises_figure=LOUD))
    assert (told.alarm, told.verdict) == (True, PublicVerdict.DOUBTFUL)
    assert told.ends_test
    assert "what it assumes is doubtful" in conclusion_of(told)
    vacuous = ask(statements, night(1, evidence_figure=LOUD, vacuous=True), limit=0.2)
    assert vacuous.verdict == PublicVerdict.VACUOUS


def test_the_same_night_has_its_answer_and_no_other(statements: Statements, night: Maker) -> None:
    """Asked again with the same labels, with other labels, with another model or declaration."""
    first = ask(statements, night(0))
    assert ask(statements, night(0)) == first
    other_labels = {"labels_digest": "e" * 64, "audit_id": "f" * 32, "evidence_figure": LOUD}
    assert ask(statements, night(0, **other_labels)) == first
    for changed in ({"target_sha256": "9" * 64}, {"epsilon_declared": 0.1}, {"unit": "person"}):
        with pytest.raises(AskedError, match="once a day"):
            ask(statements, night(0, **other_labels, **changed))
    with pytest.raises(TerminalError, match="leave out --again"):
        ask(statements, night(0, **other_labels), again=True)
    assert statements.all() == [first]


def test_a_declaration_that_changes_in_the_middle_neither_ends_nor_renews_the_test(
    statements: Statements, night: Maker
) -> None:
    told = [ask(statements, night(0)), ask(statements, night(1, epsilon_declared=20.0))]
    told.append(ask(statements, night(2, epsilon_declared=0.5, evidence_figure=LOUD)))
    assert [one.test_night for one in told] == [1, 2, 3]
    assert told[2].verdict == PublicVerdict.VIOLATED
    assert "declared 0.5 is refuted" in conclusion_of(told[2])


@pytest.mark.parametrize(
    "changed", [{"epsilon_public": 0.2}, {"significance": 0.01}, {"test_nights": 9}]
)
def test_other_settings_are_another_test_charged_anew(
    statements: Statements, night: Maker, changed: dict[str, Any]
) -> None:
    first = ask(statements, night(0))
    with pytest.raises(OverspentError):
        ask(statements, night(1, **changed))
    other = ask(statements, night(1, **changed), limit=1.0)
    assert (other.test_night, other.test_id == first.test_id) == (1, False)
    assert ask(statements, night(2), limit=1.0).test_id == first.test_id


def test_the_thresholds_noise_is_drawn_once_and_each_nights_anew(
    statements: Statements, night: Maker
) -> None:
    """Names of both are in the log; a replay from nothing gives the same, other labels do not."""
    told = [ask(statements, night(number)) for number in range(2)]
    again = Statements(f"{statements.uri}-again")
    replayed = [ask(again, night(number)) for number in range(2)]
    same = {"published_at"}
    assert [one.model_dump(exclude=same) for one in replayed] == [
        one.model_dump(exclude=same) for one in told
    ]
    other = Statements(f"{statements.uri}-other")
    changed = ask(other, night(0, labels_digest="e" * 64))
    assert changed.test_id != told[0].test_id
    assert told[0].statement_id != told[1].statement_id


def test_other_labels_change_the_answer_and_what_is_random_alone(
    statements: Statements, night: Maker
) -> None:
    noisy = {
        "statement_id", "published_at", "labels_commitment", "audit_commitment", "test_id",
        "alarm", "premises_figure", "premises_pvalue", "verdict",
    }  # fmt: skip
    one = ask(statements, night(0))
    other = ask(
        Statements(f"{statements.uri}-other"),
        night(0, labels_digest="e" * 64, audit_id="f" * 32, evidence_figure=LOUD),
    )
    assert one.model_dump(exclude=noisy) == other.model_dump(exclude=noisy)
    assert (one.alarm, other.alarm) == (False, True)


def test_erasing_a_night_ends_its_test_and_keeps_the_charge(
    statements: Statements, night: Maker
) -> None:
    """The rest of the log does not show whether the night was the alarm, so it counts as one."""
    told = [ask(statements, night(number)) for number in range(3)]
    stone = '{"payload": ""}'
    moment = dt.datetime(2026, 11, 24, tzinfo=dt.UTC)
    gone = [erased(one, tombstone=stone, reason="r", time=moment) for one in told]
    statements.erase(told[1].statement_id, lambda _: gone[1])
    assert [float(one.charge) for one in gone] == [0.1, 0, 0]
    assert entry_of(gone[1].content()) == gone[1]
    kept = set(gone[1].model_dump()) & {"alarm", "verdict", "premises_pvalue", "premises_figure"}
    assert not kept
    with pytest.raises(ErasedError):
        ask(statements, night(1))
    with pytest.raises(AskedError):
        ask(statements, night(1, target_sha256="0" * 64))
    with pytest.raises(OverspentError):
        ask(statements, night(3))
    assert ask(statements, night(3), limit=0.2).test_night == 1


def test_many_writers_ask_one_test(statements: Statements, night: Maker) -> None:
    """Five nights at once and each twice: one test, each night once, one charge."""
    failed: list[BaseException] = []

    def write(number: int) -> None:
        try:
            ask(Statements(statements.uri), night(number % NIGHTS))
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2 * NIGHTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = statements.all()
    assert not failed
    assert sorted(one.test_night for one in told if isinstance(one, ThresholdNight)) == [
        1, 2, 3, 4, 5,
    ]  # fmt: skip
    assert len({one.day for one in told}) == NIGHTS
    assert spent(statements) == 0.1


def test_statements_and_tests_on_the_same_labels_are_charged_together(
    statements: Statements, night: Maker, exact: Maker
) -> None:
    ask(statements, night(0))
    with pytest.raises(OverspentError):
        ask(statements, night(0, model="other"))
    with pytest.raises(OverspentError):
        publish(exact(), statements=statements, key=KEY, epsilon_per_label=0.1)
    assert ask(statements, night(0, model="other"), limit=0.2).test_night == 1
    made = publish(exact(model="third"), statements=statements, key=KEY, epsilon_per_label=0.3)
    assert isinstance(made, Statement)


def test_an_opening_recomputes_every_night_of_its_test(
    statements: Statements, night: Maker
) -> None:
    loud = night(1, evidence_figure=LOUD)
    told = [ask(statements, night(0)), ask(statements, loud)]
    opening = opening_of(told[0].test_id, KEY)
    assert differences(told[0], night(0), opening) == ()
    assert differences(told[1], loud, opening) == ()
    assert "premises_figure" in differences(told[1], night(1), opening)
    forged = told[0].model_copy(update={"alarm": True})
    assert differences(forged, night(0), opening) == ("alarm",)
    wrong = differences(told[0], night(0), opening_of("0" * 32, KEY))
    assert {"audit_commitment", "labels_commitment"} <= set(wrong)


def test_answers_count_in_no_standing_over_nights(statements: Statements, night: Maker) -> None:
    ask(statements, night(0, evidence_figure=LOUD))
    (shown,) = nights_of(statements.all(), "ads")
    assert shown.standing is False
