"""Checks by `privaudit check` of one model: would the audit of a day come to figures?"""

import datetime as dt

from flows.run.night_plan import external_inputs_of
from flows.settings import ModelSettings, Settings
from privcore.exceptions import TerminalError
from workers.audit.label_state import OF_LABELS
from workers.audit.rehearsal import Rehearsal, rehearse
from workers.audit.request import Request
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.checkpoints import read_manifest
from workers.lake.layout import SUCCESS, Lake
from workers.plan import Plan
from workers.sources.checkpoints.placed_models import find_earlier
from workers.sources.tables.table_look import newest_day


def check_model(settings: Settings, name: str, day: dt.date | None, *, whole: bool = False) -> str:
    """Return what there is of a model on a day, its newest where left out, in a sentence.

    Raises:
        TerminalError: its audit would be refused; the sentence says why and what to do.
    """
    model = settings.model_named(name)
    external_inputs, plan = external_inputs_of(model), settings.plans_of(name)[0]
    lake = Lake(settings.lake)
    more = ""
    if day is None and (model.scores is not None or model.checkpoints is not None):
        day = _newest_elsewhere(model, settings.yesterday(dt.datetime.now(dt.UTC)), plan)
    elif day is None:
        day, more = _newest_complete(lake, name)
    request = Request(name, plan, model.dataset, external_inputs=external_inputs)
    try:
        found = rehearse(lake, day, request, whole=whole)
    except NotEvaluableError as error:
        if external_inputs is not None or error.reason not in {
            Reason.MISSING_LABELS,
            Reason.MISSING_TARGET,
        }:
            raise
        parent = f"models/{name}"
        if error.reason is Reason.MISSING_LABELS:
            parent = f"labels/{read_manifest(lake, name, day).manifest.dataset}"
        raise NotEvaluableError(
            error.reason, error.sentence + _capital(_misnamed(lake, parent))
        ) from None
    both = _units_in_both_splits(found, request.plan.privacy_unit, model)
    unit = f"; its verdict would be undeclared, since {found.other_unit}" * bool(found.other_unit)
    return _sentence(found, model, day) + both + _which_labels(found, model) + unit + more


def _newest_elsewhere(model: ModelSettings, yesterday: dt.date, plan: Plan) -> dt.date:
    """Return the newest day of a model's table, or the last before it that has a checkpoint.

    Of a query, which is asked for one day at a time, it is yesterday.
    """
    table = model.scores or model.labels
    asked = model.scores is not None and model.scores.query is not None
    told = None if table is None or asked else newest_day(table)
    newest = told or yesterday
    if table is None or model.checkpoints is None:
        return newest
    tomorrow = newest + dt.timedelta(days=1)
    found = find_earlier(
        model.checkpoints, model.name, tomorrow, within_days=1 + plan.proxy_within_days
    )
    if found is None and told is None:
        raise TerminalError(
            f"The column {table.day!r} of {table.table} does not show which day is the newest: set "
            f"{table.KEY}.day to the column that holds the day, or give --day."
        )
    return newest if found is None else found.day


def _newest_complete(lake: Lake, name: str) -> tuple[dt.date, str]:
    """Return the newest day with a complete checkpoint, and what else to know of its folders."""
    parent = f"models/{name}"
    folders = lake.day_folders(parent)
    days = [folder for folder in folders if folder.day is not None]
    more = _misnamed(lake, parent)
    for folder in reversed(days):
        if folder.day is not None and lake.exists(f"{parent}/{folder.name}"):
            unfinished = days[-1].name
            if unfinished != folder.name:
                more += f"; {parent}/{unfinished} has no {SUCCESS} yet, and so is none"
            return folder.day, more
    if days:
        raise TerminalError(
            f"None of the {len(days)} days in {parent} has a file {SUCCESS}, not even "
            f"{days[-1].name}: have training write it last, as an empty file.{_capital(more)}"
        )
    if more:
        raise TerminalError(f"It has no day.{_capital(more)}")
    raise TerminalError(
        f"{parent} holds no folder day=YYYY-MM-DD: check the name, and the key lake."
    )


def _misnamed(lake: Lake, parent: str) -> str:
    """Say of a folder of days which one in it names none, if there is one."""
    misnamed = [folder.name for folder in lake.day_folders(parent) if folder.day is None]
    if not misnamed:
        return ""
    return (
        f"; the folder {misnamed[0]} in {parent} names no day and is passed over: call it "
        "day=YYYY-MM-DD, like day=2026-03-02"
    )


def _capital(more: str) -> str:
    """Return what follows a semicolon as a sentence of its own."""
    text = more.removeprefix("; ")
    return f" {text[:1].upper()}{text[1:]}." if text else ""


def _units_in_both_splits(found: Rehearsal, unit: str | None, model: ModelSettings) -> str:
    """Advise a holdout by person, where persons have rows on both sides."""
    if not found.units_in_both_splits:
        return ""
    key = "scores" if model.scores else "labels" if model.labels else None
    rule = "" if key is None else f', as {key}.holdout = "bucket({unit}, 5) = 0" does'
    return (
        f"; {found.units_in_both_splits:,} more persons have rows in both, and so are no control: "
        f"hold out all rows of a person in {unit!r}, or none{rule}"
    )


def _which_labels(found: Rehearsal, model: ModelSettings) -> str:
    """Ask which labels the column holds, where the mechanism changes them and no setting says."""
    mechanism = None if found.privacy is None else found.privacy.mechanism
    if mechanism is None or mechanism.name not in OF_LABELS or found.label_state is not None:
        return ""
    key = "labels.label_state" if model.checkpoints else "label.state"
    key = "scores.label_state" if model.scores else key
    return (
        f"; its label column must hold the labels from before {mechanism.name}: say so with "
        f'{key} "secret", or by what they were privatised'
    )


def _sentence(found: Rehearsal, model: ModelSettings, day: dt.date) -> str:
    privacy = found.privacy
    says = "declares nothing" if privacy is None else f"declares epsilon {privacy.epsilon:g}"
    read = "all rows read" if found.whole else "a sample read, --full reads all"
    proxy = "" if found.proxy_day is None else f", proxy {found.proxy_day}"
    at = "" if found.version is None else f", version {found.version}"
    place = model.scores or model.labels
    table = "" if place is None else f" of {place.table}{at}"
    days = f", labels of {len(found.days)} days from {found.days[0]}" if found.days[1:] else ""
    return (
        f"{day}{table}{days}{proxy}, {says}; {found.training:,} training and {found.holdout:,} "
        f"holdout records ({read})"
    )
