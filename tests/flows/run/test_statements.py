"""Statements in the flows: published with the night, alerted of, and asked for by hand."""

import json
import pathlib
import shutil
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import flows.notify.alerts
import flows.run.auditing
import flows.run.conclusion
from flows.commands import checks
from flows.commands.audits import app as audits_app
from flows.commands.publication import app
from flows.commands.report import app as report_app
from flows.commands.verify import app as verify_app
from flows.notify.public import PublicNight
from flows.run.conclusion import public_exit_code
from flows.run.nightly import nightly_audit
from flows.run.start import start
from flows.run.statements import check_opening, opening_of_current, publish_current
from flows.settings import SettingsError, load_settings
from privcore.exceptions import TerminalError
from tests.support.in_process import work_in_process
from tests.support.lake import DAY, EVE, clone_model, edit_manifest, write_settings
from tests.support.tiers import rest_slow
from workers.lake.layout import Lake
from workers.publication.key import make_key
from workers.publication.statement_conclusion import conclusion_of
from workers.publication.statement_row import PublicVerdict
from workers.publication.statement_store import Statements
from workers.warehouse.schema import AuditRow, Status
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process")
PUBLISHED = '[publication]\nstatements = "statements"\nkey_file = "key"\nepsilon = 0.5\n'


@pytest.fixture(autouse=True)
def _never_doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise calls up to one innocent statement in ten doubtful: here one in 10^9."""
    monkeypatch.setattr("privcore.publication.statement.DOUBTFUL", 1e-9)


def put_project(folder: pathlib.Path, template: Lake) -> pathlib.Path:
    """Return settings of a good model and of one that declares nothing, with statements."""
    lake = Lake(shutil.copytree(template.uri, folder / "lake").as_posix())
    clone_model(lake, "silent")
    edit_manifest(lake, "silent", DAY, privacy=None)
    make_key(folder / "key")
    return write_settings(folder, ["good", "silent"], more=PUBLISHED)


@pytest.fixture
def file(template: Lake, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return settings of a project that has published nothing."""
    return put_project(tmp_path, template)


