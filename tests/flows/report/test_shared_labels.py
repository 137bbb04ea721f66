"""Models on the same labels, on the page of the night."""

import pathlib
import re

import pytest
from typer.testing import CliRunner

import flows.report.report_rows
from flows.commands.warehouse import app
from flows.report.report_rows import shared_labels
from flows.report.site import write_report
from flows.settings import TogetherSettings
from tests.support.lake import DAY
from tests.support.warehouse import evaluated
from workers.warehouse.store import Warehouse

SHARED = {"dataset": "clicks", "epsilon_declared": 3.0, "neighbors": "replace",
          "delta_declared": 0.0, "declared_by": "ads-team"}  # fmt: skip


@pytest.fixture
def warehouse(tmp_path):
    """Return three models: two on clicks, and one alone on mails."""
    made = Warehouse(str(tmp_path / "warehouse"))
    records = [evaluated(model, DAY, **SHARED) for model in ("ads", "feed")]
    records += [evaluated("mail", DAY, **SHARED | {"dataset": "mails"})]
    assert made.commit(records) == (True,) * 3
    return made


def section(page):
    found = re.search(
        r'<section aria-labelledby="together">.*?</section>', page.read_text(), re.DOTALL
    )
    return found[0] if found else ""


def test_what_models_on_the_same_labels_promise_together_stands_in_the_index(warehouse, tmp_path):
    index = write_report(warehouse, tmp_path / "report")
    shown = section(index)
    assert "<strong>clicks</strong>: ads, feed were audited on the same labels." in shown
    assert "compose to 6" in shown
    assert "mails" not in shown
    assert 'class="violated"' not in shown
    statistics = (index.parent / "statistics.html").read_text()
    (anchor,) = re.findall(r'statistics\.html#([\w-]+)"', shown)
    assert f'id="{anchor}"' in statistics


@pytest.mark.slow
@pytest.mark.usefixtures("warehouse")
def test_the_command_holds_them_against_the_total_of_the_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("privaudit.toml").write_text(
        'lake = "l"\nwarehouse = "warehouse"\nreport = "report"\n[together]\nepsilon = 5.0\n'
        '[[models]]\nname = "ads"\ndataset = "clicks"\n'
    )
    ran = CliRunner().invoke(app, ["report"])
    assert ran.exit_code == 0, ran.output
    shown = section(tmp_path / "report" / "index.html")
    assert 'class="violated"' in shown
    assert "The total of 5 is exceeded." in shown


def test_a_total_that_is_kept_is_said_after_those_that_are_not(warehouse):
    for model in ("one", "two"):
        warehouse.commit(
            [evaluated(model, DAY, **SHARED | {"dataset": "a", "epsilon_declared": 2.0})]
        )
    found = shared_labels(warehouse, DAY, TogetherSettings(epsilon=5.0))
    assert [(one.labels, one.exceeded) for one in found] == [("clicks", True), ("a", False)]
    assert found[1].sentence.endswith("The total of 5 is kept.")


def test_labels_that_no_two_models_share_have_no_section(tmp_path):
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    assert section(write_report(warehouse, tmp_path / "empty")) == ""
    warehouse.commit([evaluated("ads", DAY, **SHARED)])
    assert section(write_report(warehouse, tmp_path / "report")) == ""


def test_what_cannot_be_computed_is_said_and_costs_no_page(warehouse, monkeypatch):
    def failing(*_, **__):
        raise ValueError("no relation")

    monkeypatch.setattr(flows.report.report_rows, "together", failing)
    (entry,) = shared_labels(warehouse, DAY, None)
    assert entry.sentence == "Models on the same labels cannot be shown (ValueError)."
