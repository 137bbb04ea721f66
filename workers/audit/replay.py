"""A stored audit's inputs, found again: for questions that a night does not ask."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from privcore.exceptions import TerminalError
from workers.audit.record import Inputs
from workers.audit.request import Request
from workers.audit.run import find_inputs
from workers.executors import Executor
from workers.labels.shards import Partition
from workers.lake.layout import Lake
from workers.plan import Plan
from workers.scan.label_pass import Scan, scan_labels
from workers.scan.partial_results import Game, LabelPass, PartialResult
from workers.sources.join_context import JoinContext
from workers.sources.scores.supplied import external_inputs_from_json
from workers.versions import METHOD_VERSION
from workers.warehouse.schema import AuditRecord, AuditRow, Status


def stored_request(audit: AuditRow, digest_key: bytes = b"") -> Request:
    """Return what was asked for when a record was made.

    Raises:
        TerminalError: another version of privaudit wrote it.
    """
    if audit.method_version != METHOD_VERSION:
        raise TerminalError(
            f"It was computed by method version {audit.method_version}, this is version "
            f"{METHOD_VERSION}: verify it with privaudit {audit.code_version}, which wrote it."
        )
    try:
        plan = Plan.model_validate_json(audit.plan)
        external_inputs = None if audit.source is None else external_inputs_from_json(audit.source)
    except (ValidationError, ValueError, KeyError):
        raise TerminalError(
            "Its plan or its source is none that this version knows: verify it with privaudit "
            f"{audit.code_version}, which wrote it."
        ) from None
    return Request(
        audit.model,
        plan,
        external_inputs=external_inputs,
        days=audit.label_days,
        digest_key=digest_key,
    )


@dataclass(frozen=True, slots=True)
class Replay:
    """Inputs of a stored audit, the same as it read."""

    audit: AuditRow
    request: Request
    inputs: Inputs
    root: Lake
    partition: Partition
    executor: Executor

    def scan(
        self, games: tuple[Game, ...], prepare: Callable[[LabelPass], LabelPass] | None = None
    ) -> tuple[Scan, tuple[PartialResult, ...]]:
        """Return what a pass over the labels comes to, once it read what the audit read.

        The games read the same columns as the audit did.

        Raises:
            TerminalError: the labels are others now.
        """
        shared = LabelPass(self.root, self.partition, games)
        scan = scan_labels(shared, executor=self.executor, prepare=prepare)
        results = scan.results().parts
        for result in results:
            found = result.content.hexdigest(self.request.digest_key)
            _check_same("labels", self.audit.labels_digest, found)
        return scan, results


@contextlib.contextmanager
def replaying(
    record: AuditRecord, lake: Lake, executor: Executor, digest_key: bytes = b""
) -> Iterator[Replay]:
    """Find a stored audit's inputs again; joined tables are kept until the context ends.

    Raises:
        TerminalError: the audit came to no figures, is of another version, or the lake holds other
            inputs now.
    """
    audit = record.audit
    if audit.status is not Status.EVALUATED:
        raise TerminalError(
            f"The audit of {audit.model} for {audit.day} came to no figures ({audit.detail}): "
            "there is nothing to ask it."
        )
    request = stored_request(audit, digest_key)
    with contextlib.ExitStack() as made:
        inputs = find_inputs(lake, audit.day, request)
        found = inputs.source.digests()
        _check_same("target", audit.target_sha256, found.target)
        _check_same("target's manifest", audit.target_manifest_sha256, found.target_manifest)
        _check_same("proxy", audit.proxy_sha256, found.proxy)
        _check_same("proxy's manifest", audit.proxy_manifest_sha256, found.proxy_manifest)
        root, partition = inputs.source.find_partition(
            joining=JoinContext(executor, made, None, None),
            also=Game(inputs.source, request.plan).plan_columns,
        )
        yield Replay(audit, request, inputs, root, partition, executor)


def _check_same(what: str, stored: str | None, found: str | None) -> None:
    if stored is not None and stored != found:
        raise TerminalError(
            f"The lake holds other inputs than were audited: the digest of the {what} is {found}, "
            f"was {stored}. Audit the day again, and ask that audit."
        )
