"""The eighth round, by strangers at what an audit writes and at its machine: what broke of 25."""

import os
import pathlib
import subprocess
import sys

import pyarrow as pa
import pytest

from workers import isolation
from workers.warehouse.sql import _connect, _guarded


def python(code: str, **environment: str) -> str:
    """Return what a new process prints."""
    kept = {name: value for name, value in os.environ.items() if "POLARS" not in name}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True,
        env=kept | environment,
    )  # fmt: skip
    return done.stdout


def test_polars_sweeps_no_folder_that_another_user_made() -> None:
    """One in /var/tmp that led to a folder of ours had its numbered folders deleted."""
    told = python(
        "import os, sys, flows; print('polars' in sys.modules, os.environ['POLARS_OOC_SPILL_DIR'])"
    )
    assert told.split() == ["False", str(isolation.private_folder() / "polars")]


def test_polars_has_no_folder_where_another_user_took_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def taken() -> pathlib.Path:
        raise isolation.TerminalError("It belongs to another user.")

    monkeypatch.setattr(isolation, "private_folder", taken)
    assert not pathlib.Path(isolation._folder_of_polars()).parent.is_dir()


def test_polars_obeys_the_place_that_it_is_given(tmp_path: pathlib.Path) -> None:
    (tmp_path / "4194305").mkdir()  # of a process that cannot be: no number is as large
    python("import polars, time; time.sleep(0.3)", POLARS_OOC_SPILL_DIR=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_column_that_is_called_by_sql_is_a_column(tmp_path: pathlib.Path) -> None:
    """Its name went on as an expression, which read a file of the exporting person's into CSV."""
    secret = tmp_path / "secret"
    secret.write_text("hunter2", "utf-8")
    read = f"(select content from read_text('{secret}'))"  # noqa: S608  # the attack
    names = ["/*", f"/*\", '') then 'x' end, {read} as \"leak\", $$", '*/*/, 1 as "z']
    forged = pa.table([pa.array(["v"]), pa.array(["v"]), pa.array([1])], names=names)
    with _connect() as connection:
        rows = connection.from_arrow(forged)
        assert rows.project(", ".join(_guarded(rows))).to_arrow_table() == forged
