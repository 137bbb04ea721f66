"""`privaudit attach`: settings from somebody's own table, and nothing written beside it."""

import contextlib
import os
import pty
import sys
import tomllib

import deltalake
import polars as pl
import pyiceberg.catalog
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config
from typer.testing import CliRunner

import flows.commands.audits
from flows.cli import app
from flows.commands.attach import as_toml
from flows.settings import load_settings
from privcore.exceptions import InvalidInputError, TerminalError
from tests.support.in_place import delta, put_file, stored, train
from tests.support.lake import DAY, EVE
from tests.workers.sources.test_proposal import put, rows
from workers.sources.proposal import propose
from workers.sources.tables.table_files import look


@pytest.fixture
def table(tmp_path):
    folder = tmp_path / "predictions" / f"ds={DAY}"
    folder.mkdir(parents=True)
    numbers = pl.int_range(400, eager=True)
    pl.DataFrame(
        {
            "clicked": numbers % 2,
            "p_today": numbers % 2 / 2 + numbers % 7 / 20 + 0.1,
            "p_served": numbers % 2 / 2 + numbers % 5 / 20 + 0.1,
            "fold": numbers % 5,
            "amount": numbers * 1.5,
        }
    ).write_parquet(folder / "part.parquet")
    return tmp_path / "predictions"


def attached(table, *options):
    config = table.parent / "privaudit.toml"
    given = ["attach", str(table), "--config", str(config), "--name", "ads", *options]
    done = CliRunner().invoke(app, given)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_a_table_becomes_settings_that_check_and_only_its_copy_is_written(table):
    before = sorted(table.rglob("*"))
    said = attached(table, "--holdout", "fold = 0", "--epsilon", "4", "--only-settings")
    assert f"{DAY} of {table}, declares epsilon 4; 320 training and 80 holdout records" in said
    assert 'label = "clicked"  # ' in said
    assert sorted(table.rglob("*")) == before
    settings = load_settings(table.parent / "privaudit.toml")
    (model,) = settings.models
    assert (model.name, model.scores.holdout, model.privacy.epsilon) == ("ads", "fold = 0", 4.0)


def test_an_epsilon_that_is_none_is_refused_and_nothing_written(table):
    with pytest.raises(InvalidInputError, match="epsilon is -1"):
        attached(table, "--holdout", "fold = 0", "--only-settings", "--epsilon", "-1")
    assert not (table.parent / "privaudit.toml").exists()


def test_without_a_terminal_what_is_missing_names_its_option(table, privaudit):
    answer = privaudit("attach", str(table), "--config", str(table.parent / "privaudit.toml"))
    assert (answer.code, "give --split or --holdout" in answer.err) == (64, True)
    assert not (table.parent / "privaudit.toml").exists()


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [((), 64, "give --day-column"), (("--day-column", "day"), 3, "make it hold dates")],
)
def test_a_day_of_the_month_is_no_day_and_nothing_is_written(
    tmp_path, privaudit, more, code, words
):
    numbers = pl.int_range(400, eager=True)
    frame = pl.DataFrame({
        "day": numbers % 31 + 1, "clicked": numbers % 2, "p_today": numbers % 2 / 2 + 0.2,
        "p_served": numbers % 2 / 2 + 0.1, "fold": numbers % 5,
    })  # fmt: skip
    frame.write_parquet(tmp_path / "predictions.parquet")
    given = ("--holdout", "fold = 0", *more)
    config = str(tmp_path / "privaudit.toml")
    table = str(tmp_path / "predictions.parquet")
    answer = privaudit("attach", table, "--config", config, *given)
    assert (answer.code, words in answer.err) == (code, True)
    assert not (tmp_path / "privaudit.toml").exists()
    dated = frame.with_columns(ds=pl.lit(DAY))
    dated.write_parquet(tmp_path / "predictions.parquet")
    said = attached(tmp_path / "predictions.parquet", *given[:2], "--only-settings")
    assert 'day = "ds"' in said


