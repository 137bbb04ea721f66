"""A notebook's second reference against the same, written out."""

import numpy as np

from privcore.attacks import (
    Context,
    fit_student,
    folds_of,
    holdout_suspicion,
    label_counts,
    learned,
    odds_tally,
    probabilities_of,
    stream_key,
)
from privcore.attacks.hashing import record_streams
from privcore.lower_bounds import Arm
from privcore.lower_bounds.notebook_input import (
    CheckedArm,
    checked_arm,
    second_reference,
    value_groups,
)
from tests.simulate import two_columns


def arm(name: str, records: int, seed: int) -> CheckedArm:
    """Return an arm whose models say something of two features, each with an error of its own."""
    random = np.random.default_rng(seed)
    context = random.normal(size=(records, 2))
    truth = 1.0 / (1.0 + np.exp(-context[:, 0] * context[:, 1]))
    said = [two_columns(np.clip(truth + random.normal(0.0, 0.1, records), 0.01, 0.99))
            for _ in range(2)]  # fmt: skip
    labels = (random.random(records) < truth).astype(int)
    return checked_arm(name, Arm(*said, labels, context))


def test_each_record_is_asked_of_the_part_that_was_not_fitted_to_its_fold() -> None:
    """The target's student is bet against, and the proxy's stands beside the arms' labels."""
    arms = arm("training", 400, 1), arm("control", 300, 2)
    held = arms[1]
    folds = [
        folds_of(record_streams(len(one.labels), key=stream_key(5, name, "fold"), indices=None))
        for one, name in zip(arms, ("training", "control"), strict=True)
    ]
    contexts = [Context(one.context, np.zeros((len(one.labels), 0), dtype=int)) for one in arms]
    students = [
        fit_student(contexts[1], learned(said), folds[1], of_proxy=said is held.proxy)
        for said in (held.target, held.proxy)
    ]
    found = second_reference(*arms, 5, value_groups(*arms))
    for beside, one, context, fold in zip(found[:2], arms, contexts, folds, strict=True):
        target, proxy = (probabilities_of(each.predict(context, fold)) for each in students)
        assert beside.odds == (odds_tally(one.target, target, one.labels),)
        assert beside.labels == label_counts(one.proxy, one.labels, student=proxy)
    said = students[0].predict(contexts[1], folds[1])
    assert found.suspicion == holdout_suspicion(
        learned(held.target), said, learned(held.proxy), held.labels
    )
