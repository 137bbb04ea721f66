"""Segments are fitted before the first row is counted: a sample of rows is read."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import learned
from workers.exceptions import NotEvaluableError, Reason
from workers.executors import Executor
from workers.labels.columns import Batch
from workers.scan.fitted_segments import fitted_segments
from workers.scan.fitted_student import (
    StudentSample,
    as_objects,
    read_context,
)
from workers.scan.partial_results import Game, LabelPass
from workers.scan.players import players, row_folds, row_streams
from workers.scan.student_look import sampled
from workers.sources.source import SharedScores, context_features


def with_segments(shared: LabelPass, *, share: float, executor: Executor) -> LabelPass:
    """Return a pass of one game with its segments.

    Args:
        shared: of one game, with its student.
        share: every region of the features holds at least this share of the rows.
        executor: that reads the labels' files.

    Raises:
        NotEvaluableError: there is no row to look at, or none has features.
    """
    (game,) = shared.games
    samples = sampled(shared, _of_batch, executor=executor)
    if samples is None or not samples[0].streams.size or not samples[0].features:
        raise NotEvaluableError(
            Reason.FEATURE_INVALID,
            f"No features of {game.source.model} can be read, so its rows cannot be divided into "
            "groups: name feature columns in [models.scores] context.",
        )
    segments = fitted_segments(samples[0], share=share)
    return dataclasses.replace(shared, games=(dataclasses.replace(game, segments=segments),))


def _of_batch(game: Game, batch: Batch, before: StudentSample) -> StudentSample:
    """Return rows of both arms, with how far the target's answer is from what was expected."""
    playing = players(game, batch)
    both = np.sort(np.concatenate([playing.training, playing.holdout]))
    streams = row_streams(game, batch, "segments", both)
    kept = before.wanted(streams)
    rows = both[kept]
    if not rows.size:
        return StudentSample.none(seen=streams.size)
    features = context_features(game.source, batch)
    numbers, words = read_context(batch, features, rows)
    moved = _movement(game, batch, rows)[:, None]
    nothing = np.zeros(rows.size, dtype=np.int64)
    return StudentSample(
        features,
        streams[kept],
        nothing,
        numbers,
        as_objects(words, rows.size),
        moved,
        np.zeros_like(moved),
        nothing - 1,
        seen=streams.size,
    )


def _movement(game: Game, batch: Batch, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how far the target's answer is from the student's, or the proxy's: (some rows,)."""
    folds = row_folds(game, batch, rows)
    target, expected = (
        each[rows] for each in game.source.probabilities(batch, SharedScores.unmetered())
    )
    if game.student is not None:
        expected = game.student.probabilities(batch, rows, folds)[:, 0]
    return np.asarray(np.abs(learned(target) - learned(expected)).max(axis=1))
