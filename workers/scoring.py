"""One shard: read once, scored by both models, played for all repetitions, folded into tallies."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import PaperScore, Tally, label_inference, stream_key
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

    audit: Tally
    control: Tally
    excluded_records: int

    def __add__(self, other: "Score") -> "Score":
        """Return the score of both sets of shards."""
        return Score(
            self.audit + other.audit,
            self.control + other.control,
            self.excluded_records + other.excluded_records,
        )

    @classmethod
    def zero(cls, repetitions: int) -> "Score":
        """Return the score of no shards."""
        return cls(Tally.zero(repetitions), Tally.zero(repetitions), 0)


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

    def play(arm: NDArray[np.bool_]) -> Tally:
        try:
            return label_inference(
                scored[0][arm],
                scored[1][arm],
                rows.labels[arm],
                score=PaperScore(game.plan.power),
                repetitions=game.plan.repetitions,
                key=key,
                indices=np.flatnonzero(arm),
            )
        except InvalidInputError as error:
            raise NotEvaluableError(Reason.PROBABILITIES_INVALID, str(error)) from None

    return Score(
        audit=play(rows.train),
        control=play(rows.holdout),
        excluded_records=int(np.count_nonzero(~(rows.train | rows.holdout))),
    )


@functools.lru_cache(maxsize=8)
def _loaded(checkpoint: Checkpoint) -> Any:
    return load(checkpoint)
