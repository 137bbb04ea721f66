"""Rows that belong together, by pandas' index; labels that are no context; other labels' groups."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from scipy.stats import binomtest

from privcore.exceptions import InvalidInputError
from privcore.lower_bounds import Arm, audit_models, audit_probabilities
from privcore.lower_bounds.notebook_input import checked_arm, value_groups
from tests.simulate import two_columns

NAMES = [f"r{row}" for row in range(300)]


def frame(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Return rows whose target and proxy tell them apart, named by an index."""
    random = np.random.default_rng(seed)
    columns = {name: random.uniform(0.1, 0.9, rows) for name in ("target", "proxy", "feature")}
    labels = random.integers(0, 2, rows)
    return pd.DataFrame({**columns, "labels": labels, "other": random.integers(0, 3, rows)},
                        index=NAMES[:rows])  # fmt: skip


def arm(rows: pd.DataFrame, **changes: object) -> Arm:
    """Return an arm of a frame's columns, some of them given otherwise."""
    given = {"target": rows.target, "proxy": rows.proxy, "labels": rows.labels,
             "context": rows[["feature"]], "other_labels": rows.other}  # fmt: skip
    return Arm(**(given | changes))


ROWS = frame()
SORTED = ROWS.sort_values("target")


@pytest.mark.parametrize(
    "changes",
    [
        {"target": SORTED.target},
        {"proxy": SORTED.proxy, "context": SORTED[["feature"]], "other_labels": SORTED.other},
        {"target": SORTED.target.to_frame()},
    ],
)
def test_pandas_rows_of_another_order_follow_the_labels_index(changes: dict[str, object]) -> None:
    expected, found = (checked_arm("training", arm(ROWS, **some)) for some in ({}, changes))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"target": SORTED.target, "proxy": ROWS.proxy.to_numpy()},
            r"of training.target is \['r\d+', .*begins with \['r0', .*training.proxy has no index",
        ),
        ({"target": ROWS.target.reset_index(drop=True)}, "training.target only counts its rows"),
        ({"labels": ROWS.labels.reset_index(drop=True)}, "training.labels only counts its rows"),
        ({"target": ROWS.target.rename({"r7": "r8"})}, "training.target has one label for several"),
        ({"proxy": ROWS.proxy[:299]}, "0 of the 299 rows of training.proxy are not in"),
        ({"proxy": ROWS.proxy.rename({"r7": "s7"})}, "1 of the 300 rows of training.proxy are not"),
    ],
)
def test_indexes_that_say_no_order_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        checked_arm("training", arm(ROWS, **changes))


def test_arrays_beside_indexes_that_agree_are_positions() -> None:
    given = arm(ROWS, target=ROWS.target.to_numpy(), proxy=pl.Series(ROWS.proxy.to_numpy()))
    expected = checked_arm("training", arm(ROWS))
    np.testing.assert_array_equal(checked_arm("training", given).target, expected.target)


class _Model:
    def __init__(self, column: str) -> None:
        self.column = column

    def predict_proba(self, rows: pd.DataFrame) -> np.ndarray:
        return two_columns(rows[self.column].to_numpy())


def test_models_are_asked_about_rows_that_are_in_their_labels_order() -> None:
    """Labels and holdout of another order would be those of other rows."""
    models = _Model("target"), _Model("proxy")
    holdout = ROWS.feature > 0.6
    expected, found = (
        audit_models(*models, ROWS, rows.labels, holdout[rows.index], context=rows[["feature"]])
        for rows in (ROWS, SORTED)
    )
    assert found.evidence.claim == expected.evidence.claim
    assert found.epsilon_ceiling == expected.epsilon_ceiling > 0.0
    with pytest.raises(InvalidInputError, match="are not in rows"):
        audit_models(*models, ROWS[1:], ROWS.labels, holdout)
    with pytest.raises(InvalidInputError, match="number of rows of context is 299"):
        audit_models(*models, ROWS, ROWS.labels, holdout, context=pl.DataFrame({"x": [0.0] * 299}))


