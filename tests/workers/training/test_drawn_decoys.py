"""Decoys from the draw to the verdict: only the coin decides, and the commitment holds."""

import pathlib
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from privcore.exceptions import InvalidInputError
from tests.support.audits import audited
from tests.support.lake import (
    BINARY,
    DAY,
    EVE,
    MEMORISE,
    THREE,
    declared,
    edit_manifest,
    label_path,
    label_rows,
    put_labels,
    put_model,
    small_lake,
)
from tests.support.verdicts import nothing_wrong
from workers.audit.run import run_audit
from workers.datasets.criteo import write_day
from workers.exceptions import NotEvaluableError
from workers.executors import InProcess
from workers.labels.shards import write_labels
from workers.lake.layout import Lake, labels_folder
from workers.lake.manifest import LabelColumn
from workers.plan import Plan
from workers.training.drawn_decoys import COLUMN, DrawnDecoys, write_decoys

SHALLOW = {"iterations": 20, "depth": 1, "learning_rate": 0.3}
PLAN = Plan(repetitions=4)


def drawn(lake: Lake, *, share: float = 0.3, into: str = "decoys", seed: int = 3) -> DrawnDecoys:
    return write_decoys(
        lake, "good", DAY, share=share, into=into, random=np.random.default_rng(seed)
    )


def two_days(folder: pathlib.Path, *, label: LabelColumn = BINARY, rows: int = 3000) -> Lake:
    """A proxy of the eve, and labels of the day that no model has seen."""
    lake = Lake(str(folder))
    put_labels(lake, EVE, label_rows(rows, seed=0, label=label), row_group_size=1024)
    put_model(lake, EVE, label=label, privacy=declared(0.3), parameters=SHALLOW)
    put_labels(lake, DAY, label_rows(rows, seed=1, label=label), row_group_size=1024)
    return lake


def trained(lake: Lake, found: DrawnDecoys, label: LabelColumn, parameters: dict[str, Any]) -> None:
    put_model(
        lake, DAY, dataset=found.dataset, label=label, privacy=declared(0.3), parameters=parameters
    )
    edit_manifest(lake, "good", DAY, decoys=found.manifest.model_dump())


def rows_of(lake: Lake, dataset: str) -> pl.DataFrame:
    folder = pathlib.Path(lake.uri) / labels_folder(dataset, DAY)
    frame = pl.from_arrow(pq.read_table(folder / "part-00000.parquet"))
    assert isinstance(frame, pl.DataFrame)
    return frame


@pytest.mark.parametrize("label", [BINARY, THREE], ids=["binary", "multi-class"])
def test_a_copy_is_written_whose_decoys_hold_truth_and_draw(
    tmp_path: pathlib.Path, label: LabelColumn
) -> None:
    lake = two_days(tmp_path, label=label)
    found = drawn(lake)
    before, after = rows_of(lake, "flights"), rows_of(lake, "decoys")
    assert after.drop("late", COLUMN).equals(before.drop("late"))
    assert after.schema["late"] == after.schema[COLUMN] == before.schema["late"]
    train = before["split"] == "train"
    assert found.records == train.sum()
    decoys = after[COLUMN].is_not_null()
    assert found.decoys == decoys.sum()
    assert not (decoys & ~train).any()
    changed = after["late"] != before["late"]
    assert (after[COLUMN].filter(changed) == before["late"].filter(changed)).all()
    telling = decoys & (after["late"] != after[COLUMN]).fill_null(value=False)
    assert found.telling == telling.sum()
    assert 0.4 < changed.sum() / found.telling < 0.6
    assert 0.25 < found.decoys / found.records < 0.35


@pytest.mark.slow
@pytest.mark.parametrize("label", [BINARY, THREE], ids=["binary", "multi-class"])
def test_a_model_that_memorises_its_decoys_is_violated(
    tmp_path: pathlib.Path, label: LabelColumn
) -> None:
    lake = two_days(tmp_path, label=label)
    found = drawn(lake)
    trained(lake, found, label, MEMORISE)
    row = audited(lake)
    assert row.verdict == "violated", row.reason
    assert row.method == "decoys"
    assert row.decoy_records == found.telling
    assert row.decoy_commitment == found.manifest.commitment
    assert row.records == found.records - found.decoys
    assert f"by {found.telling} labels" in row.reason
    assert "coins" in str(row.assumption)
    assert row.epsilon_lower is not None
    assert 0.3 < row.epsilon_lower <= (row.epsilon_ceiling or 0.0)


