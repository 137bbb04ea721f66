"""Labels, target and proxy in three tables of three kinds, for the tests of their join."""

import pathlib
import tempfile
from typing import Any

import deltalake
import numpy as np
import polars as pl

from tests.support.lake import DAY, declared
from tests.support.score_tables import audit, score_rows
from workers.executors import InProcess
from workers.plan import Plan
from workers.sources.scores.score_tables import ScoreTables
from workers.warehouse.schema import AuditRow

IN_PROCESS = InProcess()
ROWS = 4_000


def world() -> pl.DataFrame:
    frame = score_rows(np.random.default_rng(1), ROWS, leak=3.0)
    return frame.insert_column(1, pl.Series("event_id", [f"e{number}" for number in range(ROWS)]))


class Tables:
    """Three tables of one world, of three kinds, which a test may damage before they are joined."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        frame = world().sample(fraction=1.0, shuffle=True, seed=1)
        self.labels = frame.select("day", "event_id", "clicked", "split")
        self.target = frame.select("day", record="event_id", p="p_today").reverse()
        self.proxy = frame.select(ds=pl.col("day").dt.strftime("%Y%m%d"), event_id="event_id",
                                  p="p_yesterday")  # fmt: skip

    def put(self) -> ScoreTables:
        labels = self.folder / "labels" / f"day={DAY}"
        labels.mkdir(parents=True)
        self.labels.drop("day").write_parquet(labels / "part.parquet")
        for name in ("target", "proxy"):
            deltalake.write_deltalake(str(self.folder / name), getattr(self, name))
        return ScoreTables.model_validate(
            {
                "table": str(self.folder / "labels"),
                "record": "event_id",
                "label": "clicked",
                "target": {"table": str(self.folder / "target"), "column": "p", "record": "record"},
                "proxy": {"table": str(self.folder / "proxy"), "column": "p", "day": "ds"},
            }
        )


def audited(tables: ScoreTables, **plan: Any) -> AuditRow:
    row = audit(tables, privacy=declared(0.5), plan=Plan(repetitions=4, **plan)).audit
    assert list(pathlib.Path(tempfile.gettempdir()).iterdir()) == []
    return row
