"""Exact statements to publish."""

import pytest

from tests.support.lake import DAY
from tests.support.statements import digest, statement
from workers.warehouse.schema import ExactStatementRow


@pytest.fixture
def exact():
    """Return a maker of exact statements: 20,000 records, declared 1, refuted by its figure."""

    def make(**changes):
        day = changes.get("day", DAY)
        given = statement().model_dump(include=set(ExactStatementRow.model_fields)) | {
            "audit_id": "a" * 32, "labels_digest": "d" * 64, "model": "ads", "day": day,
            "label_days": (day,), "holdout_sketch": digest(f"holdout of {day}"),
            "significance": 0.04, "epsilon_ceiling": 4.5, "evidence_gap": 0.04,
            "evidence_figure": 40_000, "premises_gap": 0.04, "premises_figure": -5_000,
        }  # fmt: skip
        return ExactStatementRow(**given | changes)

    return make
