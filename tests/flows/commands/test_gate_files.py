"""`privaudit gate` on files: answers, exit codes, MLflow; no lie passes a leaking file."""

import numpy as np
import polars as pl
import pytest
import xgboost

from flows.commands.gate_files import Decision, decide, with_file
from flows.next_steps import card_of
from privcore.lower_bounds import Verdict
from privcore.lower_bounds.applied_response import AppliedResponse
from privcore.lower_bounds.verdicts import ReasonCode
from tests.support.lake import write_settings
from tests.support.mlflow_stub import mlflow_stub
from tests.support.release import RECORDS, by_heart, leaky, put_files, quiet, rows
from tests.support.report import record
from tests.support.studies import here
from workers.audit.file_labels import FileLabels

FLAVOR = "flavors:\n  xgboost:\n    data: model.ubj\n"


@pytest.fixture
def registry(monkeypatch):
    for name in ("REGISTRY_URI", "TRACKING_TOKEN", "TRACKING_USERNAME", "TRACKING_PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_{name}", raising=False)
    with mlflow_stub() as registry:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", registry.address)
        yield registry


@pytest.fixture(autouse=True)
def _place(tmp_path, monkeypatch):
    """Audit in the test's folder, and in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flows.commands.gate_files.choose_executor", here)


def files(folder, target):
    given = put_files(folder, target=target)
    return ["gate", "--target", given[0], "--proxy", given[1], "--table", given[2]]


@pytest.mark.slow
def test_a_file_that_leaks_nothing_passes_and_its_version_is_promoted(
    tmp_path, privaudit, registry
):
    number = registry.register("ads", "candidate", FLAVOR, quiet())
    promote = ["--mlflow-model", "ads", "--mlflow-version", number, "--alias", "production"]
    answer = privaudit(*files(tmp_path, quiet()), "--max-epsilon", "2", *promote)
    assert (answer.code, answer.out.startswith("not_refuted. ")) == (0, True)
    assert "is tagged, and production names it now" in answer.out
    (*tags, last) = registry.written
    assert {content["key"]: content["value"] for _, content in tags}[
        "privaudit.gate"
    ] == "not_refuted"
    named = {"name": "ads", "version": number, "alias": "production"}
    assert last == ("registered-models/alias", named)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "new.ubj", "old.ubj", "rows.parquet",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "code"), [(9.0, 0), (0.01, 2)])
def test_policy_of_the_settings_is_obeyed_where_there_are_any(tmp_path, privaudit, limit, code):
    write_settings(tmp_path, ["ads"], more=f"[policy]\nmax_sees_from = {limit}\n")
    given = files(tmp_path, quiet())
    answer = privaudit(*given, "--max-epsilon", "2")
    assert answer.code == code, answer.err
    if code:
        assert answer.out.startswith("inconclusive: over_policy. Not accepted: its audits see a ")
        assert "(policy.max_sees_from: at most 0.01)" in answer.words
        assert privaudit(*given, "--max-epsilon", "2", "--accept", "over_policy").code == 0


@pytest.mark.slow
def test_a_leak_fails_and_promotes_nothing(tmp_path, privaudit, registry):
    number = registry.register("ads", "candidate", FLAVOR, leaky())
    promote = ["--mlflow-model", "ads", "--mlflow-version", number, "--alias", "production"]
    answer = privaudit(*files(tmp_path, leaky()), "--declared", "2", "--json", *promote)
    assert (answer.code, registry.written) == (1, [])
    assert '"gate":"violated"' in answer.out.replace(" ", "").replace("\n", "")


@pytest.mark.slow
def test_a_file_that_is_handed_over_is_read_and_not_asked_alone(tmp_path, privaudit):
    """The same shallow trees, of the labels and of labels that went through coins before."""
    plain = rows(2).drop("city")
    coins = np.random.default_rng(5).random(len(plain)) < 1.0 / (1.0 + np.exp(1.0))
    noisy = plain.with_columns(late=pl.col("late") ^ pl.Series(coins).cast(pl.Int64))

    def shallow(frame):
        data = xgboost.DMatrix(
            frame.select("delay", "hour").to_pandas(), label=frame["late"].to_numpy()
        )
        given = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}
        return bytes(xgboost.train(given, data, 8).save_raw("ubj"))

    proxy = shallow(rows(1).drop("city"))

    def answered(trained, *more):
        target = shallow(trained.filter(split="train"))
        given = put_files(tmp_path, target=target, proxy=proxy, table=plain)
        named = ["--target", given[0], "--proxy", given[1], "--table", given[2], "--label", "late"]
        answer = privaudit("gate", *named, "--declared", "1", *more)
        return answer.code, answer.words

    code, _ = answered(plain)
    assert code != 1  # its answers prove nothing
    code, words = answered(plain, "--hand-over-file")
    assert code == 1
    assert words.startswith("violated: mechanism_not_applied. Whoever gets the file reads the ")
    assert "All sums are those of the table's labels" in words
    assert "If a mechanism made them, that says nothing of the secret ones." in words
    code, words = answered(noisy, "--hand-over-file")
    assert code != 1
    assert "With the file itself: The file gives the exact sum" in words
    assert privaudit("gate", "--sha256", "new.ubj", "--hand-over-file").code == 64


@pytest.mark.parametrize(
    ("unchanged", "low", "verdict"),
    [
        (True, 2.0, "violated"),
        (True, 1.0, "not_refuted"),
        (False, 2.0, "inconclusive"),
        (False, 1.0, "not_refuted"),
    ],
)
def test_a_file_is_refuted_by_the_tables_own_labels_alone(unchanged, low, verdict):
    """All noughts agree with nine of ten labels of a rare class, and give nothing away."""
    row = record(epsilon_declared=1.0, verdict="not_refuted", reason_code=None)
    decision = Decision(Verdict.NOT_REFUTED, card_of(row), "Why.")
    found = FileLabels(AppliedResponse(low, 3.0, 90, 81, 90), unchanged, 8, "")
    made = with_file(decision, row, found)
    assert made.verdict == verdict
    assert ("Keep the file" in made.card.step.text) == (verdict != "not_refuted")


@pytest.mark.slow
def test_what_failed_is_promoted_nowhere(tmp_path, privaudit, registry):
    number = registry.register("ads", "candidate", FLAVOR, quiet())
    given = put_files(tmp_path, target=quiet(), table=rows(2).filter(split="train"))
    answer = privaudit("gate", "--target", given[0], "--proxy", given[1], "--table", given[2],
                       "--split", "split", "--label", "late", "--max-epsilon", "2",
                       "--mlflow-model", "ads", "--mlflow-version", number)  # fmt: skip
    assert (answer.code, registry.written) == (3, [])
    assert answer.out.startswith("failed: setup_wrong. No row was held out")


@pytest.mark.slow
def test_a_version_that_holds_another_file_is_not_promoted(tmp_path, privaudit, registry):
    number = registry.register("ads", "candidate", FLAVOR, leaky())
    for version, why in ((number, "holds another model file"), ("9", "has no version 9")):
        answer = privaudit(*files(tmp_path, quiet()), "--max-epsilon", "2", "--mlflow-model", "ads",
                           "--mlflow-version", version)  # fmt: skip
        assert (answer.code, registry.written) == (3, [])
        assert why in answer.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "--max-epsilon, --declared or both"),
        (["--max-epsilon", "0"], "greater than 0"),
        (["--max-epsilon", "nan"], "greater than or equal to 0"),
        (["--declared", "1", "--delta", "1"], "less than 1"),
        (["--declared", "1", "--mlflow-model", "ads"], "go together"),
        (["--declared", "1", "--alias", "a"], "go together"),
        (["--declared", "1", "--feature", "hour"], "write the model's name for it"),
        (["--sha256", "new.ubj"], "leave out --target"),
    ],
)
def test_wrong_usage_ends_with_64(tmp_path, privaudit, options, why):
    answer = privaudit(*files(tmp_path, quiet()), *options)
    assert why in answer.err
    assert answer.code == 64


def test_missing_files_are_named(tmp_path, privaudit):
    assert privaudit("gate", "--target", "a.ubj").code == 64
    given = put_files(tmp_path)
    for target, why in (("none.ubj", "is not a file"), ("model.pkl", "ends in none of")):
        answer = privaudit("gate", "--target", target, "--proxy", given[1], "--table", given[2],
                           "--declared", "2")  # fmt: skip
        assert (answer.code, why in answer.err) == (3, True)


def test_a_framework_that_is_not_installed_is_named(tmp_path, privaudit, monkeypatch):
    """It ended with a traceback, and the advice to audit the day afterwards."""
    given = files(tmp_path, quiet())
    monkeypatch.setattr("workers.lake.formats.importlib.util.find_spec", lambda _: None)
    answer = privaudit(*given, "--declared", "2")
    assert (answer.code, answer.out) == (3, "")
    assert "need its library: install privaudit[" in answer.err
    assert "Traceback" not in answer.err


TWO = {"max_epsilon": 2.0}
SUSPECT, SPLIT = "inconclusive: holdout_suspect", "inconclusive: persons_split"
TRAIN, HELD = (rows(2).filter(split=arm) for arm in ("train", "holdout"))


def asked(folder, limit=TWO, *, target=None, proxy=None, table=None, accepted=()):
    files = put_files(folder, target=target or leaky(), proxy=proxy, table=table)
    return decide(*files, label="late", accepted=set(accepted), **limit)


def resaved():
    booster = xgboost.Booster()
    booster.load_model(bytearray(leaky()))
    booster.set_attr(note="another file of the same model")
    return bytes(booster.save_raw("ubj"))


NOISE = pl.Series(np.random.default_rng(5).integers(0, 2, RECORDS))
SEVEN = pl.when(pl.int_range(pl.len()) < 5).then(7).otherwise("late")
LIES = {
    "its own proxy": (lambda: {"proxy": leaky()}, "failed: proxy_unusable"),
    "few held out": (lambda: {"table": pl.concat([TRAIN, HELD.head(10)])}, "few_held_out"),
    "noise as the label": (lambda: {"table": rows(2).with_columns(late=NOISE)}, "answers_doubtful"),
    "bad labels": (lambda: {"table": rows(2).with_columns(late=SEVEN)}, "failed: setup_wrong"),
    # Of such a table a model that knows its own rows by heart was passed.
    "rows unseen": (lambda: {"table": rows(9)[: len(TRAIN) // 2]}, "rows_unaccounted"),
}


@pytest.mark.parametrize("lie", LIES)
def test_no_lie_passes_a_leaking_file(tmp_path, lie):
    given, said = LIES[lie]
    # No reason is accepted of an audit that has no figure.
    accepted = ReasonCode if said.startswith("failed") else ()
    row, decision = asked(tmp_path, accepted=accepted, **given())
    assert decision.said in {said, f"inconclusive: {said}"}
    assert "1970" not in decision.why
    if lie == "noise as the label":
        assert (row.epsilon_lower, "do not follow this label" in decision.why) == (0.0, True)
    if lie == "rows unseen":
        assert "rows_miscounted" in row.remarks


@pytest.mark.slow
def test_a_proxy_that_saw_the_labels_is_inconclusive(tmp_path):
    for proxy in (resaved(), by_heart(TRAIN.head(1000))):
        _, decision = asked(tmp_path, proxy=proxy)
        assert decision.said == "failed: proxy_unusable"
        assert "knows labels of this table" in decision.why


@pytest.mark.slow
@pytest.mark.parametrize(
    ("delta", "limit"), [(0.5, "max_epsilon"), (0.99 / len(TRAIN), "declared")]
)
def test_no_delta_lets_a_leak_pass(tmp_path, delta, limit):
    row, decision = asked(tmp_path, {limit: 2.0, "delta": delta})
    # What refutes a declaration comes before what says that it says nothing.
    said = (Verdict.INCONCLUSIVE, "declaration_empty"), (Verdict.VIOLATED, "this_night")
    assert (decision.verdict, row.reason_code) == said[delta < 0.5]


@pytest.mark.slow
def test_a_holdout_that_was_trained_on_is_inconclusive(tmp_path):
    row, decision = asked(tmp_path, target=by_heart(rows(2)))
    assert ("holdout_suspect" in row.remarks, decision.said) == (True, SUSPECT)
    copies = pl.concat([TRAIN, TRAIN.with_columns(split=pl.lit("holdout"))])
    row, decision = asked(tmp_path, table=copies)
    assert ("holdout_suspect" in row.remarks, decision.said) == (True, SPLIT)
