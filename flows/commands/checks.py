"""`privaudit check`: the settings tried against what they name."""

import datetime as dt
import functools
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx

from flows.run.night_plan import supplied_of
from flows.settings import Settings, SettingsError, load_settings
from privcore.exceptions import AuditError, TerminalError
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import on_ray
from workers.labels.parquet import read_footer
from workers.lake.checkpoints import read_checkpoint
from workers.lake.layout import Lake, labels_folder
from workers.lake.probe import try_writing
from workers.plain_text import plain_text
from workers.plan import Plan
from workers.sources.supplied import SuppliedScores, find_scores
from workers.warehouse.store import Warehouse

_A_DAY = dt.timedelta(days=1)
_DAYS = 14
"""How many days back a model's latest checkpoint is looked for."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was tried: whether it worked, and a sentence about it."""

    what: str
    ok: bool
    sentence: str


class _FailedCheck(Exception):  # noqa: N818  # never leaves this module
    """What is wrong and what to do."""


def checks(
    config: str | os.PathLike[str] | None, *, today: dt.date | None = None
) -> Iterator[CheckResult]:
    """Yield what was tried, in order; where the settings cannot be read, that and nothing more."""
    try:
        settings = load_settings(config)
    except SettingsError as error:
        for sentence in error.problems or (str(error),):
            yield CheckResult("settings", ok=False, sentence=sentence)
        return
    count = len(settings.models)
    yield CheckResult("settings", ok=True, sentence=f"{count} model{'s' if count > 1 else ''}")
    yield _tried("lake", lambda: _lake(settings))
    yield _tried("warehouse", lambda: _warehouse(settings.warehouse))
    yield _tried("report", lambda: _writable("report", settings.report))
    day = today or settings.yesterday(dt.datetime.now(dt.UTC))
    for model in settings.models:
        yield _tried(f"model {model.name}", functools.partial(_model, settings, model.name, day))
    yield _tried("Ray", lambda: _ray(settings))
    yield _tried("Prefect", _prefect)
    yield _tried("webhook", lambda: _webhook(settings))


def _tried(what: str, check: Callable[[], str]) -> CheckResult:
    try:
        ok, sentence = True, check()
    except (_FailedCheck, AuditError) as problem:
        ok, sentence = False, str(problem)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is this check's answer
        ok, sentence = False, f"{type(error).__name__}: {error or 'no message'}"
    return CheckResult(plain_text(what), ok=ok, sentence=plain_text(" ".join(sentence.split())))


