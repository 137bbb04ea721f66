"""No personal data: what is planted in the data is found in no table, no log and no page.

Declared names may be shown: the model, the dataset, the column of the label and of a slice, and the
values that at least `minimum_slice_records` records share. Features, labels, classes and rarer
values may not.
"""

import pathlib

import numpy as np
import polars as pl
import pytest

from flows.report.site import write_report
from tests.support.lake import DAY, EVE, declared, put_labels, put_model
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import Feature, LabelColumn
from workers.plan import Plan
from workers.warehouse.store import Warehouse

ROWS = 600
LABEL = LabelColumn(column="outcome", classes=("xyzzy-no", "xyzzy-yes"))
FEATURES = (
    Feature(name="xyzzy_number", kind="numeric"),
    Feature(name="xyzzy_word", kind="categorical"),
    Feature(name="country", kind="categorical"),
)
NUMBERS = ("7182818284.5", "7182818284")
COMMON, RARE = "Portugal", "xyzzy-Andorra"


def rows(seed):
    random = np.random.default_rng(seed)
    words = [f"xyzzy-person-{seed}-{number}" for number in range(ROWS)]
    return pl.DataFrame(
        {
            "xyzzy_number": 7182818284.5 + random.integers(0, 5, ROWS),
            "xyzzy_word": words,
            "country": np.where(random.random(ROWS) < 0.05, RARE, COMMON),
            "outcome": random.choice(np.array(LABEL.classes), ROWS),
            "split": np.where(random.random(ROWS) < 0.3, "holdout", "train"),
        }
    )


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """Audit a model on planted rows; return the folder with its warehouse and report."""
    folder = tmp_path_factory.mktemp("planted")
    lake = Lake(str(folder / "lake"))
    for seed, day in enumerate((EVE, DAY)):
        put_labels(lake, day, rows(seed))
        put_model(lake, day, label=LABEL, features=FEATURES, privacy=declared())
    plan = Plan(repetitions=4, slices=("country",), minimum_slice_records=200)
    record = run_audit(lake, "good", DAY, plan=plan, executor=InProcess())
    warehouse = Warehouse(str(folder / "out" / "warehouse"))
    warehouse.commit([record])
    write_report(warehouse, folder / "out" / "report")
    return folder / "out"


def test_the_audit_came_to_figures_a_shown_slice_and_bars_of_ten_records_or_more(audited):
    warehouse = Warehouse(str(audited / "warehouse"))
    assert warehouse.current()["status"].to_list() == ["evaluated"]
    slices = warehouse.scan("audit_slices").collect()
    assert slices["value"].to_list() == [COMMON]
    assert COMMON in (audited / "report" / "models" / "good.html").read_text(encoding="utf-8")
    records = warehouse.scan("audit_reliability").collect()["records"]
    assert records.len() > 0
    assert records.min() >= 10


def test_no_file_holds_anything_planted(audited):
    files = [path for path in pathlib.Path(audited).rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".html", ".json", ".parquet"}
    for path in files:
        content = path.read_bytes()
        assert b"xyzzy" not in content, path.name
        assert not any(number.encode() in content for number in NUMBERS), path.name
