"""Attacks of an owner who gains by a false verdict: each is refused, reported or detected."""

import json
import pathlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from privcore.attacks import Tallies
from privcore.attacks.odds import odds_tally
from tests.support.audits import audited
from tests.support.lake import (
    DAY,
    EVE,
    PLAN,
    copied,
    declared,
    edit_manifest,
    label_path,
    label_rows,
    put_labels,
    remembering_lake,
)
from tests.support.tiers import rest_slow
from workers.audit.run import run_audit
from workers.audit.worse_than_shares import worse_than_shares
from workers.executors import InProcess
from workers.labels.columns import Batch
from workers.labels.decoy_commitment import commitment
from workers.lake.checkpoints import load, probabilities, read_checkpoint
from workers.lake.layout import Lake, checkpoint_folder
from workers.lake.manifest import LabelColumn, Privacy
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores
from workers.warehouse.schema import AuditRow

LABEL = {"column": "late", "classes": [0, 1]}


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake whose model remembers the day's labels, against a declared 0.5."""
    return remembering_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def lake(remembered: Lake, tmp_path: pathlib.Path) -> Lake:
    """Return a copy of it for one attempt."""
    return copied(remembered, tmp_path)


def test_without_an_attempt_the_model_is_violated(lake: Lake) -> None:
    assert audited(lake).verdict == "violated"


@pytest.mark.parametrize("times", rest_slow([0.99, 0.5, 0.1]))
def test_a_delta_just_below_one_over_the_records_keeps_no_declaration(
    lake: Lake, times: float
) -> None:
    """Such a delta is not vacuous by itself, and bets against it are small."""
    records = audited(lake).records or 0
    edit_manifest(lake, "good", DAY, privacy=declared(0.5, delta=times / records))
    row = audited(lake)
    assert row.verdict == ("violated" if times == 0.1 else "vacuous"), row.reason
    if row.verdict == "vacuous":
        assert row.reason.startswith("The declared epsilon of 0.5 stands by its delta of")


@pytest.mark.parametrize(
    "change",
    [
        {"label": LABEL | {"classes": [0, 1, False, True]}},
        {"label": LABEL | {"classes": [0, 1, "1"]}},
        {"privacy": declared(0.5) | {"declared_at": "0001-01-01T00:00:00+14:00"}},
        {"privacy": declared(0.5) | {"declared_at": "9999-12-31T23:59:59-12:00"}},
    ],
    ids=["classes-as-numbers-and-truth", "classes-as-number-and-text", "no-utc", "no-utc-late"],
)
def test_a_manifest_that_says_two_things_is_refused(lake: Lake, change: dict[str, Any]) -> None:
    """Labels were looked up as the last of two such classes, of which the model says nothing."""
    edit_manifest(lake, "good", DAY, **change)
    row = audited(lake)
    assert (row.verdict, row.reason_code) == ("not_evaluable", "manifest_invalid"), row.reason


def test_the_proxys_manifest_adds_no_second_name_of_a_class(lake: Lake) -> None:
    edit_manifest(lake, "good", EVE, label=LABEL | {"classes": [0, 1, False, True]})
    row = audited(lake)
    assert (row.verdict, row.reason_code) == ("not_evaluable", "manifest_invalid"), row.reason


def test_a_correction_of_the_outputs_is_told(lake: Lake) -> None:
    """One of epsilon 0.01 makes every probability 0 or 1: a bound of 1.70 became 0.65."""
    edit_manifest(
        lake, "good", DAY,
        output_correction={"name": "noise_correction", "epsilon": 0.01, "floor": 0.0},
        privacy=declared(1.0),
    )  # fmt: skip
    row = audited(lake)
    assert row.verdict == "consistent"
    assert "after the output_correction of its manifest (epsilon 0.01, floor 0)" in row.reason
    assert json.loads(row.output_correction or "null")["epsilon"] == 0.01  # a change is an alert


def test_features_that_are_exchanged_among_rows_are_told(lake: Lake) -> None:
    """Both models answer about rows that they never saw: a bound of 1.70 became 0."""
    frame = pl.read_parquet(label_path(lake, "flights"))
    order = np.random.default_rng(1).permutation(frame.height)
    features = [frame[name].gather(order) for name in ("delay", "hour", "city")]
    put_labels(lake, DAY, frame.with_columns(features))
    row = audited(lake)
    assert (row.verdict, row.epsilon_lower) == ("consistent", 0.0)
    assert "further from the labels than the share of each class is" in row.reason


