"""Evidence over many nights and over the models of a night, derived from what is stored."""

import bisect
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from privcore.lower_bounds import (
    STANDING_NIGHTS,
    WINDOW_EPSILONS,
    WINDOW_NIGHTS,
    Night,
    false_discovery_qvalues,
    standing_epsilons,
    standing_length,
    window_epsilon_lower,
)
from workers.warehouse.declaration_changes import DATASET, LABEL_COLUMN, declaration_change
from workers.warehouse.input_changes import input_changes
from workers.warehouse.standings import COLUMNS as OF_STANDINGS
from workers.warehouse.standings import standings as model_standings
from workers.warehouse.store import Warehouse

WINDOWS = (7, 28)
_COLUMNS = {days: f"epsilon_lower_{days}_days" for days in WINDOWS}
EPSILON_STANDING = "epsilon_standing"
STANDING = "standing"
DECLARATION_CHANGE = "declaration_change"
MEANINGS = {
    **{
        column: f"Bound over the {days} days up to this one, under this day's claim; 0 where none."
        for days, column in _COLUMNS.items()
    },
    EPSILON_STANDING: "Bound from all nights since family, delta, relation or the method last "
    f"changed, at most {STANDING_NIGHTS}, with delta {WINDOW_NIGHTS}; it may be watched every day "
    "and never falls. 0 where none.",
    STANDING: "violated where all nights, each held against what was declared for it, refute that "
    "every declaration was true; else consistent. Null where nothing is declared and nothing is "
    "refuted.",
    DECLARATION_CHANGE: "How the declaration, or whose labels are audited, differs from the "
    "model's evaluated night before, in words; null where it does not.",
}
"""What the columns of `epsilon_windows` say."""
_CLAIM = ("family", "delta", "classes", "neighbors", "labels_recur", "method_version")
_STANDING_SHARE = 0.25  # of a night's significance: one fifth of the plan's against four


@dataclass(frozen=True, slots=True)
class _Nights:
    """One model's nights in order, the first of which each belongs together with.

    Attributes:
        rows: what is stored of each but its wealth.
        days: of each.
        starts: index of the night with which each one's standing begins.
    """

    rows: tuple[dict[str, object], ...]
    days: tuple[dt.date, ...]
    starts: tuple[int, ...]


