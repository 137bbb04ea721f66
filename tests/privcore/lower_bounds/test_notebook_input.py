"""Rows that belong together, by pandas' index; labels that are no context."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from privcore.exceptions import InvalidInputError
from privcore.lower_bounds import Arm, audit_models, audit_probabilities
from privcore.lower_bounds.notebook_input import checked_arm
from tests.simulate import two_columns

NAMES = [f"r{row}" for row in range(300)]


def frame(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Return rows whose target and proxy tell them apart, named by an index."""
    random = np.random.default_rng(seed)
    columns = {name: random.uniform(0.1, 0.9, rows) for name in ("target", "proxy", "feature")}
    labels = random.integers(0, 2, rows)
    return pd.DataFrame({**columns, "labels": labels}, index=NAMES[:rows])


def arm(rows: pd.DataFrame, **changes: object) -> Arm:
    """Return an arm of a frame's columns, some of them given otherwise."""
    given = {
        "target": rows.target,
        "proxy": rows.proxy,
        "labels": rows.labels,
        "context": rows[["feature"]],
    }
    return Arm(**(given | changes))


ROWS = frame()
SORTED = ROWS.sort_values("target")


@pytest.mark.parametrize(
    "changes",
    [
        {"target": SORTED.target},
        {"proxy": SORTED.proxy, "context": SORTED[["feature"]]},
        {"target": SORTED.target.to_frame(), "proxy": ROWS.proxy.to_numpy()},
        {"target": ROWS.target.reset_index(drop=True)},
        {"labels": ROWS.labels.reset_index(drop=True)},
        {"context": ROWS[["feature"]][:299]},
    ],
)
def test_pandas_rows_of_another_order_are_refused(changes: dict[str, object]) -> None:
    """In the order of their places they would be other rows' probabilities."""
    with pytest.raises(InvalidInputError, match=r"index of training\..* begins with .*reindex"):
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
    answer = audit_models(*models, ROWS, ROWS.labels, holdout, context=ROWS[["feature"]])
    assert answer.epsilon_ceiling > 0.0
    for rows, labels, held in (
        (SORTED, ROWS.labels, holdout),
        (ROWS, SORTED.labels, holdout),
        (ROWS, ROWS.labels, holdout[SORTED.index]),
    ):
        with pytest.raises(InvalidInputError, match="the beginning of the index of "):
            audit_models(*models, rows, labels, held)
    with pytest.raises(InvalidInputError, match="number of rows of context is 299"):
        audit_models(*models, ROWS, ROWS.labels, holdout, context=pl.DataFrame({"x": [0.0] * 299}))


@pytest.mark.parametrize("column", ["labels", "turned"])
def test_a_label_is_no_context(column: str) -> None:
    arms = frame(300, 1), frame(120, 2)
    given = [arm(rows, context=rows.assign(turned=3 - rows.labels)[["feature", column]])
             for rows in arms]  # fmt: skip
    with pytest.raises(InvalidInputError, match="column 1 of the context is 'the label'"):
        audit_probabilities(*given)


def test_a_model_that_names_a_class_twice_is_refused() -> None:
    """All labels were read as the last of these, and nothing was proved."""
    with pytest.raises(InvalidInputError, match="each class is named once"):
        audit_models(Named(), Named(), np.zeros((2, 1)), [1, 1], [True, False])


class Named:
    classes_ = (1, True)

    def predict_proba(self, rows: object) -> object:
        raise AssertionError(rows)
