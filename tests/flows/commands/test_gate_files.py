"""`privaudit gate` on files: answers, exit codes, files for build servers, MLflow."""

import pathlib
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import polars as pl
import pytest
from typer.testing import CliRunner

from flows.cli import app
from privcore.exceptions import TerminalError
from tests.flows.conftest import Command
from tests.support.mlflow_stub import Registry, mlflow_stub
from tests.support.release import leaky, put_files, quiet, rows

FLAVOR = "flavors:\n  xgboost:\n    data: model.ubj\n"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    for name in ("REGISTRY_URI", "TRACKING_TOKEN", "TRACKING_USERNAME", "TRACKING_PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_{name}", raising=False)
    with mlflow_stub() as registry:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", registry.address)
        yield registry


@pytest.fixture(autouse=True)
def _place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def suite_of(folder: pathlib.Path) -> ET.Element:
    return ET.parse(folder / "gate.xml").getroot()  # noqa: S314  # our own


def files(folder: pathlib.Path, target: bytes) -> list[str]:
    given = put_files(folder, target=target)
    return ["gate", "--target", given[0], "--proxy", given[1], "--table", given[2]]


@pytest.mark.slow
def test_a_file_that_leaks_nothing_passes_and_its_version_is_promoted(
    tmp_path: pathlib.Path,
    privaudit: Command,
    registry: Registry,
) -> None:
    number = registry.register("ads", "candidate", FLAVOR, quiet())
    promote = ["--mlflow-model", "ads", "--mlflow-version", number, "--alias", "production"]
    answer = privaudit(*files(tmp_path, quiet()), "--max-epsilon", "2", "--junit", "gate.xml",
                       *promote)  # fmt: skip
    assert (answer.code, answer.out.startswith("not_refuted. ")) == (0, True)
    assert "is tagged, and production names it now" in answer.out
    (*tags, last) = registry.written
    assert {content["key"]: content["value"] for _, content in tags}[
        "privaudit.gate"
    ] == "not_refuted"
    named = {"name": "ads", "version": number, "alias": "production"}
    assert last == ("registered-models/alias", named)
    suite = suite_of(tmp_path)
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "gate.xml", "new.ubj", "old.ubj", "rows.parquet",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_leak_fails_and_promotes_nothing(
    tmp_path: pathlib.Path, privaudit: Command, registry: Registry
) -> None:
    number = registry.register("ads", "candidate", FLAVOR, leaky())
    promote = ["--mlflow-model", "ads", "--mlflow-version", number, "--alias", "production"]
    answer = privaudit(*files(tmp_path, leaky()), "--declared", "2", "--junit", "gate.xml",
                       "--json", *promote)  # fmt: skip
    assert (answer.code, registry.written) == (1, [])
    assert '"gate":"violated"' in answer.out.replace(" ", "").replace("\n", "")
    suite = suite_of(tmp_path)
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")


@pytest.mark.slow
def test_what_failed_is_an_error_to_junit(
    tmp_path: pathlib.Path, privaudit: Command, registry: Registry
) -> None:
    number = registry.register("ads", "candidate", FLAVOR, quiet())
    given = put_files(tmp_path, target=quiet(), table=rows(2).filter(split="train"))
    answer = privaudit("gate", "--target", given[0], "--proxy", given[1], "--table", given[2],
                       "--split", "split", "--label", "late", "--max-epsilon", "2",
                       "--junit", "gate.xml", "--mlflow-model", "ads",
                       "--mlflow-version", number)  # fmt: skip
    assert (answer.code, registry.written) == (3, [])
    assert answer.out.startswith("failed: setup_wrong. No row was held out")
    suite = suite_of(tmp_path)
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("0", "1", "0")


@pytest.mark.slow
def test_a_version_that_holds_another_file_is_not_promoted(
    tmp_path: pathlib.Path, privaudit: Command, registry: Registry
) -> None:
    number = registry.register("ads", "candidate", FLAVOR, leaky())
    for version, why in ((number, "holds another model file"), ("9", "has no version 9")):
        answer = privaudit(*files(tmp_path, quiet()), "--max-epsilon", "2", "--mlflow-model", "ads",
                           "--mlflow-version", version)  # fmt: skip
        assert (answer.code, registry.written) == (3, [])
        assert why in answer.err


@pytest.mark.slow
def test_the_newest_day_plays_where_a_column_says_the_day(
    tmp_path: pathlib.Path, privaudit: Command
) -> None:
    older = rows(1).with_columns(ds=pl.lit("2026-03-01"))
    table = pl.concat([older, rows(2).with_columns(ds=pl.lit("2026-03-02"))])
    given = put_files(tmp_path, target=leaky(), table=table)
    answer = privaudit("gate", "--target", given[0], "--proxy", given[1], "--table", given[2],
                       "--day-column", "ds", "--max-epsilon", "2", "--json")  # fmt: skip
    assert answer.code == 1
    assert '"day": "2026-03-02"' in answer.out


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
def test_wrong_usage_ends_with_64(
    tmp_path: pathlib.Path, privaudit: Command, options: list[str], why: str
) -> None:
    answer = privaudit(*files(tmp_path, quiet()), *options)
    assert why in answer.err
    assert answer.code == 64


def test_missing_files_are_named(tmp_path: pathlib.Path, privaudit: Command) -> None:
    assert privaudit("gate", "--target", "a.ubj").code == 64
    given = put_files(tmp_path)
    for target, why in (("none.ubj", "is not a file"), ("model.pkl", "ends in none of")):
        answer = privaudit("gate", "--target", target, "--proxy", given[1], "--table", given[2],
                           "--declared", "2")  # fmt: skip
        assert (answer.code, why in answer.err) == (3, True)


def test_no_file_of_an_earlier_gate_clears_a_model(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate that ended early left yesterday's files, which build servers read all the same."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("gate.xml").write_text("<testsuites/>", "utf-8")
    given = ["--target", "new.ubj", "--proxy", "old.ubj", "--table", "rows.parquet"]
    ended = CliRunner().invoke(app, ["gate", *given, "--declared", "2", "--junit", "gate.xml"])
    assert isinstance(ended.exception, TerminalError)
    suites = ET.parse("gate.xml").getroot()  # noqa: S314  # our own
    assert (suites.get("failures"), suites.get("errors")) == ("0", "1")
    (error,) = suites.iter("error")
    assert error.get("message") == "error. The gate ended before it came to an answer."
