"""The rows of a record beside its row in `audits`: bounds, wealth, slices, reliability, scores."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from privcore.attacks import SliceTallies, generator
from privcore.lower_bounds import Claim, Evidence, Grid, Night, read_evidence
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.manifest import Privacy
from workers.plan import Plan
from workers.scan.partial_results import MAXIMUM_SLICES, PartialResult
from workers.sources.source import Source
from workers.warehouse.schema import BoundRow, ReliabilityRow, ScoreRow, SliceRow, WealthRow


def bound_rows(evidence: Evidence, identity: dict[str, Any]) -> tuple[BoundRow, ...]:
    """Return the bounds of the game by guess fraction, of both arms."""
    return tuple(
        BoundRow(
            **identity,
            arm=arm,
            family=bound.family,
            fraction=bound.fraction,
            guesses=bound.guesses,
            correct=bound.correct,
            epsilon_lower=bound.epsilon_lower,
        )
        for arm, game in (("audit", evidence.game), ("control", evidence.control_game))
        for bound in game.bounds
    )


def wealth_row(
    evidence: Evidence,
    identity: dict[str, Any],
    result: PartialResult,
    *,
    source: Source,
    plan: Plan,
    privacy: Privacy | None,
) -> WealthRow:
    """Return what this night adds to the windows of nights and to the standing."""
    same = evidence.standing_night is evidence.window_night
    claimed = evidence.claimed_night
    return WealthRow(
        **identity,
        model=source.model,
        day=source.day,
        records=evidence.game.records,
        classes=len(source.label.classes),
        family=evidence.claim.family.name,
        delta=evidence.claim.delta,
        neighbors=evidence.claim.neighbors,
        epsilon_declared=privacy.epsilon if privacy else None,
        labels_recur=plan.nights_share_labels,
        holdout_sketch=result.holdout.text(),
        window_log_wealth=_flat(evidence.window_night),
        window_price=evidence.window_night.price,
        ceiling_log_wealth=tuple(evidence.window_ceiling.tolist()),
        standing_log_wealth=None if same else _flat(evidence.standing_night),
        standing_price=evidence.standing_night.price,
        claimed_log_wealth=None if claimed is None else tuple(claimed.log_wealth.tolist()),
    )


def _flat(night: Night) -> tuple[float, ...]:
    return tuple(night.log_wealth.ravel().tolist())


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


def score_rows(result: PartialResult, identity: dict[str, Any]) -> tuple[ScoreRow, ...]:
    """Return the score's distribution by bit, of both arms."""
    return tuple(
        ScoreRow(
            **identity, arm=arm, bit=bar.bit, lower=bar.lower, upper=bar.upper, records=bar.records
        )
        for arm, tally in zip(("audit", "control"), result.scores, strict=True)
        for bar in tally.bars()
    )


def slice_rows(
    result: PartialResult,
    identity: dict[str, Any],
    *,
    plan: Plan,
    claim: Claim,
    model: str,
    day: str,
    proxy_doubtful: bool,
) -> tuple[tuple[SliceRow, ...], int]:
    """Return the slices with enough records of both arms, and how many values have too few.

    The significance is divided by the number of slices shown, which their labels do not decide: all
    of their bounds together are valid at the plan's. Where bets against the proxy could not win in
    the whole (`proxy_doubtful`), they cannot in a slice, whose few records would not show why.

    Raises:
        NotEvaluableError: a column has too many values to be a slice.
    """
    shown: list[tuple[str, str, SliceTallies]] = []
    suppressed = 0
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
            elif training or control:
                suppressed += 1
    rows = _slice_rows(shown, result, identity, plan, claim, (model, day), doubtful=proxy_doubtful)
    return tuple(rows), suppressed


def _slice_rows(
    shown: list[tuple[str, str, SliceTallies]],
    result: PartialResult,
    identity: dict[str, Any],
    plan: Plan,
    claim: Claim,
    names: tuple[str, str],
    *,
    doubtful: bool,
) -> Iterator[SliceRow]:
    whole = result.tallies
    if result.student is not None and result.student.earlier_models:
        whole = whole.with_mean_of_models()
    for column, value, tallies in shown:
        evidence = read_evidence(
            dataclasses.replace(
                tallies.tallies(value, classes=whole.classes),
                models_known=whole.models_known,
            ),
            claim=dataclasses.replace(claim, significance=claim.significance / len(shown)),
            choice=Grid(plan.fractions),
            paper_delta=plan.delta,
            random=generator(plan.seed, *names, "slice", column, value),
            proxy_doubtful=doubtful,
        )
        yield SliceRow(
            **identity,
            column=column,
            value=value,
            records=evidence.game.records,
            control_records=evidence.control_game.records,
            epsilon_lower=evidence.epsilon_lower,
            epsilon_ceiling=evidence.epsilon_ceiling,
            epsilon_game=evidence.game.epsilon_lower,
            control_epsilon_lower=evidence.control_game.epsilon_lower,
        )