def with_windows(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return current audits with what other nights and models add to each.

    Columns added: those of `epsilon_windows`; `claim_qvalue`, e-BH's over the models of the same
    night; and `inputs_changed`, what of the inputs an earlier record had otherwise.
    """
    windows = epsilon_windows(warehouse, audits).select("audit_id", *MEANINGS)
    joined = audits.join(windows, on="audit_id", how="left", maintain_order="left")
    changes = input_changes(warehouse, audits)
    changed = [changes.get(audit_id) for audit_id in audits["audit_id"]]
    return joined.with_columns(
        _qvalues(audits), pl.Series("inputs_changed", changed, dtype=pl.String)
    )


def epsilon_windows(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return what the nights up to each of the evaluated `audits` prove together.

    Columns: `model`, `day`, `audit_id` and those of `MEANINGS`. Windows hold the nights under the
    claim of their last (family, delta, relation, classes, whether labels recur) that the same
    version of the method made; `epsilon_standing` begins with the first night after which none of
    these changed, and anew after 128 nights, with delta 28. `standing` is
    `workers.warehouse.standings`'s. Nights of methods before the fourth have no wealth and are left
    out. All is derived anew at each reading, since a
    later record may supersede a night.
    """
    significance = dict(audits.select("audit_id", "significance").iter_rows())
    histories = {
        key: _history(rows) for key, rows in _stored(warehouse, audits).group_by("model", "secret")
    }
    wealth = _wealth(warehouse, histories, significance)
    found: list[dict[str, object]] = []
    for (model, _), history in histories.items():
        found += _of_model(str(model), history, wealth, significance)
    schema: dict[str, type[pl.DataType]] = {
        "model": pl.String,
        "day": pl.Date,
        "audit_id": pl.String,
        **dict.fromkeys(_COLUMNS.values(), pl.Float64),
        EPSILON_STANDING: pl.Float64,
        STANDING: pl.String,
        DECLARATION_CHANGE: pl.String,
    }
    return pl.DataFrame(found, schema=schema).sort("day", "model")


def _stored(warehouse: Warehouse, audits: pl.DataFrame) -> pl.DataFrame:
    """Return the current nights of these models, of every secret, without their wealth."""
    current = warehouse.current(every_secret=True).lazy()
    of = current.select(
        "audit_id",
        pl.col("secret").fill_null("label"),
        "delta_declared",
        "mechanism",
        DATASET,
        LABEL_COLUMN,
    )
    return warehouse.collect(
        warehouse.scan("audit_wealth")
        .filter(pl.col("model").is_in(audits["model"].unique().implode()))
        .filter(pl.col("window_price").is_not_null())
        .select("audit_id", "model", "day", *dict.fromkeys((*OF_STANDINGS, *_CLAIM)))
        .join(of, on="audit_id", how="inner")
        .sort("day")
    )


def _history(stored: pl.DataFrame) -> _Nights:
    rows = tuple(stored.sort("day").iter_rows(named=True))
    starts: list[int] = []
    for place, row in enumerate(rows):
        begun = starts[-1] if starts else 0
        changed = place > 0 and _claim(row) != _claim(rows[place - 1])
        full = place - begun >= standing_length(row["standing_price"])
        starts.append(place if changed or full else begun)
    return _Nights(rows, tuple(row["day"] for row in rows), tuple(starts))


def _claim(row: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(row[name] for name in _CLAIM)


def _wealth(
    warehouse: Warehouse, histories: dict[tuple[object, ...], _Nights], wanted: dict[str, float]
) -> dict[str, tuple[Night, Night]]:
    """Return the window's and the standing's night of every audit that some window needs."""
    needed: set[object] = set()
    for history in histories.values():
        for place, row in enumerate(history.rows):
            if row["audit_id"] in wanted:
                earliest = history.days[place] - dt.timedelta(days=max(WINDOWS) - 1)
                first = min(history.starts[place], bisect.bisect_left(history.days, earliest))
                needed |= {one["audit_id"] for one in history.rows[first : place + 1]}
    if not needed:
        return {}
    stored = warehouse.collect(
        warehouse.scan("audit_wealth")
        .filter(pl.col("audit_id").is_in(list(needed)))
        .select(
            "audit_id",
            "window_log_wealth",
            "window_price",
            "standing_log_wealth",
            "standing_price",
        )
    )
    nights = {}
    for audit_id, window, price, standing, standing_price in stored.iter_rows():
        one = Night(_strategies(window), price)
        same = standing is None
        nights[audit_id] = one, one if same else Night(_strategies(standing), standing_price)
    return nights


def _strategies(stored: list[float]) -> np.ndarray:
    return np.array(stored).reshape(-1, WINDOW_EPSILONS.size)


def _of_model(
    model: str,
    history: _Nights,
    wealth: dict[str, tuple[Night, Night]],
    significance: dict[str, float],
) -> list[dict[str, object]]:
    """Return the windows and standings that end with each wanted night of one model."""
    found: list[dict[str, object]] = []
    proved: dict[int, np.ndarray] = {}
    verdicts: dict[float, list[str | None]] = {}
    for place, (row, day) in enumerate(zip(history.rows, history.days, strict=True)):
        audit_id = str(row["audit_id"])
        if audit_id not in significance:
            continue
        allowed, recurring = significance[audit_id], bool(row["labels_recur"])
        answer: dict[str, object] = {"model": model, "day": day, "audit_id": audit_id}
        for width, column in _COLUMNS.items():
            first = bisect.bisect_right(history.days, day - dt.timedelta(days=width))
            alike = [
                earlier
                for earlier in range(first, place + 1)
                if _claim(history.rows[earlier]) == _claim(row)
            ]
            answer[column] = window_epsilon_lower(
                [wealth[str(history.rows[one]["audit_id"])][0] for one in alike],
                days=[history.days[one].toordinal() for one in alike],
                significance=allowed,
                recurring=recurring,
            )
        start = history.starts[place]
        if start not in proved:
            stop = next(
                (i for i in range(start, len(history.rows)) if history.starts[i] != start),
                len(history.rows),
            )
            together = [
                wealth[str(one["audit_id"])][1]
                for one in history.rows[start:stop]
                if str(one["audit_id"]) in wealth
            ]
            proved[start] = standing_epsilons(
                together, significance=allowed * _STANDING_SHARE, recurring=recurring
            )
        answer[EPSILON_STANDING] = float(proved[start][place - start])
        if allowed not in verdicts:
            verdicts[allowed] = model_standings(
                history.rows, significance=allowed * _STANDING_SHARE
            )
        answer[STANDING] = verdicts[allowed][place]
        before = history.rows[place - 1] if place else None
        answer[DECLARATION_CHANGE] = declaration_change(before, row)
        found.append(answer)
    return found


def _qvalues(audits: pl.DataFrame) -> pl.Series:
    values: list[float | None] = [None] * audits.height
    numbered = audits.select("day", "claim_evalue").with_row_index()
    for _, night in numbered.filter(pl.col("claim_evalue").is_not_null()).group_by("day"):
        qvalues = false_discovery_qvalues(night["claim_evalue"].to_numpy())
        for index, qvalue in zip(night["index"], qvalues, strict=True):
            values[index] = float(qvalue)
    return pl.Series("claim_qvalue", values, dtype=pl.Float64)
