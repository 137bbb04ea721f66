import pathlib

import pytest

from privcore.exceptions import TerminalError
from workers.publication.key import make_key, read_key


def test_a_key_that_is_made_can_be_read_by_its_owner_alone(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "publication.key"
    make_key(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(read_key(None, str(file))) == 32
    make_key(tmp_path / "other.key")
    assert read_key(None, str(tmp_path / "other.key")) != read_key(None, str(file))


def test_a_key_is_never_replaced(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "publication.key"
    make_key(file)
    before = file.read_text()
    with pytest.raises(TerminalError, match="is there already"):
        make_key(file)
    assert file.read_text() == before
    with pytest.raises(TerminalError, match="cannot be written"):
        make_key(tmp_path / "absent" / "key")


def test_the_environments_key_wins_over_the_file(tmp_path: pathlib.Path) -> None:
    assert read_key("ab" * 32, str(tmp_path / "absent")) == bytes.fromhex("ab" * 32)


@pytest.mark.parametrize("digits", ["", "ab", "ab" * 31, "ab" * 65, "no digits at all", "xy" * 32])
def test_what_is_no_key_is_refused_and_not_shown(digits: str) -> None:
    with pytest.raises(TerminalError, match="holds no key") as caught:
        read_key(digits, None)
    assert not digits or digits not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
def test_a_key_that_others_may_read_is_refused(tmp_path: pathlib.Path, mode: int) -> None:
    file = tmp_path / "key"
    make_key(file)
    file.chmod(mode)
    with pytest.raises(TerminalError, match=f"mode {mode:o}"):
        read_key(None, str(file))


def test_no_key_at_all_says_how_one_is_made(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TerminalError, match="set key_file"):
        read_key(None, None)
    with pytest.raises(TerminalError, match=r"absent cannot be read \(No such file or directory\)"):
        read_key(None, str(tmp_path / "absent"))
    with pytest.raises(TerminalError, match="cannot be read"):
        read_key(None, str(tmp_path))