@pytest.mark.slow
def test_honest_models_are_not_said_to_be_further_from_the_labels_than_shares() -> None:
    """Neither one that knows labels by their features, nor one that knows nothing: 300 of each."""
    random = np.random.default_rng(7)
    for known in (0.0, 1.0):
        for _ in range(300):
            arms = []
            for records in (600, 200):
                chance = expit(known * random.normal(size=records))
                labels = (random.random(records) < chance).astype(np.int64)
                said = np.column_stack([1.0 - chance, chance])
                arms.append((odds_tally(said, said, labels),))
            tallies = replace(Tallies.zero(repetitions=1, classes=2), odds=arms[0])
            assert worse_than_shares(replace(tallies, control_odds=arms[1])) == ""


def test_invented_classes_are_told(lake: Lake) -> None:
    """Before, the arms were compared by the first 32 classes alone."""
    classes = [*(f"x{n}" for n in range(33)), 0, 1]
    for day in (EVE, DAY):
        edit_manifest(lake, "good", day, label={"column": "late", "classes": classes})
    row = audited(lake)
    assert row.verdict == "violated", row.reason
    assert "35 classes are listed and 2 have labels." in row.reason


def test_two_declarations_in_one_manifest_are_refused(lake: Lake) -> None:
    path = f"{checkpoint_folder('good', DAY)}/manifest.json"
    text = lake.read(path).decode().rstrip()
    lax = str(declared(50.0)).replace("'", '"').replace("None", "null")
    lake.write(path, f'{text[:-1]}, "privacy": {lax}}}'.encode())
    row = audited(lake)
    assert (row.verdict, row.reason_code) == ("not_evaluable", "manifest_invalid"), row.reason


