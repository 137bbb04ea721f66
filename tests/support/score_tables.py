"""Score tables to audit: a day's rows, the settings that name their columns, and their audit."""

import datetime as dt
import pathlib
from typing import Any

import numpy as np
import polars as pl

from tests.support.lake import DAY
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores
from workers.warehouse.schema import AuditRecord

EMPTY_LAKE = Lake("/nowhere")
PLAN = Plan(repetitions=4)


def score_rows(
    random: np.random.Generator,
    rows: int,
    *,
    leak: float = 0.0,
    noise: float = 0.0,
    day: dt.date = DAY,
) -> pl.DataFrame:
    """Return rows whose label only the proxy's probability tells of.

    The target's log-odds are the proxy's, with normal noise, and `leak` towards the labels of
    training rows.
    """
    proxy = random.uniform(0.2, 0.8, rows)
    label = (random.random(rows) < proxy).astype(np.int64)
    train = random.random(rows) < 0.5
    odds = np.log(proxy / (1.0 - proxy))
    if noise:
        odds += random.normal(0.0, noise, rows)
    odds += np.where(train, leak * (2 * label - 1), 0.0)
    return pl.DataFrame(
        {
            "day": [day] * rows,
            "clicked": label,
            "p_today": 1.0 / (1.0 + np.exp(-odds)),
            "p_yesterday": proxy,
            "split": np.where(train, "train", "holdout"),
        }
    )


def tables(place: pathlib.Path | str, **changes: Any) -> ScoreTables:
    """Return the settings of a table of these rows."""
    given = {"table": str(place), "label": "clicked", "target": "p_today", "proxy": "p_yesterday"}
    return ScoreTables.model_validate(given | changes)


def put_folder(place: pathlib.Path, frame: pl.DataFrame, day: dt.date = DAY) -> pathlib.Path:
    """Write a day's rows as Parquet below `place`, which is returned."""
    folder = place / f"day={day}"
    folder.mkdir(parents=True)
    frame.drop("day").write_parquet(folder / "part-0.parquet", row_group_size=1_000)
    return place


def audit(
    given: ScoreTables, *, privacy: dict[str, Any] | None = None, plan: Plan = PLAN
) -> AuditRecord:
    """Audit the day's scores, in this process."""
    known = None if privacy is None else Privacy.model_validate(privacy)
    supplied = SuppliedScores(given, known)
    return run_audit(
        EMPTY_LAKE, "ads", DAY, plan=plan, executor=InProcess(), external_inputs=supplied
    )
