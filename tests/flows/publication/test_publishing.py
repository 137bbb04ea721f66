"""The hand-over: what nights stored is published, once and for all who are due, and signed."""

import datetime as dt
import pathlib
import re
import shutil

import polars as pl
import pytest
from typer.testing import CliRunner

from flows.commands import checks
from flows.commands.handover import app
from flows.publication.publishing import (
    key_of,
    publish_all,
    record_about,
    statement_about,
    statements_page,
)
from flows.run.nightly import nightly_audit
from flows.run.runs import start
from flows.settings import SettingsError, load_settings
from privcore.exceptions import TerminalError
from tests.support.in_process import work_in_process
from tests.support.lake import DAY, EVE, clone_model, edit_manifest, write_settings
from tests.support.statements import statement
from workers.lake.layout import Lake
from workers.plain_files import make_key
from workers.publication.statements import Statements
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process")
PUBLISHED = '[publication]\nstatements = "statements"\nkey_file = "key"\nepsilon = 0.5\n'


@pytest.fixture(scope="module")
def night(template, tmp_path_factory):
    """Return the folder of a project after one night, to be copied and never changed.

    A good model, two others on its labels, and one that declares nothing.
    """
    folder = tmp_path_factory.mktemp("night")
    lake = Lake(shutil.copytree(template.uri, folder / "lake").as_posix())
    for name in ("second", "silent", "third"):
        clone_model(lake, name)
        for day in (EVE, DAY):
            edit_manifest(lake, name, day, dataset="flights")
    edit_manifest(lake, "silent", DAY, privacy=None)
    make_key(folder / "key")
    file = write_settings(folder, ["good", "second", "silent", "third"], more=PUBLISHED)
    with pytest.MonkeyPatch.context() as patched:
        work_in_process(patched)
        start(nightly_audit, day=DAY, settings=str(file))
    return folder


@pytest.fixture
def settings(night, tmp_path):
    """Return the settings of a project after one night that published nothing."""
    shutil.copytree(night, tmp_path, dirs_exist_ok=True)
    return load_settings(tmp_path / "privaudit.toml")


def stored(settings):
    assert settings.publication is not None
    return Statements(settings.publication.statements)


def test_a_night_stores_ingredients_and_publishes_nothing(settings):
    warehouse = Warehouse(settings.warehouse)
    rows = warehouse.collect(warehouse.scan("audit_statements"))
    assert set(rows["model"]) == {"good", "second", "third"}
    assert stored(settings).all() == []
    pages = {page.name for page in pathlib.Path(settings.report).rglob("*.html")}
    assert pages >= {"index.html", "good.html", "silent.html"}, "the report is of exact records"


def test_all_are_published_once_as_far_as_labels_may_be_charged(settings):
    """Three models on the same labels at 0.5 each: two are published, the third is named.

    The page shows the statements, and nothing of the records.
    """
    done = publish_all(settings)
    assert [(one.model, one.day, one.epsilon_public) for one in done.made] == [
        ("good", DAY, 0.5), ("second", DAY, 0.5),
    ]  # fmt: skip
    (refused,) = done.refused
    assert "Nothing is published for third" in str(refused)
    assert stored(settings).all() == done.made
    again = publish_all(settings)
    assert again.made == []
    assert stored(settings).all() == done.made
    text = pathlib.Path(done.page).read_text("utf-8")
    assert all(made.statement_id in text for made in done.made)
    assert "third" not in text
    current = Warehouse(settings.warehouse).current(columns=("audit_id", "labels_digest"))
    for column in current.columns:
        assert not any(value[:8] in text for value in current[column])


def test_what_was_withdrawn_is_not_published(settings):
    warehouse = Warehouse(settings.warehouse)
    current = warehouse.current()
    for audit_id in current.filter(pl.col("model") == "good")["audit_id"]:
        warehouse.withdraw(audit_id, "The wrong labels.")
    assert [one.model for one in publish_all(settings).made] == ["second", "third"]


def test_a_statement_is_vouched_for_if_it_follows_from_the_day(settings):
    (made, _) = publish_all(settings).made
    assert statement_about("good", DAY, settings) == made
    with pytest.raises(TerminalError, match="No statement about good"):
        statement_about("good", EVE, settings)
    shutil.rmtree(stored(settings).uri)
    forged = made.model_copy(update={"evidence_figure": made.evidence_figure - 500})
    stored(settings).append(lambda _: [forged])
    with pytest.raises(TerminalError, match="follows from no audit of that day under the key"):
        statement_about("good", DAY, settings)


