"""The file mode of `privaudit gate`: infers columns, audits, and writes the decision."""

import datetime as dt
import os
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer
from pydantic import ValidationError

from flows.files import replace_file
from flows.next_steps.gate_decision import Decision, decision_of
from flows.notify.gate_summary import (
    junit_xml,
    summary_markdown,
    unfinished_junit_xml,
    unfinished_markdown,
)
from flows.run.file_audit import Limit, audit_files
from privcore.exceptions import TerminalError
from workers.lake.mlflow_registry import Version, check_version, promote
from workers.lake.places import check_uri, local_path
from workers.sources.checkpoints.label_tables import LabelTable
from workers.sources.proposal import propose
from workers.sources.tables.table_look import TableLook, look
from workers.versions import METHOD_VERSION
from workers.warehouse.schema import AuditRow
from workers.warehouse.serving_decision import Gate

_FLAGS = {"label": "--label", "time_zone": "--time-zone", "holdout": "--split or --holdout"}


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of the table, as far as the user named them."""

    label: str | None
    split: str | None
    holdout: str | None
    day: str | None
    time_zone: str | None
    unit: str | None
    features: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files for the decision, and the version of a registry that is promoted."""

    junit: pathlib.Path | None
    summary: pathlib.Path | None
    model: str | None
    version: str | None
    alias: str | None


@dataclass(frozen=True, slots=True)
class FileGate:
    """Request of a caller: files, columns, and what the bound is held against."""

    target: str
    proxy: str
    table: str
    columns: Columns
    day: dt.date | None
    max_epsilon: float | None
    declared: float | None
    delta: float
    outputs: Outputs

    def decide(self) -> tuple[AuditRow, Decision]:
        """Audit the target, and return the row and the decision.

        Raises:
            TerminalError: a file is missing, or of no known format.
            TransientError: storage or a worker failed in a way that may go away.
        """
        local = local_path(self.table)
        place = str(local) if local is not None else check_uri(self.table)
        seen = look(place, day=self.columns.day)
        labels, newest = self._labels(place, seen)
        day = self.day or newest
        if self.columns.day is not None and day is None:
            raise typer.BadParameter(f"--day: {self.columns.day!r} does not say a newest day.")
        limit = Limit(self.max_epsilon, self.declared, self.delta, self.columns.unit)
        try:
            limit.declaration(), limit.plan()
        except ValidationError as error:
            rule = error.errors()[0]["msg"].lower()
            raise typer.BadParameter(f"--max-epsilon, --declared or --delta: {rule}.") from None
        record = audit_files(self.target, self.proxy, labels, limit, day=day)
        return record.audit, decision_of(record)

    def _labels(self, place: str, seen: TableLook) -> tuple[LabelTable, dt.date | None]:
        """Return what the columns mean, as `attach` infers it, and the newest day."""
        columns = self.columns
        given: dict[str, Any] = {
            "label": columns.label,
            "split": columns.split,
            "holdout": columns.holdout,
            "day": columns.day,
            "time_zone": columns.time_zone,
        }
        proposal = propose(seen, given, checkpoints=self.target, one_day=True)
        if proposal.missing:
            flags = ", ".join(_FLAGS[key] for key in proposal.missing)
            sentences = "; ".join(proposal.missing.values()).rstrip(".")
            raise typer.BadParameter(f"Give {flags} ({sentences}).")
        renamed = dict(_pair(feature) for feature in columns.features)
        content = {"day": None, "columns": renamed, "unit": columns.unit}
        labels = {"table": place, **content, **proposal.settings}
        return LabelTable.model_validate(labels), proposal.newest


def _pair(feature: str) -> tuple[str, str]:
    name, _, column = feature.partition("=")
    if not (name and column):
        raise typer.BadParameter(
            f"--feature is {feature!r}: write the model's name for it, =, and its column."
        )
    return name, column


def begin_files(outputs: Outputs, target: str) -> None:
    """Put an error into the files for the decision, where an earlier gate's may be.

    A gate that ends early, or is killed, would leave that one's `pass`.
    """
    if outputs.junit is not None:
        replace_file(outputs.junit, unfinished_junit_xml(target))
    if outputs.summary is not None:
        replace_file(outputs.summary, unfinished_markdown(target).encode())


def publish(asked: FileGate, row: AuditRow, decision: Decision) -> Iterator[str]:
    """Write the decision where it was asked for, promote a version that passed, and say so.

    Raises:
        TerminalError: the version is not the target's, or the registry refuses it.
    """
    outputs = asked.outputs
    if outputs.junit is not None:
        replace_file(outputs.junit, junit_xml(row, decision, target=asked.target))
    markdown = summary_markdown(row, decision, target=asked.target)
    job = os.environ.get("GITHUB_STEP_SUMMARY")
    if outputs.summary is not None:
        replace_file(outputs.summary, markdown.encode())
    elif job:
        with pathlib.Path(job).open("a", encoding="utf-8") as file:
            file.write(markdown)
    if outputs.model is not None and outputs.version is not None and decision.answer is Gate.PASS:
        yield _promoted(Version(outputs.model, outputs.version, outputs.alias), row)


def _promoted(version: Version, row: AuditRow) -> str:
    """Tag the version that holds the audited bytes, move its alias, and return what was done."""
    if row.target_sha256 is None or row.epsilon_declared is None:
        raise TerminalError("The audit names no file or limit, so no version is promoted.")
    check_version(version, row.target_sha256)
    promote(
        version,
        {
            "privaudit.gate": str(Gate.PASS),
            "privaudit.epsilon_declared": repr(row.epsilon_declared),
            "privaudit.delta_declared": repr(row.delta_declared or 0.0),
            "privaudit.label": row.label_column or "",
            "privaudit.target_sha256": row.target_sha256,
            "privaudit.method_version": str(METHOD_VERSION),
        },
    )
    moved = f", and {version.alias} names it now" if version.alias else ""
    return f"Version {version.number} of {version.name} in MLflow is tagged{moved}."
