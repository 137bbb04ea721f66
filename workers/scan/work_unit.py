"""One work unit of a day's labels: read once, scored by all models, folded into tallies.

One rule for both arms: what training did to its rows before it took them is done to the holdout.
"""

import dataclasses
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import (
    LabelCounts,
    LabelFit,
    OddsTally,
    PaperScore,
    ScoredRecords,
    SliceTallies,
    StudentTallies,
    Tally,
    UnitChoices,
    draw_counterfactuals,
    fidelity,
    folds_of,
    label_counts,
    label_fit,
    odds_cells,
    odds_tally,
    replay,
    slice_tallies,
    stream_key,
    unit_records,
    unread_odds,
)
from privcore.attacks.hashing import record_streams
from privcore.lower_bounds import Secret
from workers.exceptions import NotEvaluableError, Reason, refusing_probabilities
from workers.labels.columns import SPLIT, Batch, with_missing
from workers.labels.parquet import ContentDigest, Footer, RowGroup, read_footer, read_row_group
from workers.labels.shards import Piece, WorkUnit, work_unit_name
from workers.lake.manifest import class_word
from workers.looks.listed import look_at
from workers.looks.look import Opened, Players, Seen, is_inspected
from workers.scan.partial_results import (
    MAXIMUM_SLICES,
    ByGame,
    Game,
    LabelPass,
    PartialResult,
    add_slices,
    all_bad,
    of_one_day,
)
from workers.sources.scores.score_tables import read_numbers
from workers.sources.source import SharedScores


