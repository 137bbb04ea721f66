"""An audited model with fewer rounds of boosting, or served otherwise: bound beside accuracy."""

import dataclasses
import functools
import math
from dataclasses import dataclass

from privcore.exceptions import TerminalError
from privcore.lower_bounds import Secret
from workers.audit.enough import countable
from workers.audit.proving import check_result
from workers.audit.replay import replaying
from workers.exceptions import NotEvaluableError
from workers.executors import Executor
from workers.lake.checkpoints import Checkpoint, count_rounds
from workers.lake.layout import Lake
from workers.scan.partial_results import Game, PartialResult
from workers.sources.checkpoints.checkpoint_source import CheckpointSource
from workers.sources.scores.supplied import ScoreSource
from workers.sources.served import Served
from workers.sources.source import Source
from workers.warehouse.schema import AuditRecord

_TENTHS = 10
_LEAST_OF_TWO = 0.05
AS_AUDITED = "as audited"


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to have served the model.

    Attributes:
        variant: which, in words.
        rounds: of boosting; None where that is not what changes.
        epsilon_lower: the bound of the same method at the same significance, of this variant
            alone; None where there is none.
        accuracy: share of holdout records whose most probable class is their label.
        log_loss: mean on holdout records, in nats.
        reason: why there is no bound; empty where there is one.
    """

    variant: str
    rounds: int | None
    epsilon_lower: float | None
    accuracy: float
    log_loss: float
    reason: str = ""


def what_if(record: AuditRecord, lake: Lake, executor: Executor) -> tuple[Variant, ...]:
    """Return what an audit would have found of the model with fewer rounds, or served otherwise.

    All variants are scored in one pass over the audit's own inputs; "as audited" is the first.

    *Does not say* that a variant is private: a bound of 0 is no guarantee. Each bound is valid by
    itself and not all together. Who chooses among them by private labels tunes on these labels.

    Raises:
        TerminalError: as `replaying`; or the audit is not of labels that are classes.
    """
    with replaying(record, lake, executor) as replay:
        source = replay.inputs.source
        plan = replay.request.plan
        if plan.secret is not Secret.LABEL or not source.gives_chances:
            raise TerminalError(
                "Fewer rounds and other ways to serve need a model that gives probabilities of "
                f"labels. This audit is of the {plan.secret}, or its labels are numbers: choose "
                "another audit."
            )
        rounds = 0
        if isinstance(source, CheckpointSource):
            (rounds,) = executor.map(_rounds, None, [source.target])
        asked = list(_variants(source, rounds))
        # Bounds do not rest on the game, which takes the most time; the first is the audit, whole.
        quick = plan.model_copy(update={"repetitions": 1})
        games = tuple(Game(each, plan if name == AS_AUDITED else quick) for name, _, each in asked)
        _, results = replay.scan(games)
        return tuple(
            _variant(name, number, game, result)
            for (name, number, _), game, result in zip(asked, games, results, strict=True)
        )


def _rounds(shared: None, checkpoint: Checkpoint) -> int:
    del shared
    return count_rounds(checkpoint)


def _variants(source: Source, rounds: int) -> list[tuple[str, int | None, Source]]:
    """Return names and sources of all variants."""
    found: list[tuple[str, int | None, Source]] = [(AS_AUDITED, rounds or None, source)]
    if isinstance(source, CheckpointSource):
        tenths = {math.ceil(rounds * tenth / _TENTHS) for tenth in range(1, _TENTHS)}
        for number in sorted(tenths - {0, rounds}):
            target = dataclasses.replace(source.target, rounds=number)
            fewer = dataclasses.replace(source, target=target)
            found.append((f"first {number} rounds", number, fewer))
    if isinstance(source, CheckpointSource | ScoreSource):
        least = 2.0 * _LEAST_OF_TWO / len(source.label.classes)
        ways = {
            "rounded to 2 digits": Served(digits=2),
            "rounded to 1 digit": Served(digits=1),
            f"each class at least {least:.2g}": Served(least=least),
            "the top class alone": Served(top=True),
        }
        for name, served in ways.items():
            found.append((name, None, dataclasses.replace(source, served=served)))
    return found


def _variant(name: str, rounds: int | None, game: Game, result: PartialResult) -> Variant:
    fidelity = result.fidelity
    known = (
        float(fidelity.right[0]) / max(fidelity.records, 1),
        float(fidelity.mean_log_loss()[0]) if fidelity.records else math.nan,
    )
    day = game.source.day
    counted = functools.partial(countable, game, result, day)
    try:
        checked = check_result(game, result, day, counted=counted)
    except NotEvaluableError as error:
        return Variant(name, rounds, None, *known, error.sentence)
    bound = checked.evidence(game.source, game.plan).epsilon_lower
    return Variant(name, rounds, bound, *known)
