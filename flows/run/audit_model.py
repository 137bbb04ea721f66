"""The flow `audit-model`: one model on one day, on demand, under any plan."""

import datetime as dt
from typing import TYPE_CHECKING, Any

import prefect
from prefect.runtime import flow_run
from pydantic import Field, create_model

from flows.notify.prefect_context import tell_as_failed
from flows.run.auditing import RUNNER, begin, gather, submit
from flows.run.choose_executor import choose_executor
from flows.run.conclusion import conclude
from flows.run.days import audited_day, check_days, check_inputs
from flows.run.night_plan import Job, plan_night
from flows.settings import load_settings
from workers.lake.layout import Lake
from workers.plan import Plan
from workers.strict_model import StrictModel
from workers.warehouse.schema import AuditRow


class _Overrides(StrictModel):
    """Plan fields for this run alone; what is left out is as the settings say."""


def _optional(name: str) -> tuple[Any, Any]:
    field = Plan.model_fields[name]
    return field.rebuild_annotation() | None, Field(None, description=field.description)


if TYPE_CHECKING:
    PlanOverrides = _Overrides
else:
    # Every field of `Plan`, each optional: Prefect's form shows them all and sends what was set.
    PlanOverrides = create_model(
        "PlanOverrides",
        __base__=_Overrides,
        __doc__=_Overrides.__doc__,
        **{name: _optional(name) for name in Plan.model_fields},
    )


def _run_name() -> str:
    return f"run {flow_run.parameters['model']} {audited_day()}"


@prefect.flow(
    name="audit-model",
    flow_run_name=_run_name,
    on_failure=[tell_as_failed],
    task_runner=RUNNER,
    validate_parameters=True,
    persist_result=False,
)
def audit_model(
    model: str,
    day: dt.date | None = None,
    plan: PlanOverrides = PlanOverrides(),  # noqa: B008  # frozen
    settings: str | None = None,
) -> list[AuditRow]:
    """Audit one model on one day now, with what is there, and publish the report.

    Args:
        model: name of one of the configured models.
        day: the audited day; the day before the scheduled time if left out.
        plan: fields of the plan for this run alone.
        settings: path of the settings file; PRIVAUDIT_CONFIG or ./privaudit.toml if left out.

    Returns:
        The one committed row, as a list.

    Raises:
        AuditsFailedError: the audit ended with an error that is not its input's.
        AlertsUndeliveredError: the alert could not be delivered; the record is committed.
        ReportUnpublishedError: the report could not be written; the record is committed.
        InvalidInputError: the day is in the future, before the first checkpoint's year, or after
            the model's newest inputs.
        UnlistedModelError: the model is not configured; nothing is stored.
    """
    loaded = load_settings(settings)
    loaded.check_listed([model])
    audited = day or loaded.yesterday(flow_run.scheduled_start_time or dt.datetime.now(dt.UTC))
    if day is not None:
        check_days(loaded, [model], day, day)
        check_inputs(loaded, [model], day)
    job = Job(model, audited, plan.model_dump(exclude_none=True, mode="json"))
    begin(loaded)
    planned = plan_night(Lake(loaded.lake), [job], loaded)
    with choose_executor(planned, loaded.ray) as executor:
        done = gather(submit(planned, loaded, executor), loaded)
    # Prefect unwraps the state for the caller.
    return conclude("audit-model", f"Audit of {model} on {audited}", done, loaded)  # type: ignore[return-value]
