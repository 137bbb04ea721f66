"""Scratch folders for the rows that a source lays out."""

import contextlib
import datetime as dt
import logging
import os
import pathlib
import tempfile

from workers.executors import InProcess
from workers.sources import join_context
from workers.sources.join_context import JoinContext


def test_a_room_is_ones_own_and_goes_when_nobody_needs_it(tmp_path):
    place = tmp_path / "warehouse" / "_staging"
    with contextlib.ExitStack() as made:
        joining = JoinContext(InProcess(), made, str(place))
        rooms = [joining.scratch_folder(), joining.scratch_folder()]
        assert len({scratch_folder.uri for scratch_folder in rooms}) == 2
        for scratch_folder in rooms:
            folder = pathlib.Path(scratch_folder.uri)
            assert folder.parent == place
            assert folder.name.endswith(join_context.ROWS)
            assert folder.stat().st_mode & 0o777 == 0o700
            scratch_folder.write("a/b", b"rows")
    assert list(place.iterdir()) == []


def test_without_a_place_a_room_is_this_machines(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with contextlib.ExitStack() as made:
        assert pathlib.Path(JoinContext(InProcess(), made).scratch_folder().uri).parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_what_storage_does_not_let_go_of_is_said_and_left(tmp_path, monkeypatch, caplog):
    def denied(*_: object) -> None:
        raise PermissionError("denied")

    with caplog.at_level(logging.WARNING), contextlib.ExitStack() as made:
        JoinContext(InProcess(), made, str(tmp_path)).scratch_folder()
        monkeypatch.setattr(join_context, "patiently", denied)
    assert "swept later: denied" in caplog.text


def test_a_room_that_is_gone_is_no_failure(tmp_path, caplog):
    with caplog.at_level(logging.WARNING), contextlib.ExitStack() as made:
        pathlib.Path(JoinContext(InProcess(), made, str(tmp_path)).scratch_folder().uri).rmdir()
    assert list(tmp_path.iterdir()) == []
    assert caplog.text == ""


def test_what_audits_left_that_were_cut_off_is_swept_after_two_days(tmp_path):
    old = (dt.datetime.now(dt.UTC) - join_context.KEPT - dt.timedelta(hours=1)).timestamp()
    for name in ("old.rows", "young.rows", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "joined.parquet").write_bytes(b"rows")
    for path in (tmp_path / "old.rows", tmp_path / "old.rows" / "joined.parquet", tmp_path / "old"):
        os.utime(path, (old, old))
    with contextlib.ExitStack() as made:
        JoinContext(InProcess(), made, str(tmp_path)).scratch_folder()
        assert not (tmp_path / "old.rows").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "young.rows"]