@dataclass
class Cost:
    """Cost of a work unit, counted while it is scanned: told once, and part of no number."""

    unit: str
    rows: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    cpu_seconds: Counter[str] = field(default_factory=Counter)
    worker: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the processor time of what is done inside under a name."""
        start = time.process_time()
        try:
            yield
        finally:
            self.cpu_seconds[name] += time.process_time() - start  # type: ignore[assignment]


_BATCH_ROWS = 1 << 18
_BATCH_PROBABILITIES = 1 << 22  # with many classes fewer rows are held at once


def scan_work_unit(shared: LabelPass, unit: WorkUnit) -> tuple[Cost, ByGame[PartialResult]]:
    """Play the games on a work unit's training rows, and the control games on its holdout rows.

    The streams depend on the audit's seed and the shards' identities alone, so the answer is the
    same to the bit on every worker, in whatever order, however often. A game's answer does not
    depend on the others of the pass.
    """
    start, cost, total = time.perf_counter(), Cost(work_unit_name(unit)), nothing_scanned(shared)
    for piece in unit:
        for parts in _scan_piece(shared, piece, cost):
            total += ByGame(parts)
    cost.seconds = time.perf_counter() - start
    return cost, total


def nothing_scanned(shared: LabelPass) -> ByGame[PartialResult]:
    """Return the results of no records."""
    return ByGame({number: PartialResult.zero(game) for number, game in shared.games.items()})


def _scan_piece(shared: LabelPass, piece: Piece, cost: Cost) -> Iterator[dict[int, PartialResult]]:
    partition, games = shared.partition, shared.games.items()
    path = partition.path(piece.file)
    try:
        with cost.stage("read"):
            listed = partition.file(piece.file)
            footer = read_footer(shared.lake, path, shared.columns, listed=listed)
    except NotEvaluableError as error:
        place = (piece.file, 0, 0)
        yield {number: all_bad(game, place, 0, error, fatal=True) for number, game in games}
        return
    if piece.start == 0:
        content = ContentDigest.of("footer", piece.file, footer.digest)
        zero = nothing_scanned(shared).parts.items()
        yield {number: dataclasses.replace(part, content=content) for number, part in zero}
    for index in piece.row_groups(len(footer.groups)):
        able, place = [], (piece.file, index, 0)
        for number, game in games:
            try:
                check_columns(shared, game, footer, path)
                able.append(number)
            except NotEvaluableError as error:
                yield {number: all_bad(game, place, max(footer.groups[index].rows, 0), error)}
        if able:
            yield _scan_row_group(shared.of(able), (path, footer, index), piece.file, cost)


def _scan_row_group(
    shared: LabelPass, place: tuple[str, Footer, int], file: str, cost: Cost
) -> dict[int, PartialResult]:
    """Return the results of a row group; where it is damaged, it is read for each game alone."""
    _, footer, index = place
    rows, contents = max(footer.groups[index].rows, 0), dict[int, ContentDigest]()
    try:
        with cost.stage("read"):
            group = read_row_group(shared.lake, *place, shared.columns)
        cost.bytes_read += group.bytes_read
        cost.rows += rows
        contents = {n: group.content(file, game.columns) for n, game in shared.games.items()}
        parts = _scan_batches(shared, group, file, cost)
    except NotEvaluableError as error:
        if shared.alone:
            alone = (_scan_row_group(one, place, file, cost) for one in shared.alone)
            return {number: part for found in alone for number, part in found.items()}
        parts = {n: all_bad(g, (file, index, 0), rows, error) for n, g in shared.games.items()}
    return {
        number: dataclasses.replace(part, content=contents.get(number, part.content))
        for number, part in parts.items()
    }


def _scan_batches(
    shared: LabelPass, group: RowGroup, file: str, cost: Cost
) -> dict[int, PartialResult]:
    """Return the results of one row group; a game that fails once fails for all of it."""
    classes = max(len(game.source.label.classes) for game in shared.games.values())
    most = max(1, min(_BATCH_ROWS, _BATCH_PROBABILITIES // classes))
    results, failed = nothing_scanned(shared).parts, dict[int, PartialResult]()
    start = 0
    opened = Opened(shared.lake, group, shared.columns, is_inspected(shared.partition, file))
    # Spelled out, every row would say "train" or "holdout" anew.
    batches = group.batches(shared.columns, rows=most, encoded={SPLIT})
    while True:
        with cost.stage("decode"):
            table = next(batches, None)
            if table is None:
                break
            batch = Batch(table, group.path, (file, group.index, start))
        scores = SharedScores(cost.stage)
        for number, game in shared.games.items():
            if number in failed:
                continue
            try:
                with scores.stage("decode"):
                    playing = players(game, batch)
                    asked = _asked(game, batch, scores, playing, opened)
                seen = Seen(game.source, game.plan, batch, asked, playing, opened)
                result = _scan_batch(shared, game, seen)
                with scores.stage("look"):
                    results[number] += dataclasses.replace(result, looks=look_at(seen))
            except NotEvaluableError as error:
                rows = group.footer.groups[group.index].rows
                failed[number] = all_bad(game, (file, group.index, 0), rows, error)
        start += table.num_rows
    return results | failed


def _asked(
    game: Game, batch: Batch, scores: SharedScores, playing: Players, opened: Opened
) -> SharedScores:
    """Return the scores of the rows that lots chose, and of those that are looked at."""
    if game.draw is None:
        return scores
    asked = np.zeros(batch.table.num_rows, dtype=np.bool_)
    asked[: max(0, opened.first_rows - batch.place[2])] = True
    for rows in (playing.training, playing.holdout, *playing.unread):
        asked[rows] = True
    return SharedScores(scores.stage, asked=asked)


def _scan_batch(shared: LabelPass, game: Game, seen: Seen) -> PartialResult:
    plan, batch, scores, playing = game.plan, seen.batch, seen.scores, seen.playing
    with scores.stage("decode"):
        slices = [batch.groups(column) for column in plan.slices]
        if plan.other_labels:
            slices.append(batch.groups_together(plan.other_labels))
        if game.segments is not None:
            slices += game.segments.groups(batch)
    scored = scored_batch(shared, game, batch, scores, playing.labels)
    day, days = scored.records.group, len(game.source.days)
    with scores.stage("play"), refusing_probabilities():
        held = scored.records.of(playing.holdout)
        result = dataclasses.replace(
            PartialResult.zero(game),
            fidelity=fidelity(held.target, held.proxy, held.labels),
            excluded_records=playing.excluded,
            bad=playing.bad,
            unread_labels=playing.unread_labels,
        )
        # Rows whose label cannot be read play in public alone, and no student knows them.
        unread = any(rows.size for rows in playing.unread)
        if playing.people is not None:
            people = playing.people
            training, control = (
                persons_of(scored, people, rows) for rows in (playing.training, playing.holdout)
            )
            result = dataclasses.replace(result, units=(training, control))
            if not unread:
                return result
            unknown = dataclasses.replace(scored.records, labels=np.zeros_like(playing.labels))
            untaught = ScoredBatch(dataclasses.replace(game, student=None), batch, unknown)
            one, other = (persons_of(untaught, people, rows).unread() for rows in playing.unread)
            return dataclasses.replace(result, unread_units=(one, other))
        played = play_arm(scored, playing.training, slices, control=False)
        beside = play_arm(scored, playing.holdout, slices, control=True)
        tallies = dataclasses.replace(
            result.tallies,
            game=played.tally,
            control_game=beside.tally,
            odds=of_one_day(played.odds, day, days),
            control_odds=of_one_day(beside.odds, day, days),
            student=played.student,
            control_student=beside.student,
            labels=played.labels,
            control_labels=beside.labels,
        )
        if unread:
            arms = map(scored.records.of, playing.unread)
            one_arm, other_arm = (unread_odds(arm.target, arm.proxy) for arm in arms)
            tallies = dataclasses.replace(
                tallies,
                unread=of_one_day(one_arm, day, days),
                control_unread=of_one_day(other_arm, day, days),
            )
    return dataclasses.replace(
        result,
        tallies=tallies,
        slices=tuple(map(add_slices, played.slices, beside.slices)),
        proxy_fits=(played.proxy_fit, beside.proxy_fit),
    )


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """A batch of a game with what target and proxy say of its rows."""

    game: Game
    batch: Batch
    records: ScoredRecords


def _against_student(
    scored: ScoredBatch, some: ScoredRecords, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], StudentTallies] | None:
    """Return where some rows count in the odds against the student, and their tallies.

    None where there is no student.
    """
    game, days = scored.game, len(scored.game.source.days)
    if game.student is None:
        return None
    said = game.student.probabilities(scored.batch, rows, row_folds(game, scored.batch, rows))
    cells = odds_cells(some.target, said[:, 0], some.labels)
    odds = of_one_day(OddsTally.of_cells(cells), some.group, days)
    labels = label_counts(
        some.proxy, some.labels, student=said[:, 1], group=some.group, groups=days
    )
    return cells, StudentTallies(odds, labels)


def scored_batch(
    shared: LabelPass, game: Game, batch: Batch, scores: SharedScores, labels: NDArray[np.int64]
) -> ScoredBatch:
    """Return all of a batch's rows as the game's models see them."""
    target, proxy = game.source.probabilities(batch, scores)
    file, _, first = batch.place
    records = ScoredRecords(
        target,
        proxy,
        labels,
        key=_stream(game, batch),
        indices=np.arange(labels.size) + first,
        group=shared.partition.group(file),
    )
    return ScoredBatch(game, batch, records)


def persons_of(
    scored: ScoredBatch, people: NDArray[np.str_], rows: NDArray[np.int64]
) -> UnitChoices:
    """Return the records of each person of an arm that play.

    Args:
        scored: the batch.
        people: shape (rows of the batch,), whose each row is.
        rows: of the arm, their places in the batch.
    """
    fitted = scored.game.student

    def student(units: NDArray[np.uint64]) -> NDArray[np.float64]:
        assert fitted is not None  # noqa: S101  # else not called
        return fitted.probabilities(scored.batch, rows, folds_of(units))

    return unit_records(
        scored.records.of(rows),
        people[rows],
        unit_key=scored.game.unit_key,
        student=None if fitted is None else student,
        # In public, no label may decide anything, and it is fitted to rows whose label can be read.
        student_chooses=scored.game.plan.epsilon_public is None,
    )


@dataclass(frozen=True, slots=True)
class PlayedArm:
    """Results of the training or the holdout rows of a batch."""

    tally: Tally
    odds: OddsTally
    proxy_fit: LabelFit
    slices: tuple[SliceTallies | None, ...]
    student: StudentTallies | None = None
    labels: LabelCounts | None = None


def play_arm(
    scored: ScoredBatch,
    rows: NDArray[np.int64],
    groupings: list[tuple[tuple[str, ...], NDArray[np.int64]]],
    *,
    control: bool,
) -> PlayedArm:
    """Return what the rows of one arm come to.

    Args:
        scored: the batch.
        rows: of the arm, their places in the batch.
        groupings: of each division of all rows, the values and each row's index into them.
        control: whether these are the holdout's rows.
    """
    game, some = scored.game, scored.records.of(rows)
    target, proxy, labels, day = some.target, some.proxy, some.labels, some.group
    plan = game.plan
    repetitions = plan.repetitions
    # Of an earlier proxy nobody asks whether it knows labels.
    fit = LabelFit() if game.source.proxy_is_earlier else label_fit(proxy, labels)
    if plan.secret is Secret.MEMBERSHIP:
        # Its game is of pairs, which are made once all records are counted.
        odds = odds_tally(target, proxy, labels)
        return PlayedArm(Tally.zero(repetitions), odds, fit, ())
    student = _against_student(scored, some, rows)
    dealt = draw_counterfactuals(
        target, proxy, labels, score=PaperScore(), key=some.key, indices=some.indices
    )
    cells = odds_cells(target, proxy, labels)
    references = [cells] if student is None else [cells, student[0]]
    sliced = tuple(
        None
        if len(values) > MAXIMUM_SLICES
        else slice_tallies(
            dealt, references, groups[rows], values=values, control=control, repetitions=repetitions
        )
        for values, groups in groupings
    )
    many, days = proxy.shape[1] > 2, len(game.source.days)
    return PlayedArm(
        replay(dealt, repetitions=repetitions),
        OddsTally.of_cells(cells),
        fit,
        sliced,
        None if student is None else student[1],
        label_counts(proxy, labels, group=day, groups=days) if many else None,
    )


def _stream(game: Game, batch: Batch, *purpose: str) -> int:
    """Return the stream of a row group in a game, for a purpose beside the game itself."""
    file, row_group, _ = batch.place
    day = str(game.source.day)
    return stream_key(game.plan.seed, game.source.model, day, file, row_group, *purpose)


_UNIFORM = 2.0**-53


def check_columns(shared: LabelPass, game: Game, footer: Footer, path: str) -> None:
    """Raise `NotEvaluableError` unless a file has the columns that the game needs.

    A feature is missing in all rows of a file that lacks it where another of the day's has it.
    """
    plan = game.plan
    features = {*game.source.context} - {game.source.label.column, *game.plan_columns}
    names = with_missing(shared.lake, shared.partition, footer.names, features)
    of_plan = [(name, "plan.slices in the settings") for name in plan.slices]
    if plan.privacy_unit is not None:
        of_plan.append((plan.privacy_unit, "plan.privacy_unit in the settings"))
    game.source.check_columns(names, path, of_plan)
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
    excluded = int(np.count_nonzero(known & ~(train | holdout)))
    if game.draw is not None:
        drawn_from = game.draw.content.hexdigest()
        lots = _lots(game, batch, f"draw {source.digests().target} {drawn_from}")
        train, holdout = (
            arm & (lots < share)
            for arm, share in zip((train, holdout), game.draw.shares, strict=True)
        )
    if plan.sampling is not None:
        holdout = holdout & (_lots(game, batch, "sampling") < _rates(game, batch, labels))
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
    )


def row_streams(
    game: Game, batch: Batch, purpose: str, rows: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return the stream of each of some rows, for one purpose; it depends on no other row."""
    key = _stream(game, batch, purpose)
    return record_streams(rows.size, key=key, indices=rows + batch.place[2])


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


def _lots(game: Game, batch: Batch, purpose: str) -> NDArray[np.float64]:
    """Return a lot of each row for a purpose, from 0 to 1."""
    streams = row_streams(game, batch, purpose, np.arange(batch.table.num_rows))
    return np.asarray((streams >> np.uint64(11)).astype(np.float64) * _UNIFORM)
