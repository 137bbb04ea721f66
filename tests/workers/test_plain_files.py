import os
import pathlib

import pytest

from workers.plain_files import open_plain


def test_a_plain_file_is_read_also_behind_a_link(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("file", "link"):
        with open_plain(tmp_path / name) as stream:
            assert stream.read() == b"content"
    with pytest.raises(OSError, match="symbolic links"):
        open_plain(tmp_path / "link", flags=os.O_NOFOLLOW)


@pytest.mark.parametrize("what", ["pipe", "device"])
def test_what_is_no_plain_file_is_not_waited_for(tmp_path: pathlib.Path, what: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = {"pipe": tmp_path / "pipe", "device": pathlib.Path(os.devnull)}[what]
    with pytest.raises(OSError, match="it is no plain file"):
        open_plain(path)


def test_a_folder_is_said_to_be_one(tmp_path: pathlib.Path) -> None:
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        open_plain(tmp_path)


def test_no_file_is_said_to_be_none(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_plain(tmp_path / "none")