@pytest.mark.slow
def test_on_a_terminal_what_is_missing_is_asked(table):
    config = table.parent / "privaudit.toml"
    command = [sys.executable, "-c", "from flows.cli import main; main()"]
    command += ["attach", str(table), "--config", str(config), "--name", "ads", "--only-settings"]
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, command)  # noqa: S606  # our own command
    shown = b""
    while b"holdout = " not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, b"fold = 0\n")
    with contextlib.suppress(OSError):  # what a terminal gives once its process is gone
        while part := os.read(terminal, 4096):
            shown += part
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown.decode()
    assert b"which rows were held out of training" in shown
    (model,) = load_settings(config).models
    assert model.scores.holdout == "fold = 0"


def test_three_tables_are_attached_and_joined(table, tmp_path):
    (file,) = table.rglob("*.parquet")
    frame = pl.read_parquet(file, hive_partitioning=False).with_row_index("event_id")
    frame = frame.with_columns(ds=pl.lit(DAY))
    places = {}
    for name, columns in {
        "labels": ["clicked", "fold"],
        "rescored": ["p_today"],
        "served": ["p_served"],
    }.items():
        places[name] = tmp_path / name
        rows = frame.select("ds", pl.col("event_id").cast(pl.Int64), *columns)
        deltalake.write_deltalake(str(places[name]), rows)
    options = ["--target-table", str(places["rescored"]), "--proxy-table", str(places["served"])]
    options += ["--holdout", "fold = 0", "--only-settings"]
    said = attached(places["labels"], *options)
    assert f"{DAY} of {tmp_path}/labels, version 0, declares nothing; 320 training" in said
    assert 'record = "event_id"  # all tables have it' in said
    (model,) = load_settings(tmp_path / "privaudit.toml").models
    assert model.scores.others["proxy"].table == f"{tmp_path}/served"
    # The folder may be moved with its settings.
    assert str(tmp_path) not in (tmp_path / "privaudit.toml").read_text()
    moved = tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}-moved"))
    (model,) = load_settings(moved / "privaudit.toml").models
    assert (model.scores.table, model.scores.others["proxy"].table) == (
        f"{moved}/labels", f"{moved}/served",
    )  # fmt: skip


def test_a_table_of_scores_and_models_that_are_asked_are_one_too_many(table):
    with pytest.raises(TerminalError, match="--target-table names a score table"):
        attached(table, "--target-table", str(table), "--checkpoints", "runs/{day}/m.json")


def test_features_are_named_as_context_where_scores_are_there(table):
    said = attached(table, "--holdout", "fold = 0", "--context", "amount", "--only-settings")
    assert 'context = ["amount"]  # as you said' in said
    (model,) = load_settings(table.parent / "privaudit.toml").models
    assert model.scores.context == ("amount",)
    with pytest.raises(TerminalError, match="leave out --context"):
        attached(table, "--context", "amount", "--checkpoints", "runs/{day}/m.json")


@pytest.mark.slow
def test_an_iceberg_table_is_attached_by_its_name(table, tmp_path, monkeypatch):
    uri, place = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/iceberg"
    for name, value in (("TYPE", "sql"), ("URI", uri), ("WAREHOUSE", place)):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__HERE__{name}", value)
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
    catalog = SqlCatalog("here", uri=uri, warehouse=place)
    catalog.create_namespace("ads")
    (file,) = table.rglob("*.parquet")
    content = pl.read_parquet(file, hive_partitioning=False).with_columns(ds=pl.lit(DAY)).to_arrow()
    catalog.create_table("ads.scores", schema=content.schema).append(content)
    catalog.close()
    config = tmp_path / "privaudit.toml"
    done = CliRunner().invoke(app, [
        "attach", "ads.scores", "--catalog", "here", "--holdout", "fold = 0", "--only-settings",
        "--config", str(config),
    ])  # fmt: skip
    assert done.exit_code == 0, done.exception
    assert f"{DAY} of ads.scores, version " in done.output
    assert "320 training and 80 holdout records" in done.output
    (model,) = load_settings(config).models
    assert (model.scores.table, model.scores.catalog) == ("ads.scores", "here")


def test_settings_in_another_folder_name_the_whole_path(table, tmp_path):
    config = tmp_path / "settings" / "privaudit.toml"
    config.parent.mkdir()
    attached(table, "--holdout", "fold = 0", "--only-settings", "--config", str(config))
    assert f'table = "{table}"' in config.read_text()


