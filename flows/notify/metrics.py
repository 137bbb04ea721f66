"""Prometheus' text file: each model's latest result, for a dashboard and alert rules in deploy/.

The text is written for the textfile collector of Prometheus' node exporter. A figure that an audit
does not have is left out, because silence is not zero. Ages are given as times, as Prometheus asks:
a file that nobody writes any more grows old by itself.
"""

import datetime as dt
import math
import pathlib
import zoneinfo
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import polars as pl

from flows.files import replace_file
from flows.notify.events import without_markup
from flows.settings import Settings
from privcore.lower_bounds import Verdict
from workers.warehouse.acknowledgements import acknowledgements, with_acknowledgements
from workers.warehouse.model_verdict import REACH
from workers.warehouse.nights_together import audited_nights
from workers.warehouse.store import COUNTED_WITH_OTHERS, Warehouse

PREFIX = "privaudit_"
HELP = {
    "model_listed": "1 for each model that the settings list.",
    "verdict": "1, with the verdict of the model's nights together, and why, as labels.",
    "acknowledged_until_seconds": "End of the acknowledgement that covers the model's violation, "
    "in seconds since 1970.",
    "epsilon_lower": "Lower bound on the privacy loss that the latest audit proves.",
    "epsilon_declared": "Epsilon that the latest audit tested.",
    "sees_from": "Smallest leak, shown by every label, that the latest audit would probably have "
    "seen.",
    "sees_from_together": "The same, of all nights together.",
    "audited_day_end_seconds": "End of the latest audited day, in seconds since 1970.",
}
_FIGURES = ("epsilon_lower", "epsilon_declared", "sees_from", "sees_from_together")


def write_metrics(settings: Settings) -> None:
    """Replace the file that the settings name with each model's latest result, if they name one."""
    if settings.metrics is None:
        return
    listed = [model.name for model in settings.models]
    zone = zoneinfo.ZoneInfo(settings.night.time_zone)
    latest = latest_records(Warehouse(settings.warehouse), listed)
    text = metrics_text(latest, zone, listed)
    replace_file(pathlib.Path(settings.metrics), text.encode())


def latest_records(warehouse: Warehouse, models: Collection[str]) -> list[dict[str, Any]]:
    """Return the latest current record of each of these models and secrets.

    Each with what its nights say together, and as `acknowledged_until` the last day of the
    acknowledgement that covers its violation, if one does.
    """
    key = ("model", "secret")
    known = warehouse.current(
        every_secret=True,
        models=pl.Series("model", sorted(models), dtype=pl.String),
        columns=("audit_id", "day", "status", "exploratory", *key),
    ).sort("day")
    # Years of nights are read by these columns alone, and the latest nights whole.
    latest = audited_nights(warehouse, known.unique(key, keep="last")["audit_id"]).sort(key)
    violated = latest.filter(pl.col("verdict_together") == Verdict.VIOLATED).select(
        *key, last="day"
    )
    until = _acknowledged(warehouse, known.join(violated, on=key))
    return [
        row | {"acknowledged_until": until.get((row["model"], row["secret"]))}
        for row in latest.iter_rows(named=True)
    ]


def _acknowledged(
    warehouse: Warehouse, nights: pl.DataFrame
) -> dict[tuple[str, str], dt.date | None]:
    """Return the last day for which each violation is acknowledged, by model and secret.

    The last night that refutes decides: the violation may stand after nights that say nothing. Of
    the violated models' nights, in the order of days, `last` is the model's latest.
    """
    reach = pl.col("day") >= pl.col("last") - dt.timedelta(days=REACH)
    nights = nights.filter(COUNTED_WITH_OTHERS, reach)
    if nights.is_empty() or not acknowledgements(warehouse):
        return {}
    refuting = (pl.col("verdict") == Verdict.VIOLATED) | pl.col("refuted_together")
    found = audited_nights(warehouse, nights["audit_id"]).filter(refuting).sort("day")
    return {
        (row["model"], row["secret"]): row["acknowledged_until"]
        for row in with_acknowledgements(warehouse, found).iter_rows(named=True)
    }


def metrics_text(
    latest: Iterable[Mapping[str, Any]], zone: dt.tzinfo, listed: Iterable[str]
) -> str:
    """Return the text of the file, of records as `latest_records` returns them."""
    samples: dict[str, list[str]] = {name: [] for name in HELP}
    for model in listed:
        samples["model_listed"].append(_sample("model_listed", 1.0, model=model))
    for one in latest:
        who = {"model": one["model"], "secret": one["secret"]}
        why = {"verdict": one["verdict_together"], "reason_code": one["reason_code_together"] or ""}
        samples["verdict"].append(_sample("verdict", 1.0, **who, **why))
        figures = {name: one[name] for name in _FIGURES} | {
            # In UTC, in which acknowledgements are counted.
            "acknowledged_until_seconds": _end_of(one["acknowledged_until"], dt.UTC),
            "audited_day_end_seconds": _end_of(one["day"], zone),
        }
        for name, value in figures.items():
            if value is not None and not math.isnan(value):
                samples[name].append(_sample(name, value, **who))
    lines = []
    for name, found in samples.items():
        if found:
            lines += [f"# HELP {PREFIX}{name} {HELP[name]}", f"# TYPE {PREFIX}{name} gauge", *found]
    return "\n".join([*lines, ""])


def _end_of(day: dt.date | None, zone: dt.tzinfo) -> float | None:
    if day is None:
        return None
    return dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), tzinfo=zone).timestamp()


def _sample(name: str, value: float, **labels: str) -> str:
    """Return one line; Python's repr of a float is a number of Prometheus' but for infinity."""
    said = repr(value) if math.isfinite(value) else f"{'+' if value > 0 else '-'}Inf"
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{PREFIX}{name}{{{inside}}} {said}"


def _escaped(text: str) -> str:
    """Return a label's value; Alertmanager sends it to chats as it is."""
    return without_markup(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