def test_a_model_that_reads_no_label_is_not(tmp_path: pathlib.Path) -> None:
    """The same decoys, and a model of other rows: its ceiling shows what could have been found."""
    lake = two_days(tmp_path)
    found = drawn(lake)
    put_labels(lake, DAY, label_rows(3000, seed=9), dataset="other", row_group_size=1024)
    put_model(lake, DAY, dataset="other", privacy=declared(0.3), parameters=MEMORISE)
    edit_manifest(lake, "good", DAY, dataset="decoys", decoys=found.manifest.model_dump())
    record = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess())
    assert [night.holdout_sketch for night in record.wealth] == [None], "a coin of its own"
    row = record.audit
    assert (nothing_wrong(row), row.remarks) == (True, ()), row.reason
    assert row.epsilon_lower == 0.0
    assert row.epsilon_ceiling is not None
    assert row.epsilon_ceiling > 2.0


def test_persons_do_not_change_which_decoys_play(tmp_path: pathlib.Path) -> None:
    lake = two_days(tmp_path)
    for day in (EVE, DAY):
        folder = pathlib.Path(lake.uri) / labels_folder("flights", day)
        frame = pl.read_parquet(folder / "part-00000.parquet")
        named = frame.with_columns(person=pl.Series([f"p{i // 2}" for i in range(frame.height)]))
        write_labels(lake, "flights", day, named.to_arrow(), row_group_size=1024)
    found = drawn(lake)
    trained(lake, found, BINARY, MEMORISE)
    rows, persons = (
        audited(lake, Plan(repetitions=4, privacy_unit=unit)) for unit in (None, "person")
    )
    assert persons.decoy_records == rows.decoy_records == found.telling
    assert persons.epsilon_lower == rows.epsilon_lower
    assert persons.records is not None
    assert rows.records is not None
    assert persons.records < rows.records


@pytest.mark.slow
@pytest.mark.parametrize("column", ["late", COLUMN, "split"])
def test_decoys_that_changed_after_the_commitment_are_refused(
    tmp_path: pathlib.Path, column: str
) -> None:
    lake = two_days(tmp_path, rows=600)
    found = drawn(lake)
    trained(lake, found, BINARY, SHALLOW)
    assert audited(lake).status == "evaluated"
    frame = rows_of(lake, "decoys")
    place = int((frame[COLUMN].is_not_null() & (frame["late"] != frame[COLUMN])).arg_max() or 0)
    other = "holdout" if column == "split" else 1 - frame[column][place]
    values = frame[column].to_list()
    values[place] = other
    changed = frame.with_columns(pl.Series(column, values, dtype=frame.schema[column]))
    write_labels(lake, "decoys", DAY, changed.to_arrow(), row_group_size=1024)
    row = audited(lake)
    assert row.status == "not_evaluable"
    assert row.detail == "decoys_changed"
    moved = "that are held out, which training never takes"
    said = moved if column == "split" else "are not those of the manifest's commitment"
    assert said in row.reason


def test_a_commitment_is_made_once(tmp_path: pathlib.Path) -> None:
    lake = two_days(tmp_path, rows=600)
    drawn(lake)
    with pytest.raises(NotEvaluableError, match="may be committed to: name another dataset"):
        drawn(lake)
    assert (
        drawn(lake, into="again").manifest.commitment
        != drawn(lake, into="once-more", seed=4).manifest.commitment
    )


def test_a_model_that_takes_the_decoys_as_a_feature_is_refused(tmp_path: pathlib.Path) -> None:
    lake = two_days(tmp_path, rows=600)
    found = drawn(lake)
    trained(lake, found, BINARY, SHALLOW)
    edit_manifest(
        lake, "good", DAY, decoys={"column": "hour", "commitment": found.manifest.commitment}
    )
    row = audited(lake)
    assert row.detail == "feature_invalid"
    assert "holds the other label of each decoy" in row.reason


def test_decoys_are_committed_to_without_files_of_others(tmp_path: pathlib.Path) -> None:
    """A file that lay there before was committed to, with decoys that no coin had drawn."""
    lake = small_lake(tmp_path)
    lake.write(f"{labels_folder('decoys', DAY)}/zzz.parquet", b"an owner's own")
    with pytest.raises(NotEvaluableError, match="holds files already"):
        drawn(lake)
    with pytest.raises(InvalidInputError, match="files of it: remove"):
        write_day(lake, "decoys", DAY, [], seed=0, source="x")


def test_decoys_of_a_file_in_a_subfolder_are_drawn(tmp_path: pathlib.Path) -> None:
    """The copy's folder was missing, which was an unexpected error."""
    lake = small_lake(tmp_path)
    path = label_path(lake, "flights")
    (path.parent / "inner").mkdir()
    path.rename(path.parent / "inner" / "x.parquet")
    drawn(lake)
    assert lake.has(f"{labels_folder('decoys', DAY)}/inner/x.parquet")
