"""`privaudit check`: the settings tried against what they name."""

import datetime as dt
import functools
import operator
import os
import pathlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flows.prefect_settings import check_settings, files
from flows.run.audit_requests import released_night_of
from flows.run.night_plan import Job, external_inputs_of, plan_audit
from flows.settings import ModelSettings, Settings, SettingsError, load_settings
from privcore.exceptions import AuditError, TerminalError
from privcore.lower_bounds import Secret
from workers.audit.rehearsal import Rehearsal, rehearse
from workers.audit.released_night import released_night
from workers.audit.request import Request
from workers.contained import closed_here
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.checkpoints import read_manifest
from workers.lake.layout import SUCCESS, Lake, try_writing
from workers.lake.manifest import OF_LABELS
from workers.patience import ONCE
from workers.plain_text import plain_text
from workers.plan import Plan
from workers.publication.statements import Statements
from workers.sources.checkpoints.in_place import find_earlier
from workers.sources.tables.table_files import newest_day
from workers.warehouse.schema import Status
from workers.warehouse.store import Warehouse

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


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
    released = _released_labels(settings, model, day)
    parts = (_sentence(found, model, day), released, both, _which_labels(found, model), unit, more)
    return "".join(parts)


def _released_labels(settings: Settings, model: ModelSettings, day: dt.date) -> str:
    """Say of how many released labels a day's audit is, where the model has such a table.

    Raises:
        TerminalError: their audit would come to no figures.
    """
    if model.released_labels is None:
        return ""
    planned = plan_audit(Lake(settings.lake), Job(model.name, day), model)
    plan = next(one for one in settings.plans_of(model.name) if one.secret is Secret.RELEASED)
    given = released_night_of(planned, model)
    found = released_night(day, Request(model.name, plan, external_inputs=given)).audit
    if found.status is not Status.EVALUATED:
        raise TerminalError(found.reason)
    return f"; {found.records or 0:,} released labels beside true ones"


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
        f"; {found.units_in_both_splits:,} more persons have rows in both, and are not compared: "
        f"hold out all rows of a person in {unit!r}, or none{rule}"
    )


def _which_labels(found: Rehearsal, model: ModelSettings) -> str:
    """Ask which labels the column holds, where the mechanism changes them and no setting says."""
    source = found.source
    mechanism = None if source.privacy is None else source.privacy.mechanism
    if mechanism is None or mechanism.name not in OF_LABELS or source.label_state is not None:
        return ""
    key = "labels.label_state" if model.checkpoints else "label.state"
    key = "scores.label_state" if model.scores else key
    return (
        f"; its label column must hold the labels from before {mechanism.name}: say so with "
        f'{key} "secret", or by what they were privatised'
    )


def _sentence(found: Rehearsal, model: ModelSettings, day: dt.date) -> str:
    source, privacy, proxy_day = found.source, found.source.privacy, found.source.facts["proxy_day"]
    says = "declares nothing" if privacy is None else f"declares epsilon {privacy.epsilon:g}"
    read = "all rows read" if found.whole else "a sample read, --full reads all"
    proxy = "" if proxy_day is None else f", earlier model {proxy_day}"
    at = "" if source.version is None else f", version {source.version}"
    place = model.scores or model.labels
    table = "" if place is None else f" of {place.table}{at}"
    days = f", labels of {len(source.days)} days from {source.days[0]}" if source.days[1:] else ""
    return (
        f"{day}{table}{days}{proxy}, {says}; {found.training:,} training and {found.holdout:,} "
        f"holdout records ({read})"
    )


