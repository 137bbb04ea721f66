"""Six practices of teams, typed as teams type them: nobody honest is accused, no leak is hushed up.

Days are those of `tests.team_worlds`. Teams audit them through the service in three ways
(`privaudit attach` on a table, the same with the features as context, `privaudit run` on LightGBM
checkpoints in a lake) and in a notebook. Issue 31 measured the practices when honest models were
accused in most of them, and docs/evidence/statistics.md has the rates; here each is typed once, of
seed [48, 0], in ways that take turns: `tests/privcore/attacks/test_arms` judges size and power.
"""

import functools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.support.team_practices import answer
from tests.support.verdicts import nothing_wrong
from tests.team_worlds import PRACTICES, SMOOTH, TWINS, down_sampled, holdout_trained_on

pytestmark = pytest.mark.slow
TABLE, CONTEXT, LAKE, NOTEBOOK = "attach", "attach with context", "lake", "notebook with context"

# Drawn once for all ways to type it: each draw trains two models.
day = functools.cache(lambda world: world(np.random.default_rng([48, 0])))


def answered(world, way):
    """Return what a team reads that types a day of the world."""
    return answer(day(world), way)


REFUSED = [
    ("5% of negatives kept, no label read", TABLE, "arms_unlike"),
    ("5% of negatives kept, no label read", LAKE, "arms_unlike"),
    ("20% of negatives kept, labels at 1", LAKE, "arms_unlike"),
    ("50% of negatives kept, no label read", CONTEXT, "arms_unlike"),
    # The features show that the proxy knows the holdout even behind noisy labels.
    ("golden holdout, no label read", TABLE, "arms_unlike"),
    ("golden holdout, no label read", LAKE, "arms_unlike"),
    ("golden holdout, labels at 1", CONTEXT, "arms_unlike"),
    ("golden holdout, labels at 1", NOTEBOOK, "arms_unlike"),
    # All persons' features and names are columns.
    ("held out by person, claim for a row", TABLE, "persons_split"),
    ("held out by person, claim for a row", LAKE, "persons_split"),
    ("held out by person, claim for a row", NOTEBOOK, "persons_split"),
    ("privacy_unit is a person, claim for a row", TABLE, "nothing_declared"),
    ("privacy_unit is a person, claim for a row", LAKE, "nothing_declared"),
]
FINE = [
    ("new holdout, no label read", LAKE),
    ("new holdout, labels at 1", TABLE),
    ("new holdout, labels at 1", CONTEXT),
    # The holdout is sampled as training was.
    ("5% of negatives kept and declared, no label read", TABLE),
    ("20% of negatives kept and declared, no label read", LAKE),
    ("50% of negatives kept and declared, no label read", TABLE),
    ("20% of negatives kept and declared, labels at 1", LAKE),
    ("rows of persons held out one by one", CONTEXT),
    ("rows of persons held out one by one", LAKE),
    ("privacy_unit is a person, claim for a person", TABLE),
    ("privacy_unit is a person, claim for a person", LAKE),
]
REMEDIES = {"kept": "[models.sampling]", "privacy_unit": "gives k rows k times"}


@pytest.mark.parametrize(("practice", "way", "code"), REFUSED)
def test_what_breaks_the_comparison_is_refused_for_that(practice, way, code):
    """Also in tables, whose proxy seems to know training labels for no other reason."""
    found = answered(PRACTICES[practice], way)
    assert found.reason_code == code
    assert all(words in found.reason for cause, words in REMEDIES.items() if cause in practice)


def test_without_features_a_golden_holdout_accuses_nobody():
    """Behind noisy labels it is not always seen; then the bound keeps below the truth."""
    assert answered(PRACTICES["golden holdout, labels at 1"], TABLE).verdict != "violated"


@pytest.mark.parametrize(("twin", "way"), FINE)
def test_an_honest_twin_is_audited_and_nothing_is_wrong(twin, way):
    assert nothing_wrong(answered(TWINS[twin], way))


@pytest.mark.parametrize("way", [TABLE, LAKE])
def test_declared_rates_hide_no_leak(way):
    """Training read plain labels, and 0.5 is declared."""
    plain = lambda random: replace(  # noqa: E731
        down_sampled(random, kept=0.2, epsilon=math.inf, declared=True), epsilon=0.5
    )
    assert answered(plain, way).verdict == "violated"


@pytest.mark.parametrize("way", [TABLE, LAKE, NOTEBOOK])
def test_rows_logged_twice_are_said_beside_the_verdict(way):
    """It is not said of rows that were logged once, and no model is accused."""
    one = answered(PRACTICES["rows logged twice, labels at 2"], way)
    assert one.epsilon_lower is not None
    assert "logged twice" in one.remarks
    one = answered(TWINS["rows logged once, labels at 2"], way)
    assert (nothing_wrong(one), one.remarks) == (True, ())


@pytest.mark.parametrize(("share", "way"), [(0.75, LAKE), (1.0, CONTEXT), (0.75, NOTEBOOK)])
def test_a_holdout_that_training_saw_is_suspected(share, way):
    """Trees of 20 rows a leaf; 0.5 is declared, falsely, and mostly not refuted."""
    found = answered(partial(holdout_trained_on, share=share, learner=SMOOTH), way)
    assert "holdout_suspect" in found.remarks


@pytest.mark.parametrize(("share", "way"), [(0.12, LAKE), (0.2, CONTEXT), (0.75, NOTEBOOK)])
def test_a_false_claim_beside_a_holdout_that_training_saw_is_never_silent(share, way):
    """Plain labels by heart: refuted, or said to conclude nothing."""
    one = answered(partial(holdout_trained_on, share=share), way)
    assert one.verdict == "violated" or "holdout_suspect" in one.remarks


@pytest.mark.parametrize("way", [TABLE, LAKE, NOTEBOOK])
def test_a_clean_holdout_is_not_suspected(way):
    """One is of a true claim, and one of a false claim asks what the label column holds."""
    one = answered(TWINS["none of the holdout trained on, labels at 1"], way)
    assert (nothing_wrong(one), one.remarks) == (True, ())
    plain = answered(TWINS["none of the holdout trained on, plain labels"], way)
    assert (plain.verdict, plain.remarks) == ("violated", ())
    assert ("Look first whether 'clicked'" in plain.reason) is (way in {TABLE, LAKE})
