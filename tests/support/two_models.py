"""Two models on the same labels, and what audits of both come to."""

import pathlib
from collections.abc import Iterable
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from tests.support.audits import run_audits
from tests.support.lake import (
    DAY,
    EVE,
    FEATURES,
    PLAN,
    declared,
    label_path,
    label_rows,
    put_labels,
    put_model,
)
from workers.audit.request import Request
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.warehouse.schema import AuditRecord

NOBODY = pl.lit("nobody asks for this")
REQUESTS = [
    Request("first", PLAN),
    Request("second", PLAN.model_copy(update={"fractions": (0.1, 1.0), "slices": ("city",)})),
]


def lake_of_two(folder: pathlib.Path) -> Lake:
    """Return a lake with two models of other features on the same labels, in three files."""
    lake = Lake(str(folder))
    for seed, day in enumerate((EVE, DAY)):
        rows = label_rows(500, seed=seed).with_columns(other=NOBODY)
        put_labels(lake, day, rows, row_group_size=128)
        for place in (1, 2):
            file = label_path(lake, "flights", day).with_name(f"part-0000{place}.parquet")
            rows = label_rows(300, seed=10 * place + seed).with_columns(other=NOBODY)
            pq.write_table(rows.to_arrow(), file, row_group_size=100)
        put_model(lake, day, model="first", features=FEATURES[:2], privacy=declared())
        put_model(lake, day, model="second", features=FEATURES[1:])
    return lake


def audited(lake: Lake, requests: Iterable[Request] = REQUESTS, **more: Any) -> list[AuditRecord]:
    """Return the records of a day, read unit by unit in this process if nothing else is asked."""
    more = {"executor": InProcess(), "work_unit_bytes": 1} | more
    return list(run_audits(lake, DAY, requests, **more))
