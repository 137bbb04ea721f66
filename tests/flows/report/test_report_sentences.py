"""The report's words: each claims at most what its figure proves."""

import datetime as dt

import pytest

from flows.report import sentences
from flows.report.evidence_sentences import (
    curve_sentence,
    slices_sentence,
)
from flows.report.history import AuditedNight, History
from privcore.lower_bounds.verdicts import Verdict
from tests.support.report import everything_beside, identity, record
from workers.warehouse.schema import BoundRow, SliceRow

DAY = dt.date(2013, 2, 14)


def night(model="m", verdict=Verdict.UNDECLARED, lower=0.98, declared=None, **changes):
    values = identity() | {
        "model": model,
        "day": DAY,
        "recorded_at": dt.datetime(2013, 3, 1, tzinfo=dt.UTC),
        "status": "evaluated",
        "verdict": verdict,
        "reason": "the reason",
        "secret": "label",
        "significance": 0.05,
        "plan": "{}",
        "epsilon_lower": lower,
        "epsilon_declared": declared,
    }
    return AuditedNight(**values | changes)


def sentence(*nights):
    return sentences.night_sentence({n.model: n for n in nights})


BROKEN = night("delays-broken", Verdict.VIOLATED, 0.98, 0.5)
PLAIN = night("delays-plain", Verdict.UNDECLARED, 1.1)
PRIVATE = night("delays-private", Verdict.CONSISTENT, 0.4, 2.0)
DRIFTING = night("drifting", Verdict.PROXY_UNFAITHFUL, 0.7, 0.5)
SILENT = night("silent", Verdict.NOT_EVALUABLE, None)


def test_the_sentence_of_the_demo(hold_sentences):
    hold_sentences(sentence(BROKEN, PLAIN, PRIVATE))


@pytest.mark.parametrize(
    "nights",
    [
        pytest.param((PRIVATE,), id="consistent"),
        pytest.param((PLAIN, night("b", lower=0.0)), id="undeclared"),
        pytest.param(
            (PRIVATE.model_copy(update={"standing": "violated", "epsilon_standing": 5.75}),),
            id="violated over all nights",
        ),
        pytest.param((PRIVATE, SILENT), id="no figure"),
        pytest.param((DRIFTING, PRIVATE), id="proxy unfaithful"),
        pytest.param((BROKEN,), id="violated"),
    ],
)
def test_the_sentence_counts_what_it_says(nights, hold_sentences):
    hold_sentences(sentence(*nights))


def test_many_violations_are_counted_beyond_the_third():
    said = sentence(*(night(f"m{i}", Verdict.VIOLATED, 3.0, 1.0) for i in range(6)))
    assert said.count("leaks at least 3.0, declared 1") == 3
    assert said.endswith("3 more leak beyond what was declared")


def test_a_model_without_a_record_of_the_night_stands_by_its_last(hold_sentences):
    tomorrow = PRIVATE.day + dt.timedelta(days=1)
    old = BROKEN.model_copy(update={"model": "old"})
    new = PRIVATE.model_copy(update={"day": tomorrow})
    hold_sentences(sentences.night_sentence({"old": old, "m": new}, tomorrow))


def test_no_leak_proved_is_not_no_leak(hold_sentences):
    silent = night(lower=0.0, verdict=Verdict.CONSISTENT, declared=2.0)
    hold_sentences(sentences.model_sentence(silent))
    assert "odds" in sentences.meaning(silent)
    assert "at least" not in sentences.meaning(silent)


def test_a_night_without_figures_gives_its_reason(hold_sentences):
    hold_sentences(sentences.model_sentence(SILENT))
    assert sentences.meaning(SILENT) == "the reason"


def test_a_drifting_night_concludes_nothing(hold_sentences):
    hold_sentences(sentences.model_sentence(DRIFTING))


def test_the_paper_figure_is_set_against_what_is_proved(hold_sentences):
    nights = tuple(
        night(verdict=Verdict.CONSISTENT, lower=lower, declared=2.0).model_copy(
            update={
                "day": DAY + dt.timedelta(days=offset),
                "epsilon_paper": paper,
                "control_epsilon_paper": 0.95,
            }
        )
        for offset, (lower, paper) in enumerate([(0.3, 1.9), (0.6, 2.4)])
    )
    hold_sentences(sentences.paper_sentence(History("m", nights)))


def test_nights_on_which_the_control_leaks_are_named(hold_sentences):
    nights = tuple(
        night().model_copy(
            update={"day": DAY + dt.timedelta(days=offset), "control_epsilon_lower": leak}
        )
        for offset, leak in enumerate([0.0, 0.21, 0.3])
    )
    hold_sentences(
        sentences.control_sentence(History("m", nights)),
        sentences.control_sentence(History("m", nights[:1])),
    )


