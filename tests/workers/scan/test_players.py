"""The holdout is sampled as training sampled its rows, so that both arms are alike again."""

import pathlib
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from scipy.special import expit

from tests.simulate import assert_rate_at_most
from tests.support.lake import DAY
from tests.support.score_tables import EMPTY_LAKE, put_folder, tables
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.plan import Plan, TrainingSampling
from workers.sources.scores.supplied import SuppliedScores
from workers.warehouse.schema import AuditRow


def sampled(seed: int, *, keep: float = 0.2, leak: float = 0.0, rows: int = 20_000) -> pl.DataFrame:
    """Return rows of which training keeps all positives and some negatives."""
    random = np.random.default_rng(seed)
    log_odds = random.normal(-1.5, 1.0, rows)
    label = (random.random(rows) < expit(log_odds)).astype(np.int64)
    train = random.random(rows) < 0.75
    kept = ~train | (label == 1) | (random.random(rows) < keep)
    # What training saw has other odds, and the target learned these, of everybody.
    target = log_odds - np.log(keep) + 0.3 * random.normal(size=rows)
    target += np.where(train, leak * (2 * label - 1), 0.0)
    return pl.DataFrame(
        {
            "day": [DAY] * rows,
            "clicked": label,
            "p_today": expit(target),
            "p_yesterday": expit(log_odds),
            "split": np.where(train, "train", "holdout"),
            "w": np.where(label == 1, 1.0, 1.0 / keep),
        }
    ).filter(pl.Series(kept))


def audit(folder: pathlib.Path, frame: pl.DataFrame, sampling: Any = None) -> AuditRow:
    if not folder.exists():
        put_folder(folder, frame)
    plan = Plan(repetitions=4, sampling=sampling)
    supplied = SuppliedScores(tables(folder))
    return run_audit(
        EMPTY_LAKE, "ads", DAY, plan=plan, executor=InProcess(), external_inputs=supplied
    ).audit


BY_LABEL = TrainingSampling(label={"0": 0.2})


@pytest.mark.slow
def test_arms_that_sampling_made_differ_are_refused(tmp_path: pathlib.Path) -> None:
    row = audit(tmp_path / "table", sampled(1))
    assert (row.status, row.detail) == ("not_evaluable", "arms_differ")
    assert "as large in training as in the holdout" in row.reason
    assert "declare the rates in [models.sampling]" in row.reason


@pytest.mark.slow
def test_declared_rates_make_them_alike(tmp_path: pathlib.Path) -> None:
    """N = 20, seeds 0 to 19, at significance 0.04, judged at 1e-6; none is refused."""
    rows = [audit(tmp_path / str(seed), sampled(seed), BY_LABEL) for seed in range(20)]
    assert [row.status for row in rows] == ["evaluated"] * 20
    assert_rate_at_most(sum((row.epsilon_lower or 0.0) > 0.0 for row in rows), 20, 0.04)


def test_a_leak_is_found_all_the_same(tmp_path: pathlib.Path) -> None:
    row = audit(tmp_path / "table", sampled(2, leak=1.5), BY_LABEL)
    assert row.epsilon_lower is not None
    assert row.epsilon_lower > 0.8


@pytest.mark.slow
def test_a_column_of_weights_is_another_way_to_say_it(tmp_path: pathlib.Path) -> None:
    frame = sampled(3, leak=1.0)
    one, other = (
        audit(tmp_path / "table", frame, how) for how in (BY_LABEL, TrainingSampling(weight="w"))
    )
    assert one.epsilon_lower == other.epsilon_lower
    assert one.control_records == other.control_records
    assert one.audit_id != other.audit_id


def test_sketched_rows_are_kept_at_the_rate(tmp_path: pathlib.Path) -> None:
    frame = sampled(4)
    held = frame.filter(pl.col("split") == "holdout")["clicked"]
    row = audit(tmp_path / "table", frame, BY_LABEL)
    expected = held.sum() + 0.2 * (held.len() - held.sum())
    assert row.control_records == pytest.approx(expected, abs=5.0 * np.sqrt(0.16 * held.len()))
    assert row.excluded_records == 0


def test_weights_that_are_none_are_refused(tmp_path: pathlib.Path) -> None:
    frame = sampled(5).with_columns(w=pl.lit(0.5))
    row = audit(tmp_path / "less", frame, TrainingSampling(weight="w"))
    assert row.status == "not_evaluable"
    assert "a weight that is missing or below 1" in row.reason
    lacking = audit(tmp_path / "lacking", frame.drop("w"), TrainingSampling(weight="w"))
    assert "which sampling.weight names" in lacking.reason


@pytest.mark.parametrize("given", [{}, {"label": {"0": 0.2}, "weight": "w"}])
def test_sampling_is_said_in_one_way(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="either rates by label or a column of weights"):
        TrainingSampling.model_validate(given)
