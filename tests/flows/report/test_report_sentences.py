"""The report's words: each claims at most what its figure proves."""

import datetime as dt

import pytest

from flows.report import sentences
from flows.report.history import History
from flows.report.sentences import assumed, curve_sentence, slices_sentence
from privcore.lower_bounds.verdicts import Verdict
from tests.support.report import CODES, FIRST, everything_beside, identity, record
from workers.warehouse.schema import BoundRow, SliceRow

DAY = dt.date(2013, 2, 14)


def night(model="m", verdict=Verdict.UNDECLARED, lower=0.98, declared=None, **changes):
    figures = {"epsilon_lower": lower, "epsilon_declared": declared, "verdict_together": None}
    return record(model, (DAY - FIRST).days, verdict, **figures | changes)


def headline(*nights, on=None):
    return sentences.headline([History(one.model, (one,)) for one in nights], on)


BROKEN = night("delays-broken", Verdict.VIOLATED, 0.98, 0.5, reason_code="this_night")
PLAIN = night("delays-plain", Verdict.UNDECLARED, 1.1, reason_code="nothing_declared")
PRIVATE = night("delays-private", Verdict.NOT_REFUTED, 0.4, 2.0)
SMALL = night("clinic", Verdict.INCONCLUSIVE, 0.0, 0.5, reason_code="few_held_out")
SOON = night(
    "claims", Verdict.INCONCLUSIVE, 0.2, 2.0, reason_code="few_held_out",
    verdict_together="inconclusive", reason_code_together="nights_needed",
    conclusive_on=dt.date(2013, 2, 19),
)  # fmt: skip
SUSPECT = night("fraud", Verdict.INCONCLUSIVE, 0.0, 1.0, reason_code="holdout_suspect")
SILENT = night("silent", Verdict.FAILED, None, reason_code="labels_missing")
TOGETHER = night(
    "ads-ctr", Verdict.NOT_REFUTED, 0.2, 1.0, verdict_together="violated",
    reason_code_together="nights_together", nights_together=41,
)  # fmt: skip
EARLIER = night(
    "rank", Verdict.FAILED, None, 1.0, reason_code="labels_missing",
    verdict_together="violated", reason_code_together="earlier_night",
)  # fmt: skip


@pytest.mark.parametrize(
    "nights",
    [
        pytest.param((PRIVATE, PLAIN), id="quiet"),
        pytest.param((PRIVATE, BROKEN, PLAIN, SMALL), id="violated"),
        pytest.param((TOGETHER, EARLIER), id="violated, not by this night"),
        pytest.param((SMALL, SOON), id="nothing conclusive"),
        pytest.param((SMALL, SILENT, SUSPECT, PLAIN), id="doubts and failures"),
        pytest.param((PLAIN,), id="nothing declared"),
        pytest.param((), id="no record"),
    ],
)
def test_the_headline_says_how_all_models_stand(nights, hold_sentences):
    hold_sentences(*headline(*nights))


@pytest.mark.parametrize("other", [PRIVATE, SILENT, SMALL, PLAIN], ids=lambda one: one.verdict)
def test_every_violated_model_is_named_first_up_to_ten(other):
    names = [f"m{number:02}" for number in range(12)]
    violated = [night(name, Verdict.VIOLATED, 3.0, 1.0, reason_code="this_night") for name in names]
    for shown, more in ((10, False), (12, True)):
        first, *_ = headline(other, *violated[:shown])
        assert first.startswith("VIOLATED: ")
        assert first.count("leaks at least 3.00, declared 1") == 10
        assert first.endswith("; and 2 more.") == more


def test_failed_models_and_doubts_are_named_up_to_three():
    def copies(one):
        return [one.model_copy(update={"model": f"{one.model}-{n}"}) for n in range(5)]

    said = headline(PRIVATE, *copies(SILENT), *copies(SUSPECT))
    for word, code in (
        ("Failed: silent", "labels_missing"),
        ("Inconclusive: fraud", "holdout_sus"),
    ):
        (sentence,) = (one for one in said if one.startswith(word))
        assert sentence.count(code) == 3
        assert sentence.endswith(", and 2 more.")


@pytest.mark.parametrize("one", [BROKEN, PLAIN, PRIVATE, SMALL, SUSPECT, SILENT, TOGETHER])
def test_the_headline_never_calms(one):
    for word in ("consistent", "calm", " of 1 model "):
        assert word not in " ".join(headline(one, PRIVATE)).lower()


def test_a_model_without_a_record_of_the_night_stands_by_its_last(hold_sentences):
    tomorrow = PRIVATE.day + dt.timedelta(days=1)
    new = PRIVATE.model_copy(update={"day": tomorrow})
    hold_sentences(*headline(BROKEN, new, on=tomorrow))


def test_a_violation_names_its_first_night():
    days = [DAY + dt.timedelta(days=offset) for offset in range(4)]
    nights = [BROKEN, PRIVATE, BROKEN, BROKEN]
    dated = (one.model_copy(update={"day": day}) for one, day in zip(nights, days, strict=True))
    (said,) = sentences.headline([History("m", tuple(dated))], None)
    assert said == "VIOLATED: m leaks at least 0.98, declared 0.5, since 16 February 2013."


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


GRID = [
    night(
        verdict=verdict,
        lower=lower,
        declared=declared,
        reason_code=CODES[verdict],
        control_epsilon_lower=control,
        epsilon_if_proxy_right=believed,
        control_epsilon_if_proxy_right=control,
        epsilon_paper=believed,
    )
    for verdict, lower, declared in (
        (Verdict.NOT_REFUTED, 0.0, 0.0),
        (Verdict.NOT_REFUTED, 1.2, 2.0),
        (Verdict.VIOLATED, 1.2, 0.0),
        (Verdict.VIOLATED, 1.2, 0.5),
        (Verdict.UNDECLARED, 0.0, None),
        (Verdict.UNDECLARED, 1.2, None),
        (Verdict.INCONCLUSIVE, 0.0, 0.5),
    )
    for believed in (0.0, 2.5)
    for control in (0.0, 0.4)
]


@pytest.mark.parametrize("one", GRID, ids=range(len(GRID)))
def test_nothing_is_said_to_be_at_least_nothing(one):
    history = History("m", (one,))
    said = [*headline(one), sentences.control_sentence(history), curve_sentence(one, [])]
    for text in said:
        for nonsense in ("at least 0 ", "at least 0.00", "more than 0.00", "1.00 to 1", "\u2013"):
            assert nonsense not in text, text


@pytest.mark.parametrize(
    ("change", "words"),
    [({}, "holdout was drawn at random"), ({"secret": "membership"}, "split into")],
)
def test_what_a_bound_assumes_is_of_its_method(change, words):
    assert words in assumed(record("ads").model_copy(update=change))


@pytest.mark.parametrize("control", [0.0, 0.3])
@pytest.mark.parametrize("audit", [0.0, 0.8])
def test_the_games_curve_in_words(audit, control, hold_sentences):
    one = record("ads", delta_declared=0.0)
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
    hold_sentences(slices_sentence(rows), slices_sentence(silent))
