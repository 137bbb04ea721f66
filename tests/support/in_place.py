"""Rows in somebody's own table and XGBoost's files beside them, audited where they lie."""

import datetime as dt
import pathlib
from typing import Any

import deltalake
import polars as pl

from tests.support.frameworks import Trained, train_xgboost
from tests.support.lake import DAY, EVE, PLAN, declared, label_rows
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.sources.checkpoints.in_place import InPlace
from workers.sources.checkpoints.in_place_settings import CheckpointPaths, LabelTable
from workers.warehouse.schema import AuditRecord

EMPTY_LAKE = Lake("/nowhere")
ROWS = {EVE: label_rows(900, seed=1), DAY: label_rows(900, seed=2)}
OVERFIT = {"max_depth": 10, "eta": 1.0, "min_child_weight": 0.0, "lambda": 0.0}
PRIVACY = Privacy.model_validate(declared(0.5))


def train(day: dt.date, **more: Any) -> Trained:
    """Train XGBoost on a day's training rows; they say nothing of their labels, so it learns them
    by heart.
    """
    return train_xgboost(ROWS[day].filter(split="train"), **OVERFIT | more)


def put_file(path: pathlib.Path, content: bytes = b"") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def stored(day: dt.date, rows: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return a day's rows as somebody's own table has them."""
    return (ROWS[day] if rows is None else rows).select(
        ds=pl.lit(day),
        clicked="late",
        delay="delay",
        dep_hour="hour",
        city="city",
        arm="split",
        flight=pl.int_range(pl.len()).cast(pl.String),
    )


def delta(place: pathlib.Path, **more: Any) -> pathlib.Path:
    """Write both days, one after the other: a version for each."""
    for day in (EVE, DAY):
        deltalake.write_deltalake(str(place), stored(day), mode="append", **more)
    return place


def labels(table: pathlib.Path | str, **changes: Any) -> LabelTable:
    given = {
        "table": str(table),
        "day": "ds",
        "label": "clicked",
        "split": "arm",
        "columns": {"hour": "dep_hour"},
    }
    return LabelTable.model_validate(given | changes)


def paths(root: pathlib.Path, **changes: Any) -> CheckpointPaths:
    given = {"path": f"{root}/{{model}}/{{day:%Y/%m/%d}}/model.json"}
    return CheckpointPaths.model_validate(given | changes)


def audit(
    given: InPlace,
    *,
    lake: Lake = EMPTY_LAKE,
    day: dt.date = DAY,
    plan: Plan = PLAN,
    name: str = "ads",
) -> AuditRecord:
    return run_audit(lake, name, day, plan=plan, executor=InProcess(), external_inputs=given)


def refused(given: InPlace, code: str, **more: Any) -> str:
    row = audit(given, **more).audit
    assert (row.status, row.detail) == ("not_evaluable", code), row.reason
    return row.reason
