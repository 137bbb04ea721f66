"""Prometheus' text file: each model's latest result, for a dashboard and alert rules in deploy/.

The text is written for the textfile collector of Prometheus' node exporter. A figure that an audit
does not have is left out, because silence is not zero. Ages are given as times, as Prometheus asks:
a file that nobody writes any more grows old by itself.
"""

import datetime as dt
import math
import pathlib
import zoneinfo
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import polars as pl

from flows.files import replace_file
from flows.notify.alerts import without_markup
from flows.settings import Settings
from privcore.lower_bounds import Verdict
from workers.warehouse.acknowledgements import with_acknowledgements
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.store import COUNTED_WITH_OTHERS, POSSIBLE_DAY, Warehouse
from workers.warehouse.with_windows import Windows

PREFIX = "privaudit_"
HELP = {
    "model_listed": "1 for each model that the settings list.",
    "verdict": "1, with the verdict of the model's latest audit as label.",
    "stands_violated": "1 if all nights together refute the declarations, else 0.",
    "acknowledged_until_seconds": "End of the acknowledgement that covers the model's violation, "
    "in seconds since 1970.",
    "epsilon_lower": "Lower bound on the privacy loss that the latest audit proves.",
    "epsilon_ceiling": "Largest lower bound that the latest audit could have proved.",
    "epsilon_declared": "Epsilon that the latest audit tested.",
    "audited_day_end_seconds": "End of the latest audited day, in seconds since 1970.",
}
_FIGURES = ("epsilon_lower", "epsilon_ceiling", "epsilon_declared")


@dataclass(frozen=True, slots=True)
class Latest:
    """A model's latest result.

    Attributes:
        model: its name.
        secret: what the attack inferred: `label`, `membership` or `attribute:<column>`.
        day: the audited day.
        verdict: of the record.
        stands_violated: whether all nights together refute the declarations; None if unknown.
        figures: by the names of `HELP`; what there is not, is None.
        acknowledged_until: last day of the acknowledgement that covers its violation, if one does.
    """

    model: str
    secret: str
    day: dt.date
    verdict: str
    stands_violated: bool | None
    figures: dict[str, float | None]
    acknowledged_until: dt.date | None = None


def write_metrics(settings: Settings, windows: Windows = epsilon_windows) -> None:
    """Replace the file that the settings name with each model's latest result, if they name one.

    `windows` gives what the nights of a model prove together.
    """
    if settings.metrics is None:
        return
    listed = [model.name for model in settings.models]
    zone = zoneinfo.ZoneInfo(settings.night.time_zone)
    latest = latest_records(Warehouse(settings.warehouse), listed, windows)
    text = metrics_text(latest, zone, listed)
    replace_file(pathlib.Path(settings.metrics), text.encode())


def latest_records(
    warehouse: Warehouse, models: Collection[str], windows: Windows = epsilon_windows
) -> list[Latest]:
    """Return the latest current record of each of these models and secrets.

    One of a day after that on which it was recorded is a mistake, and no latest record.
    """
    key = ("model", "secret")
    known = (
        warehouse.current(
            every_secret=True,
            models=pl.Series("model", sorted(models), dtype=pl.String),
            columns=("audit_id", "day", "status", "exploratory", "recorded_at", *key),
        )
        .filter(POSSIBLE_DAY)
        .sort("day")
    )
    # Years of nights are read by these columns alone, and the latest nights whole.
    latest = known.unique(key, keep="last")["audit_id"]
    last = known.filter(COUNTED_WITH_OTHERS).unique(key, keep="last")["audit_id"]
    wanted = pl.col("audit_id").is_in(pl.concat([latest, last]).implode())
    rows = warehouse.collect(warehouse.scan("audits").filter(wanted))
    evaluated = rows.filter(pl.col("audit_id").is_in(last.implode()))
    current = rows.filter(pl.col("audit_id").is_in(latest.implode()))
    added = ("standing", "epsilon_standing")
    known_nights = windows(warehouse, evaluated).select("audit_id", *added)
    # A night that adds nothing ends no standing, or who spoils an input would resolve an alert.
    judged = with_acknowledgements(warehouse, evaluated.join(known_nights, on="audit_id"))
    standings = {
        (row["model"], row["secret"]): (row["standing"], row["acknowledged_until"])
        for row in judged.iter_rows(named=True)
    }
    found = []
    for row in current.sort(key).iter_rows(named=True):
        standing, until = standings.get((row["model"], row["secret"]), (None, None))
        found.append(
            Latest(
                model=row["model"],
                secret=row["secret"],
                day=row["day"],
                verdict=row["verdict"],
                stands_violated=_violated(standing),
                figures={name: row[name] for name in _FIGURES},
                acknowledged_until=until,
            )
        )
    return found


def _violated(standing: str | None) -> bool | None:
    return None if standing is None else standing == Verdict.VIOLATED


def metrics_text(latest: Iterable[Latest], zone: dt.tzinfo, listed: Iterable[str] = ()) -> str:
    """Return the text of the file."""
    samples: dict[str, list[str]] = {name: [] for name in HELP}
    for model in listed:
        samples["model_listed"].append(_sample("model_listed", 1.0, model=model))
    for one in latest:
        who = {"model": one.model, "secret": one.secret}
        samples["verdict"].append(_sample("verdict", 1.0, **who, verdict=one.verdict))
        end = dt.datetime.combine(one.day + dt.timedelta(days=1), dt.time(), tzinfo=zone)
        stands = None if one.stands_violated is None else float(one.stands_violated)
        figures = one.figures | {
            "stands_violated": stands,
            "acknowledged_until_seconds": _end_of(one.acknowledged_until),
            "audited_day_end_seconds": end.timestamp(),
        }
        for name, value in figures.items():
            if value is not None and not math.isnan(value):
                samples[name].append(_sample(name, value, **who))
    lines = []
    for name, found in samples.items():
        if found:
            lines += [f"# HELP {PREFIX}{name} {HELP[name]}", f"# TYPE {PREFIX}{name} gauge", *found]
    return "\n".join([*lines, ""])


def _end_of(day: dt.date | None) -> float | None:
    """Return when a day ends in UTC, in which acknowledgements are counted."""
    if day is None:
        return None
    midnight = dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), tzinfo=dt.UTC)
    return midnight.timestamp()


def _sample(name: str, value: float, **labels: str) -> str:
    """Return one line; Python's repr of a float is a number of Prometheus' but for infinity."""
    said = repr(value) if math.isfinite(value) else f"{'+' if value > 0 else '-'}Inf"
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{PREFIX}{name}{{{inside}}} {said}"


def _escaped(text: str) -> str:
    """Return a label's value; Alertmanager sends it to chats as it is."""
    return without_markup(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
