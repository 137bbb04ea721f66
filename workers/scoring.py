"""One shard: read once, scored by both models, played for all repetitions, folded into tallies."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import (
    LiftTally,
    Tallies,
    Tally,
    label_inference,
    label_lifts,
    score_named,
    stream_key,
)
from privcore.exceptions import InvalidInputError
from workers.checkpoints import Checkpoint, load, probabilities
from workers.exceptions import NotEvaluableError, Reason
from workers.labels import Shard, read_shard
from workers.lake import Lake
from workers.plan import Plan


@dataclass(frozen=True, slots=True)
class Game:
    """What all shards of one audit share; Ray puts it once."""

    lake: Lake
    target: Checkpoint
    proxy: Checkpoint
    plan: Plan


@dataclass(frozen=True, slots=True)
class Score:
    """What one shard, or all of them together, came to; it adds like its tallies."""

    tallies: Tallies
    excluded_records: int = 0

    def __add__(self, other: "Score") -> "Score":
        """Return the score of both sets of shards."""
        return Score(self.tallies + other.tallies, self.excluded_records + other.excluded_records)


def play_shard(game: Game, shard: Shard) -> Score:
    """Play the game on the training rows of a shard, and the control game on its holdout rows.

    The streams depend on the audit's seed and the shard's identity alone, so the answer is the
    same to the bit whoever computes it, in whatever order, however often.

    Raises:
        NotEvaluableError: the shard or a model cannot be scored.
    """
    target, proxy = game.target.manifest, game.proxy.manifest
    features = {feature.name: feature for feature in (*proxy.features, *target.features)}
    rows = read_shard(game.lake, shard, label=target.label, features=tuple(features.values()))
    scored = [
        probabilities(_loaded(checkpoint), checkpoint.manifest, rows.features, threads=1)
        for checkpoint in (game.target, game.proxy)
    ]
    key = stream_key(game.plan.seed, target.model, str(shard.day), shard.file, shard.row_group)

    try:
        training, control = (
            _play_arm(game, scored, rows.labels, arm, key) for arm in (rows.train, rows.holdout)
        )
    except InvalidInputError as error:
        raise NotEvaluableError(Reason.PROBABILITIES_INVALID, str(error)) from None
    return Score(
        Tallies(
            game=training[0],
            control_game=control[0],
            lifts=training[1],
            control_lifts=control[1],
            classes=len(target.label.classes),
        ),
        excluded_records=int(np.count_nonzero(~(rows.train | rows.holdout))),
    )


def _play_arm(
    game: Game,
    scored: list[NDArray[np.float64]],
    labels: NDArray[np.int64],
    arm: NDArray[np.bool_],
    key: int,
) -> tuple[Tally, LiftTally]:
    target, proxy = scored[0][arm], scored[1][arm]
    tally = label_inference(
        target,
        proxy,
        labels[arm],
        score=score_named(game.plan.score, power=game.plan.power),
        repetitions=game.plan.repetitions,
        key=key,
        indices=np.flatnonzero(arm),
    )
    return tally, label_lifts(target, proxy, labels[arm], shift=game.plan.shift)


@functools.lru_cache(maxsize=8)
def _loaded(checkpoint: Checkpoint) -> Any:
    return load(checkpoint)