def test_the_record_that_counts_is_found(settings):
    record = record_about("good", DAY, settings)
    assert (record.audit.model, record.audit.day) == ("good", DAY)
    assert record.statements
    with pytest.raises(TerminalError, match="There is no audit of good"):
        record_about("good", EVE, settings)


def test_what_lacks_is_said(settings, tmp_path):
    without = settings.model_copy(update={"publication": None})
    with pytest.raises(TerminalError, match=r"The settings have no \[publication\]"):
        publish_all(without)
    (tmp_path / "key").unlink()
    with pytest.raises(TerminalError, match=r"cannot be read \(No such file or directory\)"):
        publish_all(settings)
    file = tmp_path / "privaudit.toml"
    found = {one.what: one for one in checks.checks(file) if one.what == "publication"}
    assert not found["publication"].ok


def test_the_commands_make_a_key_and_publish(settings, tmp_path):
    file = tmp_path / "privaudit.toml"
    made = CliRunner().invoke(app, ["make-key", str(tmp_path / "new.key")])
    assert "new.key" in made.output
    assert (tmp_path / "new.key").stat().st_mode & 0o777 == 0o600
    asked = CliRunner().invoke(app, ["publish", "--config", str(file)])
    assert asked.exit_code == 2, "one would cost its labels too much"
    assert f"{DAY} good: " in asked.output
    assert "2 new statements. Page: " in asked.output
    (tmp_path / "privaudit.toml").write_text(
        file.read_text("utf-8") + "epsilon_per_label = 5.0\n", "utf-8"
    )
    asked = CliRunner().invoke(app, ["publish", "--config", str(file)])
    assert (asked.exit_code, "1 new statements" in asked.output) == (0, True)
    assert len(stored(settings).all()) == 3


def test_the_settings_set_the_plans_epsilon_and_a_models_own_wins(tmp_path):
    more = f'{PUBLISHED}[[models]]\nname = "small"\n[models.plan]\nepsilon_public = 1.0\n'
    file = write_settings(tmp_path, ["ads"], more=PUBLISHED)
    assert load_settings(file).plan_of("ads").epsilon_public == 0.5
    text = more + '[[models]]\nname = "ads"\nmembership = true\n'
    file.write_text(f'lake = "l"\nwarehouse = "w"\nreport = "r"\n{text}')
    settings = load_settings(file)
    assert settings.plan_of("small").epsilon_public == 1.0
    assert [plan.epsilon_public for plan in settings.plans_of("ads")] == [0.5, None]
    assert settings.publication is not None
    assert settings.publication.statements == str(tmp_path / "statements")
    assert settings.publication.key_file == str(tmp_path / "key")


def test_the_key_may_come_from_the_environment(tmp_path, monkeypatch):
    file = write_settings(tmp_path, ["ads"], more='[publication]\nstatements = "s"\n')
    monkeypatch.setenv("PRIVAUDIT_PUBLICATION__KEY", "ab" * 32)
    settings = load_settings(file)
    assert "ab" * 32 not in repr(settings)
    assert key_of(settings) == bytes.fromhex("ab" * 32)


@pytest.mark.parametrize("wrong", ["epsilon = 0", "epsilon = 11", "epsilon_per_label = 0", "x = 1"])
def test_wrong_values_are_refused(tmp_path, wrong):
    more = f'[publication]\nstatements = "s"\n{wrong}\n'
    with pytest.raises(SettingsError, match="publication"):
        load_settings(write_settings(tmp_path, ["ads"], more=more))


def models_in(text):
    """Return the models that the table names, in its order."""
    return re.findall(r'<th role="rowheader" scope="row">(.*?)</th>', text)


def test_the_newest_day_comes_first_and_the_worst_of_it():
    day = dt.date(2026, 11, 1)
    made = [
        statement(0, model="kept"),
        statement(1, model="refuted", evidence=20_000),
        statement(2, model="old", day=day - dt.timedelta(days=40)),
        statement(3, model="kept", day=day - dt.timedelta(days=40)),
        statement(4, model="kept", day=day - dt.timedelta(days=3)),
    ]
    text = statements_page(made)
    assert models_in(text) == ["refuted", "kept", "kept", "old"]
    assert "5 public statements about the privacy of labels" in text
    assert "is refuted (p = " in text


def test_a_page_without_statements_says_so():
    assert "Nothing was published yet." in statements_page([])


def test_names_are_text():
    text = statements_page([statement(0, model="<script>alert(1)</script>\x1b[2J")])
    assert "<script>alert" not in text
    assert "\x1b" not in text
