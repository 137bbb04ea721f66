"""The exact statement of an audit. Whether there is one depends on facts that hold no label."""

from collections.abc import Callable
from typing import Any

from privcore.attacks import Tallies
from privcore.exceptions import is_failure
from privcore.lower_bounds import Claim, Secret
from privcore.publication import (
    ExactNight,
    ExactStatement,
    RecurringTest,
    exact_night,
    exact_statement,
    exactly,
)
from workers.audit.declaration import claim_of, held_against, says_nothing_of
from workers.audit.enough import countable
from workers.audit.record import Inputs, known_without_labels
from workers.exceptions import NotEvaluableError
from workers.plan import Plan
from workers.scan.partial_results import Game, PartialResult
from workers.sources.source import Source
from workers.warehouse.exact_statement_row import ExactStatementRow
from workers.warehouse.schema import AuditRecord, Status
from workers.warehouse.table_row import TableRow


def with_statement(
    record: AuditRecord,
    inputs: Inputs,
    result: PartialResult,
    plan: Plan,
    *,
    counted: Callable[[], Tallies],
    told: Callable[[str, BaseException], None],
) -> AuditRecord:
    """Return the record with its exact statement, if there is one; also of an audit that failed.

    The record also says what is declared and how the audit was set, where it came to no figures:
    the public is told of changes of these, whatever the labels made of a night.

    An audit can fail by what labels say (arms that differ), so its failure is no reason to leave
    out the statement: whether a statement appears would tell about labels. There is none where

    - the plan asks for none, or the secret is no label;
    - nothing is declared that the bound is held against (`held_against`);
    - training was given decoys, or sampled rows: their presence depends on labels;
    - a column's values, or rows with nearly the same features, never cross the arms, and no privacy
      unit is set: honest models look leaky;
    - there are too few records, or too many of them cannot be read for other reasons than labels.

    A record whose label cannot be read plays, and its label counts against a refutation
    (`match_everyone`). The exact record leaves it out instead: its own tests
    read labels, and up to `max_bad_records` records may be missing there.
    """
    silent = inputs.source.privacy is None and plan.policy_epsilon is None
    known: dict[str, Any] = {"declares_nothing": silent}
    if record.audit.status is not Status.EVALUATED:
        known |= known_without_labels(inputs, plan, result, record.audit.audit_id)
    record = record.model_copy(update={"audit": record.audit.model_copy(update=known)})
    try:
        row = _statement_row(record, inputs, result, plan, counted)
    except NotEvaluableError:
        return record
    except Exception as error:  # the exact record is there, and says what failed in it
        if not is_failure(error):
            raise
        told(f"The statement of {record.audit.model} for {record.audit.day} failed.", error)
        return record
    return record if row is None else record.model_copy(update={"statements": (row,)})


def _statement_row(
    record: AuditRecord,
    inputs: Inputs,
    result: PartialResult,
    plan: Plan,
    counted: Callable[[], Tallies],
) -> ExactStatementRow | None:
    source, day, digests = inputs.source, record.audit.day, inputs.source.digests()
    unread, result = result.unread_labels, result.in_public()
    privacy = held_against(source, plan, result)
    if (
        plan.epsilon_public is None
        or plan.secret is not Secret.LABEL
        or privacy is None
        or source.decoys is not None
        or plan.sampling is not None
        or (plan.privacy_unit is None and _no_rows_to_compare(source, result))
    ):
        return None
    result.bad.check(plan.max_bad_records + unread)  # of others, without a word about labels
    tallies = countable(Game(source, plan), result, day) if unread else counted()
    claim = claim_of(privacy, plan)
    made = _exact(tallies, claim, plan)
    rows = result.training_rows(tallies.game.records)
    identity = {name: getattr(record.audit, name) for name in TableRow.model_fields} | {
        "target_sha256": digests.target,
        "proxy_sha256": digests.proxy,
        "labels_digest": result.content.hexdigest(),
    }
    return ExactStatementRow(
        **identity,
        model=source.model,
        day=day,
        dataset=source.facts["dataset"],
        label_days=source.days,
        labels_recur=plan.labels_recur,
        holdout_sketch=result.holdout.text(),
        family=claim.family.name,
        epsilon_declared=privacy.epsilon,
        delta_declared=privacy.delta,
        neighbors=claim.neighbors,
        unit=privacy.unit,
        by_policy=source.privacy is None,
        vacuous=bool(says_nothing_of(source, privacy, plan, rows)),
        epsilon_accounted=inputs.epsilon_accounted,
        significance=claim.significance,
        records=made.records,
        control_records=made.control,
        epsilon_ceiling=made.epsilon_ceiling,
        epsilon_detectable=made.epsilon_detectable,
        epsilon_public=plan.epsilon_public,
        training_sketch=None if plan.labels_recur else result.training.text(),
        test_nights=plan.nights_per_test if plan.asks_over_nights else None,
        threshold=made.threshold if isinstance(made, ExactNight) else None,
        evidence_gap=made.evidence.gap,
        evidence_price=made.evidence.price,
        evidence_figure=made.evidence.figure,
        premises_gap=made.premises.gap,
        premises_figure=made.premises.figure,
    )


def _exact(tallies: Tallies, claim: Claim, plan: Plan) -> ExactStatement | ExactNight:
    """Return what is published before noise: a statement, or a night of a test over nights."""
    assert plan.epsilon_public is not None  # noqa: S101
    epsilon_public = exactly(plan.epsilon_public)
    if not plan.asks_over_nights:
        return exact_statement(
            tallies,
            claim=claim,
            epsilon_public=epsilon_public,
            unread_allowed=plan.max_bad_records,
        )
    assert plan.nights_per_test is not None  # noqa: S101
    test = RecurringTest(epsilon_public, claim.significance, plan.nights_per_test)
    return exact_night(tallies, claim=claim, test=test, unread_allowed=plan.max_bad_records)


def _no_rows_to_compare(source: Source, result: PartialResult) -> bool:
    """Return whether single rows are not to be compared, as the features alone say."""
    alike = result.alike
    return alike.divided_whole() or alike.made_distinct(len(source.label.classes)) is not None
