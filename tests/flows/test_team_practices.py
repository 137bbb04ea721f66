"""Six practices of teams, typed as teams type them: nobody honest is accused, no leak is hushed up.

Days are those of `tests.team_worlds`. Each is audited through the service in three ways
(`privaudit attach` on a table, the same with the features as context, `privaudit run` on LightGBM
checkpoints in a lake) and in a notebook. Issue 31 measured the practices when honest models were
accused in most of them, and docs/evidence/statistics.md has the rates; here each is typed once, of
seed [48, 0], without a tolerance: `tests/privcore/attacks/test_arms` judges size and power.
"""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest

from tests.support.team_practices import answer
from tests.support.tiers import rest_slow
from tests.support.verdicts import nothing_wrong
from tests.team_worlds import PRACTICES, SMOOTH, TWINS, down_sampled, holdout_trained_on

SERVICE = ("attach", "attach with context", "lake")
WITH_STUDENT = ("attach with context", "lake", "notebook with context")
ALL = (*SERVICE, "notebook", "notebook with context")


# Drawn once for all ways to type it: each draw trains two models.
day = functools.cache(lambda world: world(np.random.default_rng([48, 0])))


def answered(world, way):
    """Return what a team reads that types a day of the world."""
    return answer(day(world), way)


@pytest.mark.slow
@pytest.mark.parametrize("way", WITH_STUDENT)
@pytest.mark.parametrize("labels", ["no label read", "labels at 1"])
def test_a_golden_holdout_is_refused(labels, way):
    """The features show that the proxy knows the holdout even behind noisy labels."""
    found = answered(PRACTICES[f"golden holdout, {labels}"], way)
    assert found.reason_code == "arms_unlike"


@pytest.mark.slow
@pytest.mark.parametrize("labels", rest_slow(["no label read", "labels at 1"]))
def test_without_features_a_golden_holdout_accuses_nobody(labels):
    """Behind noisy labels it is not always seen; then the bound keeps below the truth."""
    found = answered(PRACTICES[f"golden holdout, {labels}"], "attach")
    assert found.verdict != "violated"
    assert labels == "labels at 1" or found.reason_code == "arms_unlike"


@pytest.mark.slow
@pytest.mark.parametrize("way", SERVICE)
@pytest.mark.parametrize("labels", ["no label read", "labels at 1"])
def test_a_new_holdout_is_audited(labels, way):
    """The twin of a golden holdout."""
    name = f"new holdout, {labels}"
    assert nothing_wrong(answered(TWINS[name], way))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kept", "way"),
    rest_slow(
        [
            ("5% of negatives kept, no label read", "attach"),
            ("5% of negatives kept, no label read", "lake"),
            ("20% of negatives kept, labels at 1", "lake"),
            ("50% of negatives kept, no label read", "attach with context"),
        ]
    ),
)
def test_rows_sampled_by_their_label_are_refused_for_that(kept, way):
    """Also in tables, whose proxy seems to know training labels for no other reason."""
    one = answered(PRACTICES[kept], way)
    assert one.reason_code == "arms_unlike"
    assert "[models.sampling]" in one.reason


@pytest.mark.slow
@pytest.mark.parametrize("way", ["attach", "lake"])
@pytest.mark.parametrize("kept", [name for name in TWINS if "kept and declared" in name])
def test_declared_rates_are_audited_and_accuse_nobody(kept, way):
    """The holdout is sampled as training was."""
    assert nothing_wrong(answered(TWINS[kept], way))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["attach", "lake"])
def test_declared_rates_hide_no_leak(way):
    """Training read plain labels, and 0.5 is declared."""
    plain = lambda random: replace(  # noqa: E731
        down_sampled(random, kept=0.2, epsilon=math.inf, declared=True), epsilon=0.5
    )
    assert answered(plain, way).verdict == "violated"


@pytest.mark.slow
@pytest.mark.parametrize("way", rest_slow([*SERVICE, "notebook with context"]))
def test_a_holdout_by_person_gives_no_verdict_on_rows(way):
    """All persons' features and names are columns."""
    found = answered(PRACTICES["held out by person, claim for a row"], way)
    assert found.reason_code == "persons_split"


@pytest.mark.slow
@pytest.mark.parametrize("way", rest_slow([*SERVICE]))
def test_a_claim_for_a_row_is_not_held_against_persons(way):
    """A claim for a person is."""
    found = answered(PRACTICES["privacy_unit is a person, claim for a row"], way)
    assert found.verdict == "undeclared"
    assert "gives k rows k times" in found.reason


@pytest.mark.slow
@pytest.mark.parametrize("way", SERVICE)
@pytest.mark.parametrize(
    "twin", ["rows of persons held out one by one", "privacy_unit is a person, claim for a person"]
)
def test_persons_whose_unit_is_the_claims_are_audited(twin, way):
    assert nothing_wrong(answered(TWINS[twin], way))


@pytest.mark.slow
@pytest.mark.parametrize("way", rest_slow([*ALL]))
def test_rows_logged_twice_are_said_beside_the_verdict(way):
    """It is not said of rows that were logged once, and no model is accused."""
    one = answered(PRACTICES["rows logged twice, labels at 2"], way)
    assert one.epsilon_lower is not None
    assert "logged twice" in one.remarks
    one = answered(TWINS["rows logged once, labels at 2"], way)
    assert (nothing_wrong(one), one.remarks) == (True, ())


@pytest.mark.slow
@pytest.mark.parametrize("way", WITH_STUDENT)
@pytest.mark.parametrize("share", [0.75, 1.0])
def test_a_holdout_that_training_saw_is_suspected(share, way):
    """Trees of 20 rows a leaf; 0.5 is declared, falsely, and mostly not refuted."""
    found = answered(lambda random: holdout_trained_on(random, share=share, learner=SMOOTH), way)
    assert "holdout_suspect" in found.remarks


@pytest.mark.slow
@pytest.mark.parametrize("way", WITH_STUDENT)
@pytest.mark.parametrize("share", [0.12, 0.2, 0.75])
def test_a_false_claim_beside_a_holdout_that_training_saw_is_never_silent(share, way):
    """Plain labels by heart: refuted, or said to conclude nothing."""
    one = answered(lambda random: holdout_trained_on(random, share=share), way)
    assert one.verdict == "violated" or "holdout_suspect" in one.remarks


@pytest.mark.slow
@pytest.mark.parametrize("way", rest_slow([*ALL]))
def test_a_clean_holdout_is_not_suspected(way):
    """One is of a true claim, and one of a false claim asks what the label column holds."""
    one = answered(TWINS["none of the holdout trained on, labels at 1"], way)
    assert (nothing_wrong(one), one.remarks) == (True, ())
    plain = answered(TWINS["none of the holdout trained on, plain labels"], way)
    assert (plain.verdict, plain.remarks) == ("violated", ())
    assert ("Look first whether 'clicked'" in plain.reason) is (way in SERVICE)
