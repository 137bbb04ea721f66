"""Six practices of teams, typed as teams type them: nobody honest is accused, no leak is hushed up.

Days are those of `tests.team_worlds`. Each is audited through the service in three ways
(`privaudit attach` on a table, the same with the features as context, `privaudit run` on LightGBM
checkpoints in a lake) and in a notebook. Issue 31 measured the practices when honest models were
accused in most of them. Seeds are [48, 0] and on; each test states N. Answers are of every
audit, without a tolerance: their levels are those of 10^-4 that `tests/privcore/attacks/test_arms`
judges.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.team_practices import Answer, answer
from tests.support.tiers import rest_slow
from tests.team_worlds import PRACTICES, SMOOTH, TWINS, World, down_sampled, holdout_trained_on

SERVICE = ("attach", "attach with context", "lake")
WITH_STUDENT = ("attach with context", "lake", "notebook with context")
ALL = (*SERVICE, "notebook", "notebook with context")


def one_always(*ways: str) -> list[Any]:
    """Return ways with N: one audit of the first way runs always, two of each are slow."""
    return rest_slow([(ways[0], 1), *((way, 2) for way in ways)])


def answers(world: World, way: str, audits: int) -> list[Answer]:
    """Return what so many teams read that type a day of the world."""
    return [answer(world(np.random.default_rng([48, each])), way) for each in range(audits)]


@pytest.mark.slow
@pytest.mark.parametrize("way", WITH_STUDENT)
@pytest.mark.parametrize("labels", ["no label read", "labels at 1"])
def test_a_golden_holdout_is_refused(labels: str, way: str) -> None:
    """N = 3; the features show that the proxy knows the holdout even behind noisy labels."""
    found = answers(PRACTICES[f"golden holdout, {labels}"], way, 3)
    assert [one.code for one in found] == ["arms_differ"] * 3


@pytest.mark.slow
@pytest.mark.parametrize(("labels", "audits"), one_always("no label read", "labels at 1"))
def test_without_features_a_golden_holdout_accuses_nobody(labels: str, audits: int) -> None:
    """Behind noisy labels it is not always seen; then the bound keeps below the truth."""
    found = answers(PRACTICES[f"golden holdout, {labels}"], "attach", audits)
    assert "violated" not in {one.verdict for one in found}
    assert labels == "labels at 1" or {one.code for one in found} == {"arms_differ"}


@pytest.mark.slow
@pytest.mark.parametrize("way", SERVICE)
@pytest.mark.parametrize("labels", ["no label read", "labels at 1"])
def test_a_new_holdout_is_audited(labels: str, way: str) -> None:
    """N = 3: the twin of a golden holdout."""
    name = f"new holdout, {labels}"
    assert {one.verdict for one in answers(TWINS[name], way, 3)} == {"consistent"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kept", "way", "audits"),
    rest_slow(
        [
            ("5% of negatives kept, no label read", "attach", 1),
            ("5% of negatives kept, no label read", "attach", 2),
            ("5% of negatives kept, no label read", "lake", 2),
            ("20% of negatives kept, no label read", "attach", 2),
            ("20% of negatives kept, labels at 1", "lake", 2),
            ("50% of negatives kept, no label read", "attach with context", 2),
        ]
    ),
)
def test_rows_sampled_by_their_label_are_refused_for_that(kept: str, way: str, audits: int) -> None:
    """Also in tables, whose proxy seems to know training labels for no other reason."""
    for one in answers(PRACTICES[kept], way, audits):
        assert one.code == "arms_differ"
        assert "[models.sampling]" in one.reason


@pytest.mark.slow
@pytest.mark.parametrize("way", ["attach", "lake"])
@pytest.mark.parametrize("kept", [name for name in TWINS if "kept and declared" in name])
def test_declared_rates_are_audited_and_accuse_nobody(kept: str, way: str) -> None:
    """N = 2: the holdout is sampled as training was."""
    assert {one.verdict for one in answers(TWINS[kept], way, 2)} == {"consistent"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["attach", "lake"])
def test_declared_rates_hide_no_leak(way: str) -> None:
    """N = 1: training read plain labels, and 0.5 is declared."""
    plain = lambda random: replace(  # noqa: E731
        down_sampled(random, kept=0.2, epsilon=math.inf, declared=True), epsilon=0.5
    )
    assert [one.verdict for one in answers(plain, way, 1)] == ["violated"]


@pytest.mark.slow
@pytest.mark.parametrize(("way", "audits"), one_always(*SERVICE, "notebook with context"))
def test_a_holdout_by_person_gives_no_verdict_on_rows(way: str, audits: int) -> None:
    """All persons' features and names are columns."""
    found = answers(PRACTICES["held out by person, claim for a row"], way, audits)
    assert [one.code for one in found] == ["held_out_together"] * audits


