"""The record of an attack on a table or on a system that answers queries."""

import datetime as dt
import hashlib
import json

from workers.release.release_plan import ReleasePlan
from workers.release.verdict import Found, release_sentence
from workers.versions import CODE_VERSION, METHOD_VERSION
from workers.warehouse.release_row import ReleaseRow

ATTACK_VERSION = 2
"""Version of the questions and their judging: raised when figures of the same table change."""


def release_row(
    plan: ReleasePlan,
    found: Found,
    *,
    table: str,
    digest: str,
    epsilon: float,
    verdict: str,
    interface: str | None = None,
) -> ReleaseRow:
    """Return the row of an audit; its `audit_id` digests what the figures come from."""
    targets, queries = found.targets, found.last_query + found.targets.queries
    budget = queries * epsilon
    sentence = release_sentence(verdict, plan.definition, found, budget=budget)
    identity = [digest, plan.model_dump(mode="json"), METHOD_VERSION, ATTACK_VERSION]
    if interface is not None:
        identity.append(interface)
    return ReleaseRow(
        audit_id=hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest(),
        method_version=METHOD_VERSION,
        code_version=CODE_VERSION,
        seed=plan.seed,
        target_sha256=None,
        proxy_sha256=None,
        labels_digest=digest,
        recorded_at=dt.datetime.now(dt.UTC),
        table=table,
        interface=interface,
        definition=plan.definition,
        group_size=plan.k,
        epsilon_declared=plan.epsilon,
        epsilon_per_query=epsilon,
        claimed_budget=budget,
        queries=queries,
        records=found.records,
        columns=found.columns,
        cells_reconstructed=found.cells[-1] if found.cells else 0.0,
        records_reconstructed=found.whole,
        records_asked_again=found.asked_again,
        targets=targets.targets,
        targets_told=targets.told,
        targets_reconstructed=targets.reconstructed,
        targets_queries=targets.queries,
        progress_budget=tuple(count * epsilon for count in found.queries),
        progress_cells=found.cells,
        stopped=found.stopped,
        verdict=verdict,
        reason=" ".join(filter(None, (sentence, found.remark))),
    )
