"""Every audit that was asked for, whatever it came to: how often, under which plans, by whom."""

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from privcore.lower_bounds.verdicts import Verdict
from workers.warehouse.settings_changes import NO_VERDICT
from workers.warehouse.store import COUNTED_WITH_OTHERS, Warehouse

UNKNOWN = "unknown"
"""Value where no name of the asker was recorded."""
SAME_PLAN = "the same"
SCHEMA: dict[str, type[pl.DataType]] = {
    "day": pl.Date,
    "model": pl.String,
    "secret": pl.String,
    "verdict": pl.String,
    "counts": pl.Boolean,
    "exploratory": pl.Boolean,
    "plan": pl.String,
    "asked_by": pl.String,
    "times": pl.Int64,
    "withdrawn": pl.String,
    "audit_id": pl.String,
}
"""`counts`: it is the current record of its model, day and secret. `plan`: what it changes of the
current record's plan. `times`: how often it was computed. `withdrawn`: why, where it was."""


def every_audit(
    warehouse: Warehouse,
    *,
    model: str | None = None,
    day: dt.date | None = None,
    repeated: bool = False,
) -> pl.DataFrame:
    """Return every committed audit, in the order of commits, with the columns of `SCHEMA`.

    Seeds, other plans, renamed models and withdrawn records are all in it: a verdict that took ten
    attempts is to be read with the other nine.
    """
    audits = warehouse.scan("audits")
    if repeated:
        known = warehouse.collect(audits.select("audit_id", "model", "day", "secret"))
        several = known.filter(known.drop("audit_id").is_duplicated())["audit_id"]
        if several.is_empty():
            return pl.DataFrame(schema=SCHEMA)
        audits = audits.filter(pl.col("audit_id").is_in(several.implode()))
    if model is not None:
        audits = audits.filter(pl.col("model") == model)
    if day is not None:
        audits = audits.filter(pl.col("day") == day)
    again = warehouse.scan("audit_confirmations").group_by("audit_id").agg(pl.len().alias("again"))
    withdrawn = warehouse.scan("audit_withdrawals").select("audit_id", withdrawn=pl.col("why"))
    stored = warehouse.collect(
        audits.join(again, on="audit_id", how="left")
        .join(withdrawn.unique("audit_id", keep="first"), on="audit_id", how="left")
        .sort("day", "model", "secret", "revision", "recorded_at", "audit_id")
    )
    current = warehouse.current(
        every_secret=True,
        models=stored["model"].unique(),
        columns=("model", "day", "secret", "plan", "audit_id"),
    )
    plans = {
        (row["model"], row["day"], row["secret"]): row["plan"]
        for row in current.iter_rows(named=True)
    }
    counting = set(current["audit_id"])
    rows = [
        {
            **{name: row[name] for name in SCHEMA if name in row},
            "counts": row["audit_id"] in counting,
            "exploratory": bool(row["exploratory"]),
            "plan": _changes(row["plan"], plans.get((row["model"], row["day"], row["secret"]))),
            "asked_by": row["asked_by"] or UNKNOWN,
            "times": 1 + (row["again"] or 0),
        }
        for row in stored.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def asked_again(audits: pl.DataFrame) -> list[str]:
    """Return a sentence for each day and secret that was audited more than once."""
    sentences = []
    for (day, told_of), rows in audits.group_by("day", "secret", maintain_order=True):
        if rows.height < 2:
            continue
        whose = "" if told_of == "label" else f" of {told_of}"
        told = "; ".join(_told(row) for row in rows.iter_rows(named=True))
        sentences.append(f"{day}: {rows.height} audits{whose}: {told}.{_stays(rows)}")
    return sentences


def passed_over(warehouse: Warehouse, audits: pl.DataFrame) -> dict[str, str]:
    """Return, by audit id, that an earlier audit by another plan counts for its day.

    Of audits of the same inputs the first counts, so that nobody asks until it suits. So somebody
    may ask before the night, by a plan that refutes nothing, also on nights that refute nothing
    alone and would together. Of several days at once, which a backfill audits again, those with
    another verdict alone are told. A refutation that stays the day's is
    `workers.warehouse.input_changes`'s to tell.
    """
    named = ("model", "day", "secret")
    asked = audits.filter(COUNTED_WITH_OTHERS).select("audit_id", "verdict", "plan", *named)
    days = asked["day"].unique().to_list()
    if not days:
        return {}
    current = warehouse.current(
        every_secret=True,
        days=days,
        models=asked["model"].unique(),
        columns=("audit_id", "verdict", "plan", *named),
    )
    others = asked.join(current, on=named, suffix="_counts").filter(
        pl.col("audit_id") != pl.col("audit_id_counts"),
        pl.col("plan") != pl.col("plan_counts"),
        (pl.col("verdict") != pl.col("verdict_counts")) | (len(days) == 1),
        pl.col("verdict_counts") != Verdict.VIOLATED,
    )
    return {
        row["audit_id"]: f"The audit {row['audit_id_counts'][:8]} of {row['day']} by another plan "
        f"({_changes(row['plan_counts'], row['plan'])}) came first, and counts: it is "
        f"{row['verdict_counts']}, and this one is {row['verdict']}. Unless that plan was wanted, "
        "withdraw it (privaudit withdraw)."
        for row in others.iter_rows(named=True)
        if _judged(row["plan"]) != _judged(row["plan_counts"])
    }


def _judged(plan: str) -> dict[str, Any]:
    """Return the fields of a plan on which verdicts depend."""
    return {name: value for name, value in json.loads(plan).items() if name not in NO_VERDICT}


def _stays(rows: pl.DataFrame) -> str:
    """Return that a later audit takes no refutation back, where one came to another verdict."""
    refutes = pl.col("verdict") == Verdict.VIOLATED
    others = rows.filter(~refutes, ~pl.col("exploratory"), pl.col("withdrawn").is_null())
    if not others.height or not rows.filter("counts", refutes).height:
        return ""
    return " A later one takes no refutation back: withdrawing does."


def _told(row: Mapping[str, Any]) -> str:
    """Return one audit in a few words."""
    plan = "" if row["plan"] == SAME_PLAN else f", plan with {row['plan']}"
    marks = [
        word
        for word, given in (
            ("which counts", row["counts"]),
            ("exploratory", row["exploratory"]),
            (f"withdrawn ({row['withdrawn']})", row["withdrawn"] is not None),
        )
        if given
    ]
    return ", ".join([f"{row['verdict']}{plan}, by {row['asked_by']}", *marks])


def _changes(plan: str, current: str | None) -> str:
    """Return the fields in which a plan differs from the current record's, with their values."""
    if current is None or plan == current:
        return SAME_PLAN
    mine, other = json.loads(plan), json.loads(current)
    changed = [
        f"{name} {json.dumps(mine.get(name))}"
        for name in dict.fromkeys([*mine, *other])
        if mine.get(name) != other.get(name)
    ]
    return ", ".join(changed) or SAME_PLAN
