"""Files that are opened below a folder: no link out of it, and no pipe."""

import os
import pathlib
from collections.abc import Callable

import pytest

from workers.exceptions import NotEvaluableError, Reason
from workers.lake.layout import open_below


@pytest.fixture
def lake(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with one file, and another folder beside it with the same path in it."""
    for name in ("lake", "beside"):
        (tmp_path / name / "day").mkdir(parents=True)
        (tmp_path / name / "day" / "rows").write_text(name)
    return tmp_path / "lake"


def link_file(lake: pathlib.Path) -> None:
    (lake / "day" / "rows").unlink()
    (lake / "day" / "rows").symlink_to(lake.parent / "beside" / "day" / "rows")


def link_folder(lake: pathlib.Path) -> None:
    (lake / "day").rename(lake / "moved")
    (lake / "day").symlink_to(lake.parent / "beside" / "day")


def test_a_file_is_read_at_random(lake: pathlib.Path) -> None:
    descriptors = len(list(pathlib.Path("/dev/fd").iterdir()))
    with open_below(str(lake), "day/rows") as file:
        assert (file.size(), file.read_at(2, 1)) == (4, b"ak")
    assert len(list(pathlib.Path("/dev/fd").iterdir())) == descriptors
    with pytest.raises(FileNotFoundError):
        open_below(str(lake), "day/others")
    with pytest.raises(FileNotFoundError):
        open_below(str(lake), "other/rows")
    assert len(list(pathlib.Path("/dev/fd").iterdir())) == descriptors


@pytest.mark.parametrize("put_link", [link_file, link_folder])
def test_a_link_out_of_the_folder_is_refused(
    lake: pathlib.Path, put_link: Callable[[pathlib.Path], None]
) -> None:
    put_link(lake)
    with pytest.raises(NotEvaluableError, match="day/rows is refused"):
        open_below(str(lake), "day/rows")


def test_a_link_within_the_folder_is_followed(lake: pathlib.Path) -> None:
    (lake / "link").symlink_to("day/rows")
    (lake / "days").symlink_to(lake / "day")
    for path in ("link", "days/rows"):
        with open_below(str(lake), path) as file:
            assert file.read() == b"lake"


def test_what_is_no_regular_file_is_refused(lake: pathlib.Path) -> None:
    os.mkfifo(lake / "pipe")
    (lake / "itself").symlink_to("itself")
    for path in ("pipe", "itself", "day"):
        with pytest.raises(NotEvaluableError) as raised:
            open_below(str(lake), path)
        assert raised.value.reason == Reason.PATH_OUTSIDE
