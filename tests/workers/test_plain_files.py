import os
import pathlib

import pytest

from privcore.exceptions import TerminalError
from workers.plain_files import make_key, open_plain, read_key


def test_a_plain_file_is_read_also_behind_a_link_and_no_other_is_waited_for(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("file", "link"):
        with open_plain(tmp_path / name) as stream:
            assert stream.read() == b"content"
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", pathlib.Path(os.devnull)):
        with pytest.raises(OSError, match="it is no plain file"):
            open_plain(path)
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        open_plain(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_plain(tmp_path / "none")


def key_of(given: str | None, file: str | None) -> bytes:
    return read_key(given, file, setting="labels.holdout_key_file", variable="A_KEY")


def test_a_key_that_is_made_can_be_read_by_its_owner_alone_and_is_never_replaced(tmp_path):
    file, other = tmp_path / "holdout.key", tmp_path / "other.key"
    for each in (file, other):
        make_key(each)
        assert each.stat().st_mode & 0o777 == 0o600
    key = key_of(None, str(file))
    assert len(key) == 32
    assert key_of(None, str(other)) != key
    with pytest.raises(TerminalError, match="is there already"):
        make_key(file)
    assert key_of(None, str(file)) == key
    with pytest.raises(TerminalError, match="cannot be written"):
        make_key(tmp_path / "absent" / "key")
    for mode in (0o640, 0o604, 0o660, 0o777):
        file.chmod(mode)
        with pytest.raises(TerminalError, match=f"mode {mode:o}"):
            key_of(None, str(file))


@pytest.mark.parametrize("digits", ["", "ab" * 31, "ab" * 65, "no digits at all", "xy" * 32])
def test_the_environments_key_wins_over_the_file_and_what_is_none_is_not_shown(tmp_path, digits):
    assert key_of("ab" * 32, str(tmp_path / "absent")) == bytes.fromhex("ab" * 32)
    with pytest.raises(TerminalError, match="holds no key") as caught:
        key_of(digits, None)
    assert not digits or digits not in str(caught.value)


def test_no_key_at_all_says_how_one_is_made(tmp_path):
    with pytest.raises(
        TerminalError, match=r"set labels\.holdout_key_file, or A_KEY in the environment"
    ):
        key_of(None, None)
    with pytest.raises(TerminalError, match=r"absent cannot be read \(No such file or directory\)"):
        key_of(None, str(tmp_path / "absent"))
    with pytest.raises(TerminalError, match="cannot be read"):
        key_of(None, str(tmp_path))
