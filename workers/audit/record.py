"""Rows of one record, made from evidence, each with the record's identity."""

import dataclasses
import datetime as dt
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import SliceTallies, generator
from privcore.exceptions import AuditError
from privcore.lower_bounds import Evidence, Grid, Secret, read_evidence
from privcore.lower_bounds.verdicts import ReasonCode, Trust
from workers.audit.accounting import promise_rows
from workers.audit.declaration import held_against, label_column_holds
from workers.audit.judge import Grounds, judged
from workers.audit.request import Inputs
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.lake.manifest import Privacy
from workers.looks.held_rows import holdout_sketch
from workers.plan import Plan
from workers.scan.partial_results import MAXIMUM_SLICES, PartialResult
from workers.sources.source import Digests, Source
from workers.versions import CODE_VERSION, METHOD_VERSION
from workers.warehouse.schema import (
    AuditRecord,
    AuditRow,
    BoundRow,
    ReliabilityRow,
    SliceRow,
    Status,
    WealthRow,
)


def evaluated_record(grounds: Grounds) -> AuditRecord:
    """Return the record of an audit that came to figures."""
    inputs, source, plan, result = grounds.inputs, grounds.source, grounds.plan, grounds.result
    digests, labels = source.digests(), result.content.hexdigest(inputs.request.digest_key)
    read = {**dataclasses.asdict(digests), "labels": labels}
    identity = identity_of(digest_of(source.model, source.day, plan, read), digests, labels)
    return AuditRecord(
        audit=_audit_row(grounds, identity),
        bounds=bound_rows(grounds.evidence, identity),
        wealth=(wealth_row(grounds, identity),),
        promises=promise_rows(
            grounds.privacy,
            identity,
            epsilon_accounted=inputs.epsilon_accounted,
            game=grounds.evidence.game,
            plan=plan,
        ),
        slices=tuple(slice_rows(grounds, identity)),
        # A membership prediction is always about the record's own label: calibration is undefined.
        reliability=reliability_rows(result, identity)
        if plan.secret is not Secret.MEMBERSHIP
        else (),
    )


def _audit_row(grounds: Grounds, identity: dict[str, Any]) -> AuditRow:
    source, digests = grounds.source, grounds.source.digests()
    plan, evidence, result = grounds.plan, grounds.evidence, grounds.result
    found, remarks = judged(grounds)
    game, control, paired = evidence.game, evidence.control_game, plan.secret is Secret.MEMBERSHIP
    losses, power = result.fidelity.mean_log_loss().tolist(), evidence.power
    return AuditRow(
        **identity,
        model=source.model,
        day=source.day,
        recorded_at=dt.datetime.now(dt.UTC),
        status=Status.EVALUATED,
        verdict=found.verdict,
        reason_code=found.code,
        detail=found.detail,
        reason=found.reason,
        remarks=remarks,
        **source.facts,
        secret=plan.secret_name,
        label_column=_label_column(source, plan),
        label_column_holds=label_column_holds(source),
        label_days=source.days if plan.days > 1 else None,
        privacy_unit=plan.privacy_unit,
        records=evidence.records,
        control_records=evidence.control_records if paired else control.records,
        excluded_records=result.excluded_records + result.bad.total,
        significance=evidence.claim.significance,
        epsilon_lower=evidence.epsilon_lower,
        epsilon_ceiling=evidence.epsilon_ceiling,
        sees_from=power.sees_from if power else None,
        holdout_needed=power.holdout_needed if power else None,
        epsilon_if_proxy_right=evidence.epsilon_if_proxy_right,
        epsilon_game=game.epsilon_lower,
        claim_pvalue=evidence.claim_pvalue,
        claim_evalue=evidence.claim_evalue,
        epsilon_paper=game.epsilon_paper,
        control_epsilon_if_proxy_right=evidence.control_epsilon_if_proxy_right,
        control_epsilon_lower=control.epsilon_lower,
        target_log_loss=losses[0],
        proxy_log_loss=losses[1],
        **declared_columns(grounds.privacy, grounds.inputs.epsilon_accounted),
        plan=plan.model_dump_json(),
        target_manifest_sha256=digests.target_manifest,
        proxy_manifest_sha256=digests.proxy_manifest,
    )


