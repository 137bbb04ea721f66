"""`privaudit check`: the settings tried against what they name."""

import datetime as dt
import functools
import os
import pathlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flows.commands.model_checks import check_model
from flows.prefect_settings import check_settings, files
from flows.settings import Settings, SettingsError, load_settings
from privcore.exceptions import AuditError, TerminalError
from workers.contained import closed_here
from workers.databases import unverified_databases
from workers.lake.layout import Lake
from workers.lake.probe import try_writing
from workers.patience import ONCE
from workers.plain_text import plain_text
from workers.publication.statement_store import Statements
from workers.warehouse.store import Warehouse

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

_NO_SERVER = (
    "no PREFECT_API_URL is set: there is no schedule; run, night and backfill do without a server"
)
_UNVERIFIED = (
    ": no certificate is checked, so a machine on the way may read login and rows: add "
    "?sslmode=verify-full to the address"
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
    if named := unverified_databases():
        yield CheckResult("databases", ok=True, sentence=f"{', '.join(named)}{_UNVERIFIED}")
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
            list(executor.map(_double, 2, [21]))
    except AuditError:
        raise
    except Exception as error:  # noqa: BLE001  # Ray raises bare exceptions too
        raise TerminalError(
            f"Ray at {address} does not answer ({_short(error)}): check ray.address, that it runs, "
            "and RAY_AUTH_MODE with its token."
        ) from None
    return f"Ray at {address} did a task"


def _double(factor: int, value: int) -> int:
    return factor * value


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
