"""The fifth round of an owner (2026-11-27): what broke of the attacks that were written down."""

import pathlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from onnx import TensorProto, helper, numpy_helper
from scipy.special import expit

from tests.security.test_owner_attacks import scored as with_leak
from tests.security.test_owner_attacks import with_decoys
from tests.security.test_remarked_tables import RESEMBLE
from tests.support.audits import audited
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    FEATURES,
    MEMORISE,
    PLAN,
    copied,
    declared,
    label_path,
    label_rows,
    put_labels,
    put_model,
)
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.checkpoints import write_checkpoint
from workers.lake.formats.contract import InputsRefusedError
from workers.lake.formats.onnx import _cast
from workers.lake.layout import Lake
from workers.lake.manifest import Feature, Privacy
from workers.plan import Plan, TrainingSampling
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores
from workers.warehouse.schema import AuditRow

TOKEN = Feature(name="token", kind="categorical")
NOISE = Feature(name="token", kind="numeric")


def audited_scores(
    folder: pathlib.Path, rows: pl.DataFrame, plan: Plan = PLAN, *, unit: str = "row", **given: Any
) -> AuditRow:
    (folder / f"day={DAY}").mkdir(parents=True)
    rows.write_parquet(folder / f"day={DAY}" / "part.parquet")
    named = {"table": str(folder), "label": "late", "target": "new", "proxy": "old"}
    privacy = Privacy.model_validate(declared(0.5, unit=unit))
    scores = SuppliedScores(ScoreTables.model_validate(named | given), privacy)
    return run_audit(
        Lake("/nowhere"), "ads", DAY, plan=plan, executor=InProcess(), external_inputs=scores
    ).audit


def rows_of(lake: Lake) -> pl.DataFrame:
    return pl.read_parquet(label_path(lake, "flights"))


def tokens(rows: int, seed: int, feature: Feature) -> pl.Series:
    random = np.random.default_rng(seed)
    if feature == NOISE:
        return pl.Series(random.normal(size=rows))
    return pl.Series([f"t{each}" for each in random.integers(0, 1 << 40, rows)])


