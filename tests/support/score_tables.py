"""Score tables to audit: a day's rows, the settings that name their columns, and their audit."""

import datetime as dt
import pathlib
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from tests.support.lake import DAY, declared
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores
from workers.warehouse.schema import AuditRecord, AuditRow

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


def predictions(rows: int = 800) -> pl.DataFrame:
    """Return a table of a target that remembers the label of every training row."""
    random = np.random.default_rng(1)
    label, train = random.integers(0, 2, rows), random.random(rows) < 0.7
    known = np.where(label == 1, 0.95, 0.05)
    guessed = np.where(random.random(rows) < 0.5, 0.95, 0.05)
    return pl.DataFrame({
        "record": np.arange(rows),
        "late": label,
        "split": np.where(train, "train", "holdout"),
        "old": random.uniform(0.3, 0.7, rows),
        "new": np.where(train, known, guessed),
    })  # fmt: skip


def leaking_scores(rows: int = 2_000, *, leak: float, seed: int = 0) -> pl.DataFrame:
    """Return what two models say of rows: the target moves training rows' log-odds by `leak`."""
    random = np.random.default_rng(seed)
    features = random.normal(size=rows)
    label = random.random(rows) < expit(features)
    train = random.random(rows) < 0.6
    moved = features + random.normal(0.0, 0.3, rows) + leak * train * (2.0 * label - 1.0)
    return pl.DataFrame(
        {
            "late": label.astype(np.int64),
            "new": expit(moved),
            "old": expit(features + random.normal(0.0, 0.2, rows)),
            "split": np.where(train, "train", "holdout"),
            "x": features,
        }
    )


def audited_scores(
    folder: pathlib.Path, rows: pl.DataFrame, plan: Plan = PLAN, *, unit: str = "row", **given: Any
) -> AuditRow:
    """Audit a day's rows of the columns `late`, `new` and `old`, against a declared 0.5."""
    (folder / f"day={DAY}").mkdir(parents=True, exist_ok=True)
    rows.write_parquet(folder / f"day={DAY}" / "one.parquet")
    named = {"table": str(folder), "label": "late", "target": "new", "proxy": "old"}
    scores = ScoreTables.model_validate(named | given)
    return audit(scores, privacy=declared(0.5, unit=unit), plan=plan).audit


def leaking_rows(count: int = 2_000) -> pl.DataFrame:
    """Return a day's scores, of which the target remembers the labels."""
    return score_rows(np.random.default_rng(0), count, leak=3.0, noise=0.3)


def reason_or_bound(place: pathlib.Path, **changes: Any) -> str:
    """Return what an audit says of a day's scores."""
    record = audit(tables(place, **changes)).audit
    return record.reason if record.epsilon_lower is None else f"{record.epsilon_lower:.1f}"
