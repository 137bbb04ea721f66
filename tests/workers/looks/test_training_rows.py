"""A table of other rows than the model was trained on: a remark, and never another verdict."""

import dataclasses
import datetime as dt

import deltalake
import polars as pl
import pytest

from tests.support.audits import audited
from tests.support.in_place import ROWS as IN_PLACE
from tests.support.in_place import audit, labels, paths, put_file, stored, train
from tests.support.lake import (
    DAY,
    EVE,
    PLAN,
    declared,
    label_rows,
    put_labels,
    remembering_lake,
    without_files,
)
from workers.lake.formats.inputs import CountedRows
from workers.lake.manifest import Privacy, TrainedOn
from workers.looks.look import Findings
from workers.looks.training_rows import TrainingRows
from workers.sources.checkpoints.in_place import InPlace

ALL, BEGAN = EVE, EVE - dt.timedelta(days=30)
FEW, MORE = "make the bound smaller", "the table does not have, nothing is known"


@pytest.mark.parametrize(
    ("rows", "bad", "counted", "first", "said"),
    [
        # Rows are set aside to stop training early, and near duplicates are dropped.
        (1_000, 0, True, ALL, None),
        (1_333, 0, True, ALL, None),
        (1_334, 0, True, ALL, FEW),
        (751, 0, True, ALL, None),
        (750, 0, True, ALL, MORE),
        (750, 1, True, ALL, None),
        # Where rows were drawn for each tree, the file counts some of them.
        (1_334, 0, False, ALL, None),
        (750, 0, False, ALL, MORE),
        # Training of a month counts more rows than the days that play have.
        (750, 0, True, BEGAN, None),
        (1_334, 0, True, BEGAN, FEW),
        (750, 0, None, ALL, None),
    ],
)
def test_a_quarter_more_or_fewer_rows_than_the_file_counts_are_told(
    rows, bad, counted, first, said
):
    """Of a thousand rows that trained the target; the days before it and of it play."""
    source = without_files()
    known = None if counted is None else CountedRows(count=1_000, exact=counted)
    trained = {"trained_on": TrainedOn(first=first, last=DAY, split="train")}
    target = dataclasses.replace(
        source.target,
        described=source.target.described.model_copy(update={"rows": known}),
        manifest=source.target.manifest.model_copy(update=trained),
    )
    found = Findings(dataclasses.replace(source, target=target), PLAN, {}, bad)
    sentences = [one.sentence for one in TrainingRows(rows).remarks(found)]
    assert len(sentences) == (said is not None)
    least = "" if counted else "at least "
    for sentence in sentences:
        counts = f"counts {least}1,000 rows that trained it, and {rows:,} training records are in"
        assert counts in sentence
        assert said in sentence
    teachers = declared(mechanism={"name": "pate_laplace", "parameters": {}})
    private = {"privacy": Privacy.model_validate(teachers)}
    asked = dataclasses.replace(target, manifest=target.manifest.model_copy(update=private))
    nobodys = Findings(dataclasses.replace(source, target=asked), PLAN, {}, bad)
    assert TrainingRows(rows).remarks(nobodys) == ()


def test_rows_beside_those_of_training_are_told_in_the_record(tmp_path):
    lake, rows = remembering_lake(tmp_path, rows=1_000), label_rows(1_000, seed=1)
    assert "rows_miscounted" not in audited(lake).remarks
    put_labels(lake, DAY, pl.concat([rows, label_rows(400, seed=9)]))
    row = audited(lake)
    trained = int((rows["split"] == "train").sum())
    assert "rows_miscounted" in row.remarks
    assert f"counts {trained} rows that trained it, and {row.records:,} training" in row.reason


def test_rows_of_no_day_are_told_by_the_models_count(tmp_path):
    """Rows whose day is empty are of no day; nothing else shows them."""
    for day in (EVE, DAY):
        put_file(tmp_path / f"ads/{day:%Y/%m/%d}/model.json", train(day).content)
        rows = stored(day)
        hidden = (pl.col("arm") == "train") & (pl.col("dep_hour") > 11)
        rows = rows.with_columns(ds=pl.when(~hidden).then(pl.col("ds")))
        deltalake.write_deltalake(str(tmp_path / "table"), rows, mode="append")
    row = audit(InPlace(labels(tmp_path / "table"), paths(tmp_path))).audit
    assert row.status == "evaluated", row.reason
    trained = int((IN_PLACE[DAY]["split"] == "train").sum())
    assert f"counts at least {trained} rows" in row.reason
