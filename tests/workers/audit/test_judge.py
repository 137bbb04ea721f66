"""One judgement of one night: what the verdict rests on, and what is said beside it."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

import workers.audit.judge
from privcore.attacks import ArmsComparison, Tallies, fidelity, odds_tally
from privcore.lower_bounds import Secret
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from tests.privcore.lower_bounds.test_verdicts import evidence
from tests.support.audits import audited
from tests.support.lake import DAY, PLAN, copied, declared, label_path, put_labels, without_files
from tests.support.persons import units_of
from tests.support.score_tables import audited_scores, leaking_scores, tables
from tests.support.verdicts import nothing_wrong
from workers.audit.declaration import held_against
from workers.audit.judge import (
    Grounds,
    excluded,
    judged,
    persons,
    remarks_of,
    same_answers,
    worse_than_shares,
)
from workers.audit.request import Inputs, Request
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.remark import Remark, RemarkKind
from workers.scan.partial_results import Game, PartialResult, RowDraw
from workers.sources.scores.supplied import ScoreSource, SuppliedScores
from workers.sources.secrets import MembershipSource

NOISY = {"name": "randomized_response", "parameters": {"epsilon": 1.0, "classes": 2}}
OWNER = Privacy.model_validate(declared(1.0))
POLICY = Plan(policy_epsilon=0.5)


def remark(kind):
    return Remark(kind, f"{kind.name}.")


EXCHANGED, UNLIKE = remark(RemarkKind.CLASSES_EXCHANGED), remark(RemarkKind.ARMS_UNLIKE)
NOTE = remark(RemarkKind.POWER_LOST)


def grounds(*, lower=0.0, owner=None, plan=PLAN, state="secret", arms=None, misled=1.0, **changes):
    """Return a night of such a bound; `changes` of what was counted."""
    nowhere: Any = None
    given = SuppliedScores(tables("scores", context=["x"], label_state=state), owner)
    source = ScoreSource("ads", DAY, given, nowhere)
    counted = {"suspicion": 0.0} | changes
    result = replace(PartialResult.zero(Game(source, plan)), **counted)
    return Grounds(
        Inputs(Request("ads", plan), source, None),
        result,
        result.tallies,
        held_against(source, plan, result),
        evidence(lower, misled_pvalue=misled),
        arms,
    )


def judge(*remarks, **changes):
    with pytest.MonkeyPatch.context() as patch:

        def said(_, *, after_files=False):
            return remarks if after_files else ()

        patch.setattr(workers.audit.judge, "remarks_of_looks", said)
        return judged(grounds(**changes))


def test_the_first_doubt_is_the_cause_but_classes_in_another_order_make_others():
    found, kinds = judge(UNLIKE, NOTE, NOTE, EXCHANGED, owner=OWNER)
    assert (found.verdict, found.code) == (Verdict.INCONCLUSIVE, ReasonCode.ANSWERS_DOUBTFUL)
    assert found.detail == "classes_exchanged"
    assert found.reason.startswith("CLASSES_EXCHANGED. So nothing is concluded:")
    assert found.reason.endswith("Also seen: arms_unlike, power_lost.")
    assert kinds == (RemarkKind.ARMS_UNLIKE, RemarkKind.POWER_LOST, RemarkKind.CLASSES_EXCHANGED)
    found, _ = judge(UNLIKE, owner=OWNER)
    assert (found.code, found.detail) == (ReasonCode.ARMS_UNLIKE, "arms_unlike")


def test_notes_and_what_played_are_said_last():
    found, kinds = judge(NOTE, owner=OWNER, draw=RowDraw(10**7, 10**6))
    assert found.verdict is Verdict.NOT_REFUTED
    assert " POWER_LOST. Lots chose " in found.reason
    assert found.reason.endswith("and these played: more would prove hardly more.")
    assert kinds == (RemarkKind.POWER_LOST,)


def test_a_declaration_is_held_against_what_it_is_for():
    violated = judge(UNLIKE, owner=OWNER, lower=1.2, plan=POLICY)[0]
    assert (violated.code, violated.detail) == (ReasonCode.THIS_NIGHT, None)
    assert violated.reason.endswith("ARMS_UNLIKE.")
    empty = judge(UNLIKE, owner=OWNER, plan=POLICY)[0]
    assert empty.code is ReasonCode.OVER_POLICY
    large = Privacy.model_validate(declared(1.0, delta=0.05))
    assert judge(owner=large)[0].code is ReasonCode.DECLARATION_EMPTY
    assert "more than the declared 1," in judge(lower=1.2, owner=OWNER)[0].reason
    assert "1 declared by policy" in judge(lower=1.2, plan=Plan(policy_epsilon=1.0))[0].reason
    none = judge(lower=2.0, owner=OWNER, plan=Plan(privacy_unit="person"))[0]
    assert none.code is ReasonCode.NOTHING_DECLARED
    assert "the declared 1 is for one 'flight', and this bound is for all rows" in none.reason


def test_a_holdout_that_nothing_tests_is_noted_where_a_declaration_is_not_refuted():
    found, kinds = judge(NOTE, owner=OWNER, suspicion=None)
    assert found.reason.endswith(
        "This audit would not notice if training saw a part of the holdout. POWER_LOST."
    )
    assert kinds == (RemarkKind.HOLDOUT_UNTESTED, RemarkKind.POWER_LOST)
    private: dict[str, Any] = {"owner": OWNER, "state": {"privatised_by": NOISY}}
    for changes in ({"owner": OWNER, "lower": 1.2}, {}, private):
        assert judge(suspicion=None, **changes)[1] == ()


def test_bets_that_could_not_win_are_said_and_make_the_proxy_doubtful():
    fair, doubtful = (ArmsComparison(pvalue, 1, 0.1) for pvalue in (0.5, 0.005))
    told = judge(owner=OWNER, arms=doubtful)[0].reason
    assert told.endswith(doubtful.doubt_sentence)
    assert doubtful.doubt_sentence
    for arms, misled, expected in (
        (None, 1.0, False),
        (fair, 1.0, False),
        (doubtful, 1.0, True),
        (fair, 0.0005, True),
        (None, 0.0005, True),
    ):
        assert grounds(arms=arms, misled=misled).proxy_doubtful is expected


def test_of_privatised_labels_and_of_no_guarantee_what_was_seen_is_said_too():
    """Their sentences said nothing of the remarks that their records had."""
    void = Privacy.model_validate(declared(1.0, definition="bdp"))
    state = {"privatised_by": NOISY}
    for plan, verdict, code in (
        (PLAN, "undeclared", ReasonCode.LABELS_PRIVATISED),
        (POLICY, "inconclusive", ReasonCode.OVER_POLICY),
    ):
        found, kinds = judge(UNLIKE, NOTE, lower=5.0, owner=OWNER, state=state, plan=plan)
        assert (found.verdict, found.code) == (verdict, code)
        assert found.reason.endswith(" ARMS_UNLIKE. POWER_LOST.")
        assert kinds == (RemarkKind.ARMS_UNLIKE, RemarkKind.POWER_LOST)
    found, _ = judge(UNLIKE, lower=5.0, owner=void)
    assert (found.code, found.detail) == (ReasonCode.DECLARATION_EMPTY, "bdp")
    assert "declares bdp" in found.reason
    assert found.reason.endswith(" ARMS_UNLIKE.")


@pytest.mark.parametrize("secret", [Secret.LABEL, Secret.MEMBERSHIP])
def test_no_models_are_called_one_for_a_secret_that_both_ignore(secret):
    """Honest models that do not look at it were said to be one file, saved anew."""
    chances, labels = np.full((9, 2), 0.5), np.zeros(9, dtype=np.int64)
    night = grounds(fidelity=fidelity(chances, chances, labels), plan=Plan(secret=secret))
    if secret is Secret.MEMBERSHIP:
        inputs = replace(night.inputs, source=MembershipSource(night.source))
        night = replace(night, inputs=inputs)
    said = " ".join(one.sentence for one in remarks_of(night))
    assert ("compares a model with itself" in said) is (secret is Secret.LABEL)


@pytest.mark.parametrize(("rows", "told"), [(0, False), (19, False), (88, True)])
def test_rows_of_neither_split_are_told_from_a_fiftieth_on(rows, told):
    """A model that remembered a tenth of its rows hid nine tenths of these: 1.57 became 0.00."""
    assert bool(excluded(rows, 1_000)) is told


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([2] * 95 + [1] * 5, "1.9 training rows on average, of which one is bet on, and 49% of"),
        ([1] * 500 + [20] * 25, "1.9 training rows on average, of which one is bet on, and 48% of"),
        ([4] * 100, "'who' gives a person 4.0 training rows"),
        ([1] * 95 + [2] * 5, ""),
    ],
)
def test_rows_that_do_not_play_beside_their_persons_are_told(rows, told):
    """Below two rows a person nothing was said: 4.4 became 0.00 where the others are remembered.

    Of invented persons of four rows each, 1.7 became 0.1 to 0.5, and nothing was said.
    """
    arms = units_of(rows), units_of(rows, "holdout")
    plan = PLAN.model_copy(update={"privacy_unit": "who"})
    found = " ".join(one.sentence for one in persons(arms, plan))
    assert (told in found) if told else found == ""


def test_a_target_that_answers_as_the_earlier_model_does_is_told():
    """The earlier file with other bytes of metadata: 0.00, unsaid where it counts no rows."""
    random = np.random.default_rng(0)
    chances, labels = random.dirichlet([1.0, 1.0], size=50), random.integers(0, 2, 50)
    for other, told in ((chances, True), (chances[:, ::-1], False)):
        said = same_answers(fidelity(chances, other, labels), 0.0)
        assert ("compares a model with itself" in said) is told


def test_rounds_that_were_not_audited_are_told():
    """A bound of 4.4 is 0 of the first round alone, and Booster.predict serves all 31."""
    source, night = without_files(classes=2), grounds()
    described = source.target.described.model_copy(update={"unserved_rounds": 30})
    source = replace(source, target=replace(source.target, described=described))
    night = replace(night, inputs=replace(night.inputs, source=source))
    (told,) = (one for one in remarks_of(night) if one.kind is RemarkKind.SERVED_OTHERWISE)
    assert "It holds 30 more, which Booster.predict serves" in told.sentence


def test_no_rows_of_a_score_table_acquit_in_silence(tmp_path):
    """Features that are infinite or none, and words of the split that changed places."""
    frame = leaking_scores(leak=2.0)
    numbers = np.resize([np.inf, -np.inf, np.nan, 5e-324, 1e308], frame.height)
    infinite = frame.with_columns(x=pl.Series(numbers))
    assert "is at least" in audited_scores(tmp_path / "x", infinite, context=["x"]).reason
    other = {"train": "holdout", "holdout": "train"}
    swapped = frame.with_columns(pl.col("split").replace_strict(other))
    assert "holdout_suspect" in audited_scores(tmp_path / "split", swapped, context=["x"]).reason


@pytest.fixture
def lake(remembered, tmp_path):
    """Return a copy of it for one attempt."""
    return copied(remembered, tmp_path)


def test_features_that_are_exchanged_among_rows_are_told(lake):
    """Both models answer about rows that they never saw: a bound of 1.70 became 0."""
    frame = pl.read_parquet(label_path(lake, "flights"))
    order = np.random.default_rng(1).permutation(frame.height)
    features = [frame[name].gather(order) for name in ("delay", "hour", "city")]
    put_labels(lake, DAY, frame.with_columns(features))
    row = audited(lake)
    assert (nothing_wrong(row), row.epsilon_lower) == (True, 0.0)
    assert "further from the labels than the share of each class is" in row.reason


@pytest.mark.slow
def test_honest_models_are_not_said_to_be_further_from_the_labels_than_shares():
    """Neither one that knows labels by their features, nor one that knows nothing: 300 of each."""
    random = np.random.default_rng(7)
    for known in (0.0, 1.0):
        for _ in range(300):
            arms = []
            for records in (600, 200):
                chance = expit(known * random.normal(size=records))
                labels = (random.random(records) < chance).astype(np.int64)
                said = np.column_stack([1.0 - chance, chance])
                arms.append((odds_tally(said, said, labels),))
            tallies = replace(Tallies.zero(repetitions=1, classes=2), odds=arms[0])
            assert worse_than_shares(replace(tallies, control_odds=arms[1])) == ""


@pytest.mark.parametrize("leak", [-2.0, -0.5])
def test_labels_remembered_the_wrong_way_round_are_told(tmp_path, leak):
    """An attacker who inverts the answers reads the labels; the bound is 0."""
    row = audited_scores(tmp_path, leaking_scores(leak=leak))
    assert row.epsilon_lower == 0.0
    assert "classes_exchanged" in (row.remarks or ())
    assert "in the order 1, 0" in row.reason or "labels the wrong way round" in row.reason


def test_an_honest_model_that_remembers_noise_is_not_said_to_know_the_wrong_way_round(tmp_path):
    """It is right of holdout rows by what it learned of all, of training rows by noise alone."""
    random = np.random.default_rng(5)
    frame = leaking_scores(leak=0.0, seed=1)
    learned = np.log(frame["new"] / (1.0 - frame["new"])) + 2.0 * (frame["x"] > 0.0)
    noise = 4.0 * random.choice([-1.0, 1.0], frame.height) * (frame["split"] == "train").to_numpy()
    row = audited_scores(tmp_path, frame.with_columns(new=pl.Series(expit(learned + noise))))
    assert nothing_wrong(row)
    assert "the wrong way round" not in row.reason


@pytest.mark.slow
def test_a_holdout_of_near_copies_of_training_rows_is_told(lake):
    """The model knows their labels as those of their originals: 1.70 became 0.2, unsaid."""
    before, random = audited(lake), np.random.default_rng(5)
    frame = pl.read_parquet(label_path(lake, "flights"))
    train, holdout = (frame.filter(pl.col("split") == arm) for arm in ("train", "holdout"))
    resemble = "Holdout rows resemble"
    assert (before.verdict, resemble in before.reason) == ("violated", False), before.reason
    moved = pl.col("delay") + pl.Series(random.normal(0.0, 0.05, holdout.height))
    copies = train.sample(holdout.height, seed=5).with_columns(delay=moved, split=pl.lit("holdout"))
    put_labels(lake, DAY, pl.concat([train, copies]).sample(fraction=1.0, shuffle=True, seed=5))
    row = audited(lake)
    assert row.reason_code == "holdout_suspect", row.reason
    assert resemble in row.reason
    logged = train.head(400).with_columns(split=pl.lit("holdout"))
    put_labels(lake, DAY, pl.concat([frame, logged]))
    row = audited(lake)
    assert (row.epsilon_lower or 0.0) < (before.epsilon_lower or 0.0)
    assert "Rows may be logged twice" in row.reason


def test_rows_of_a_third_split_are_told(lake):
    """Training saw them, and the audit does not: what they lose is not known."""
    frame = pl.read_parquet(label_path(lake, "flights"))
    third = pl.when((pl.col("split") == "train") & (pl.col("hour") > 1)).then(pl.lit("train2"))
    put_labels(lake, DAY, frame.with_columns(split=third.otherwise(pl.col("split"))))
    row = audited(lake, PLAN.model_copy(update={"minimum_records": 50}))
    assert f"{row.excluded_records:,} rows are of neither" in row.reason
