"""The exact statement of an audit. Whether there is one depends on facts that hold no label."""

from privcore.lower_bounds import Secret
from privcore.publication import exact_statement, exactly
from workers.audit.declaration import claim_of, held_against, says_nothing_of
from workers.audit.record import identity_of
from workers.audit.request import Inputs
from workers.audit.scanned_night import ScannedNight
from workers.looks.held_rows import holdout_sketch
from workers.looks.rows_alike import RowsAlike
from workers.plan import Plan
from workers.scan.partial_results import PartialResult
from workers.sources.source import Source
from workers.warehouse.schema import ExactStatementRow


def statement_row(audit_id: str, inputs: Inputs, night: ScannedNight) -> ExactStatementRow | None:
    """Return the exact statement that goes beside a record, if there is one.

    An audit can fail by what labels say (arms that differ), so its failure is no reason to leave
    out the statement: whether a statement appears would tell about labels. There is none where

    - the plan asks for none, or the secret is no label;
    - nothing is declared that the bound is held against (`held_against`);
    - training was given sampled rows: their presence depends on labels;
    - a column's values, or rows with nearly the same features, never cross the arms, and no privacy
      unit is set: honest models look leaky;
    - there are too few records, or too many of them cannot be read for other reasons than labels.

    A record whose label cannot be read plays (`PartialResult.in_public`), and its label counts
    against a refutation (`match_everyone`). The exact record leaves it out instead: its own tests
    read labels, and up to `max_bad_records` records may be missing there.

    Raises:
        NotEvaluableError: too few records count, or too many are bad.
    """
    plan, source = inputs.plan, inputs.source
    unread, night = night.result.unread_labels, night.in_public
    result = night.result
    privacy = held_against(source, plan, result)
    if plan.epsilon_public is None or privacy is None or not _allows_one(source, plan, result):
        return None
    result.bad.check(plan.max_bad_records + unread)  # of others, without a word about labels
    tallies = night.tallies
    claim = claim_of(privacy, plan)
    made = exact_statement(
        tallies,
        claim=claim,
        epsilon_public=exactly(plan.epsilon_public),
        unread_allowed=plan.max_bad_records,
    )
    rows = result.training_rows(tallies.game.records)
    labels = result.content.hexdigest(inputs.request.digest_key)
    return ExactStatementRow(
        **identity_of(audit_id, source.digests(), labels),
        model=source.model,
        day=source.day,
        dataset=source.facts["dataset"],
        label_days=source.days,
        labels_recur=plan.labels_recur,
        holdout_sketch=holdout_sketch(result.looks),
        family=claim.family.name,
        epsilon_declared=privacy.epsilon,
        delta_declared=privacy.delta,
        neighbors=claim.neighbors,
        unit=privacy.unit,
        by_policy=source.privacy is None,
        declaration_empty=bool(says_nothing_of(source, privacy, plan, rows)),
        epsilon_accounted=inputs.epsilon_accounted,
        significance=claim.significance,
        records=made.records,
        control_records=made.control,
        epsilon_ceiling=made.epsilon_ceiling,
        sees_from=made.sees_from,
        epsilon_public=plan.epsilon_public,
        evidence_gap=made.evidence.gap,
        evidence_price=made.evidence.price,
        evidence_figure=made.evidence.figure,
        premises_gap=made.premises.gap,
        premises_figure=made.premises.figure,
    )


def _allows_one(source: Source, plan: Plan, result: PartialResult) -> bool:
    """Return whether a statement about labels may be made of single rows, or of units."""
    if plan.secret is not Secret.LABEL or plan.sampling is not None:
        return False
    alike, classes = RowsAlike.among(result.looks), len(source.label.classes)
    return alike is None or not (alike.divided_whole() or alike.made_distinct(classes) is not None)
