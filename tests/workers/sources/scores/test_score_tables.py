from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from scipy.special import expit

from tests.support.lake import declared
from tests.support.score_tables import (
    audited_scores,
    leaking_rows,
    predictions,
    put_folder,
    reason_or_bound,
)
from workers.labels.columns import Batch
from workers.lake.manifest import Privacy
from workers.sources.scores.score_tables import (
    ScoreTables,
    clearly_apart,
    lacking,
    read_probabilities,
    same_model,
)
from workers.sources.scores.supplied import SuppliedScores, external_inputs_from_json

GIVEN: dict[str, Any] = {"table": "t", "label": "y", "target": "p", "proxy": "q"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"proxy": "p"}, "proxy is the target"),
        ({"classes": (0, 0)}, "names one twice"),
        ({"target": ("a", "b", "c")}, "3 columns for 2 classes"),
        ({"holdout": "x > 1"}, "is not a rule"),
        ({"time_zone": "Mars"}, "is not a time zone"),
        ({"proxy": {"table": "u", "column": "q"}}, "give record"),
        ({"tables": "t"}, "Extra inputs"),
        ({"scale": "number"}, "'probability' or 'log_odds'"),
    ],
)
def test_a_mistake_is_named(changes, words):
    with pytest.raises(ValidationError, match=words):
        ScoreTables.model_validate(GIVEN | changes)


def test_a_record_keeps_all_that_is_needed_to_read_the_same_again():
    other = {"table": "u", "column": ["a", "b"], "day": "ds"}
    given = GIVEN | {"proxy": other, "record": "id", "holdout": "bucket(id, 5) = 0"}
    tables = ScoreTables.model_validate(given).pinned({"": 7, "proxy": 3})
    supplied = SuppliedScores(tables, Privacy.model_validate(declared()))
    again = external_inputs_from_json(supplied.to_json())
    assert again == supplied
    assert isinstance(again, SuppliedScores)
    assert again.tables.version == 7
    assert again.tables.others["proxy"].version == 3


def test_where_a_table_lies_changes_no_number_and_what_it_means_does():
    def meaning(**changes: Any) -> dict[str, Any]:
        return ScoreTables.model_validate(GIVEN | changes).meaning()

    assert meaning() == meaning(table="elsewhere", version=3, catalog="c")
    said = {"target": "r", "scale": "log_odds", "classes": (1, 0), "unit": "u", "context": ["x"],
            "label_state": "secret"}  # fmt: skip
    for name, value in said.items():
        assert meaning() != meaning(**{name: value})


def both(second: np.ndarray) -> np.ndarray:
    return np.column_stack([1.0 - second, second])


def target(rows: int, seed: int = 0) -> np.ndarray:
    return expit(np.random.default_rng(seed).normal(0.0, 1.5, rows))


@pytest.mark.parametrize(
    ("written", "rows"),
    [
        (lambda p: p, 100),
        (lambda p: p.astype(np.float32).astype(float), 100),
        (lambda p: np.round(p, 4), 2_000),
        (lambda p: np.round(p, 3), 20_000),
        (lambda p: np.round(p, 2), 200_000),
        (lambda p: p.astype(np.float16).astype(float), 10_000),
    ],
)
def test_power_the_target_is_known_however_it_was_written(written, rows):
    p = target(rows)
    assert same_model(both(p), both(written(p)))
    assert not clearly_apart(both(p), both(written(p)))
    assert not same_model(both(p[:99]), both(written(p)[:99]))


@pytest.mark.slow
@pytest.mark.parametrize("digits", [None, 2, 3, 4, 16])
@pytest.mark.parametrize("moved", [1e-4, 3e-6])
def test_size_another_model_is_no_copy_however_little_it_moved(digits, moved):
    # 40 pairs of models whose log-odds differ by as little as 3 in a million, or one in 10,000.
    for seed in range(40):
        random = np.random.default_rng([seed, 7])
        rows = int(random.choice([100, 1_000, 20_000, 200_000]))
        p = target(rows, seed)
        other = expit(np.log(p / (1 - p)) + moved * random.choice([-1.0, 1.0], rows) * 10)
        if digits == 16:
            other = other.astype(np.float16).astype(float)
        elif digits is not None:
            other = np.round(other, digits)
        assert not same_model(both(p), both(other)), (seed, rows)


