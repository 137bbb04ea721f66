"""Audits of several models at once, as one list, and with work units of any size."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from workers.audit.run import run_batches
from workers.labels.shards import WORK_UNIT_BYTES
from workers.warehouse.schema import AuditRecord


def run_audits(
    *where: Any, work_unit_bytes: int = WORK_UNIT_BYTES, **more: Any
) -> Iterator[AuditRecord]:
    """Yield the records of `run_batches` one by one; labels are divided as the size says."""
    with patch("workers.labels.shards.WORK_UNIT_BYTES", work_unit_bytes):
        for batch in run_batches(*where, **more):
            yield from batch