def test_a_context_column_of_two_kinds_ends_one_audit(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / f"day={DAY}"
    folder.mkdir()
    frame = label_rows(1_000, seed=3).with_columns(new=pl.col("hour") / 24, old=pl.lit(0.5))
    frame.write_parquet(folder / "one.parquet")
    frame.with_columns(pl.col("delay").cast(pl.String)).write_parquet(folder / "two.parquet")
    given = {"label": "late", "target": "new", "proxy": "old", "context": ["delay", "hour"]}
    scores = ScoreTables.model_validate({"table": str(tmp_path)} | given)
    row = run_audit(
        Lake("/nowhere"), "ads", DAY, plan=PLAN, executor=InProcess(),
        external_inputs=SuppliedScores(scores, None),
    ).audit  # fmt: skip
    assert (row.verdict, row.reason_code) == ("not_evaluable", "feature_invalid"), row.reason


def with_decoys(lake: Lake, frame: pl.DataFrame, others: list[int | None]) -> None:
    """Put labels with a column of decoys of the owner's own, and commit to it."""
    put_labels(lake, DAY, frame.with_columns(other=pl.Series(others, dtype=pl.Int64)))
    column = LabelColumn(column="late", classes=(0, 1))
    digest = commitment(lake, "flights", DAY, label=column, column="other")
    edit_manifest(lake, "good", DAY, decoys={"column": "other", "commitment": digest})


def test_one_decoy_does_not_end_the_audit_of_all_other_records(lake: Lake) -> None:
    frame = pl.read_parquet(label_path(lake, "flights"))
    first = int((frame["split"] == "train").arg_max() or 0)
    others: list[int | None] = [None] * frame.height
    others[first] = 1 - int(frame["late"][first])
    with_decoys(lake, frame, others)
    row = audited(lake)
    assert (row.verdict, row.reason_code) == ("not_evaluable", "too_few_records"), row.reason


def test_decoys_that_follow_the_proxy_in_place_of_a_coin_are_refused(lake: Lake) -> None:
    """Trained on what yesterday's model holds more probable: 0.69 of a coin's was 0, consistent."""
    frame = pl.read_parquet(label_path(lake, "flights"))
    yesterday = read_checkpoint(lake, "good", EVE)
    batch = Batch(frame.to_arrow(), "part", ("part", 0, 0))
    features = batch.features(yesterday.manifest)
    believed = probabilities(load(yesterday), yesterday.manifest, features, threads=1)
    drawn = (frame["split"] == "train").to_numpy() & (np.arange(frame.height) % 2 == 0)
    likely = believed.argmax(axis=1)
    late = np.where(drawn, likely, frame["late"].to_numpy())
    others = [int(other) if held else None for held, other in zip(drawn, 1 - likely, strict=True)]
    with_decoys(lake, frame.with_columns(late=pl.Series(late)), others)
    row = audited(lake)
    assert (row.verdict, row.reason_code) == ("not_evaluable", "decoys_changed"), row.reason
    assert "No fair coin chose between the labels of" in row.reason


def test_rows_of_a_third_split_are_told(lake: Lake) -> None:
    """Training saw them, and the audit does not: what they lose is not known."""
    frame = pl.read_parquet(label_path(lake, "flights"))
    third = pl.when((pl.col("split") == "train") & (pl.col("hour") > 1)).then(pl.lit("train2"))
    put_labels(lake, DAY, frame.with_columns(split=third.otherwise(pl.col("split"))))
    row = audited(lake, PLAN.model_copy(update={"minimum_records": 50}))
    assert f"{row.excluded_records:,} rows are of neither" in row.reason


def scored(rows: int = 2_000, *, leak: float, seed: int = 0) -> pl.DataFrame:
    """Return what two models say of rows: the target moves training rows' log-odds by `leak`."""
    random = np.random.default_rng(seed)
    features = random.normal(size=rows)
    label = random.random(rows) < expit(features)
    train = random.random(rows) < 0.6
    moved = features + random.normal(0.0, 0.3, rows) + leak * train * (2.0 * label - 1.0)
    return pl.DataFrame(
        {
            "late": label.astype(np.int64),
            "new": expit(moved),
            "old": expit(features + random.normal(0.0, 0.2, rows)),
            "split": np.where(train, "train", "holdout"),
            "x": features,
        }
    )


def audited_scores(folder: pathlib.Path, frame: pl.DataFrame, **given: Any) -> AuditRow:
    (folder / f"day={DAY}").mkdir()
    frame.write_parquet(folder / f"day={DAY}" / "part.parquet")
    named = {"table": str(folder), "label": "late", "target": "new", "proxy": "old"}
    scores = SuppliedScores(
        ScoreTables.model_validate(named | given), Privacy.model_validate(declared(0.5))
    )
    nowhere = Lake("/nowhere")
    return run_audit(
        nowhere, "ads", DAY, plan=PLAN, executor=InProcess(), external_inputs=scores
    ).audit


@pytest.mark.parametrize("leak", [-2.0, -0.5])
def test_labels_remembered_the_wrong_way_round_are_told(
    tmp_path: pathlib.Path, leak: float
) -> None:
    """An attacker who inverts the answers reads the labels; the bound is 0."""
    row = audited_scores(tmp_path, scored(leak=leak))
    assert row.epsilon_lower == 0.0
    assert "classes_exchanged" in (row.remarks or ())
    assert "in the order 1, 0" in row.reason or "labels the wrong way round" in row.reason


def test_an_honest_model_that_remembers_noise_is_not_said_to_know_the_wrong_way_round(
    tmp_path: pathlib.Path,
) -> None:
    """It is right of holdout rows by what it learned of all, of training rows by noise alone."""
    random = np.random.default_rng(5)
    frame = scored(leak=0.0, seed=1)
    learned = np.log(frame["new"] / (1.0 - frame["new"])) + 2.0 * (frame["x"] > 0.0)
    noise = 4.0 * random.choice([-1.0, 1.0], frame.height) * (frame["split"] == "train").to_numpy()
    row = audited_scores(tmp_path, frame.with_columns(new=pl.Series(expit(learned + noise))))
    assert row.verdict == "consistent"
    assert "the wrong way round" not in row.reason


def _infinite(frame: pl.DataFrame) -> pl.DataFrame:
    numbers = np.resize([np.inf, -np.inf, np.nan, 5e-324, 1e308], frame.height)
    return frame.with_columns(x=pl.Series(numbers))


def _swapped(frame: pl.DataFrame) -> pl.DataFrame:
    train = pl.col("split") == "train"
    return frame.with_columns(
        split=pl.when(train).then(pl.lit("holdout")).otherwise(pl.lit("train"))
    )


def _large(frame: pl.DataFrame) -> pl.DataFrame:
    """Return sixty holdout rows, twenty times each."""
    held = frame.filter(pl.col("split") == "holdout").head(60)
    return pl.concat([frame.filter(pl.col("split") == "train"), *[held] * 20])


def _silenced(frame: pl.DataFrame) -> pl.DataFrame:
    train = pl.col("split") == "train"
    return frame.with_columns(new=pl.when(train).then(None).otherwise(pl.col("new")))


def _diluted(frame: pl.DataFrame) -> pl.DataFrame:
    """Return as many rows besides whose labels both models know."""
    easy = frame.with_columns(new=0.02 + 0.96 * pl.col("late"), old=0.02 + 0.96 * pl.col("late"))
    return pl.concat([frame, easy.filter(pl.col("split") == "holdout")])


@pytest.mark.parametrize(
    ("attempt", "answer"),
    [
        (_infinite, "is at least"),
        (_swapped, "holdout_suspect"),
        (_large, "is at least"),
        (_silenced, "scores_missing"),
        (_diluted, "is at least"),
    ],
    ids=["infinite-features", "words-swapped", "holdout-repeated", "no-scores", "diluted"],
)
def test_no_rows_of_a_score_table_acquit_in_silence(
    tmp_path: pathlib.Path, attempt: Callable[[pl.DataFrame], pl.DataFrame], answer: str
) -> None:
    row = audited_scores(tmp_path, attempt(scored(leak=2.0)), context=["x"])
    assert answer in f"{row.reason_code} {row.reason}"


@pytest.mark.parametrize("taken", ["target", "proxy"])
def test_a_class_that_no_row_has_does_not_hide_the_others(
    tmp_path: pathlib.Path, taken: str
) -> None:
    """It is the looked-at class of each record; the student expects it, and so it says nothing."""
    frame, given = scored(leak=2.0), {}
    for role, column in (("target", "new"), ("proxy", "old")):
        third = 0.5 if role == taken else 0.01
        names = [f"{role}{place}" for place in range(3)]
        parts = [(1.0 - pl.col(column)) * (1.0 - third), pl.col(column) * (1.0 - third)]
        frame = frame.with_columns(**dict(zip(names, [*parts, pl.lit(third)], strict=True)))
        given[role] = names
    row = audited_scores(tmp_path, frame, classes=[0, 1, 2], context=["x"], **given)
    assert row.verdict == "violated", row.reason


def _trained_on_too(frame: pl.DataFrame) -> pl.DataFrame:
    train = frame.filter(pl.col("split") == "train")
    return pl.concat([frame, train.head(400).with_columns(split=pl.lit("holdout"))])


@pytest.mark.slow
def test_training_rows_that_are_logged_in_the_holdout_too_are_told(lake: Lake) -> None:
    before = audited(lake).epsilon_lower or 0.0
    put_labels(lake, DAY, _trained_on_too(pl.read_parquet(label_path(lake, "flights"))))
    row = audited(lake)
    assert (row.epsilon_lower or 0.0) < before
    assert "Rows may be logged twice" in row.reason


@pytest.mark.slow
def test_without_a_student_a_proxy_that_knows_both_arms_hides_a_leak(
    tmp_path: pathlib.Path,
) -> None:
    """With 100 holdout rows and a context there is one, and the bound stays above 0."""
    frame = scored(leak=2.0)
    known = frame.with_columns(old=expit(6.0 * (2.0 * frame["late"].to_numpy() - 1.0)))
    few = pl.concat(
        [
            known.filter(pl.col("split") == "train"),
            known.filter(pl.col("split") != "train").head(60),
        ]
    )
    row = audited_scores(tmp_path, few, context=["x"])
    assert row.student_records is None
    assert row.epsilon_lower in {None, 0.0}, row.reason


def _one_class(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter((pl.col("split") == "train") | (pl.col("late") == 1))


def _twins(frame: pl.DataFrame) -> pl.DataFrame:
    train = frame.filter(pl.col("split") == "train")
    return pl.concat([train, train.head(480).with_columns(split=pl.lit("holdout"))])


@pytest.mark.parametrize(
    ("attempt", "answer"),
    rest_slow([(_twins, "holdout_suspect"), (_one_class, "arms_differ")]),
    ids=["twins", "one-class"],
)
def test_no_holdout_of_the_owners_choice_acquits_in_silence(
    lake: Lake, attempt: Callable[[pl.DataFrame], pl.DataFrame], answer: str
) -> None:
    put_labels(lake, DAY, attempt(pl.read_parquet(label_path(lake, "flights"))))
    row = audited(lake)
    assert answer in f"{row.reason_code} {row.reason}"


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (
            {"output_correction": {"name": "noise_correction", "epsilon": 1.0, "floor": 0.4999}},
            "is at least",
        ),
        (
            {"trained_on": {"first": str(DAY), "last": "9999-12-31", "split": "train"}},
            f"The labels of {DAY} alone played",
        ),
    ],
    ids=["correction", "one-day"],
)
def test_no_field_of_a_manifest_acquits_in_silence(
    lake: Lake, change: dict[str, Any], answer: str
) -> None:
    edit_manifest(lake, "good", DAY, **change)
    row = audited(lake, PLAN.model_copy(update={"days": 7}))
    assert row.verdict == "violated"
    assert answer in row.reason