@pytest.mark.slow
@pytest.mark.parametrize(("way", "audits"), one_always(*SERVICE))
def test_a_claim_for_a_row_is_not_held_against_persons(way: str, audits: int) -> None:
    """A claim for a person is."""
    found = answers(PRACTICES["privacy_unit is a person, claim for a row"], way, audits)
    assert [one.verdict for one in found] == ["undeclared"] * audits
    assert all("gives k rows k times" in one.reason for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("way", SERVICE)
@pytest.mark.parametrize(
    "twin",
    ["rows of persons held out one by one", "privacy_unit is a person, claim for a person"],
)
def test_persons_whose_unit_is_the_claims_are_audited(twin: str, way: str) -> None:
    """N = 2."""
    assert [one.verdict for one in answers(TWINS[twin], way, 2)] == ["consistent"] * 2


@pytest.mark.slow
@pytest.mark.parametrize(("way", "audits"), one_always(*ALL))
def test_rows_logged_twice_are_said_beside_the_verdict(way: str, audits: int) -> None:
    """It is not said of rows that were logged once, and no model is accused."""
    for one in answers(PRACTICES["rows logged twice, labels at 2"], way, audits):
        assert one.code is None
        assert "logged twice" in one.remarks
    for one in answers(TWINS["rows logged once, labels at 2"], way, audits):
        assert (one.verdict, one.remarks) == ("consistent", ())


@pytest.mark.slow
@pytest.mark.parametrize("way", WITH_STUDENT)
@pytest.mark.parametrize("share", [0.75, 1.0])
def test_a_holdout_that_training_saw_is_suspected(share: float, way: str) -> None:
    """N = 2, trees of 20 rows a leaf; 0.5 is declared, falsely, and mostly not refuted."""
    found = answers(lambda random: holdout_trained_on(random, share=share, learner=SMOOTH), way, 2)
    assert all("holdout_suspect" in one.remarks for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("way", WITH_STUDENT)
@pytest.mark.parametrize("share", [0.12, 0.2, 0.75])
def test_a_false_claim_beside_a_holdout_that_training_saw_is_never_silent(
    share: float, way: str
) -> None:
    """N = 2, plain labels by heart: refuted, or said to conclude nothing."""
    for one in answers(lambda random: holdout_trained_on(random, share=share), way, 2):
        assert one.verdict == "violated" or "holdout_suspect" in one.remarks


@pytest.mark.slow
@pytest.mark.parametrize(("way", "audits"), one_always(*ALL))
def test_a_clean_holdout_is_not_suspected(way: str, audits: int) -> None:
    """N audits are of a true claim, and one of a false claim asks what the label column holds."""
    for one in answers(TWINS["none of the holdout trained on, labels at 1"], way, audits):
        assert (one.verdict, one.remarks) == ("consistent", ())
    (plain,) = answers(TWINS["none of the holdout trained on, plain labels"], way, 1)
    assert (plain.verdict, plain.remarks) == ("violated", ())
    assert ("Look first whether 'clicked'" in plain.reason) is (way in SERVICE)