def _label_column(source: Source, plan: Plan) -> str | None:
    return source.label.column if plan.secret is Secret.LABEL else None


def declared_columns(privacy: Privacy | None, epsilon_accounted: float | None) -> dict[str, Any]:
    """Return the columns of the declaration; without one, those of the accounting alone."""
    if privacy is None:
        return {"epsilon_accounted": epsilon_accounted}
    return {
        "epsilon_declared": privacy.epsilon,
        "delta_declared": privacy.delta,
        "neighbors": privacy.neighbors,
        "epsilon_accounted": epsilon_accounted,
        "mechanism": privacy.mechanism.name if privacy.mechanism else None,
        "declared_by": privacy.declared_by,
        "declared_at": privacy.declared_at,
    }


def known_without_labels(inputs: Inputs, result: PartialResult, audit_id: str) -> dict[str, Any]:
    """Return an audit's columns that no label decides, for a record that came to no figures.

    Its identifier, until now `audit_id`, depends on the checkpoints, too: another record is stored
    where one of them was replaced.
    """
    source, plan, digests = inputs.source, inputs.plan, inputs.source.digests()
    privacy = held_against(source, plan, result.in_public())
    declared = declared_columns(privacy, inputs.epsilon_accounted)
    identity = {
        "audit_id": digest_of(
            source.model, source.day, plan, {"failed": audit_id, **dataclasses.asdict(digests)}
        ),
        "target_sha256": digests.target,
        "proxy_sha256": digests.proxy,
    }
    said = {"label_column": _label_column(source, plan)}
    return source.facts | said | declared | identity


def failed_record(
    model: str,
    day: dt.date,
    *,
    plan: Plan,
    error: BaseException,
    source: str | None = None,
    trust: Trust = Trust.SELF,
) -> AuditRecord:
    """Return the record of an audit that came to no figures, by the error that ended it.

    The message of a library's error may quote the data: it is for the run's log alone.
    """
    if isinstance(error, NotEvaluableError):
        status, code, why = Status.NOT_EVALUABLE, error.reason.code, str(error.reason)
        reason = str(error)
    else:
        status, code, why = Status.ERROR, ReasonCode.NOT_RUN, type(error).__name__
        what = str(error) if isinstance(error, AuditError) else "its message is in the run's log."
        reason = f"The audit ended with {why}: {what}"
    if len(reason) > limits.REASON_CHARACTERS:
        reason = f"{reason[: limits.REASON_CHARACTERS]}..."
    audit_id = digest_of(model, day, plan, {"status": status, "reason": reason})
    row = AuditRow(
        **identity_of(audit_id),
        model=model,
        day=day,
        secret=plan.secret_name,
        recorded_at=dt.datetime.now(dt.UTC),
        status=status,
        verdict=code.verdict,
        reason_code=code,
        detail=why,
        reason=reason,
        source=source,
        trust=trust,
        plan=plan.model_dump_json(),
    )
    return AuditRecord(audit=row)


