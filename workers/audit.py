"""One audit, from lake to record: find the inputs, fan out, merge, read the evidence."""

import datetime as dt

from privcore.attacks import Tallies, generator
from privcore.exceptions import InvalidInputError
from privcore.guarantees import (
    ApproxDP,
    Family,
    Gaussian,
    Neighbors,
    PureDP,
    mechanism_from_manifest,
)
from privcore.lower_bounds import Claim, Grid, Previous, read_evidence
from workers.checkpoints import read_checkpoint
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import Executor
from workers.labels import list_shards
from workers.lake import Lake, check_name
from workers.manifest import Manifest, Privacy
from workers.plan import Plan
from workers.records import AuditRecord, Status
from workers.rows import Inputs, evaluated_record, failed_record
from workers.scoring import Game, Score, play_shard


def run_audit(
    lake: Lake,
    model: str,
    day: dt.date,
    *,
    plan: Plan,
    executor: Executor,
    previous_fraction: float | None = None,
) -> AuditRecord:
    """Audit one model on one day.

    `previous_fraction` is the guess fraction that was best on the previous audited day, if any.

    Returns:
        The record to commit. Bad input does not raise: it gives a record with the status
        `not_evaluable` and the reason.

    Raises:
        TransientError: storage or a worker failed in a way that may go away.
    """
    try:
        inputs = _find(lake, model, day, plan, previous_fraction)
        score = _play(lake, inputs, day, plan, executor)
    except NotEvaluableError as error:
        return failed_record(
            model,
            day,
            plan=plan,
            status=Status.NOT_EVALUABLE,
            reason_code=error.reason,
            reason=str(error),
        )
    evidence = read_evidence(
        score.tallies,
        claim=claim_of(inputs.target.manifest.privacy, plan),
        choice=Grid(plan.fractions),
        previous=Previous(inputs.previous_fraction),
        paper_delta=plan.delta,
        random=generator(plan.seed, model, str(day), "border"),
    )
    return evaluated_record(inputs, evidence, plan=plan, excluded_records=score.excluded_records)


def claim_of(privacy: Privacy | None, plan: Plan) -> Claim:
    """Return what to test: the family that fits the declaration, at its delta.

    A declared Gaussian mechanism is a Gaussian-DP claim; otherwise delta 0 is a pure claim and any
    other delta an (epsilon, delta) claim. Undeclared: (epsilon, delta) at the plan's delta.
    """
    family: Family = ApproxDP()
    delta, neighbors = plan.delta, Neighbors.REPLACE
    if privacy is not None:
        delta, neighbors = privacy.delta, Neighbors(privacy.neighbors)
        if delta == 0.0:
            family = PureDP()
        elif privacy.mechanism is not None and privacy.mechanism.name == "gaussian":
            family = Gaussian()
    return Claim(
        family=family,
        delta=delta,
        significance=plan.significance,
        shift=plan.shift,
        neighbors=neighbors,
        epsilon=privacy.epsilon if privacy else None,
    )


def accounted_epsilon(manifest: Manifest) -> float | None:
    """Return the epsilon that the declared mechanism's parameters account for; None without one.

    Raises:
        NotEvaluableError: the mechanism is unknown, lacks a parameter, has one out of range or is
            accounted under a weaker relation; or it accounts for more than was declared: then both
            numbers are named.
    """
    privacy = manifest.privacy
    if privacy is None or privacy.mechanism is None:
        return None
    where = f"The manifest of {manifest.model} for {manifest.day}"
    try:
        mechanism = mechanism_from_manifest(privacy.mechanism.name, privacy.mechanism.parameters)
    except InvalidInputError as error:
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID, f"{where} declares a mechanism that cannot be read: {error}"
        ) from None
    if mechanism.neighbors is Neighbors.ADD_REMOVE and privacy.neighbors == "replace":
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"{where} declares a guarantee for replacing, but its {privacy.mechanism.name} is "
            "accounted for adding or removing: set the mechanism's parameter neighbors to replace.",
        )
    accounted = float(mechanism.epsilon(privacy.delta))
    if accounted > privacy.epsilon * (1.0 + 1e-9):
        raise NotEvaluableError(
            Reason.DECLARED_TOO_LITTLE,
            f"{where} declares epsilon {privacy.epsilon:g} at delta {privacy.delta:g}, but its "
            f"{privacy.mechanism.name} accounts for {accounted:.6g}: declare that, or more noise.",
        )
    return accounted


def _find(
    lake: Lake, model: str, day: dt.date, plan: Plan, previous_fraction: float | None
) -> Inputs:
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
    return Inputs(
        target,
        proxy,
        lake.labels_digest(dataset, day),
        accounted_epsilon(target.manifest),
        previous_fraction,
    )


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


def _play(lake: Lake, inputs: Inputs, day: dt.date, plan: Plan, executor: Executor) -> Score:
    game = Game(lake, inputs.target, inputs.proxy, plan)
    shards = list_shards(lake, inputs.target.manifest.dataset, day)
    classes = len(inputs.target.manifest.label.classes)
    score = Score(Tallies.zero(repetitions=plan.repetitions, classes=classes))
    for part in executor.map(play_shard, game, shards):
        score += part
    training, control = score.tallies.game.records, score.tallies.control_game.records
    if training < plan.minimum_records:
        raise NotEvaluableError(
            Reason.TOO_FEW_RECORDS,
            f"{training} training records are fewer than minimum_records, {plan.minimum_records}.",
        )
    if control == 0:
        raise NotEvaluableError(
            Reason.NO_HOLDOUT,
            "No row has split = 'holdout', so there is no control game: hold some rows out of "
            "training.",
        )
    if control < plan.minimum_control_records:
        raise NotEvaluableError(
            Reason.TOO_FEW_RECORDS,
            f"{control} holdout records are fewer than minimum_control_records, "
            f"{plan.minimum_control_records}.",
        )
    return score