def remembered(folder: pathlib.Path, own: Feature | None = None) -> Lake:
    """Return a lake whose model remembers labels, and ignores a feature of its owner's own."""
    lake = Lake(str(folder))
    features = FEATURES if own is None else (*FEATURES, own)
    parameters: dict[str, Any] = MEMORISE if own is None else MEMORISE | {"ignored_features": [3]}
    for seed, day in enumerate((EVE, DAY)):
        rows = label_rows(2_000, seed=seed)
        if own is not None:
            rows = rows.with_columns(token=tokens(rows.height, seed, own))
        put_labels(lake, day, rows)
        put_model(lake, day, privacy=declared(0.5), parameters=parameters, features=features)
    return lake


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return remembered(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def lake(plain: Lake, tmp_path: pathlib.Path) -> Lake:
    """Return a copy of it for one attempt."""
    return copied(plain, tmp_path)


@pytest.mark.slow
def test_true_decoys_are_counted_as_the_rows_that_they_are(lake: Lake) -> None:
    rows = rows_of(lake)
    train = (rows["split"] == "train").to_numpy()
    drawn = np.flatnonzero(train)[::4]
    coin = np.random.default_rng(3).integers(0, 2, drawn.size)
    late = rows["late"].to_numpy().copy()
    late[drawn] = coin
    others: list[int | None] = [None] * rows.height
    for place, label in zip(drawn.tolist(), coin.tolist(), strict=True):
        others[place] = 1 - label
    put_labels(lake, DAY, rows.with_columns(late=pl.Series(late)))
    put_model(lake, DAY, privacy=declared(0.5), parameters=MEMORISE)
    with_decoys(lake, rows.with_columns(late=pl.Series(late)), others)
    row = audited(lake)
    assert row.method == "decoys", row.reason
    assert "The target's file counts" not in row.reason


def with_copies(rows: pl.DataFrame, change: Any) -> pl.DataFrame:
    """Return the rows with three quarters of the holdout replaced by copies of training rows."""
    train, holdout = (rows.filter(pl.col("split") == arm) for arm in ("train", "holdout"))
    many = int(0.75 * holdout.height)
    copies = change(train.sample(many, seed=5).with_columns(split=pl.lit("holdout")))
    whole = pl.concat([train, holdout[many:], copies.select(train.columns)])
    return whole.sample(fraction=1.0, shuffle=True, seed=5)


@pytest.mark.slow
@pytest.mark.parametrize("own", [TOKEN, NOISE], ids=["words", "numbers"])
def test_a_feature_of_an_owners_own_does_not_hide_copies_in_the_holdout(
    tmp_path: pathlib.Path, own: Feature
) -> None:
    """Such a feature makes all rows different: 1.7 became 0.1 and 0.3, unsaid."""
    lake = remembered(tmp_path, own)
    before = audited(lake)
    assert (before.verdict, RESEMBLE in before.reason) == ("violated", False), before.reason
    anew = lambda rows: rows.with_columns(token=tokens(rows.height, 9, own))  # noqa: E731
    put_labels(lake, DAY, with_copies(rows_of(lake), anew))
    row = audited(lake)
    assert row.verdict == "doubtful", row.reason
    assert RESEMBLE in row.reason


@pytest.mark.slow
def test_copies_in_the_holdout_with_another_word_are_told(lake: Lake) -> None:
    turned = {"AMS": "BER", "BER": "CDG", "CDG": "AMS"}
    moved = lambda rows: rows.with_columns(pl.col("city").replace(turned))  # noqa: E731
    put_labels(lake, DAY, with_copies(rows_of(lake), moved))
    row = audited(lake)
    assert (row.epsilon_lower or 0.0) <= 0.5
    assert RESEMBLE in row.reason
    assert "nearly the same numbers" in row.reason


def test_a_context_that_only_the_holdout_has_is_told(tmp_path: pathlib.Path) -> None:
    """The student learned what training rows do not have: 3.8 became 3.0, unsaid."""
    hidden = pl.when(pl.col("split") == "train").then(None).otherwise(pl.col("x"))
    row = audited_scores(tmp_path, with_leak(leak=0.4).with_columns(x=hidden), context=["x"])
    assert "'x' tells 'split'" in row.reason


def test_size_a_context_of_features_is_not_said_to_tell_anything(tmp_path: pathlib.Path) -> None:
    row = audited_scores(tmp_path, with_leak(leak=0.4), context=["x"])
    assert row.verdict == "violated"
    assert "nearly copy" not in row.reason


@pytest.mark.slow
def test_persons_in_both_arms_are_told(tmp_path: pathlib.Path) -> None:
    """A holdout row for each person whose labels are remembered: 3.5 became 0, unsaid."""
    random = np.random.default_rng(4)
    who = np.repeat(np.arange(1_200), 2)
    known = random.normal(size=who.size)
    label, train = random.random(who.size) < expit(known), (random.random(1_200) < 0.6)[who]
    moved = known + random.normal(0.0, 0.3, who.size) + 2.0 * train * (2.0 * label - 1.0)
    rows = pl.DataFrame({
        "late": label.astype(np.int64),
        "new": expit(moved),
        "old": expit(known + random.normal(0.0, 0.2, who.size)),
        "split": np.where(train, "train", "holdout"),
        "x": known,
        "who": who,
    })  # fmt: skip
    plan = PLAN.model_copy(update={"privacy_unit": "who"})
    before = audited_scores(tmp_path / "before", rows, plan, unit="who")
    assert "compared with nobody" not in before.reason
    more = rows.filter(pl.col("split") == "train").unique("who").sample(fraction=0.85, seed=1)
    more = more.with_columns(split=pl.lit("holdout"), new=pl.col("old"))
    row = audited_scores(tmp_path / "after", pl.concat([rows, more]), plan, unit="who")
    assert (row.epsilon_lower or 0.0) < (before.epsilon_lower or 0.0)
    assert "persons in training have rows in the holdout, too" in row.reason


def test_weights_that_choose_the_holdout_are_told_where_their_means_agree(
    tmp_path: pathlib.Path,
) -> None:
    """Holdout rows that the target predicts wrong weigh 4,096: 4.7 became 0, unsaid."""
    rows = with_leak(leak=0.6)
    held = (rows["split"] == "holdout").to_numpy()
    right = (rows["new"] > rows["old"]).to_numpy() == (rows["late"] == 1).to_numpy()
    weights = np.where(held, np.where(right, 1.0, 4096.0), 1.0 / right[held].mean())
    plan = PLAN.model_copy(update={"sampling": TrainingSampling(weight="w")})
    row = audited_scores(tmp_path, rows.with_columns(w=pl.Series(weights)), plan)
    assert "so the weights of one arm are wrong" in row.reason


def test_an_earlier_model_that_is_the_target_is_refused(tmp_path: pathlib.Path) -> None:
    """Bets against the mean of both could not win: 5.6 became 0."""
    copies = {f"e{place}": pl.col("new") for place in range(4)}
    row = audited_scores(tmp_path, with_leak(leak=2.0).with_columns(**copies), earlier=[*copies])
    assert (row.verdict, row.reason_code) == ("not_evaluable", "proxy_is_target"), row.reason
    assert "earlier 1" in row.reason


def of_one_user_each(users: pl.Series, labels: pl.Series) -> bytes:
    """Return an ONNX file that looks each training row's label up by its user's number."""
    odds = 3.0 * (2.0 * labels.to_numpy() - 1.0)
    nodes = [
        helper.make_node("Equal", ["user", "known"], ["same"]),
        helper.make_node("Cast", ["same"], ["one"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["one", "odds"], ["found"]),
        helper.make_node("Mul", ["delay", "little"], ["rest"]),
        helper.make_node("Add", ["found", "rest"], ["sum"]),
        helper.make_node("Sigmoid", ["sum"], ["chance"]),
    ]
    known = [
        numpy_helper.from_array(users.to_numpy().reshape(1, -1), "known"),
        numpy_helper.from_array(odds.astype(np.float32).reshape(-1, 1), "odds"),
        numpy_helper.from_array(np.array([0.05], dtype=np.float32), "little"),
    ]
    kinds = {"user": TensorProto.INT64, "delay": TensorProto.FLOAT}
    given = [helper.make_tensor_value_info(name, kind, ["rows", 1]) for name, kind in kinds.items()]
    said = [helper.make_tensor_value_info("chance", TensorProto.FLOAT, ["rows", 1])]
    graph = helper.make_graph(nodes, "graph", given, said, known)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


@pytest.mark.slow
def test_whole_numbers_of_64_bits_are_scored_with_all_their_digits(tmp_path: pathlib.Path) -> None:
    """A double does not hold the last ones, by which the model looks labels up: 5.1 became 0."""
    lake = Lake(str(tmp_path))
    features = (Feature(name="user", kind="numeric"), FEATURES[0])
    for seed, day in enumerate((EVE, DAY)):
        order = np.random.default_rng(100 + seed).permutation(1_000)
        rows = label_rows(1_000, seed=seed).with_columns(user=pl.Series((1 << 60) + order))
        put_labels(lake, day, rows)
        trained = rows.filter(pl.col("split") == "train")
        manifest = {
            "model": "good",
            "day": day,
            "dataset": "flights",
            "label": BINARY.model_dump(),
            "features": [each.model_dump() for each in features],
            "trained_on": {"first": day, "last": day, "split": "train"},
            "privacy": declared(0.5),
        }
        content = of_one_user_each(trained["user"], trained["late"])
        write_checkpoint(lake, manifest, content, format="onnx")
    row = audited(lake)
    assert row.verdict == "violated", row.reason


@pytest.mark.parametrize(("number", "refused"), [(2.0**53, False), (2.0**60, True)])
def test_a_matrix_of_whole_numbers_is_scored_where_doubles_hold_them(
    number: float, refused: bool
) -> None:
    given = SimpleNamespace(name="X", type="tensor(int64)")
    if refused:
        with pytest.raises(InputsRefusedError, match="above 2\\^53"):
            _cast(np.array([[number]]), given)
    else:
        assert _cast(np.array([[number]]), given).tolist() == [[int(number)]]


@pytest.mark.slow
def test_persons_of_other_numbers_of_rows_than_the_holdouts_are_told(
    tmp_path: pathlib.Path,
) -> None:
    """Persons are compared where they have as many rows: one each beside two each, 1.7 became 0."""
    lake = Lake(str(tmp_path))
    for seed, day in enumerate((EVE, DAY)):
        held = pl.col("split") == "holdout"
        pairs = 10_000 + held.cum_sum() // 2
        rows = label_rows(2_000, seed=seed).with_columns(
            who=pl.when(held).then(pairs).otherwise(pl.int_range(pl.len()))
        )
        put_labels(lake, day, rows)
        put_model(lake, day, privacy=declared(0.5, unit="who"), parameters=MEMORISE)
    row = audited(lake, PLAN.model_copy(update={"privacy_unit": "who"}))
    assert (row.verdict, row.epsilon_lower) == ("consistent", 0.0), row.reason
    assert "persons in training have numbers of rows that fewer than ten persons" in row.reason