def digest_of(
    model: str, day: dt.date, plan: Plan, inputs: Mapping[str, str | float | None]
) -> str:
    """Digest of everything that changes the numbers; never of who computed them."""
    content = {
        "method_version": METHOD_VERSION,
        "model": model,
        "day": day.isoformat(),
        "plan": plan.model_dump(mode="json"),
        "inputs": inputs,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def identity_of(
    audit_id: str, digests: Digests | None = None, labels: str | None = None
) -> dict[str, Any]:
    """Return the columns that every row of a record has, and what was read for it."""
    return {
        "audit_id": audit_id,
        "method_version": METHOD_VERSION,
        "code_version": CODE_VERSION,
        "target_sha256": digests.target if digests else None,
        "proxy_sha256": digests.proxy if digests else None,
        "labels_digest": labels,
    }


def bound_rows(evidence: Evidence, identity: dict[str, Any]) -> tuple[BoundRow, ...]:
    """Return the bounds of the game by guess fraction, of both arms."""
    return tuple(
        BoundRow(**identity, arm=arm, **dataclasses.asdict(bound))
        for arm, game in (("audit", evidence.game), ("control", evidence.control_game))
        for bound in game.bounds
    )


def wealth_row(grounds: Grounds, identity: dict[str, Any]) -> WealthRow:
    """Return what this night adds to the windows of nights and to the standing."""
    source, evidence, privacy = grounds.source, grounds.evidence, grounds.privacy
    same = evidence.standing_night is evidence.window_night
    claimed = evidence.claimed_night
    imagined = evidence.power.imagined if evidence.power else None
    return WealthRow(
        **identity,
        model=source.model,
        day=source.day,
        classes=len(source.label.classes),
        family=evidence.claim.family.name,
        delta=evidence.claim.delta,
        neighbors=evidence.claim.neighbors,
        epsilon_declared=privacy.epsilon if privacy else None,
        labels_recur=grounds.plan.nights_share_labels,
        holdout_sketch=holdout_sketch(grounds.result.looks),
        window_log_wealth=flat(evidence.window_night.log_wealth),
        window_price=evidence.window_night.price,
        ceiling_log_wealth=tuple(evidence.window_ceiling.tolist()),
        standing_log_wealth=None if same else flat(evidence.standing_night.log_wealth),
        standing_price=evidence.standing_night.price,
        claimed_log_wealth=None if claimed is None else tuple(claimed.log_wealth.tolist()),
        imagined_mean=None if imagined is None else flat(imagined.mean),
        imagined_variance=None if imagined is None else flat(imagined.variance),
    )


def flat(values: NDArray[np.float64]) -> tuple[float, ...]:
    """Return an array as a column holds it."""
    return tuple(values.ravel().tolist())


def reliability_rows(result: PartialResult, identity: dict[str, Any]) -> tuple[ReliabilityRow, ...]:
    """Return the tenths in which something was predicted, of target and proxy."""
    predicted, observed = result.fidelity.reliability()
    return tuple(
        ReliabilityRow(
            **identity,
            role=role,
            bin=int(place),
            records=int(result.fidelity.predictions[model, place]),
            predicted=float(predicted[model, place]),
            observed=float(observed[model, place]),
        )
        for model, role in enumerate(("target", "proxy"))
        for place in np.flatnonzero(result.fidelity.predictions[model])
    )


def slice_rows(grounds: Grounds, identity: dict[str, Any]) -> Iterator[SliceRow]:
    """Yield the slices with enough records of both arms.

    The significance is divided by the number of slices shown, which their labels do not decide: all
    of their bounds together are valid at the plan's. Where bets against the proxy could not win in
    the whole (`proxy_doubtful`), they cannot in a slice, whose few records would not show why.

    Raises:
        NotEvaluableError: a column has too many values to be a slice.
    """
    source, plan, result = grounds.source, grounds.plan, grounds.result
    claim, shown = grounds.evidence.claim, list[tuple[str, str, SliceTallies]]()
    for column, tallies in zip(plan.slices, result.slices, strict=False):
        if tallies is None:
            raise NotEvaluableError(
                Reason.FEATURE_INVALID,
                f"The slice column {column!r} has more than {MAXIMUM_SLICES} values: slices are "
                "for columns of few values.",
            )
        for value, (training, control) in zip(tallies.values, tallies.records, strict=True):
            if training >= plan.minimum_slice_records and control >= plan.minimum_control_records:
                shown.append((column, value, tallies))
    for column, value, tallies in shown:
        evidence = read_evidence(
            tallies.tallies(value, classes=result.tallies.classes),
            claim=dataclasses.replace(claim, significance=claim.significance / len(shown)),
            choice=Grid(plan.fractions),
            paper_delta=plan.delta,
            random=generator(plan.seed, source.model, str(source.day), "slice", column, value),
            proxy_doubtful=grounds.proxy_doubtful,
        )
        yield SliceRow(
            **identity,
            column=column,
            value=value,
            records=evidence.game.records,
            control_records=evidence.control_game.records,
            epsilon_lower=evidence.epsilon_lower,
            epsilon_ceiling=evidence.epsilon_ceiling,
            control_epsilon_lower=evidence.control_game.epsilon_lower,
        )
