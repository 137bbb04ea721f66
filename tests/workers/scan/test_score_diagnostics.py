"""Traces of mistakes in supplied probabilities: seen where they are, and not in honest models."""

import json
import pathlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

from tests.support.lake import DAY
from tests.support.tiers import rest_slow
from tests.workers.sources.scores.test_supplied import audit, put_folder, scored, tables, three
from workers.scan.score_diagnostics import Errors, ScoreDiagnostics

Numbers = NDArray[np.float64]
World = Callable[[np.random.Generator, int], tuple[Numbers, Numbers, Numbers]]


def both(second: Numbers) -> Numbers:
    return np.column_stack([1.0 - second, second])


def seen(target: Numbers, proxy: Numbers, labels: NDArray[np.int64]) -> ScoreDiagnostics:
    """Return what holdout records alone say."""
    return ScoreDiagnostics(
        1, errors=(Errors.of(both(target), labels), Errors.of(both(proxy), labels))
    )


def calibrated(random: np.random.Generator, rows: int) -> tuple[Numbers, Numbers, Numbers]:
    truth = expit(random.normal(0.0, 1.5, rows))
    return truth, truth, expit(logit(truth) + random.normal(0.0, 0.3, rows))


def overfitted(random: np.random.Generator, rows: int) -> tuple[Numbers, Numbers, Numbers]:
    truth = expit(random.normal(0.0, 1.5, rows))
    return truth, *(expit(2 * logit(truth) + random.normal(0.0, 1.5, rows)) for _ in range(2))


def private(random: np.random.Generator, rows: int) -> tuple[Numbers, Numbers, Numbers]:
    # Trained on labels flipped at epsilon 1: both claim far less than they know.
    truth = expit(random.normal(0.0, 3.0, rows))
    keep = np.e / (1.0 + np.e)
    shown = truth * keep + (1.0 - truth) * (1.0 - keep)
    return truth, *(expit(logit(shown) + random.normal(0.0, 0.05, rows)) for _ in range(2))


def drifting(random: np.random.Generator, rows: int) -> tuple[Numbers, Numbers, Numbers]:
    feature = random.normal(0.0, 1.5, rows)
    return expit(feature + 1.0), expit(feature + 0.9), expit(feature)


def rare(random: np.random.Generator, rows: int) -> tuple[Numbers, Numbers, Numbers]:
    truth = expit(random.normal(-4.0, 0.7, rows))
    return truth, truth, expit(logit(truth) + random.normal(0.0, 0.3, rows))


HONEST: dict[str, World] = {
    "calibrated": calibrated,
    "overfitted": overfitted,
    "private": private,
    "drifting": drifting,
    "rare": rare,
}


@pytest.mark.parametrize("world", HONEST)
@pytest.mark.parametrize("rows", rest_slow([200, 5_000]))
def test_size_an_honest_holdout_is_not_said_to_be_known(world: str, rows: int) -> None:
    # 1,000 audits each, none may say so: at a size of 10^-3 that has a chance of 0.37, and a size
    # of 0.0137 would pass with one of 10^-6.
    for seed in range(1_000):
        random = np.random.default_rng([seed, rows])
        truth, target, proxy = HONEST[world](random, rows)
        labels = (random.random(rows) < truth).astype(np.int64)
        assert not seen(target, proxy, labels).holdout_known(), seed


@pytest.mark.parametrize(
    "learner",
    [
        lambda seed: GradientBoostingClassifier(n_estimators=80, max_depth=6, random_state=seed),
        lambda seed: RandomForestClassifier(n_estimators=50, random_state=seed),
    ],
    ids=["boosting", "forest"],
)
@pytest.mark.slow
def test_power_a_model_that_was_trained_on_the_holdout_is_seen(learner: Callable) -> None:
    found = []
    for seed in range(10):
        random = np.random.default_rng(seed)
        features = random.normal(size=(1_500, 6))
        labels = (random.random(1_500) < expit(features[:, 0])).astype(np.int64)
        held = slice(1_000, None)
        proxy = expit(features[held, 0] + random.normal(0.0, 0.2, 500))
        told = []
        for trained in (slice(None), slice(0, 1_000)):  # with the holdout, and without
            model = learner(seed).fit(features[trained], labels[trained])
            target = model.predict_proba(features[held])[:, 1]
            told.append(seen(target, proxy, labels[held]).holdout_known())
        found.append(told)
    assert found == [[True, False]] * 10


def reason(place: pathlib.Path, frame: pl.DataFrame, **changes: object) -> str:
    row = audit(tables(put_folder(place, frame), **changes)).audit
    assert row.status == "evaluated", row.reason
    return str(row.reason)


