"""One audit, from lake to record: find the inputs, fan out, merge, read the evidence."""

import datetime as dt
import hashlib
import importlib.metadata
import json
from dataclasses import dataclass
from typing import Any

from privcore.attacks import Tally, generator
from privcore.guarantees import ApproxDP, Family, Gaussian, PureDP
from privcore.lower_bounds.choices import Grid
from privcore.lower_bounds.evidence import Claim, Evidence, control_calibrated, evidence
from privcore.lower_bounds.verdicts import Verdict, verdict
from workers.checkpoints import Checkpoint, read_checkpoint
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import Executor
from workers.labels import list_shards
from workers.lake import Lake, check_name
from workers.manifest import Manifest, Privacy
from workers.plan import Plan
from workers.promises import promise_rows
from workers.records import METHOD_VERSION, AuditRecord, AuditRow, BoundRow, Status
from workers.scoring import Game, Score, play_shard

CODE_VERSION = importlib.metadata.version("privaudit")


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Everything that an audit reads, found and checked."""

    target: Checkpoint
    proxy: Checkpoint
    labels_digest: str


def run_audit(
    lake: Lake, model: str, day: dt.date, *, plan: Plan, executor: Executor
) -> AuditRecord:
    """Audit one model on one day.

    Returns:
        The record to commit. Bad input does not raise: it gives a record with the status
        `not_evaluable` and the reason.

    Raises:
        TransientError: storage or a worker failed in a way that may go away.
    """
    try:
        inputs = _find(lake, model, day, plan)
        score = _play(lake, inputs, day, plan, executor)
        return _evaluated(inputs, score, model, day, plan)
    except NotEvaluableError as error:
        return failed_record(
            model,
            day,
            plan=plan,
            status=Status.NOT_EVALUABLE,
            reason_code=error.reason,
            reason=str(error),
        )


def failed_record(
    model: str, day: dt.date, *, plan: Plan, status: Status, reason_code: str, reason: str
) -> AuditRecord:
    """Return the record of an audit that came to no figures."""
    identity = _digest(model, day, plan, {"status": status, "reason": reason})
    row = AuditRow(
        **_identity(identity, plan, None),
        model=model,
        day=day,
        recorded_at=_now(),
        status=status,
        verdict=Verdict.NOT_EVALUABLE,
        reason_code=reason_code,
        reason=reason,
        plan=plan.model_dump_json(),
    )
    return AuditRecord(audit=row)


def claim_of(privacy: Privacy | None, plan: Plan) -> Claim:
    """Return what to test: the family that fits the declaration, at its delta.

    A declared Gaussian mechanism is a Gaussian-DP claim; otherwise delta 0 is a pure claim and any
    other delta an (epsilon, delta) claim. Undeclared: (epsilon, delta) at the plan's delta.
    """
    family: Family = ApproxDP()
    delta = plan.delta
    if privacy is not None:
        delta = privacy.delta
        if delta == 0.0:
            family = PureDP()
        elif privacy.mechanism is not None and privacy.mechanism.name == "gaussian":
            family = Gaussian()
    return Claim(family=family, delta=delta, significance=plan.significance, shift=plan.shift)


def _find(lake: Lake, model: str, day: dt.date, plan: Plan) -> _Inputs:
    check_name("model", model)
    target = read_checkpoint(lake, model, day)
    trained = target.manifest.trained_on
    if not trained.first <= day <= trained.last:
        raise NotEvaluableError(
            Reason.TARGET_MISSED_THE_DAY,
            f"The checkpoint of {model} for {day} was trained on {trained.first} to "
            f"{trained.last}, so it never saw the labels of {day}.",
        )
    proxy_day = lake.proxy_day(model, day, within_days=plan.proxy_within_days)
    if proxy_day is None:
        raise NotEvaluableError(
            Reason.MISSING_PROXY,
            f"There is no checkpoint of {model} in the {plan.proxy_within_days} days before {day} "
            "that could serve as proxy.",
        )
    proxy = read_checkpoint(lake, model, proxy_day)
    _check_proxy(target.manifest, proxy.manifest, day)
    dataset = target.manifest.dataset
    list_shards(lake, dataset, day)
    return _Inputs(target, proxy, lake.labels_digest(dataset, day))


def _check_proxy(target: Manifest, proxy: Manifest, day: dt.date) -> None:
    if proxy.trained_on.last >= day:
        raise NotEvaluableError(
            Reason.PROXY_SAW_THE_DAY,
            f"The proxy, {proxy.model} of {proxy.day}, was trained up to {proxy.trained_on.last}: "
            f"it saw labels of {day}, so its labels are no counterfactuals.",
        )
    if proxy.label != target.label:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"The proxy, {proxy.model} of {proxy.day}, predicts {proxy.label.column} in "
            f"{list(proxy.label.classes)}, the target {target.label.column} in "
            f"{list(target.label.classes)}: they cannot be compared.",
        )


def _play(lake: Lake, inputs: _Inputs, day: dt.date, plan: Plan, executor: Executor) -> Score:
    game = Game(lake, inputs.target, inputs.proxy, plan)
    shards = list_shards(lake, inputs.target.manifest.dataset, day)
    score = Score.zero(plan.repetitions)
    for part in executor.map(play_shard, game, shards):
        score += part
    if score.audit.records < plan.minimum_records:
        raise NotEvaluableError(
            Reason.TOO_FEW_RECORDS,
            f"{score.audit.records} training records are fewer than minimum_records, "
            f"{plan.minimum_records}.",
        )
    if score.control.records == 0:
        raise NotEvaluableError(
            Reason.NO_HOLDOUT,
            "No row has split = 'holdout', so there is no control game: hold some rows out of "
            "training.",
        )
    return score


def _evaluated(
    inputs: _Inputs, score: Score, model: str, day: dt.date, plan: Plan
) -> AuditRecord:
    manifest = inputs.target.manifest
    privacy = manifest.privacy
    claim = claim_of(privacy, plan)
    choice = Grid(plan.fractions)

    def read(tally: Tally, arm: str) -> Evidence:
        random = generator(plan.seed, model, str(day), "border", arm)
        return evidence(tally, claim=claim, choice=choice, paper_delta=plan.delta, random=random)

    audit, control = read(score.audit, "audit"), read(score.control, "control")
    calibrated = control_calibrated(score.audit, score.control, claim=claim, choice=choice)
    declared = privacy.epsilon if privacy else None
    conclusion, reason = verdict(
        audit, control, epsilon_calibrated=calibrated, epsilon_declared=declared
    )
    identity = _identity(
        _digest(model, day, plan, _input_digests(inputs)), plan, inputs
    )
    row = AuditRow(
        **identity,
        model=model,
        day=day,
        recorded_at=_now(),
        status=Status.EVALUATED,
        verdict=conclusion,
        reason=reason,
        dataset=manifest.dataset,
        proxy_day=inputs.proxy.manifest.day,
        records=audit.records,
        control_records=control.records,
        excluded_records=score.excluded_records,
        repetitions=plan.repetitions,
        family=claim.family.name,
        delta=claim.delta,
        significance=claim.significance,
        shift=claim.shift,
        epsilon_lower=audit.epsilon_lower,
        epsilon_ceiling=audit.epsilon_ceiling,
        epsilon_calibrated=calibrated,
        epsilon_paper=audit.epsilon_paper,
        epsilon_paper_deviation=audit.epsilon_paper_deviation,
        control_epsilon_lower=control.epsilon_lower,
        control_epsilon_paper=control.epsilon_paper,
        control_epsilon_ceiling=control.epsilon_ceiling,
        epsilon_declared=declared,
        delta_declared=privacy.delta if privacy else None,
        epsilon_accounted=None,
        mechanism=privacy.mechanism.name if privacy and privacy.mechanism else None,
        declared_by=privacy.declared_by if privacy else None,
        declared_at=privacy.declared_at if privacy else None,
        plan=plan.model_dump_json(),
    )
    bounds = tuple(
        BoundRow(
            **identity,
            arm=arm,
            family=bound.family,
            fraction=bound.fraction,
            guesses=bound.guesses,
            correct=bound.correct,
            epsilon_lower=bound.epsilon_lower,
        )
        for arm, side in (("audit", audit), ("control", control))
        for bound in side.bounds
    )
    return AuditRecord(audit=row, bounds=bounds, promises=promise_rows(privacy, identity))


def _input_digests(inputs: _Inputs) -> dict[str, str]:
    return {
        "target": inputs.target.manifest.sha256,
        "target_manifest": inputs.target.manifest_sha256,
        "proxy": inputs.proxy.manifest.sha256,
        "proxy_manifest": inputs.proxy.manifest_sha256,
        "labels": inputs.labels_digest,
    }


def _digest(model: str, day: dt.date, plan: Plan, inputs: dict[str, str]) -> str:
    content = {
        "method_version": METHOD_VERSION,
        "model": model,
        "day": day.isoformat(),
        "plan": plan.model_dump(mode="json"),
        "inputs": inputs,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def _identity(audit_id: str, plan: Plan, inputs: _Inputs | None) -> dict[str, Any]:
    return {
        "audit_id": audit_id,
        "method_version": METHOD_VERSION,
        "code_version": CODE_VERSION,
        "seed": plan.seed,
        "target_sha256": inputs.target.manifest.sha256 if inputs else None,
        "proxy_sha256": inputs.proxy.manifest.sha256 if inputs else None,
        "labels_digest": inputs.labels_digest if inputs else None,
    }


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