def test_a_model_is_added_to_settings_that_are_there_and_never_twice(table):
    options = ("--holdout", "fold = 0", "--only-settings")
    attached(table, *options)
    config = table.parent / "privaudit.toml"
    before = config.read_text()
    assert 'table = "predictions"' in before
    with pytest.raises(TerminalError, match="lists ads more than once"):
        attached(table, *options)
    assert config.read_text() == before
    attached(table, *options, "--name", "other")
    assert [model.name for model in load_settings(config).models] == ["ads", "other"]


def test_the_newest_day_is_audited(table, monkeypatch):
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(flows.commands.audits, "run", lambda **given: asked.append(given))
    assert str(DAY) in attached(table, "--holdout", "fold = 0")
    assert asked[0] == {
        "model": "ads",
        "day": DAY,
        "config": table.parent / "privaudit.toml",
        "as_json": False,
    }
    config = str(table.parent / "other.toml")
    given = ["attach", str(table), "--config", config, "--holdout", "fold = 0", "--json"]
    done = CliRunner().invoke(app, given)
    # What is printed is the audit's alone: all else goes to standard error.
    assert (done.exit_code, done.stdout, str(DAY) in done.stderr) == (0, "", True)
    assert asked[1]["as_json"] is True


@pytest.mark.slow
def test_rows_and_model_files_are_attached_where_they_lie(tmp_path, monkeypatch):
    """The table holds no scores; relative paths are those of the folder that one stands in."""
    files, rows = tmp_path / "runs {a}", tmp_path / "rows"
    for day in (EVE, DAY):
        put_file(files / "runs" / str(day) / "model.json", train(day).content)
        deltalake.write_deltalake(str(rows), stored(day), mode="append")
    monkeypatch.chdir(files)
    said = attached(
        rows, "--label", "clicked", "--split", "arm", "--epsilon", "1", "--only-settings",
        "--checkpoints", "runs/{day}/model.json", "--feature", "hour=dep_hour",
    )  # fmt: skip
    assert f"{DAY} of {rows}, version 1, earlier model {EVE}, declares epsilon 1; " in said
    (model,) = load_settings(tmp_path / "privaudit.toml").models
    assert model.scores is None
    assert (model.labels.label, model.labels.day, model.labels.split) == ("clicked", "ds", "arm")
    assert model.labels.columns == {"hour": "dep_hour"}
    assert model.checkpoints.path == f"{tmp_path}/runs {{{{a}}}}/runs/{{day}}/model.json"
    assert model.privacy.epsilon == 1.0


@pytest.mark.parametrize("feature", ["hour", "=dep_hour", "hour="])
def test_a_feature_without_its_column_is_refused_with_how_to_write_it(tmp_path, feature):
    rows = delta(tmp_path / "rows")
    done = CliRunner().invoke(
        app, ["attach", str(rows), "--checkpoints", "x/{day}", "--feature", feature]
    )
    assert (done.exit_code, "its column" in done.output) == (2, True)
    done = CliRunner().invoke(app, ["attach", str(rows), "--feature", "hour=dep_hour"])
    assert (done.exit_code, "goes with --checkpoints" in done.output) == (2, True)


@pytest.mark.parametrize("place", ["s3://bucket/{model}/{day}.json", "models:/ads@{day}"])
def test_an_address_of_checkpoints_is_written_as_it_is(tmp_path, monkeypatch, place):
    rows = delta(tmp_path / "rows")
    monkeypatch.setattr("flows.commands.checks.check_model", lambda *_: "checked")
    attached(
        rows, "--label", "clicked", "--split", "arm", "--checkpoints", place, "--only-settings"
    )
    (model,) = load_settings(tmp_path / "privaudit.toml").models
    assert model.checkpoints.path == place


def test_no_name_and_no_label_adds_a_line_to_the_settings(tmp_path):
    line = '\n[[models]]\nname = "mine"'
    frame = rows(clicked=pl.Series([f"no{line}", "yes"] * 250)).rename({"amount": f"x{line}"})
    frame = frame.with_columns(pl.lit(1).alias(f"y{line}"))
    found = propose(look(put(tmp_path / "scores", frame)), {})
    written = tomllib.loads(as_toml("ads", "scores", found, {}, folder=tmp_path))
    assert [model["name"] for model in written["models"]] == ["ads"]
    assert written["models"][0]["scores"]["classes"] == [f"no{line}", "yes"]
