"""A proposal as text of a settings file: what it chose, and nothing that a name adds."""

import pathlib
import tomllib

import polars as pl

from flows.commands.proposed_settings import as_toml
from tests.workers.sources.test_proposal import put, rows
from workers.sources.proposal import propose
from workers.sources.tables.table_look import look

FOLDER = pathlib.Path("/srv/settings")


def test_no_name_and_no_label_adds_a_line_to_the_settings(tmp_path: pathlib.Path) -> None:
    line = '\n[[models]]\nname = "mine"'
    frame = rows(clicked=pl.Series([f"no{line}", "yes"] * 250)).rename({"amount": f"x{line}"})
    frame = frame.with_columns(pl.lit(1).alias(f"y{line}"))
    found = propose(look(put(tmp_path / "scores", frame)), {})
    written = tomllib.loads(as_toml("ads", "scores", found, {}, folder=FOLDER))
    assert [model["name"] for model in written["models"]] == ["ads"]
    assert written["models"][0]["scores"]["classes"] == [f"no{line}", "yes"]
