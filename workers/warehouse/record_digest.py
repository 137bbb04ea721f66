"""One digest over a whole record, so that a figure changed after the commit is noticed."""

import datetime as dt
import hashlib
import json
from collections.abc import Collection

from workers.warehouse.schema import AuditRecord
from workers.warehouse.table_row import TableRow, in_utc
from workers.warehouse.tables import PARTS, TABLES, columns_of_audit

_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def seal(record: AuditRecord) -> AuditRecord:
    """Return the record with its digest."""
    audit = record.audit.model_copy(update={"record_digest": record_digest(record)})
    return record.model_copy(update={"audit": audit})


def record_digest(record: AuditRecord) -> str:
    """Return the SHA-256 of all that a record says, in every table, as 64 hexadecimal digits.

    What is digested is JSON: an object of tables; each table's rows as sorted objects of their
    columns, of a part's without those of its audit; numbers with a fraction as `float.hex` writes
    them, so that no bit is lost. Left out are the digest itself, nulls and empty tables, so that a
    column or table that is added later leaves older digests as they are.

    It proves no authorship: a writer of the warehouse can write a digest that fits. Recomputing
    the audit from the lake shows that, and so does a digest noted in another place (the report).
    """
    tables = {"audits": [_canonical(record.audit, ("record_digest",))]}
    for name, part in PARTS.items():
        of_audit = columns_of_audit(TABLES[name].row)
        rows = [_canonical(row, of_audit) for row in getattr(record, part)]
        if rows:
            tables[name] = sorted(rows)
    whole = ",".join(f'"{name}":[{",".join(tables[name])}]' for name in sorted(tables))
    return hashlib.sha256(f"{{{whole}}}".encode()).hexdigest()


def _canonical(row: TableRow, without: Collection[str]) -> str:
    told = {
        name: plain(value)
        for name, value in row.__dict__.items()
        if value is not None and name not in without
    }
    return _JSON.encode(told)


def plain(value: object) -> object:
    """Return a stored value as JSON can hold it, with every bit."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    if isinstance(value, dt.datetime):
        return in_utc(value).isoformat(timespec="microseconds")
    if isinstance(value, dt.date):
        return value.isoformat()
    return value
