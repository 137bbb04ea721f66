"""Segments of an audit's rows in which a model leaks: chosen without labels, named with bounds."""

import contextlib
import functools
from dataclasses import dataclass

from privcore.attacks import SliceTallies, generator
from privcore.exceptions import TerminalError
from privcore.lower_bounds import Secret, name_segments, segment_night
from workers.audit.declaration import claim_of, held_against
from workers.audit.request import stored_request
from workers.audit.run import find_inputs
from workers.audit.scanned_night import ScannedNight
from workers.executors import Executor
from workers.lake.layout import Lake
from workers.plain_text import plain_text
from workers.plan import Plan
from workers.scan.before_the_pass import with_segments
from workers.scan.label_pass import scan_labels
from workers.scan.partial_results import Game, LabelPass, PartialResult
from workers.sources.join_context import JoinContext
from workers.sources.source import Source
from workers.warehouse.schema import AuditRecord, Status

_SMALLEST_SHARE = 1.0 / 32.0
_WORDS_CHARACTERS = 400
"""Length of a segment's words: a category may be of any length."""
_ROOM = 1.25
"""A region holds more rows of the sample than the plan asks for, since the sample may be off."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment of an audit's rows.

    Attributes:
        segment: which rows, in words that are safe to show.
        named: whether a leak in it is proved.
        epsilon_lower: its bound; 0 where it is not named.
        qvalue: the share of false names at which it would be named.
    """

    segment: str
    records: int
    control_records: int
    named: bool
    epsilon_lower: float
    qvalue: float


@dataclass(frozen=True, slots=True)
class Located:
    """Segments of an audit, the largest bound first."""

    segments: tuple[Segment, ...]
    too_small: int
    significance: float


def locate(record: AuditRecord, lake: Lake, executor: Executor, digest_key: bytes = b"") -> Located:
    """Return where an audited model leaks, by a second pass over the audit's own inputs.

    `privcore.attacks.fit_segments` has the choice of segments, `name_segments` what is promised of
    those that are named. A segment that is not named may leak, too.

    Raises:
        TerminalError: the audit came to no figures, is of another version, or the lake holds other
            inputs now; or no row's label is what was audited.
    """
    audit = record.audit
    if audit.status is not Status.EVALUATED:
        raise TerminalError(
            f"The audit of {audit.model} for {audit.day} came to no figures ({audit.detail}): "
            "there is nothing to ask it."
        )
    request = stored_request(audit, digest_key)
    source, plan = find_inputs(lake, audit.day, request).source, request.plan
    found = source.digests()
    _check_same("target", audit.target_sha256, found.target)
    _check_same("target's manifest", audit.target_manifest_sha256, found.target_manifest)
    _check_same("earlier model", audit.proxy_sha256, found.proxy)
    _check_same("earlier model's manifest", audit.proxy_manifest_sha256, found.proxy_manifest)
    _check_rows(source, plan)
    share = max(
        _SMALLEST_SHARE,
        _ROOM * plan.minimum_slice_records / max(audit.records or 0, 1),
        _ROOM * plan.minimum_control_records / max(audit.control_records or 0, 1),
    )
    # Bounds of segments do not rest on the game, and it takes the most time.
    game = Game(source, plan.model_copy(update={"repetitions": 1}))
    prepare = functools.partial(with_segments, share=min(share, 1.0), executor=executor)
    with contextlib.ExitStack() as made:  # joined tables are kept until it ends
        joining = JoinContext(executor, made, None, None)
        root, partition = source.find_partition(joining=joining, also=game.plan_columns)
        shared = LabelPass(root, partition, {0: game})
        game, result = scan_labels(shared, executor=executor, prepare=prepare).of_one_game()
        _check_same("labels", audit.labels_digest, result.content.hexdigest(digest_key))
        return _located(game, result)


def _check_rows(source: Source, plan: Plan) -> None:
    """Refuse audits of which there are no segments: they are of single rows' own labels."""
    reasons = {
        f"it audits whole values of {plan.privacy_unit!r}, whose rows may lie in several segments":
            plan.privacy_unit is not None,
        f"it audits the {plan.secret}, and segments need labels": plan.secret is not Secret.LABEL,
        f"it audits {plan.days} days together, and segments are of one": len(source.days) > 1,
        "it matches rows within other_labels, and segments do not": bool(plan.other_labels),
    }  # fmt: skip
    for reason, holds in reasons.items():
        if holds:
            raise TerminalError(f"This audit cannot be divided into segments: {reason}.")


def _located(game: Game, result: PartialResult) -> Located:
    source, plan, fitted = game.source, game.plan, game.segments
    assert fitted is not None  # noqa: S101  # they are fitted before the pass
    whole, arms = ScannedNight(game, result).compared()
    shown: list[tuple[int, str, tuple[int, int], SliceTallies]] = []
    too_small = 0
    for division, tallies in enumerate(result.slices[len(plan.slices) :]):
        assert tallies is not None  # noqa: S101  # segments are few
        for name, (training, control) in zip(tallies.values, tallies.records.tolist(), strict=True):
            if training >= plan.minimum_slice_records and control >= plan.minimum_control_records:
                shown.append((division, name, (training, control), tallies))
            elif training or control:
                too_small += 1
    claim = claim_of(held_against(source, plan, result), plan)
    nights = [
        segment_night(
            tallies.tallies(name, classes=whole.classes),
            claim=claim,
            segments=len(shown),
            random=generator(plan.seed, source.model, str(source.day), "segment", division, name),
            proxy_doubtful=arms is not None and arms.doubtful,
        )
        for division, name, _, tallies in shown
    ]
    bounds = name_segments(nights, significance=claim.significance)
    segments = [
        Segment(
            plain_text(fitted.words(division, name)[:_WORDS_CHARACTERS]),
            *records,
            bound.named,
            bound.epsilon_lower,
            bound.qvalue,
        )
        for (division, name, records, _), bound in zip(shown, bounds, strict=True)
    ]
    segments.sort(key=lambda one: (not one.named, -one.epsilon_lower, one.qvalue))
    return Located(tuple(segments), too_small, claim.significance)


def _check_same(what: str, stored: str | None, found: str | None) -> None:
    if stored is not None and stored != found:
        raise TerminalError(
            f"The lake holds other inputs than were audited: the digest of the {what} is {found}, "
            f"was {stored}. Audit the day again, and ask that audit."
        )
