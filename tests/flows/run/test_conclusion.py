"""The report comes last, and costs neither a record nor an alert."""

import pathlib
import pickle
import shutil
from typing import Any

import pytest
from typer.testing import CliRunner

import flows.run.auditing
from flows.commands.audits import app
from flows.run.conclusion import ReportUnpublishedError
from flows.run.nightly import nightly_audit
from tests.support.lake import DAY, clone_model, model_path, write_settings
from workers.lake.layout import Lake
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture
def folder(template: Lake, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a folder with a good model and one without labels, whose report cannot be written."""
    shutil.copytree(template.uri, tmp_path / "lake")
    lake = Lake(str(tmp_path / "lake"))
    clone_model(lake, "bad")
    (model_path(lake, "bad", DAY) / "manifest.json").write_text("{")
    write_settings(tmp_path, ["good", "bad"])
    (tmp_path / "report").write_text("a file where the folder should be")
    return tmp_path


def test_a_report_that_cannot_be_written_costs_no_record_and_no_alert(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(flows.run.auditing, "deliver", lambda alert, _: told.append(alert))
    with pytest.raises(ReportUnpublishedError, match="privaudit report") as caught:
        nightly_audit(DAY, settings=str(folder / "privaudit.toml"))
    assert [row.model for row in caught.value.rows] == ["good", "bad"]
    assert [alert.model for alert in told] == ["bad"]
    current = Warehouse(str(folder / "warehouse")).current()
    assert current["model"].to_list() == ["bad", "good"]
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert str(again) == str(caught.value)


def test_the_command_prints_what_was_audited_and_then_says_so(folder: pathlib.Path) -> None:
    ran = CliRunner().invoke(
        app, ["night", "--day", str(DAY), "--config", str(folder / "privaudit.toml")]
    )
    assert "evaluated" in ran.output or "consistent" in ran.output
    assert isinstance(ran.exception, ReportUnpublishedError)
