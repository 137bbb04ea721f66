"""Exact statements to publish."""

import pytest

from tests.support.lake import DAY
from tests.support.statements import digest
from workers.warehouse.schema import ExactStatementRow


@pytest.fixture
def exact():
    """Return a maker of exact statements: 20,000 records, declared 1, refuted by its figure."""

    def make(**changes):
        day = changes.get("day", DAY)
        given = {
            "audit_id": "a" * 32, "method_version": "9", "code_version": "0.1.0",
            "target_sha256": "b" * 64, "proxy_sha256": "c" * 64, "labels_digest": "d" * 64,
            "model": "ads", "day": day, "dataset": "clicks", "label_days": (day,),
            "labels_recur": False, "holdout_sketch": digest(f"holdout of {day}"),
            "family": "pure_dp", "epsilon_declared": 1.0,
            "delta_declared": 0.0, "neighbors": "replace", "unit": "record", "by_policy": False,
            "declaration_empty": False, "epsilon_accounted": None, "significance": 0.04,
            "records": 15_000, "control_records": 5_000, "epsilon_ceiling": 4.5,
            "sees_from": 1.2,
            "epsilon_public": 0.1, "evidence_gap": 0.04, "evidence_price": 0.0,
            "evidence_figure": 40_000, "premises_gap": 0.04, "premises_figure": -5_000,
        }  # fmt: skip
        return ExactStatementRow(**given | changes)

    return make