@pytest.mark.slow
def test_nothing_is_said_of_a_table_with_nothing_wrong(tmp_path: pathlib.Path) -> None:
    for seed in range(10):
        said = reason(tmp_path / f"{seed}", scored(seed=seed, leak=2.0))
        assert "probabilities" not in said.replace("own probabilities", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (pl.col("p_today").round(2), "The target's probabilities have no more than 2 d"),
        (pl.col("p_today").round(3), "The target's probabilities have no more than 3 d"),
        (pl.col("p_today").cast(pl.Float32).round(2), "probabilities have no more than 2"),
        (pl.col("p_today").cast(pl.Float16), "The target's probabilities have no more than 16"),
        (
            pl.col("p_today").cast(pl.Float16).cast(pl.Float64),
            "have no more than 16",
        ),
        (1 - pl.col("p_today"), "far better if their classes are in the order 1, 0: see"),
    ],
)  # fmt: skip
def test_how_probabilities_were_written_is_said(
    tmp_path: pathlib.Path, change: pl.Expr, said: str
) -> None:
    assert said in reason(tmp_path / "scores", scored().with_columns(p_today=change))


def test_what_both_models_have_is_said_once(tmp_path: pathlib.Path) -> None:
    both = {name: pl.col(name).round(2) for name in ("p_today", "p_yesterday")}
    said = reason(tmp_path / "scores", scored().with_columns(**both))
    assert said.count("no more than 2 digits") == 1
    assert "The proxy's and the target's probabilities have no more than 2 digits" in said


def test_sums_that_vary_are_said_of_the_target_alone(tmp_path: pathlib.Path) -> None:
    stretched = pl.col("p_yesterday_all", "p_today_all").list.eval(pl.element() * 1.01)
    names = {"target": "p_today_all", "proxy": "p_yesterday_all"}
    said = reason(
        tmp_path / "scores",
        three(scored()).with_columns(stretched),
        classes=("no", "yes", "never"),
        **names,
    )
    assert "The target's probabilities do not add up to one in all rows" in said
    assert "The proxy's probabilities do not add up" not in said


def test_classes_in_another_order_are_said(tmp_path: pathlib.Path) -> None:
    place, frame = tmp_path / "scores", three(scored())
    names = {"target": "p_today_all", "proxy": "p_yesterday_all"}
    right = reason(place, frame, classes=("no", "yes", "never"), **names)
    assert "order" not in right
    wrong = audit(tables(place, classes=("never", "no", "yes"), **names)).audit
    for role in ("target", "proxy"):
        found = f"The {role}'s probabilities fit the labels far better if their classes are in the"
        assert f"{found} order no, yes, never" in str(wrong.reason)


def test_a_known_holdout_is_said_in_the_record(tmp_path: pathlib.Path) -> None:
    frame = scored()
    known = 1.0 / (1.0 + (-2.5 * (2 * pl.col("clicked") - 1)).exp())
    row = audit(tables(put_folder(tmp_path / "scores", frame.with_columns(p_today=known)))).audit
    assert "holdout_suspect: the target errs on 0 of" in row.reason
    assert (row.holdout_suspicion, row.verdict) == (None, "undeclared")
    assert "holdout_suspect" in row.remarks
    assert str(DAY) not in row.reason
    clean = audit(tables(put_folder(tmp_path / "clean", frame))).audit
    assert clean.holdout_suspicion is None
    assert "holdout_suspect" not in clean.remarks


def test_a_few_round_values_are_nobodys_fault(tmp_path: pathlib.Path) -> None:
    steps = (pl.col("p_today") * 8).floor() / 8 + 0.05
    assert "no more than" not in reason(tmp_path / "scores", scored().with_columns(p_today=steps))


def test_what_was_seen_adds_and_survives_being_written() -> None:
    random = np.random.default_rng(0)
    truth, target, proxy = calibrated(random, 500)
    labels = (random.random(500) < truth).astype(np.int64)
    first, second = (seen(target[part], proxy[part], labels[part])
                     for part in (slice(0, 300), slice(300, None)))  # fmt: skip
    whole = seen(target, proxy, labels)
    for added, one, two, all_of_it in zip(
        (first + second).errors, first.errors, second.errors, whole.errors, strict=True
    ):
        assert added.misranked == one.misranked + two.misranked  # each row group by itself
        assert replace(added, misranked=all_of_it.misranked) == all_of_it
    assert first + ScoreDiagnostics() == first
    full = first + ScoreDiagnostics(2)
    full.digits["target", 2] = 1
    full.orders["proxy", (1, 0)] = 2
    assert ScoreDiagnostics.from_json(json.loads(json.dumps(full.as_json()))) == full