def _lake(settings: Settings) -> str:
    if all(model.scores is not None for model in settings.models):
        return "no model needs one: all have score tables"
    try:
        found = list(Lake(settings.lake).models())
    except (OSError, AuditError) as error:
        raise _FailedCheck(
            f"{settings.lake} cannot be read ({_short(error)}): check the address, and credentials "
            "in the environment."
        ) from None
    if not found:
        raise _FailedCheck(
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


def checked_model(settings: Settings, name: str, newest: dt.date) -> str:
    """Return what there is of a model up to a day, in a sentence.

    Raises:
        TerminalError: something is missing; the sentence says what to do.
    """
    result = _tried(f"model {name}", lambda: _model(settings, name, newest))
    if not result.ok:
        raise TerminalError(result.sentence)
    return result.sentence


def _model(settings: Settings, name: str, yesterday: dt.date) -> str:
    plan, supplied = settings.plans_of(name)[0], supplied_of(settings.model_named(name))
    if supplied is not None:
        return _tables(name, supplied, plan, yesterday)
    lake = Lake(settings.lake)
    day = lake.proxy_day(name, yesterday + dt.timedelta(days=1), within_days=_DAYS)
    if day is None:
        raise _FailedCheck(
            f"no complete checkpoint in the {_DAYS} days up to {yesterday}: check the name, and "
            "that training writes _SUCCESS last."
        )
    try:
        manifest = read_checkpoint(lake, name, day).manifest
    except NotEvaluableError as error:
        raise _FailedCheck(str(error)) from None
    wanted = settings.model_named(name).dataset
    if wanted is not None and manifest.dataset != wanted:
        raise _FailedCheck(
            f"its manifest of {day} names the dataset {manifest.dataset}, the settings {wanted}: "
            "change one of them."
        )
    if not lake.exists(labels_folder(manifest.dataset, day)):
        raise _FailedCheck(
            f"{labels_folder(manifest.dataset, day)}/_SUCCESS is missing: write it after labels."
        )
    proxy = lake.proxy_day(name, day, within_days=settings.plan_of(name).proxy_within_days)
    if proxy is None:
        raise _FailedCheck(
            f"no checkpoint before {day} could serve as proxy: keep checkpoints for "
            f"{settings.plan_of(name).proxy_within_days} days."
        )
    declared = manifest.privacy
    says = f"declares epsilon {declared.epsilon:g}" if declared else "declares nothing"
    return f"latest checkpoint {day}, proxy {proxy}, {says}"


def _tables(name: str, supplied: SuppliedScores, plan: Plan, yesterday: dt.date) -> str:
    """Look at the newest day of a model's score tables, and at the columns of its first file."""
    day, source = yesterday, None
    while source is None:
        try:
            source = find_scores(name, day, supplied)
        except NotEvaluableError as error:
            day -= dt.timedelta(days=1)
            if error.reason is not Reason.MISSING_LABELS or day <= yesterday - _DAYS * _A_DAY:
                raise _FailedCheck(str(error)) from None
    try:
        root, partition = source.find_partition(work_unit_bytes=1 << 62)
        path = partition.path(partition.files[0].name)
        footer = read_footer(root, path)
        source.check_columns(footer, path, slices=plan.slices, unit=plan.privacy_unit)
    except NotEvaluableError as error:
        raise _FailedCheck(str(error)) from None
    files, version = len(partition.files), source.found.version
    at = "" if version is None else f" at version {version}"
    declared = source.privacy
    says = f"declares epsilon {declared.epsilon:g}" if declared else "declares nothing"
    return f"{supplied.tables.table}{at} holds {source.day} in {files} files, {says}"


def _ray(settings: Settings) -> str:
    address = settings.ray.address
    try:
        with on_ray(address, settings.ray.cpus) as executor:
            answer = list(executor.map(_double, 2, [21]))
    except AuditError:
        raise
    except Exception as error:  # noqa: BLE001  # Ray raises bare exceptions too
        raise _FailedCheck(
            f"Ray at {address} does not answer ({_short(error)}): check ray.address, that it runs, "
            "and RAY_AUTH_MODE with its token."
        ) from None
    if answer != [42]:
        raise _FailedCheck(f"Ray at {address} computed {answer} for 2 x 21: versions differ.")
    return f"Ray at {address} did a task"


def _double(factor: int, value: int) -> int:
    return factor * value


def _prefect() -> str:
    import prefect  # takes seconds
    from prefect.exceptions import ObjectNotFound
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    if url:
        url = str(httpx.URL(url).copy_with(userinfo=b"", query=None, fragment=None))
    if not url:
        return (
            "no PREFECT_API_URL is set: flows run here, with a server of their own and no schedule"
        )
    with prefect.get_client(sync_client=True) as client:
        error = client.api_healthcheck()
        if error is not None:
            raise _FailedCheck(
                f"{url} does not answer ({_short(error)}): check PREFECT_API_URL, and that the "
                "server runs."
            )
        try:
            client.read_deployment_by_name("nightly-audit/production")
        except ObjectNotFound:
            raise _FailedCheck(
                f"{url} has no deployment nightly-audit/production: deploy with prefect deploy "
                "--all --prefect-file deploy/prefect.yaml."
            ) from None
    return f"{url} holds nightly-audit/production"


def _webhook(settings: Settings) -> str:
    webhook = settings.webhook
    if webhook is None:
        return "none is set: alerts are Prefect events only"
    from flows.notify.webhook import send

    payload = {"event": "privaudit.check", "subject": "privaudit check", "id": str(uuid.uuid4())}
    try:
        send(webhook, payload, pauses=())
    except AuditError as error:
        raise _FailedCheck(str(error)) from None
    return f"{httpx.URL(webhook.url).host} accepted a signed test alert"


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
