"""Nights of labels that recur: one public test over them, from the settings to the bundle."""

import json
import pathlib
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import workers.publication.publish
from flows.commands.attest import app as attest_app
from flows.commands.audits import app as audits_app
from flows.commands.publication import app
from flows.run.nightly import nightly_audit
from flows.run.start import start
from flows.run.statements import opening_of_current
from flows.settings import SettingsError, load_settings
from privcore.exceptions import TerminalError
from tests.support.lake import DAY, label_path, put_labels, write_settings
from workers.evidence.envelope import make_key_pair
from workers.lake.layout import Lake
from workers.publication.key import make_key
from workers.publication.statement_row import Statement
from workers.publication.statement_store import Statements
from workers.publication.threshold_night import ThresholdNight
from workers.warehouse.store import Warehouse

RECURRING = (
    '[publication]\nstatements = "statements"\nkey_file = "key"\nepsilon = 1.0\n'
    "nights_per_test = 30\n"
)


pytestmark = [pytest.mark.usefixtures("in_process", "lake"), pytest.mark.slow]


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    make_key(tmp_path / "key")
    file = write_settings(tmp_path, ["good"], more=RECURRING)
    file.write_text(file.read_text().replace("[plan]\n", "[plan]\nlabels_recur = true\n"))
    return file


def published(file: pathlib.Path) -> list[Any]:
    return Statements(str(file.parent / "statements")).all()


def test_a_silent_night_has_an_answer_and_no_figure(
    file: pathlib.Path, alerts: list[Any], lake: Lake
) -> None:
    """It is shown, printed and attested; with other labels it is not asked again."""
    asked = ["--day", str(DAY), "--config", str(file)]
    printed = CliRunner().invoke(audits_app, ["night", *asked, "--json"])
    (made,) = published(file)
    assert isinstance(made, ThresholdNight)
    assert (made.test_nights, made.test_night, made.alarm) == (30, 1, False)
    assert made.threshold is not None
    (row,) = json.loads(printed.stdout)
    assert (row["verdict"], row["statement_id"], row["pvalue"]) == (
        "not_refuted", made.statement_id, None,
    )  # fmt: skip
    assert printed.exit_code == 0
    assert alerts == []
    page = (file.parent / "report" / "models" / "good.html").read_text()
    assert made.test_id in page
    assert "no alarm" in page
    assert "night 1 of at most 30" in page
    make_key_pair(file.parent / "evidence.pem")
    bundle = file.parent / "good.bundle.json"
    signed = CliRunner().invoke(
        attest_app,
        ["attest", "good", str(DAY), "--key", str(file.parent / "evidence.pem"),
         "--config", str(file), "--out", str(bundle)],
    )  # fmt: skip
    assert signed.exit_code == 0
    assert "holds no figure" in signed.output

    rows = pl.read_parquet(label_path(lake, "flights"))
    label_path(lake, "flights").unlink()
    put_labels(lake, DAY, rows.with_columns(late=1 - pl.col("late")))
    start(nightly_audit, day=DAY, settings=str(file))
    assert Warehouse(str(file.parent / "warehouse")).scan("audits").collect().height == 2
    assert published(file) == [made]
    again = CliRunner().invoke(app, ["publish", "good", str(DAY), "--again", "--config", str(file)])
    assert again.exit_code != 0
    assert "leave out --again" in f"{again.output}{again.exception}"
    with pytest.raises(TerminalError, match="still runs"):
        opening_of_current("good", DAY, load_settings(file))


def test_an_alarm_is_told_like_a_refuting_statement(
    file: pathlib.Path, alerts: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exact figure is put far above the threshold; the test's opening is then given."""
    loud = {"evidence_figure": 10**9, "premises_figure": -(10**9)}
    real = workers.publication.publish.night_of
    monkeypatch.setattr(
        workers.publication.publish,
        "night_of",
        lambda exact, *more: real(exact.model_copy(update=loud), *more),
    )
    asked = ["--day", str(DAY), "--config", str(file)]
    printed = CliRunner().invoke(audits_app, ["night", *asked])
    (made,) = published(file)
    assert (made.verdict, made.alarm) == ("violated", True)
    assert printed.exit_code == 1
    (alert,) = alerts
    assert "refuted by the test over nights" in alert.reason
    assert made.statement_id == alert.audit_id
    page = (file.parent / "report" / "models" / "good.html").read_text()
    assert "charged anew" in page
    assert len(opening_of_current("good", DAY, load_settings(file))) == 64


def test_models_whose_labels_do_not_recur_keep_a_statement_a_night(
    tmp_path: pathlib.Path,
) -> None:
    make_key(tmp_path / "key")
    file = write_settings(tmp_path, ["good"], more=RECURRING)
    plan = load_settings(file).plan_of("good")
    assert not plan.asks_over_nights
    start(nightly_audit, day=DAY, settings=str(file))
    (made,) = published(file)
    assert isinstance(made, Statement)


@pytest.mark.parametrize("wrong", ["nights_per_test = 0", "nights_per_test = 4000"])
def test_wrong_numbers_of_nights_are_refused(tmp_path: pathlib.Path, wrong: str) -> None:
    more = f'[publication]\nstatements = "s"\n{wrong}\n'
    with pytest.raises(SettingsError, match="publication"):
        load_settings(write_settings(tmp_path, ["ads"], more=more))
