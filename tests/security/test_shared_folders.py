"""What other users of a machine put into its folders is neither followed nor waited for."""

import datetime as dt
import os
import pathlib
import subprocess
import sys

import pytest

from flows.report.drawn import LIST, read_drawn
from flows.report.pages import MARK, MODELS, remove_others
from flows.report.site import write_pages, write_report
from flows.study.runner import Shown, write_shown
from privcore.exceptions import TerminalError
from tests.support.report import tables
from tests.support.warehouse import evaluated
from workers import isolation
from workers.secret_files import state_key
from workers.warehouse import sql
from workers.warehouse.sql import _connect
from workers.warehouse.store import Warehouse


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_key_of_pages_is_not_taken_from_a_folder_of_others(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """Another user may have put a link to a key that they know, or a pipe that nobody writes."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "privaudit"
    folder.mkdir()
    (tmp_path / "known").write_bytes(b"k" * 32)
    (tmp_path / "known").chmod(0o600)
    (folder / "pages.key").symlink_to(tmp_path / "known")
    folder.chmod(0o700)
    assert state_key("pages") == b"k" * 32
    folder.chmod(mode)
    assert state_key("pages") is None
    (folder / "pages.key").unlink()
    os.mkfifo(folder / "pages.key", 0o600)
    assert state_key("pages") is None


DAY = dt.date(2026, 4, 1)


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
        raise TerminalError("It belongs to another user.")

    monkeypatch.setattr(isolation, "private_folder", taken)
    assert not pathlib.Path(isolation._folder_of_polars()).parent.is_dir()


def test_polars_obeys_the_place_that_it_is_given(tmp_path: pathlib.Path) -> None:
    (tmp_path / "4194305").mkdir()  # of a process that cannot be: no number is as large
    python("import polars, time; time.sleep(0.3)", POLARS_OOC_SPILL_DIR=str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_an_export_follows_nothing_that_lies_in_its_folder(
    stored: pathlib.Path, tmp_path: pathlib.Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the name of an unfinished file a link led to another one, and a pipe was waited for."""
    monkeypatch.setattr(sql, "RELATIONS", ("audits",))
    mine, folder = tmp_path / "mine", tmp_path / "exports"
    mine.write_text("precious", "utf-8")
    folder.mkdir()
    os.mkfifo(folder / ".audits.csv") if kind == "pipe" else (folder / ".audits.csv").symlink_to(
        mine
    )
    (file,) = sql.export(Warehouse(str(stored)), folder, kind="csv")
    assert "good" in file.read_text("utf-8")
    assert mine.read_text("utf-8") == "precious"


def test_a_report_is_not_written_behind_a_link(tmp_path: pathlib.Path) -> None:
    """Pages were written into the folder that it led to, and others' taken away there."""
    other, report = tmp_path / "other", tmp_path / "report"
    other.mkdir()
    report.mkdir()
    (other / "page.html").write_text(MARK, "utf-8")
    (report / MODELS).symlink_to(other)
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    warehouse.commit(evaluated("ads", DAY))
    write_report(warehouse, report)
    assert [file.name for file in other.iterdir()] == ["page.html"]
    assert list((report / MODELS).iterdir())


def test_what_others_leave_in_the_reports_folder_ends_no_report(tmp_path: pathlib.Path) -> None:
    """A pipe was waited for, and with it every later night; a folder or Latin-1 was an error."""
    os.mkfifo(tmp_path / "pipe.html")
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "latin.html").write_bytes(b"\xff\xfe<html>")
    (tmp_path / "circle.html").symlink_to("circle.html")
    (tmp_path / "gone.html").write_text(MARK, encoding="utf-8")
    with (tmp_path / "holes.html").open("wb") as file:
        file.truncate(8 << 30)
    remove_others(tmp_path, {"kept.html"})
    assert not (tmp_path / "gone.html").exists()
    assert len(list(tmp_path.iterdir())) == 5
    os.mkfifo(tmp_path / LIST)
    assert read_drawn(tmp_path, b"k" * 32) == {}
    (tmp_path / LIST).unlink()
    (tmp_path / LIST).write_bytes(b"[" * 100_000)
    assert read_drawn(tmp_path, b"k" * 32) == {}


def test_a_study_follows_no_link_in_the_place_of_its_page(tmp_path: pathlib.Path) -> None:
    """Its page and its words were written into the file that a link of another user led to."""
    own = tmp_path / "own"
    own.write_text("mine", "utf-8")
    folder = tmp_path / "study"
    folder.mkdir()
    for name in ("index.html", "study.json"):
        (folder / name).symlink_to(own)
    write_shown(Shown(["Nothing was found."]), folder, title="A study")
    assert own.read_text("utf-8") == "mine"


def test_a_link_that_another_user_put_into_the_report_is_not_followed(
    tmp_path: pathlib.Path,
) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine", encoding="utf-8")
    report = tmp_path / "report"
    report.mkdir()
    (report / f".index.html.{os.getpid()}").symlink_to(mine)
    write_pages(tables([]), report)
    assert mine.read_text("utf-8") == "mine"
    assert not (report / "index.html").is_symlink()


def test_what_fits_in_no_memory_goes_to_a_folder_of_its_own() -> None:
    """It went to .tmp of the working folder, which another user may have made."""
    with _connect() as connection:
        asked = connection.execute("select current_setting('temp_directory')").fetchone()
        assert asked is not None
        assert pathlib.Path(asked[0]).is_absolute()
        assert pathlib.Path(asked[0]).stat().st_mode & 0o077 == 0
