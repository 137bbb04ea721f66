"""What is planted in the labels' files is looked for in all files of warehouse and report.

Declared names may be shown: of model, dataset, the columns of label and slice, and values of slices
with enough records. Features, labels, classes and rarer values may not.
"""

import pathlib
import re
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from flows.report.site import write_report
from tests.support.audits import recorded
from tests.support.lake import DAY, EVE, copied, put_labels, put_model, small_lake
from tests.support.tiers import rest_slow
from workers.labels.columns import SPLIT
from workers.lake.layout import Lake
from workers.lake.manifest import LabelColumn
from workers.plan import Plan
from workers.warehouse.maintenance import compact
from workers.warehouse.store import Warehouse

ROWS = 400
MARK = "planted7f3a"
CLASS = "sown5e21"
NUMBER = 7182818284
# Classes are named in the manifest, and in the one sentence that tells what a label may be.
LABEL = LabelColumn(column="late", classes=(f"{CLASS}-no", f"{CLASS}-yes"))
PLAN = Plan(repetitions=2, slices=("city",), minimum_slice_records=50)


def marked(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Return the rows with a mark in each text and number, and ids that the model never sees."""
    number = pl.int_range(pl.len()).cast(pl.String)
    return frame.with_columns(
        person=pl.format(f"{MARK}-person-{seed}-{{}}", number),
        email=pl.format(f"{{}}@{MARK}.example", number),
        city=pl.format(f"{MARK}-{{}}-{{}}", pl.col("city"), number),
        delay=pl.col("delay") + NUMBER,
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    lake = small_lake(tmp_path_factory.mktemp("planted") / "lake", label=LABEL, rows=ROWS)
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, marked(labels(lake, day), seed))
        put_model(lake, day, label=LABEL)
    return lake


def labels(lake: Lake, day: Any) -> pl.DataFrame:
    return pl.read_parquet(
        f"{lake.uri}/labels/flights/day={day}/*.parquet", hive_partitioning=False
    )


def everything(warehouse: Warehouse) -> str:
    """Return all that files of warehouse and report hold: bytes, and values and footers as text."""
    texts, report = [], pathlib.Path(f"{warehouse.uri}-report")
    write_report(warehouse, report)
    for path in sorted([*pathlib.Path(warehouse.uri).rglob("*"), *report.rglob("*")]):
        if path.is_file():
            texts.append(path.read_bytes().decode("latin-1"))
        if path.suffix == ".parquet":
            file = pq.ParquetFile(path)
            texts += [str(file.read().to_pylist()), str(file.metadata.to_dict()), str(file.schema)]
    return "\n".join(texts)


DAMAGES = {
    "none": lambda frame: frame,
    "a label of no class": lambda frame: frame.with_columns(late=pl.lit(f"{MARK}-another-label")),
    "a null label": lambda frame: frame.with_columns(
        late=pl.when(pl.int_range(pl.len()) > 0).then("late")
    ),
    "a text for a number": lambda frame: frame.with_columns(delay=pl.col("person")),
    "a dictionary of texts": lambda frame: frame.with_columns(
        hour=pl.col("person").cast(pl.Categorical)
    ),
    "nested texts": lambda frame: frame.with_columns(city=pl.struct("person")),
    "a split of no kind": lambda frame: frame.with_columns(split=pl.col("person")),
    "numbers that are none": lambda frame: frame.with_columns(delay=pl.lit(float("nan"))),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", rest_slow(DAMAGES, always=3))
def test_nothing_of_a_record_reaches_the_warehouse(lake, tmp_path, damage):
    copy = copied(lake, tmp_path)
    frame = DAMAGES[damage](labels(copy, DAY))
    put_labels(copy, DAY, frame)
    assert MARK in str(frame.rows())
    assert SPLIT in frame.columns
    record = recorded(copy, PLAN)
    if damage == "none":
        assert record.audit.status == "evaluated"
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    warehouse.commit([record])
    warehouse.commit([record])
    compact(warehouse)
    held = everything(warehouse)
    assert "good" in held
    marks = f"({MARK}|{NUMBER}{'' if damage == 'a label of no class' else f'|{CLASS}'})"
    leaked = sorted({found[0] for found in re.finditer(rf".{{40}}{marks}.{{40}}", held)})
    assert leaked == []


def test_a_mark_that_reached_the_warehouse_would_be_found(lake, tmp_path):
    record = recorded(lake, PLAN)
    leaky = record.audit.model_copy(update={"reason": f"The label of {MARK}-person-0-7."})
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    warehouse.commit([record.model_copy(update={"audit": leaky})])
    assert MARK in everything(warehouse)
