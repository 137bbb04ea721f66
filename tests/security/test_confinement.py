"""Nothing outside the lake is read, and no pipe is waited for, whatever the lake holds."""

import os
import pathlib
import shutil
from collections.abc import Callable

import pytest

from flows.commands.verify import _found
from flows.settings import load_settings
from privcore.exceptions import TerminalError
from tests.support.lake import DAY, EVE, PLAN, edit_manifest, label_path, model_path, small_lake
from workers.audit.run import run_audit
from workers.evidence.attestation import read_public_key
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.warehouse.schema import AuditRow


def audit(lake: Lake) -> AuditRow:
    return run_audit(lake, "bad", DAY, plan=PLAN, executor=InProcess()).audit


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
def test_a_link_out_of_the_lake_is_refused(
    lake: Lake, part: Callable[[Lake], pathlib.Path]
) -> None:
    assert audit(lake).status == "evaluated"
    move_out(part(lake), lake)
    row = audit(lake)
    assert (row.status, row.detail) == ("not_evaluable", "path_outside")
    assert "a link out of the lake" in row.reason


def test_a_link_within_the_lake_is_followed(lake: Lake) -> None:
    file = model_path(lake, "bad") / "model.cbm"
    file.rename(file.with_name("elsewhere.cbm"))
    file.symlink_to("elsewhere.cbm")
    assert audit(lake).status == "evaluated"


def test_a_lake_that_is_itself_reached_by_a_link_is_read(
    lake: Lake, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "link").symlink_to(lake.uri)
    assert audit(Lake(str(tmp_path / "link"))).status == "evaluated"


def test_a_link_that_leads_nowhere_or_to_itself_is_no_file(lake: Lake) -> None:
    file = model_path(lake, "bad") / "manifest.json"
    for target in ("nowhere.json", "manifest.json"):
        file.unlink()
        file.symlink_to(target)
        assert audit(lake).detail in {"manifest_invalid", "path_outside"}


@pytest.mark.parametrize("name", ["manifest.json", "model.cbm"])
def test_a_pipe_or_a_folder_in_the_place_of_a_file_does_not_hang(lake: Lake, name: str) -> None:
    file = model_path(lake, "bad") / name
    file.unlink()
    os.mkfifo(file)
    assert audit(lake).detail == "path_outside"
    file.unlink()
    file.mkdir()
    assert audit(lake).detail == "path_outside"


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../model.cbm", "a/../../b", "..", "model.cbm\0", ""]
)
def test_a_manifest_names_only_a_file_beside_it(lake: Lake, name: str) -> None:
    edit_manifest(lake, "bad", DAY, file=name)
    row = audit(lake)
    assert (row.detail, "at file" in row.reason) == ("manifest_invalid", True)


@pytest.mark.parametrize("name", ["../models", "/etc", "a/b", "..", "a\\b", "a\0"])
def test_a_manifest_names_only_a_dataset_below_labels(lake: Lake, name: str) -> None:
    for day in (EVE, DAY):
        edit_manifest(lake, "bad", day, dataset=name)
    assert audit(lake).detail == "name_invalid"


def test_a_day_that_is_a_link_to_another_day_is_refused(tmp_path: pathlib.Path) -> None:
    lake = small_lake(tmp_path / "lake")
    folder = label_path(lake, "flights").parent
    shutil.rmtree(folder)
    folder.symlink_to(label_path(lake, "flights", EVE).parent)
    row = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    assert (row.status, row.detail) == ("not_evaluable", "path_outside"), row.reason


@pytest.mark.parametrize(
    "read",
    [load_settings, read_public_key, lambda path: _found(path, [])],
    ids=["config", "trust", "bundle"],
)
def test_a_pipe_is_not_waited_for(
    tmp_path: pathlib.Path, read: Callable[[pathlib.Path], object]
) -> None:
    """`privaudit verify` waited for one without end, whichever of its options named it."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TerminalError, match=r"cannot be read.*it is no plain file"):
        read(tmp_path / "pipe")