def test_models_that_are_clearly_apart_are_not_compared_further():
    p = target(2_000)
    assert clearly_apart(both(p), both(np.append(p[:1], p[1:] + 0.006)))
    assert not clearly_apart(both(p), both(np.append(p[:1_500], p[1_500:] + 0.4)))


@pytest.mark.parametrize(
    ("without", "told"), [("no arm", ("violated", None)), ("train", ("failed", "scores_missing"))]
)
def test_lists_are_read_as_columns_are_unless_a_number_is_missing(tmp_path, without, told):
    """Such rows played as tosses of a coin: a bound of 2.4 became 0, without a remark."""
    first = pl.when(pl.col("split") != without).then(1 - pl.col("old"))
    lists = {"new": pl.concat_list(1 - pl.col("new"), "new"), "old": pl.concat_list(first, "old")}
    row = audited_scores(tmp_path / "t", predictions().with_columns(**lists))
    assert (row.verdict, row.detail) == told, row.reason


@pytest.mark.parametrize(
    ("columns", "scale", "near"),
    [
        ("abc", "probability", 1e-12),
        (["raw"], "log_odds", 1e-12),
        (["half"], "probability", 1e-3),
        (["rounded"], "probability", 0.01),
    ],
)
def test_columns_per_class_lists_and_log_odds_are_the_same_probabilities(columns, scale, near):
    """Half precision and two digits are probabilities still."""
    p = np.random.default_rng(0).dirichlet([2.0, 2.0, 2.0], 200)
    forms = {"raw": np.log(p) + 3.0, "half": p.astype(np.float16), "rounded": np.round(p, 2)}
    lists = {name: pl.Series(values.astype(float).tolist()) for name, values in forms.items()}
    frame = pl.DataFrame({**dict(zip("abc", p.T, strict=True)), **lists})
    found = read_probabilities(
        Batch(frame.to_arrow(), "p", ("p", 0, 0)), tuple(columns),
        role="target", classes=3, scale=scale, used=np.ones(200, dtype=np.bool_),
    )  # fmt: skip
    assert np.abs(found - p).max() < near
    assert found.sum(axis=1) == pytest.approx(1.0)


def test_a_list_lacks_a_score_where_it_or_a_number_in_it_is_missing():
    lists = pl.Series("p", [[0.2, 0.8], None, [None, 0.5], [0.5, float("nan")]])
    batch = Batch(pl.DataFrame([lists]).to_arrow(), "p", ("p", 0, 0))
    found = lacking(batch, ("p",), role="proxy", classes=2)
    assert found.tolist() == [False, True, True, True]


@pytest.mark.parametrize("inner", [pl.String, pl.Boolean, pl.List(pl.Float64)])
def test_a_list_of_something_else_than_numbers_is_refused(tmp_path, inner):
    """The audit ended as an error, as it did where a whole list was missing."""
    frame = predictions().with_columns(new=pl.Series([[None, None]] * 800, dtype=pl.List(inner)))
    row = audited_scores(
        tmp_path / "t", frame.with_columns(pl.concat_list(1 - pl.col("old"), "old"))
    )
    assert (row.status, row.detail) == ("not_evaluable", "probabilities_invalid"), row.reason


def test_a_decimal_that_polars_panics_at_prints_nothing(tmp_path, capfd):
    put_folder(tmp_path, leaking_rows())
    wide = pa.array([0.25] * 2_000).cast(pa.decimal128(30, 10)).cast(pa.decimal256(76, 40))
    given = leaking_rows().drop("day", "p_today").to_arrow().append_column("p_today", wide)
    pq.write_table(given, next(tmp_path.rglob("*.parquet")))
    assert "stored as decimal256(76, 40), that cannot be read" in reason_or_bound(tmp_path)
    assert "panicked" not in capfd.readouterr().err
