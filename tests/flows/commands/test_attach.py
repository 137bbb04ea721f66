"""`privaudit attach`: settings from somebody's own table, and nothing written beside it."""

import pathlib

import polars as pl
import pytest
from typer.testing import CliRunner

import flows.commands.audits
from flows.cli import app
from flows.settings import load_settings
from privcore.exceptions import TerminalError
from tests.support.lake import DAY


@pytest.fixture
def table(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "predictions" / f"ds={DAY}"
    folder.mkdir(parents=True)
    numbers = pl.int_range(400, eager=True)
    pl.DataFrame(
        {
            "clicked": numbers % 2,
            "p_today": numbers % 7 / 10 + 0.1,
            "p_served": numbers % 5 / 10 + 0.1,
            "fold": numbers % 5,
        }
    ).write_parquet(folder / "part.parquet")
    return tmp_path / "predictions"


def attached(table: pathlib.Path, *options: str) -> str:
    config = table.parent / "privaudit.toml"
    given = ["attach", str(table), "--config", str(config), "--name", "ads", *options]
    done = CliRunner().invoke(app, given)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_a_table_becomes_settings_that_check_and_only_its_copy_is_written(
    table: pathlib.Path,
) -> None:
    before = sorted(table.rglob("*"))
    said = attached(table, "--holdout", "fold = 0", "--epsilon", "4", "--only-settings")
    assert f"holds {DAY} in 1 files, declares epsilon 4" in said
    assert "its name is a label's" in said
    assert sorted(table.rglob("*")) == before
    settings = load_settings(table.parent / "privaudit.toml")
    (model,) = settings.models
    assert (model.name, model.scores.holdout, model.privacy.epsilon) == ("ads", "fold = 0", 4.0)


def test_without_a_terminal_what_is_missing_names_its_option(table: pathlib.Path) -> None:
    with pytest.raises(TerminalError, match="give --split or --holdout"):
        attached(table, "--only-settings")
    assert not (table.parent / "privaudit.toml").exists()


def test_a_model_is_added_to_settings_that_are_there_and_never_twice(table: pathlib.Path) -> None:
    options = ("--holdout", "fold = 0", "--only-settings")
    attached(table, *options)
    config = table.parent / "privaudit.toml"
    before = config.read_text()
    with pytest.raises(TerminalError, match="lists ads more than once"):
        attached(table, *options)
    assert config.read_text() == before
    attached(table, *options, "--name", "other")
    assert [model.name for model in load_settings(config).models] == ["ads", "other"]


def test_the_newest_day_is_audited(table: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(flows.commands.audits, "run", lambda **given: asked.append(given))
    attached(table, "--holdout", "fold = 0")
    assert asked == [{"model": "ads", "day": DAY, "config": table.parent / "privaudit.toml"}]