_NO_SERVER = (
    "no PREFECT_API_URL is set: there is no schedule; run, night and backfill do without a server"
)
_OPEN = (
    "; it asks for no password, so every web page that is opened on a machine which reaches it may "
    "read its runs and start flows: set PREFECT_SERVER_API_AUTH_STRING there, and "
    "PREFECT_API_AUTH_STRING here"
)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was tried: whether it worked, and a sentence about it."""

    what: str
    ok: bool
    sentence: str


def checks(
    config: str | os.PathLike[str] | None,
    *,
    day: dt.date | None = None,
    models: Sequence[str] | None = None,
    whole: bool = False,
) -> Iterator[CheckResult]:
    """Yield what was tried, in order; where the settings cannot be read, that and nothing more.

    Args:
        config: the settings file.
        day: whose models and labels are tried; the newest of each model where left out.
        models: their names; all of the settings where left out.
        whole: whether everything of a day is read, as its audit does, and not a sample.

    Raises:
        UnlistedModelError: the settings do not list a model.
    """
    try:
        settings = load_settings(config)
    except SettingsError as error:
        for sentence in error.problems or (str(error),):
            yield CheckResult("settings", ok=False, sentence=sentence)
        return
    settings.check_listed(models or ())
    count = len(settings.models)
    yield CheckResult("settings", ok=True, sentence=f"{count} model{'s' if count > 1 else ''}")
    yield _tried("sandbox", _sandbox)
    yield _tried("lake", lambda: _lake(settings))
    yield _tried("warehouse", lambda: _warehouse(settings.warehouse))
    yield _tried("report", lambda: _writable("report", settings.report))
    if settings.metrics is not None:
        folder = str(pathlib.Path(settings.metrics).parent)
        yield _tried("metrics", lambda: _writable("metrics", folder))
    if settings.publication is not None:
        yield _tried("publication", lambda: _publication(settings))
    for name in models or [model.name for model in settings.models]:
        yield _tried(
            f"model {name}", functools.partial(check_model, settings, name, day, whole=whole)
        )
    yield _tried("Ray", lambda: _ray(settings))
    yield _tried("Prefect", _prefect)
    yield _tried("webhook", lambda: _webhook(settings))


def _tried(what: str, check: Callable[[], str]) -> CheckResult:
    try:
        ok, sentence = True, check()
    except AuditError as problem:
        ok, sentence = False, str(problem)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is this check's answer
        ok, sentence = False, f"{type(error).__name__}: {error or 'no message'}"
    return CheckResult(plain_text(what), ok=ok, sentence=plain_text(" ".join(sentence.split())))


def _sandbox() -> str:
    held = ["bounds on time, memory and files", *closed_here()]
    lacking = [name for name in ("namespaces", "Landlock", "seccomp") if name not in " ".join(held)]
    missing = f"; this machine has no {' and no '.join(lacking)}" if lacking else ""
    if "Landlock" in lacking:
        missing += ": readers of tables' logs can read every file of this user"
    if os.geteuid() == 0:
        missing += (
            "; Linux bounds no number of root's threads: give the container or the service a limit "
            "of processes, or run as another user"
        )
    return f"readers of foreign files are held by {', '.join(held)}{missing}"


def _lake(settings: Settings) -> str:
    if all(model.scores or model.checkpoints for model in settings.models):
        return "no model needs one: all lie elsewhere"
    try:
        found = list(Lake(settings.lake).models())
    except (OSError, AuditError) as error:
        raise TerminalError(
            f"{settings.lake} cannot be read ({_short(error)}): check the address, and credentials "
            "in the environment."
        ) from None
    if not found:
        raise TerminalError(
            f"{settings.lake} has no models: it should hold models/<model>/day=YYYY-MM-DD/. Check "
            "the key lake."
        )
    return f"{settings.lake} holds {len(found)} model{'s' if len(found) > 1 else ''}"


def _writable(what: str, place: str) -> str:
    try_writing(what, place)
    return f"{place} can be written"


def _warehouse(uri: str) -> str:
    Warehouse(uri).check_place()
    return f"{uri} can be written"


def _publication(settings: Settings) -> str:
    from flows.publication.publishing import key_of

    assert settings.publication is not None  # noqa: S101
    key_of(settings)
    place = settings.publication.statements
    Statements(place).check_place()
    return f"{place} can be written, and the key can be read"


def _ray(settings: Settings) -> str:
    address = settings.ray.address
    if address == "local":
        return "local: each run starts one of its own on this machine, and ends it"
    from workers.executors import on_ray

    try:
        with on_ray(address, settings.ray.cpus) as executor:
            list(executor.map(operator.mul, 2, [21]))
    except AuditError:
        raise
    except Exception as error:  # noqa: BLE001  # Ray raises bare exceptions too
        raise TerminalError(
            f"Ray at {address} does not answer ({_short(error)}): check ray.address, that it runs, "
            "and RAY_AUTH_MODE with its token."
        ) from None
    return f"Ray at {address} did a task"


def _may_name_a_server() -> bool:
    """Return whether the environment, or settings of Prefect in a folder, may name a server."""
    if {"PREFECT_API_URL", "PREFECT_PROFILE"} & set(os.environ):
        return True
    return any(file.is_file() and word in file.read_bytes() for file, word in files().items())


def _prefect() -> str:
    if not _may_name_a_server():
        return _NO_SERVER
    check_settings()
    import httpx
    import prefect  # takes seconds
    from prefect.exceptions import ObjectNotFound
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_KEY, PREFECT_API_URL

    url = PREFECT_API_URL.value()
    if url:
        url = str(httpx.URL(url).copy_with(userinfo=b"", query=None, fragment=None))
    if not url:
        return _NO_SERVER
    with prefect.get_client(sync_client=True) as client:
        error = client.api_healthcheck()
        if error is not None:
            raise TerminalError(
                f"{url} does not answer ({_short(error)}): check PREFECT_API_URL, and that the "
                "server runs."
            )
        try:
            deployment = client.read_deployment_by_name("nightly-audit/production")
        except ObjectNotFound:
            raise TerminalError(
                f"{url} has no deployment nightly-audit/production: deploy with prefect deploy "
                "--all --prefect-file deploy/prefect.yaml."
            ) from None
        online = _workers_online(client, deployment.work_pool_name)
    asked = PREFECT_API_AUTH_STRING.value() or PREFECT_API_KEY.value()
    return f"{url} holds nightly-audit/production{online}{'' if asked else _OPEN}"


def _workers_online(client: "SyncPrefectClient", pool: str | None) -> str:
    """Return how many workers take runs from a pool, in words; none where it needs none.

    Raises:
        TerminalError: no worker is online, so that no night would begin.
    """
    if pool is None or client.read_work_pool(pool).type.endswith((":push", ":managed")):
        return ""
    workers = client.read_workers_for_work_pool(pool)
    online = [worker for worker in workers if worker.status == "ONLINE"]
    if not online:
        known = f"{len(workers)} known, all offline" if workers else "none was ever started"
        raise TerminalError(
            f"No worker is online in the work pool {pool} ({known}), so no scheduled audit begins: "
            f"start one with prefect worker start --pool {pool}."
        )
    return f"; {len(online)} worker{'s' if len(online) > 1 else ''} online in the pool {pool}"


def _webhook(settings: Settings) -> str:
    webhook = settings.webhook
    if webhook is None:
        return "none is set: alerts are events of Prefect's alone, where its server stands"
    import httpx

    from flows.notify.alerts import send

    payload = {"event": "privaudit.check", "subject": "privaudit check", "id": str(uuid.uuid4())}
    try:
        send(webhook, payload, patience=ONCE)
    except AuditError as error:
        raise TerminalError(str(error)) from None
    return f"{httpx.URL(webhook.url).host} accepted a signed test alert"


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
