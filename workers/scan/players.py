"""Rows of a batch that play: their side, their label, and their privacy unit.

One rule for both arms: what training did to its rows before it took them is done to the holdout.
"""

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import folds_of, stream_key
from privcore.attacks.hashing import record_streams
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import Batch, with_missing
from workers.labels.parquet import Footer
from workers.lake.manifest import class_word
from workers.looks.look import Players
from workers.scan.partial_results import Game, LabelPass
from workers.sources.scores.score_tables import read_numbers
from workers.sources.source import other_labels

_UNIFORM = 2.0**-53


def check_columns(shared: LabelPass, game: Game, footer: Footer, path: str) -> None:
    """Raise `NotEvaluableError` unless a file has the columns that the game needs.

    A feature is missing in all rows of a file that lacks it where another of the day's has it.
    """
    plan = game.plan
    features = {*game.source.context} - {game.source.label.column, *game.plan_columns}
    footer = with_missing(shared.lake, shared.partition, footer, features)
    game.source.check_columns(footer, path, slices=plan.slices, unit=plan.privacy_unit)
    weight = None if plan.sampling is None else plan.sampling.weight
    named = dict.fromkeys(plan.other_labels, "other_labels names")
    named |= {} if weight is None else {weight: "sampling.weight names"}
    for column, by in named.items():
        if column not in footer.names:
            raise NotEvaluableError(
                Reason.FEATURE_INVALID,
                f"{path} has no column {column!r}, which {by}: write it for the rows of both arms, "
                "or correct the settings.",
            )


def players(game: Game, batch: Batch) -> Players:
    """Return which rows of the batch play.

    Raises:
        NotEvaluableError: a column holds what it cannot mean.
    """
    source, plan = game.source, game.plan
    labels, bad = source.labels(batch)
    train, holdout = source.arms(batch)
    known = labels >= 0
    present = source.present(batch)
    held = np.flatnonzero(holdout & present)
    unread = present & ~known & (plan.epsilon_public is not None)
    people = None
    if plan.privacy_unit is not None:
        people, without_person = batch.units(plan.privacy_unit, among=known)
        known &= people != ""
        unread &= people != ""
        bad += without_person
    others = other_labels(source, batch)
    if others is not None:
        known &= others < 0  # what a coin chose is no fresh label: it is a decoy alone
    excluded = int(np.count_nonzero(known & ~(train | holdout)))
    if game.draw is not None:
        drawn_from = game.draw.content.hexdigest()
        lots = _lots(game, batch, f"draw {source.digests().target} {drawn_from}")
        train, holdout = (
            arm & (lots < share)
            for arm, share in zip((train, holdout), game.draw.shares, strict=True)
        )
    rates, unsampled = None, int(np.count_nonzero(holdout & known))
    if plan.sampling is not None:
        rates = _rates(game, batch, labels)
        holdout = holdout & _drawn(game, batch, rates)
    return Players(
        labels,
        np.flatnonzero(train & known),
        np.flatnonzero(holdout & known),
        held,
        people,
        excluded,
        bad,
        (np.flatnonzero(train & unread), np.flatnonzero(holdout & unread)),
        int(np.count_nonzero(unread)),
        rates,
        unsampled,
    )


def row_streams(
    game: Game, batch: Batch, purpose: str, rows: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return the stream of each of some rows, for one purpose; it depends on no other row."""
    file, row_group, start = batch.place
    day = str(game.source.day)
    key = stream_key(game.plan.seed, game.source.model, day, file, row_group, purpose)
    return record_streams(rows.size, key=key, indices=rows + start)


def row_folds(game: Game, batch: Batch, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the fold of each of some rows, where rows play."""
    return folds_of(row_streams(game, batch, "fold", rows))


def _rates(game: Game, batch: Batch, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return with which probability training keeps each row, as settings or weights declare it."""
    sampling = game.plan.sampling
    assert sampling is not None  # noqa: S101  # who calls has looked
    if sampling.weight is None:
        rates = {class_word(word): rate for word, rate in sampling.label.items()}
        told = [rates.get(word, 1.0) for word in game.source.label.words]
        return np.array([*told, 1.0])[labels]
    weights = read_numbers(batch, sampling.weight, said="sampling.weight")
    if not np.all(weights[labels >= 0] >= 1.0):
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"{batch.path} holds in {sampling.weight!r} a weight that is missing or below 1: a "
            "row that training keeps with probability p has the weight 1/p, in both arms.",
        )
    return np.asarray(1.0 / np.where(labels >= 0, weights, 1.0))


def _drawn(game: Game, batch: Batch, rates: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which rows training would have kept, by these rates and a lot of our own."""
    return np.asarray(_lots(game, batch, "sampling") < rates)


def _lots(game: Game, batch: Batch, purpose: str) -> NDArray[np.float64]:
    """Return a lot of each row for a purpose, from 0 to 1."""
    streams = row_streams(game, batch, purpose, np.arange(batch.table.num_rows))
    return np.asarray((streams >> np.uint64(11)).astype(np.float64) * _UNIFORM)
