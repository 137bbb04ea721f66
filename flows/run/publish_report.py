"""The flow `publish-report`, and the step of the same name that other flows end with."""

import pathlib

import prefect
from prefect.artifacts import create_link_artifact, create_markdown_artifact

from flows.notify.artifacts import markdown_text
from flows.notify.metrics import write_metrics
from flows.report.shared_labels import LabelTotal
from flows.report.site import write_report
from flows.settings import Settings, load_settings
from workers.warehouse.store import Warehouse


def publish(settings: Settings) -> str:
    """Write the report and return where people open it."""
    path = write(settings)
    return settings.report_url or str(path)


def write(settings: Settings) -> pathlib.Path:
    """Write metrics and report; return its first page."""
    # First: an alert rule must not wait for pages.
    write_metrics(settings)
    limit = settings.together
    total = None if limit is None else LabelTotal(limit.epsilon, limit.delta)
    return write_report(Warehouse(settings.warehouse), settings.report, total=total)


@prefect.flow(name="publish-report", validate_parameters=True, persist_result=False)
def publish_report(settings: str | None = None) -> str:
    """Write the report from the warehouse again.

    Args:
        settings: path of the settings file; PRIVAUDIT_CONFIG or ./privaudit.toml if left out.

    Returns:
        Where people open it: `report_url` if there is one, else its path.
    """
    report = publish(load_settings(settings))
    if report.startswith(("https://", "http://")):
        create_link_artifact(link=report, link_text="Report", key="report")
    else:
        create_markdown_artifact(f"Report: {markdown_text(report)}", key="publish-report")
    return report
