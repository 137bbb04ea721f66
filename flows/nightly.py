"""The flow `nightly-audit`: one day, every model, each audit a task that commits its record."""

import datetime as dt
from typing import Any

import prefect
from prefect.futures import wait
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.settings import Settings, load_settings
from privcore.exceptions import AuditError, TransientError
from privcore.lower_bounds.verdicts import Verdict
from workers.audit import run_audit
from workers.executors import OnRay, on_ray
from workers.lake import Lake
from workers.records import AuditRecord, AuditRow, Status
from workers.rows import failed_record
from workers.warehouse import Warehouse

_RETRIES = 3
_RUNNER: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=4)


class AuditsFailedError(AuditError):
    """Some audits ended with an error; `rows` holds every audit's row."""

    def __init__(self, models: list[str], rows: list[AuditRow]) -> None:
        self.models = models
        self.rows = rows
        super().__init__(
            f"The audits of {', '.join(models)} ended with an error: see their records."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.models, self.rows)


def exit_code(audits: list[AuditRow]) -> int:
    """Return 0 consistent or undeclared, 1 violated, 2 no conclusion, 3 error: the worst of all."""

    def one(audit: AuditRow) -> int:
        if audit.status is Status.ERROR:
            return 3
        return {
            Verdict.CONSISTENT: 0,
            Verdict.UNDECLARED: 0,
            Verdict.VIOLATED: 1,
            Verdict.PROXY_UNFAITHFUL: 2,
            Verdict.NOT_EVALUABLE: 2,
        }[Verdict(audit.verdict)]

    codes = {one(audit) for audit in audits}
    # A violation must not hide behind a model that could not be evaluated.
    return next((code for code in (3, 1, 2) if code in codes), 0)


def _may_go_away(_task: Any, _run: Any, state: Any) -> bool:
    try:
        state.result()
    except TransientError:
        return True
    except Exception:  # noqa: BLE001  # whatever else it is, trying again cannot help
        return False
    return False


@prefect.task(
    name="audit",
    task_run_name="audit {model} {day}",
    retries=_RETRIES,
    retry_delay_seconds=[2, 10, 30],
    retry_jitter_factor=0.5,
    retry_condition_fn=_may_go_away,
    persist_result=False,
)
def audit_one(model: str, day: dt.date, settings: Settings, executor: OnRay) -> AuditRow:
    """Audit one model on one day and commit the record; returns its row."""
    try:
        record = run_audit(
            Lake(settings.lake),
            model,
            day,
            plan=settings.plan,
            executor=executor,
            previous_fraction=Warehouse(settings.warehouse).previous_fraction(model, day),
        )
    except TransientError:
        raise
    except Exception as error:  # noqa: BLE001  # a failed audit is a record too
        prefect.get_run_logger().exception("The audit of %s for %s failed.", model, day)
        record = _error_record(model, day, settings, error)
    Warehouse(settings.warehouse).commit(record)
    return record.audit


@prefect.flow(
    name="nightly-audit",
    task_runner=_RUNNER,
    validate_parameters=True,
    persist_result=False,
)
def nightly_audit(
    day: dt.date, models: list[str] | None = None, settings: str | None = None
) -> list[AuditRow]:
    """Audit `models` (all configured ones by default) on `day`.

    Args:
        day: whose labels are played for.
        models: names; a name that is not configured may be audited too.
        settings: path of the settings file; `PRIVAUDIT_CONFIG` or ./privaudit.toml by default.

    Returns:
        The committed rows, in the order of the models. Every verdict, also `not_evaluable`,
        completes the flow.

    Raises:
        AuditsFailedError: an audit ended with an error that is not its input's; all the others
            went on, and every record is committed.
    """
    loaded = load_settings(settings)
    names = models or [model.name for model in loaded.models]
    with on_ray(loaded.ray.address, loaded.ray.cpus) as executor:
        futures = [audit_one.submit(name, day, loaded, executor) for name in names]
        wait(futures)
    rows = []
    for name, future in zip(names, futures, strict=True):
        outcome = future.result(raise_on_failure=False)
        if isinstance(outcome, BaseException):
            record = _error_record(name, day, loaded, outcome)
            Warehouse(loaded.warehouse).commit(record)
            outcome = record.audit
        rows.append(outcome)
    failed = [row.model for row in rows if row.status is Status.ERROR]
    if failed:
        raise AuditsFailedError(failed, rows)
    return rows


def _error_record(
    model: str, day: dt.date, settings: Settings, error: BaseException
) -> AuditRecord:
    return failed_record(
        model,
        day,
        plan=settings.plan,
        status=Status.ERROR,
        reason_code=type(error).__name__,
        reason=f"The audit ended with {type(error).__name__}: {error}",
    )