@pytest.fixture(scope="module")
def night(template: Lake, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the folder of a project after one night, to be copied and never changed."""
    file = put_project(tmp_path_factory.mktemp("night"), template)
    with pytest.MonkeyPatch.context() as patched:
        work_in_process(patched)
        patched.setattr("privcore.publication.statement.DOUBTFUL", 1e-9)
        start(nightly_audit, day=DAY, settings=str(file))
    return file.parent


@pytest.fixture
def published(night: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return settings of a project after one night: it has a statement of the good model."""
    shutil.copytree(night, tmp_path, dirs_exist_ok=True)
    return tmp_path / "privaudit.toml"


def test_a_night_publishes_statements_and_a_report_of_them_alone(
    file: pathlib.Path, alerts: list[Any]
) -> None:
    start(nightly_audit, day=DAY, settings=str(file))
    (made,) = Statements(str(file.parent / "statements")).all()
    assert (made.model, made.day, made.epsilon_public) == ("good", DAY, 0.5)
    pages = sorted(page.name for page in (file.parent / "report").rglob("*.html"))
    assert pages == ["good.html", "index.html"]
    record = Warehouse(str(file.parent / "warehouse")).current()["audit_id"].to_list()
    text = "".join(page.read_text() for page in (file.parent / "report").rglob("*.html"))
    assert not any(audit_id in text for audit_id in record)
    assert alerts == []
    start(nightly_audit, day=DAY, settings=str(file))
    assert Statements(str(file.parent / "statements")).all() == [made]


def test_before_its_audit_nothing_is_published(file: pathlib.Path) -> None:
    with pytest.raises(TerminalError, match="No audit of good"):
        publish_current("good", DAY, load_settings(file))


@pytest.mark.slow
def test_what_was_audited_before_is_published_when_asked_for(published: pathlib.Path) -> None:
    settings = load_settings(published)
    first = publish_current("good", DAY, settings)
    assert publish_current("good", DAY, settings) == first
    second = publish_current("good", DAY, settings, again=True)
    assert second.revision == 2
    with pytest.raises(TerminalError, match="epsilon_per_label, 1"):
        publish_current("good", DAY, settings, again=True)
    with pytest.raises(TerminalError, match="No audit of silent"):
        publish_current("silent", DAY, settings)
    with pytest.raises(TerminalError, match="No audit of good for"):
        publish_current("good", EVE, settings)
    without = settings.model_copy(update={"publication": None})
    with pytest.raises(TerminalError, match=r"add \[publication\]"):
        publish_current("good", DAY, without)


@pytest.mark.slow
def test_models_that_would_cost_their_labels_too_much_have_no_statement(
    lake: Lake, tmp_path: pathlib.Path, alerts: list[Any]
) -> None:
    """Three models on the same labels at 0.5 each: two are published, the third is told of."""
    for name in ("second", "third"):
        clone_model(lake, name)
        for day in (EVE, DAY):
            edit_manifest(lake, name, day, dataset="flights")
    make_key(tmp_path / "key")
    file = write_settings(tmp_path, ["good", "second", "third"], more=PUBLISHED)
    start(nightly_audit, day=DAY, settings=str(file))
    assert len(Statements(str(tmp_path / "statements")).all()) == 2
    assert len(alerts) == 1
    assert alerts[0].reason == conclusion_of(None)


@pytest.mark.slow
def test_a_withdrawn_audit_is_not_published(published: pathlib.Path) -> None:
    settings = load_settings(published)
    warehouse = Warehouse(settings.warehouse)
    for audit_id in warehouse.current()["audit_id"]:
        warehouse.withdraw(audit_id, "The wrong labels.")
    with pytest.raises(TerminalError, match="No audit of good"):
        publish_current("good", DAY, settings)


def test_a_night_without_its_key_does_not_begin(file: pathlib.Path) -> None:
    (file.parent / "key").unlink()
    with pytest.raises(TerminalError, match=r"cannot be read \(No such file or directory\)"):
        start(nightly_audit, day=DAY, settings=str(file))
    found = {one.what: one for one in checks.checks(file) if one.what == "publication"}
    assert not found["publication"].ok


@pytest.mark.slow
def test_the_commands_publish_and_write_both_reports(published: pathlib.Path) -> None:
    file = published
    asked = CliRunner().invoke(app, ["publish", "good", str(DAY), "--config", str(file)])
    assert "(revision 1): The declared 0.5" in asked.output
    made = CliRunner().invoke(app, ["publication-key", str(file.parent / "new.key")])
    assert "new.key" in made.output
    assert (file.parent / "new.key").stat().st_mode & 0o777 == 0o600
    exact = file.parent / "exact"
    CliRunner().invoke(report_app, ["--exact", str(exact), "--config", str(file)])
    assert (exact / "models" / "silent.html").exists()
    assert exact.stat().st_mode & 0o777 == 0o700
    CliRunner().invoke(report_app, ["--config", str(file)])
    assert not (file.parent / "report" / "models" / "silent.html").exists()


@pytest.mark.slow
def test_output_and_exit_code_are_those_of_statements(file: pathlib.Path) -> None:
    """A scheduler shows both to more people than may read the labels."""
    asked = ["--day", str(DAY), "--config", str(file)]
    printed = CliRunner().invoke(audits_app, ["night", *asked, "--json"])
    (made,) = Statements(str(file.parent / "statements")).all()
    shown = {row["model"]: row for row in json.loads(printed.stdout)}
    assert shown["good"]["statement_id"] == made.statement_id
    assert shown["good"]["verdict"] == "not_refuted"
    assert (shown["silent"]["verdict"], shown["silent"]["pvalue"]) == ("undeclared", None)
    assert printed.exit_code == 0
    silent = CliRunner().invoke(audits_app, ["run", "--model", "silent", *asked])
    assert silent.exit_code == 0
    assert "declares nothing, so there is nothing to test" in silent.stdout
    one = CliRunner().invoke(audits_app, ["run", "--model", "good", *asked])
    assert one.exit_code == 0
    assert conclusion_of(made) in one.stdout
    ids = Warehouse(str(file.parent / "warehouse")).current()["audit_id"].to_list()
    assert not any(audit_id[:8] in printed.output + one.output for audit_id in ids)
    other = CliRunner().invoke(audits_app, ["run", "--model", "good", *asked, "--seed", "9"])
    assert other.exit_code == 2
    assert str(conclusion_of(None)) in other.stdout


@pytest.mark.parametrize(
    ("verdict", "code"),
    rest_slow([("violated", 1), ("doubtful", 2), ("not_refuted", 0), ("vacuous", 2)], always=2),
)
def test_a_public_exit_code_is_the_worst_of_all(
    night: pathlib.Path, verdict: str, code: int
) -> None:
    """No exact verdict counts."""
    rows = Warehouse(str(night / "warehouse")).current().to_dicts()
    (made,) = Statements(str(night / "statements")).all()
    changed = made.model_copy(update={"verdict": PublicVerdict(verdict)})
    nights = [PublicNight("good", DAY, made), PublicNight("good", DAY, changed)]
    exact = "violated" if code != 1 else "consistent"
    good = next(row for row in rows if row["model"] == "good")
    row = AuditRow.model_validate(good | {"verdict": exact})
    assert public_exit_code([row], nights) == code
    none = PublicNight("silent", DAY, None)
    assert public_exit_code([row], [*nights, none]) == (code or 2)
    undeclared = PublicNight("silent", DAY, None, declares_nothing=True)
    assert public_exit_code([row], [*nights, undeclared]) == code
    failed = row.model_copy(update={"status": Status.ERROR})
    assert public_exit_code([failed], nights) == 3


def test_the_settings_set_the_plans_epsilon_and_a_models_own_wins(
    tmp_path: pathlib.Path,
) -> None:
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


def test_the_key_may_come_from_the_environment(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_settings(tmp_path, ["ads"], more='[publication]\nstatements = "s"\n')
    monkeypatch.setenv("PRIVAUDIT_PUBLICATION__KEY", "ab" * 32)
    settings = load_settings(file)
    assert "ab" * 32 not in repr(settings)
    assert flows.run.auditing.publication_key(settings) == bytes.fromhex("ab" * 32)


@pytest.mark.parametrize("wrong", ["epsilon = 0", "epsilon = 11", "epsilon_per_label = 0", "x = 1"])
def test_wrong_values_are_refused(tmp_path: pathlib.Path, wrong: str) -> None:
    more = f'[publication]\nstatements = "s"\n{wrong}\n'
    with pytest.raises(SettingsError, match="publication"):
        load_settings(write_settings(tmp_path, ["ads"], more=more))


@pytest.mark.slow
def test_an_auditor_recomputes_a_statement_without_the_key(published: pathlib.Path) -> None:
    """With the opening, the warehouse and the lake; a wrong opening is exit code 1."""
    file = published
    printed = CliRunner().invoke(app, ["opening", "good", str(DAY), "--config", str(file)])
    opening = printed.output.strip()
    assert len(opening) == 64
    (file.parent / "key").unlink()
    audit_id = load_audit(file)
    asked = ["--config", str(file), audit_id, "--opening"]
    right = CliRunner().invoke(verify_app, [*asked, "-"], input=printed.output)
    assert "reproduced" in right.output
    assert "follows from this audit: figures and commitments" in right.output
    assert right.exit_code == 0
    other = file.parent / "opening"
    other.touch(mode=0o600)
    other.write_text("0" * 64, "utf-8")
    wrong = CliRunner().invoke(verify_app, [*asked, str(other)])
    assert "No published statement follows" in wrong.output
    assert wrong.exit_code == 1
    settings = load_settings(file)
    record = Warehouse(settings.warehouse).record(audit_id)
    with pytest.raises(TerminalError, match="64 hexadecimal digits"):
        check_opening(record, "short", settings)
    with pytest.raises(TerminalError, match="No statement about silent"):
        opening_of_current("silent", DAY, settings)
    without = settings.model_copy(update={"publication": None})
    with pytest.raises(TerminalError, match="publish nothing"):
        opening_of_current("good", DAY, without)


def load_audit(file: pathlib.Path) -> str:
    """Return the id of the good model's audit."""
    current = Warehouse(str(file.parent / "warehouse")).current()
    return str(current.filter(pl.col("model") == "good")["audit_id"][0])
