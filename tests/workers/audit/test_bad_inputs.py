import pathlib
import pickle
import shutil

import polars as pl
import pytest

from tests.support.audits import audited, recorded
from tests.support.damages import DAMAGES, Damage, malicious_pickle, witness
from tests.support.lake import DAY, clone_model, label_rows
from tests.support.score_tables import audited_scores
from workers.lake.layout import Lake
from workers.warehouse.schema import Status


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_bad_input_ends_as_a_record_that_says_why(lake: Lake, damage: Damage) -> None:
    clone_model(lake, "bad")
    damage.apply(lake, "bad")

    record = recorded(lake, model="bad")

    row = record.audit
    assert (row.status, row.detail) == (Status.NOT_EVALUABLE, damage.reason), row.reason
    assert (row.verdict, row.reason_code) == (damage.reason.code.verdict, damage.reason.code)
    assert row.reason.endswith(".")
    assert "\n" not in row.reason
    for word in damage.words:
        assert word in row.reason
    assert row.epsilon_lower is None
    assert record.bounds == record.promises == ()


def test_the_model_that_the_damages_start_from_is_evaluated(lake: Lake) -> None:
    clone_model(lake, "bad")
    row = audited(lake, model="bad")
    assert (row.status, row.detail) == (Status.EVALUATED, None)


def test_a_pickle_in_the_place_of_a_model_is_never_unpickled(lake: Lake) -> None:
    clone_model(lake, "bad")
    next(damage for damage in DAMAGES if damage.name == "model-is-a-pickle").apply(lake, "bad")
    recorded(lake, model="bad")
    assert not witness(lake).exists()

    pickle.loads(malicious_pickle(lake))  # noqa: S301  # proves that the witness would have come
    assert witness(lake).exists()


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "../labels",
        "a/b",
        "/etc",
        "a\\b",
        "day=2026-03-02",
        "a\n",
        "ü",
        "x" * 101,
    ],
)
def test_a_name_that_could_walk_out_of_the_lake_is_refused(lake: Lake, name: str) -> None:
    shutil.copytree(f"{lake.uri}/models/good", f"{lake.uri}/x")
    row = audited(lake, model=name)
    assert (row.status, row.detail) == (Status.NOT_EVALUABLE, "name_invalid")
    assert repr(name) in row.reason


def test_a_context_column_of_two_kinds_ends_one_audit(tmp_path: pathlib.Path) -> None:
    frame = label_rows(1_000, seed=3).with_columns(new=pl.col("hour") / 24, old=pl.lit(0.5))
    (tmp_path / f"day={DAY}").mkdir()
    words = frame.with_columns(pl.col("delay").cast(pl.String))
    words.write_parquet(tmp_path / f"day={DAY}" / "two.parquet")
    row = audited_scores(tmp_path, frame, context=["delay", "hour"])
    assert (row.status, row.detail) == ("not_evaluable", "feature_invalid"), row.reason
