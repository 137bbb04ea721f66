"""Verification that a record is still what was committed, and that the lake gives it again."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from privcore.exceptions import TerminalError
from workers.audit.file_labels import FileLabels, read_asked
from workers.audit.request import stored_request
from workers.audit.run import find_inputs, run_batches
from workers.executors import Executor
from workers.lake.layout import Lake
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.scores.supplied import SuppliedScores
from workers.warehouse.record_digest import plain, record_digest
from workers.warehouse.schema import AuditRecord, Status
from workers.warehouse.store import Warehouse
from workers.warehouse.table_row import AS_STORED, TableRow
from workers.warehouse.tables import PARTS, TABLES

INPUTS = (
    "target_sha256",
    "target_manifest_sha256",
    "proxy_sha256",
    "proxy_manifest_sha256",
    "labels_digest",
)
"""The columns of `audits` that identify what was read."""
# When and by whom a record was made is no figure, and the digest is checked by itself.
_NOT_FIGURES = {
    "recorded_at",
    "revision",
    "code_version",
    "record_digest",
    "plan",
    "exploratory",
    "drill",
}
ROUNDING = 1e-9
"""Kinds of processors round logarithms otherwise; what follows from one differs in the twelfth
decimal or later. No figure means anything in its ninth digit."""
_NOUGHT = 1e-12
"""Remainder where numbers of the order of 1 cancel."""
_CHUNK = 1_000


class Finding(StrEnum):
    """Result of a verification, in a word."""

    REPRODUCED = "reproduced"
    INTACT = "intact"
    ALTERED = "altered"
    DIFFERENT = "different"
    INPUTS_CHANGED = "inputs_changed"
    OTHER_METHOD = "other_method"


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored value that is not the recomputed one; None where a row is missing."""

    table: str
    row: str
    column: str
    stored: object
    recomputed: object


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of the verification of one record, in a word and in a sentence."""

    audit_id: str
    finding: Finding
    sentence: str
    differences: tuple[Difference, ...] = ()


def verify_stored(record: AuditRecord) -> Verification:
    """Say whether the digest of what is stored is the digest that was committed with it.

    Needs no lake. `intact` says that the record is unchanged, unless who changed it wrote a digest
    that fits; it does not say that the figures are right.
    """
    audit_id, digest = record.audit.audit_id, record.audit.record_digest
    found = record_digest(record)
    if found != digest:
        return Verification(
            audit_id,
            Finding.ALTERED,
            "The record was altered after its commit: its digest is "
            f"{digest or 'missing'}, but what is stored has {found}.",
        )
    return Verification(audit_id, Finding.INTACT, f"The record is as committed: {digest}.")


def verify_all_stored(warehouse: Warehouse) -> Iterator[Verification]:
    """Yield what `verify_stored` says of every record, some thousand records in memory at once."""
    ids = warehouse.collect(warehouse.scan("audits").select("audit_id").sort("audit_id"))
    for chunk in ids.iter_slices(_CHUNK):
        for content in warehouse.contents(chunk["audit_id"].to_list()):
            yield _verify_content(str(content["audit"]["audit_id"]), content)


def _verify_content(audit_id: str, content: dict[str, Any]) -> Verification:
    """Say of a record what `verify_stored` does, and of rows that no audit writes that they are."""
    try:
        record = AuditRecord.model_validate(content, context=AS_STORED)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors()[0]["loc"])
        return Verification(
            audit_id,
            Finding.ALTERED,
            f"The record was altered or is none: its value of {place} is one that no audit writes.",
        )
    return verify_stored(record)


def verify(
    record: AuditRecord, lake: Lake, executor: Executor, digest_key: bytes = b""
) -> Verification:
    """Say whether the lake and the stored plan give every stored figure again.

    To the bit, or within `ROUNDING`, as where another kind of processor computes; the sentence says
    which. The digest is checked as well: an altered record is called so, and its differences are
    named, to the bit, where the audit can be computed again. `digest_key` is the warehouse's.
    """
    stored = verify_stored(record)
    altered = stored.finding is Finding.ALTERED
    audit = record.audit

    def found(
        finding: Finding, sentence: str, differences: tuple[Difference, ...] = ()
    ) -> Verification:
        if altered:
            finding, sentence = Finding.ALTERED, f"{stored.sentence} {sentence}"
        return Verification(audit.audit_id, finding, sentence, differences)

    try:
        request = stored_request(audit, digest_key)
    except TerminalError as error:
        return found(Finding.OTHER_METHOD, str(error))
    given = request.external_inputs
    asked = isinstance(given, SuppliedScores) and given.tables.query is not None
    not_pinned = " A database keeps no earlier state of its rows." if asked else ""
    ((again,),) = run_batches(lake, audit.day, [request], executor=executor)
    not_the_same = tuple(_differences(record, again))
    differences = tuple(one for one in not_the_same if altered or not _is_rounding(one))
    if again.audit.status is not audit.status and again.audit.status is not Status.EVALUATED:
        return found(
            Finding.INPUTS_CHANGED,
            f"The lake no longer gives this audit: {again.audit.reason}{not_pinned}",
            differences if altered else (),
        )
    changed = _changed_inputs(record, again)
    if changed:
        return found(
            Finding.INPUTS_CHANGED,
            f"The lake holds other inputs than were audited: {', '.join(changed)}.{not_pinned}",
            differences if altered else (),
        )
    if differences:
        return found(
            Finding.DIFFERENT,
            f"{len(differences)} stored values are not what the lake gives.",
            differences,
        )
    how, rounded = f" to the bit: {_figures(record)} values", len(not_the_same)
    if rounded:
        how = (
            f": {_figures(record)} values, all to the bit but {rounded} within a billionth of what "
            "is stored, as another kind of processor may round"
        )
    return found(Finding.REPRODUCED, f"Every stored figure is reproduced{how}.")


def read_stored(record: AuditRecord, lake: Lake, executor: Executor, key: bytes) -> FileLabels:
    """Return what an audited model's file gives away, by the audit's own inputs.

    Raises:
        NotEvaluableError: an input is missing, or is not what the model takes.
        TerminalError: the audit scored no model file, or another one; or no training record has a
            label.
    """
    request = stored_request(record.audit, key)
    source = find_inputs(lake, record.audit.day, request).source
    if not isinstance(source, CheckpointSource):
        raise TerminalError(
            "The audit asked no model file, but a table of scores or another secret."
        )
    if source.digests().target != record.audit.target_sha256:
        raise TerminalError("The model's file has changed since the audit: audit it again.")
    return read_asked(source, request.plan, executor)


def _changed_inputs(stored: AuditRecord, again: AuditRecord) -> list[str]:
    """Return the inputs whose digests differ; a record without figures may lack some."""
    if stored.audit.status is not Status.EVALUATED:
        same = stored.audit.reason == again.audit.reason
        return [] if same else [f"it was {stored.audit.detail}, and that has changed"]
    return [
        f"{name} is {now}, was {then}"
        for name in INPUTS
        if (then := getattr(stored.audit, name)) is not None
        and then != (now := getattr(again.audit, name))
    ]


def _differences(stored: AuditRecord, again: AuditRecord) -> Iterator[Difference]:
    """Yield every value that is not the same to the bit, table by table."""
    yield from _compared("audits", (stored.audit,), (again.audit,), _NOT_FIGURES)
    for table, part in PARTS.items():
        rows, others = getattr(stored, part), getattr(again, part)
        yield from _compared(table, rows, others, _NOT_FIGURES | {"audit_id"})


def _compared(
    table: str, stored: Iterable[TableRow], again: Iterable[TableRow], skipped: set[str]
) -> Iterator[Difference]:
    keys = [key for key in TABLES[table].keys if key != "audit_id"]

    def by_key(rows: Iterable[TableRow]) -> dict[str, dict[str, Any]]:
        return {", ".join(f"{key}={getattr(row, key)}" for key in keys): dict(row) for row in rows}

    left, right = by_key(stored), by_key(again)
    for row in dict.fromkeys([*left, *right]):
        if row not in left or row not in right:
            yield Difference(table, row, "*", left.get(row), right.get(row))
            continue
        for column, value in left[row].items():
            if column not in skipped and plain(value) != plain(right[row][column]):
                yield Difference(table, row, column, value, right[row][column])


def _is_rounding(difference: Difference) -> bool:
    """Return whether two numbers, or rows of numbers, differ as kinds of processors round."""
    stored, again = difference.stored, difference.recomputed
    if isinstance(stored, tuple) and isinstance(again, tuple):
        # All rows of numbers are logarithms, whose differences are what their numbers' ratios are.
        pairs = zip(stored, again, strict=False)
        return len(stored) == len(again) and all(_is_near(*pair, ROUNDING) for pair in pairs)
    return _is_near(stored, again, _NOUGHT)


def _is_near(stored: object, again: object, nought: float) -> bool:
    """Return whether two values are equal, or numbers within `ROUNDING` of one another or of 0."""
    if isinstance(stored, float) and isinstance(again, float):
        return math.isclose(stored, again, rel_tol=ROUNDING, abs_tol=nought)
    return stored == again


def _figures(record: AuditRecord) -> int:
    rows = [record.audit, *(row for part in PARTS.values() for row in getattr(record, part))]
    return sum(len(set(type(row).model_fields) - _NOT_FIGURES) for row in rows)
