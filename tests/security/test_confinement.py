"""Nothing outside the lake is read, and no pipe is waited for, whatever the lake holds."""

import os
import pathlib
import shutil

import pytest

from flows.commands.verify import _found
from flows.settings import load_settings
from privcore.exceptions import TerminalError
from tests.support.audits import audited
from tests.support.lake import DAY, EVE, edit_manifest, label_path, model_path, small_lake
from workers.evidence.attestation import read_public_key
from workers.lake.layout import Lake


def move_out(path: pathlib.Path, lake: Lake) -> None:
    """Put a link in the place of `path`, to the same content outside the lake."""
    outside = pathlib.Path(lake.uri).parent / "outside"
    outside.mkdir(exist_ok=True)
    shutil.move(path, outside / path.name)
    path.symlink_to(outside / path.name, target_is_directory=path.name.startswith("day="))


@pytest.mark.parametrize(
    "part",
    [
        lambda lake: model_path(lake, "bad") / "manifest.json",
        lambda lake: model_path(lake, "bad") / "model.cbm",
        lambda lake: model_path(lake, "bad"),
        lambda lake: model_path(lake, "bad", EVE) / "model.cbm",
        lambda lake: label_path(lake, "bad-labels"),
        lambda lake: label_path(lake, "bad-labels").parent,
    ],
    ids=["manifest", "model", "checkpoint", "proxy", "labels", "label-folder"],
)
def test_a_link_out_of_the_lake_is_refused(lake, part):
    assert audited(lake, model="bad").status == "evaluated"
    move_out(part(lake), lake)
    row = audited(lake, model="bad")
    assert (row.status, row.detail) == ("not_evaluable", "path_outside")
    assert "a link out of the lake" in row.reason


def test_links_within_a_lake_and_to_it_are_followed(lake, tmp_path):
    file = model_path(lake, "bad") / "model.cbm"
    file.rename(file.with_name("elsewhere.cbm"))
    file.symlink_to("elsewhere.cbm")
    (tmp_path / "link").symlink_to(lake.uri)
    assert audited(Lake(str(tmp_path / "link")), model="bad").status == "evaluated"


def test_a_link_that_leads_nowhere_or_to_itself_is_no_file(lake):
    file = model_path(lake, "bad") / "manifest.json"
    for target in ("nowhere.json", "manifest.json"):
        file.unlink()
        file.symlink_to(target)
        assert audited(lake, model="bad").detail in {"manifest_invalid", "path_outside"}


@pytest.mark.parametrize("name", ["manifest.json", "model.cbm"])
def test_a_pipe_or_a_folder_in_the_place_of_a_file_does_not_hang(lake, name):
    file = model_path(lake, "bad") / name
    file.unlink()
    os.mkfifo(file)
    assert audited(lake, model="bad").detail == "path_outside"
    file.unlink()
    file.mkdir()
    assert audited(lake, model="bad").detail == "path_outside"


def test_a_manifest_names_only_a_file_beside_it_and_a_dataset_below_labels(lake):
    for name in ("/etc/passwd", "../model.cbm", "a/../../b", "..", "model.cbm\0", ""):
        edit_manifest(lake, "bad", DAY, file=name)
        row = audited(lake, model="bad")
        assert (row.detail, "at file" in row.reason) == ("manifest_invalid", True)
    edit_manifest(lake, "bad", DAY, file="model.cbm")
    for name in ("../models", "/etc", "a/b", "..", "a\\b", "a\0"):
        for day in (EVE, DAY):
            edit_manifest(lake, "bad", day, dataset=name)
        assert audited(lake, model="bad").detail == "name_invalid"


def test_a_day_that_is_a_link_to_another_day_is_refused(tmp_path):
    lake = small_lake(tmp_path / "lake")
    folder = label_path(lake, "flights").parent
    shutil.rmtree(folder)
    folder.symlink_to(label_path(lake, "flights", EVE).parent)
    row = audited(lake)
    assert (row.status, row.detail) == ("not_evaluable", "path_outside"), row.reason


@pytest.mark.parametrize(
    "read",
    [load_settings, read_public_key, lambda path: _found(path, [])],
    ids=["config", "trust", "bundle"],
)
def test_a_pipe_is_not_waited_for(tmp_path, read):
    """`privaudit verify` waited for one without end, whichever of its options named it."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TerminalError, match=r"cannot be read.*it is no plain file"):
        read(tmp_path / "pipe")
