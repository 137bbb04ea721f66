"""Nothing outside the lake is read, no row twice, and no pipe is waited for."""

import datetime as dt
import os
import pathlib
import shutil

import polars as pl
import pytest

from flows.commands.verify import _found
from flows.settings import load_settings
from privcore.exceptions import TerminalError
from tests.support.audits import audited
from tests.support.lake import DAY, EVE, edit_manifest, label_path, label_rows, model_path
from tests.support.score_tables import audit, tables
from workers.evidence.attestation import read_public_key
from workers.lake.layout import Lake, labels_folder


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


def test_a_day_that_is_a_link_to_another_day_is_refused(lake):
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


@pytest.mark.slow
def test_rows_in_these_files_are_read(lake):
    folder, before, trained = label_path(lake, "flights").parent, audited(lake), 0
    for seed, name in enumerate(("_x.parquet", ".x.parquet", "sub/x.parquet", "x.PARQUET")):
        (folder / name).parent.mkdir(exist_ok=True)
        more = label_rows(400, seed=seed)
        more.write_parquet(folder / name)
        trained += (more["split"] == "train").sum()
    row = audited(lake)
    assert (row.records or 0) - (before.records or 0) == trained


@pytest.mark.parametrize("kind", ["date", "time", "text", "integer"])
def test_rows_whose_day_is_missing_or_none_are_told(tmp_path, kind):
    """Training saw a third of its rows without a day: 3.65 of all became less, in silence."""
    frame = label_rows(3_000, seed=3).with_columns(new=pl.col("hour") / 24, old=pl.lit(0.5))
    column, none = {
        "date": (pl.lit(DAY), None),
        "time": (pl.lit(dt.datetime.combine(DAY, dt.time(9)), pl.Datetime("us", "UTC")), None),
        "text": (pl.lit(str(DAY)), f" {DAY}"),
        "integer": (pl.lit(int(f"{DAY:%Y%m%d}")), 20269999),
    }[kind]
    hidden = (pl.int_range(3_000) % 3 == 0) & (pl.col("split") == "train")
    frame = frame.with_columns(day=pl.when(hidden).then(pl.lit(none)).otherwise(column))
    table = tmp_path / "table"
    frame.write_delta(str(table))
    row = audit(tables(table, label="late", target="new", proxy="old", day="day")).audit
    count = frame.select(hidden.sum()).item()
    assert row.records == frame.filter(pl.col("split") == "train").height - count, row.reason
    assert f"{count:,} rows are of neither" in row.reason


def circle(folder: pathlib.Path) -> None:
    (folder / "circle").symlink_to(".")


def other_folder(folder: pathlib.Path) -> None:
    (folder / "other").symlink_to(folder.parent / f"day={EVE}")


@pytest.mark.parametrize("linked", [circle, other_folder])
def test_a_link_in_a_days_folder_lets_no_row_count_twice(lake, linked):
    """A circle gave each file 40 names, and the rows of innocents 40 times their weight."""
    linked(label_path(lake, "flights").parent)
    row = audited(lake)
    assert (row.status, row.detail) == ("not_evaluable", "path_outside"), row.reason
    assert "rows could be read several times" in row.reason


def test_links_that_lead_nowhere_pipes_and_missing_folders_hold_no_file(lake):
    folder = label_path(lake, "flights").parent
    (folder / "nowhere.parquet").symlink_to("/nowhere")
    (folder / "itself.parquet").symlink_to("itself.parquet")
    os.mkfifo(folder / "pipe.parquet")
    names = [file.name for file in lake.files_below(labels_folder("flights", DAY))]
    assert names == ["_SUCCESS", "part-00000.parquet"]
    assert lake.files_below("labels/nothing") == []