def test_verdicts_are_tallied_the_worst_first(hold_sentences):
    nights = tuple(
        entry.model_copy(update={"day": DAY + dt.timedelta(days=offset)})
        for offset, entry in enumerate([PRIVATE, PRIVATE, BROKEN, SILENT])
    )
    hold_sentences(
        sentences.tally_sentence(History("m", nights)),
        sentences.tally_sentence(History("m", nights[:2])),
    )


def test_days_are_listed_by_month():
    days = [dt.date(2013, 1, 14), dt.date(2013, 1, 15), dt.date(2013, 2, 2)]
    assert sentences.short_days(days) == "14, 15 Jan and 2 Feb"


def test_what_believes_the_proxy_is_said_to_and_held_against_the_holdout(hold_sentences):
    wrong = PRIVATE.model_copy(
        update={"epsilon_if_proxy_right": 6.2, "control_epsilon_if_proxy_right": 3.1}
    )
    fair = PRIVATE.model_copy(
        update={"epsilon_if_proxy_right": 0.5, "control_epsilon_if_proxy_right": 0.0}
    )
    hold_sentences(sentences.believing_sentence(wrong), sentences.believing_sentence(fair))
    assert "proxy" not in sentences.meaning(wrong)


GRID = [
    night(
        verdict=verdict,
        lower=lower,
        declared=declared,
        epsilon_ceiling=ceiling,
        records=900,
        control_records=100,
        epsilon_if_proxy_right=believed,
        control_epsilon_if_proxy_right=control,
    )
    for verdict, lower, declared in (
        (Verdict.CONSISTENT, 0.0, 0.0),
        (Verdict.CONSISTENT, 0.0, 2.0),
        (Verdict.CONSISTENT, 1.2, 2.0),
        (Verdict.VIOLATED, 1.2, 0.0),
        (Verdict.VIOLATED, 1.2, 0.5),
        (Verdict.UNDECLARED, 0.0, None),
        (Verdict.UNDECLARED, 1.2, None),
        (Verdict.PRIVATISED, 0.0, None),
        (Verdict.PRIVATISED, 1.2, None),
        (Verdict.NOT_A_GUARANTEE, 0.0, None),
        (Verdict.NOT_A_GUARANTEE, 1.2, None),
        (Verdict.PROXY_UNFAITHFUL, 0.0, 0.5),
        (Verdict.PROXY_UNFAITHFUL, 0.0, 0.0),
    )
    for ceiling in (0.0, 3.0)
    if lower <= ceiling
    for believed in (0.0, 2.5)
    for control in (0.0, 0.4)
]


@pytest.mark.parametrize("one", GRID, ids=range(len(GRID)))
def test_nothing_is_said_to_be_at_least_nothing(one):
    said = [
        sentence(one),
        sentences.model_sentence(one),
        sentences.meaning(one),
        sentences.control_sentence(History("m", (one,))),
        curve_sentence(one, []),
    ]
    for text in said:
        for nonsense in ("at least 0 ", "at least 0.0", "more than 0.0", "1.00 to 1", "\u2013"):
            assert nonsense not in text, text
        assert "declared 0.5, which does not refute" not in text


def test_sentences_of_every_verdict(hold_sentences):
    said = {(one.verdict, one.epsilon_lower > 0.0): sentences.model_sentence(one) for one in GRID}
    assert len(set(said.values())) == len(said) == 10
    hold_sentences(*(f"{verdict}: {text}" for (verdict, _), text in sorted(said.items())))


def test_what_nothing_means_is_said_in_words(hold_sentences):
    silent = night(
        verdict=Verdict.CONSISTENT, lower=0.0, declared=0.0, epsilon_ceiling=0.0, records=900,
        control_records=3, epsilon_if_proxy_right=0.0, control_epsilon_if_proxy_right=0.4,
    )  # fmt: skip
    hold_sentences(sentences.meaning(silent), sentences.believing_sentence(silent))


@pytest.mark.parametrize("control", [0.0, 0.3])
@pytest.mark.parametrize("audit", [0.0, 0.8])
def test_the_games_curve_in_words(audit, control, hold_sentences):
    one = record("ads")
    bounds = [
        BoundRow(
            **identity(), arm=arm, family="pure_dp", fraction=0.1, guesses=174, correct=150.0,
            epsilon_lower=bound,
        )
        for arm, bound in (("audit", audit), ("control", control))
    ]  # fmt: skip
    hold_sentences(curve_sentence(one, bounds))


def test_slices_of_which_none_leaks(hold_sentences):
    rows = [row for row in everything_beside(record("ads")) if isinstance(row, SliceRow)]
    silent = [row.model_copy(update={"epsilon_lower": 0.0}) for row in rows]
    hold_sentences(slices_sentence(record("ads"), rows), slices_sentence(record("ads"), silent))