@pytest.mark.parametrize("column", ["labels", "turned"])
def test_a_label_is_no_context(column: str) -> None:
    arms = frame(300, 1), frame(120, 2)
    given = [arm(rows, context=rows.assign(turned=3 - rows.labels)[["feature", column]])
             for rows in arms]  # fmt: skip
    with pytest.raises(InvalidInputError, match="column 1 of the context is 'the label'"):
        audit_probabilities(*given)


def test_groups_are_values_that_both_arms_share() -> None:
    words = [["a", "b", "a"], ["b", "c"]]
    arms = [
        checked_arm("training", Arm([0.5] * len(some), [0.5] * len(some), [0] * len(some),
                    other_labels=np.array([[each, 1.0] for each in some], dtype=object)))
        for some in words
    ]  # fmt: skip
    one, other, groups = value_groups(*arms)
    assert (one.tolist(), other.tolist(), groups) == ([0, 1, 0], [1, 2], 3)
    with pytest.raises(InvalidInputError, match="both arms have the same other labels"):
        value_groups(arms[0], arms[1]._replace(other_labels=None))
    many = [each._replace(other_labels=np.arange(50)[: len(each.labels)]) for each in arms]
    assert value_groups(*many)[2] == 3
    rows = checked_arm("training", arm(ROWS, other_labels=np.arange(300)))
    with pytest.raises(InvalidInputError, match="number of values of other_labels is 300"):
        value_groups(rows, rows)


def two_tasks(seed: int, *, leak: float = 0.0, agree: float = 0.8) -> tuple[Arm, Arm]:
    """Return arms of a target that learned another label by heart, which agrees with the label.

    Of the label itself it knows randomized response at epsilon `leak`, and of labels in general
    what the proxy knows, with an error of its own.
    """
    random = np.random.default_rng([57, seed])
    arms = []
    for records, seen in ((3_000, True), (1_500, False)):
        log_odds = random.normal(0.0, 1.2, records)
        labels = (random.random(records) < expit(log_odds)).astype(int)
        other = np.where(random.random(records) < agree, labels, 1 - labels)
        told = np.where(random.random(records) < expit(leak), labels, 1 - labels)
        heard = np.log(agree / (1.0 - agree)) * (2 * other - 1) + leak * (2 * told - 1)
        target = log_odds + random.normal(0.0, 0.2, records) + seen * heard
        proxy = log_odds + random.normal(0.0, 0.4, records)
        arms.append(Arm(expit(target), expit(proxy), labels, other_labels=other))
    return arms[0], arms[1]


def bounds(seeds: int, *, known: bool = True, leak: float = 0.0) -> np.ndarray:
    """Return the bounds of audits that know the other label, or do not."""
    drawn = [two_tasks(seed, leak=leak) for seed in range(seeds)]
    if not known:
        drawn = [(one._replace(other_labels=None), two._replace(other_labels=None))
                 for one, two in drawn]  # fmt: skip
    return np.array([audit_probabilities(*arms).epsilon_lower for arms in drawn])


def test_what_another_label_tells_is_no_leak_where_it_is_named() -> None:
    assert bounds(4, known=False).min() > 0.5
    assert bounds(4).max() == 0.0


def test_a_leak_beyond_another_label_is_found() -> None:
    found = bounds(4, leak=2.0)
    assert 0.5 < found.min() <= found.max() <= 2.0


@pytest.mark.slow
def test_beside_another_label_size_and_power_are_as_stated() -> None:
    """Seeds 0 to 199: each bound is false with a chance of at most 0.05; judged at 1e-6."""
    silent, leaking = bounds(200), bounds(200, leak=2.0)
    assert binomtest(int((silent > 0.0).sum()), 200, 0.05, "greater").pvalue > 1e-6
    assert binomtest(int((leaking > 2.0).sum()), 200, 0.05, "greater").pvalue > 1e-6
    assert np.mean(leaking > 0.5) >= 0.9


def test_a_model_that_names_a_class_twice_is_refused() -> None:
    """All labels were read as the last of these, and nothing was proved."""
    with pytest.raises(InvalidInputError, match="each class is named once"):
        audit_models(Named(), Named(), np.zeros((2, 1)), [1, 1], [True, False])


class Named:
    classes_ = (1, True)

    def predict_proba(self, rows: object) -> object:
        raise AssertionError(rows)
