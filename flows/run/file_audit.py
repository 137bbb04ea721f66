"""One audit of two model files and a table, for a training pipeline; nothing is stored."""

import datetime as dt
from dataclasses import dataclass

from flows.run.choose_executor import choose_executor
from flows.run.night_plan import Job, Planned
from flows.settings import RaySettings
from workers.audit.run import run_audit
from workers.lake.layout import Lake
from workers.lake.manifest import MAX_EPSILON
from workers.plan import Plan
from workers.sources.checkpoints.in_place import find_rows, in_place_files
from workers.sources.checkpoints.label_tables import LabelTable
from workers.sources.scores.score_tables import DeclaredPrivacy
from workers.warehouse.schema import AuditRecord

ONE_DAY = dt.date(1970, 1, 2)
"""The day of a table that names none. It is always the same, because chance follows from the day:
a caller who asks again on another day gets the same answer."""
_MODEL = "model"


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit that the bound is compared with.

    Attributes:
        max_epsilon: the house's limit; None where there is none.
        declared: the owner's epsilon; None where the house's limit stands in.
        delta: of the declaration, or of the limit that stands in.
        unit: column that says whose record each is; None where rows are audited.
    """

    max_epsilon: float | None
    declared: float | None
    delta: float = 0.0
    unit: str | None = None

    def declaration(self) -> DeclaredPrivacy:
        """Return it as the settings declare.

        The limit stands in as a declaration, so that the rules against a delta that says nothing
        hold for it, too.
        """
        epsilon = self.max_epsilon if self.declared is None else self.declared
        return DeclaredPrivacy.model_validate({
            "epsilon": epsilon,
            "delta": self.delta,
            "unit": self.unit or "record",
            "declared_by": MAX_EPSILON if self.declared is None else "--declared",
        })  # fmt: skip

    def plan(self) -> Plan:
        """Return the plan of the audit: seed and significance are no one's choice."""
        return Plan(policy_epsilon=self.max_epsilon, privacy_unit=self.unit)


def audit_files(
    target: str, proxy: str, labels: LabelTable, limit: Limit, *, day: dt.date | None = None
) -> AuditRecord:
    """Audit a model file by the nightly audit's own path, and return the record.

    Args:
        target: path or URI of the audited model's file.
        proxy: the same of an earlier model.
        labels: the table, and what its columns mean.
        limit: what the bound is held against.
        day: whose rows play; without one, all rows of the table.
    """
    audited = day or ONE_DAY
    privacy = limit.declaration().as_privacy()
    given = in_place_files(target, proxy, labels, day=audited, privacy=privacy)
    size = sum(file.size for file in find_rows(labels, _MODEL, audited).files)
    planned = Planned(Job(_MODEL, audited), external_inputs=given, label_bytes=size)
    with choose_executor([planned], RaySettings()) as executor:
        record = run_audit(
            Lake("."),
            _MODEL,
            audited,
            plan=limit.plan(),
            executor=executor,
            external_inputs=given,
        )
    if day is not None:
        return record
    row = record.audit.model_copy(update={"reason": _without_days(record.audit.reason)})
    return record.model_copy(update={"audit": row})


def _without_days(reason: str) -> str:
    """Return a sentence that does not name the days which stand in for those that no one named."""
    eve = ONE_DAY - dt.timedelta(days=1)
    return reason.replace(str(ONE_DAY), "this table").replace(str(eve), "an earlier day")
