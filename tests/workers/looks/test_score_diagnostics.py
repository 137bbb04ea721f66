"""Traces of mistakes in supplied probabilities: seen where they are, and not in honest models."""

import polars as pl
import pytest

from tests.workers.sources.scores.test_supplied import audit, put_folder, scored, tables


def reason(place, frame, **changes):
    row = audit(tables(put_folder(place, frame), **changes)).audit
    assert row.status == "evaluated", row.reason
    return str(row.reason)


@pytest.mark.slow
def test_nothing_is_said_of_a_table_with_nothing_wrong(tmp_path):
    for seed in range(10):
        said = reason(tmp_path / f"{seed}", scored(seed=seed, leak=2.0))
        assert "probabilities" not in said.replace("own probabilities", "")


def test_answers_that_are_rounded_are_nobodys_fault(tmp_path):
    """Votes of a hundred trees are multiples of 0.01: each forest in a table was doubted."""
    forest = scored().with_columns(pl.col("p_today").round(2))
    said = reason(tmp_path / "scores", forest)
    assert "probabilities" not in said.replace("own probabilities", "")


def test_classes_in_another_order_are_said(tmp_path):
    said = pl.col("clicked").replace_strict({0: "no", 1: "yes"})
    word = pl.when(pl.col("country") == "NL").then(pl.lit("never")).otherwise(said)
    lists = {
        f"{model}_all": pl.concat_list((1 - pl.col(model)) / 2, pl.col(model) / 2, pl.lit(0.5))
        for model in ("p_today", "p_yesterday")
    }
    place, frame = tmp_path / "scores", scored().with_columns(clicked=word, **lists)
    names = {"target": "p_today_all", "proxy": "p_yesterday_all"}
    right = reason(place, frame, classes=("no", "yes", "never"), **names)
    assert "order" not in right
    wrong = audit(tables(place, classes=("never", "no", "yes"), **names)).audit
    found = "probabilities fit the labels far better if their classes are in the order no, yes"
    assert f"The target's and the earlier model's {found}, never: see" in str(wrong.reason)
    other = scored().with_columns(p_today=1 - pl.col("p_today"))
    said = reason(tmp_path / "other", other)
    assert "far better if their classes are in the order 1, 0: see" in said


def test_a_holdout_without_features_is_untested_and_no_doubt(tmp_path):
    """A model that is better than yesterday's looks the same as one that saw the holdout."""
    known = 1.0 / (1.0 + (-2.5 * (2 * pl.col("clicked") - 1)).exp())
    row = audit(tables(put_folder(tmp_path / "scores", scored().with_columns(p_today=known)))).audit
    assert "holdout_suspect" not in row.remarks
