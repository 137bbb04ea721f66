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
    Game,
    LabelPass,
    PartialResult,
    PartialResults,
    add_slices,
    all_bad,
    of_one_day,
)
from workers.sources.scores.score_tables import read_numbers
from workers.sources.source import SharedScores


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a work unit: reported once, and part of no number."""

    unit: str
    rows: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    cpu_seconds: Counter[str] = field(default_factory=Counter)
    worker: str = ""


class Meter:
    """Measures what a work unit costs."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._stages: Counter[str] = Counter()
        self._bytes = self._rows = 0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the processor time of what is done inside under a name."""
        start = time.process_time()
        try:
            yield
        finally:
            self._stages[name] += time.process_time() - start  # type: ignore[assignment]

    def read(self, count: int, rows: int) -> None:
        """Count what was fetched."""
        self._bytes += count
        self._rows += rows

    def cost(self, unit: WorkUnit) -> Cost:
        """Return what was measured."""
        return Cost(
            work_unit_name(unit),
            self._rows,
            self._bytes,
            time.perf_counter() - self._start,
            self._stages,
            worker=f"{socket.gethostname()}:{os.getpid()}",
        )


_BATCH_ROWS = 1 << 18
_BATCH_PROBABILITIES = 1 << 22  # with many classes fewer rows are held at once


def scan_work_unit(shared: LabelPass, unit: WorkUnit) -> tuple[Cost, PartialResults]:
    """Play the games on a work unit's training rows, and the control games on its holdout rows.

    The streams depend on the audit's seed and the shards' identities alone, so the answer is the
    same to the bit on every worker, in whatever order, however often. A game's answer does not
    depend on the others of the pass.
    """
    meter = Meter()
    total = PartialResults.zero(shared.games)
    for piece in unit:
        for results in _scan_piece(shared, piece, meter):
            total += results
    return meter.cost(unit), total


def _scan_piece(shared: LabelPass, piece: Piece, meter: Meter) -> Iterator[PartialResults]:
    partition = shared.partition
    path = partition.path(piece.file)
    try:
        with meter.stage("read"):
            numbers = range(len(shared.games))
            footer = read_footer(
                shared.lake, path, shared.columns(numbers), listed=partition.file(piece.file)
            )
    except NotEvaluableError as error:
        place = (piece.file, 0, 0)
        yield PartialResults(
            tuple(all_bad(game, place, 0, error, fatal=True) for game in shared.games)
        )
        return
    if piece.start == 0:
        content = ContentDigest.of("footer", piece.file, footer.digest)
        yield PartialResults(
            tuple(_with_content(PartialResult.zero(game), content) for game in shared.games)
        )
    for index in piece.row_groups(len(footer.groups)):
        yield _scan_row_group(shared, path, piece.file, footer, index, meter)


def _scan_row_group(
    shared: LabelPass, path: str, file: str, footer: Footer, index: int, meter: Meter
) -> PartialResults:
    rows = max(footer.groups[index].rows, 0)
    place = (file, index, 0)
    parts, able = _with_columns(shared, path, place, footer, rows)
    if not able:
        return PartialResults(tuple(parts))
    columns = shared.columns(able)
    try:
        with meter.stage("read"):
            group = read_row_group(shared.lake, path, footer, index, columns)
    except NotEvaluableError as error:
        for number in able:
            if len(able) > 1:
                alone = shared.alone[number]
                parts[number] = _scan_row_group(alone, path, file, footer, index, meter).parts[0]
            else:
                parts[number] = all_bad(shared.games[number], place, rows, error)
        return PartialResults(tuple(parts))
    meter.read(group.bytes_read, rows)
    for number, result in _scan_decoded(shared, able, group, file, meter).items():
        content = group.content(file, shared.games[number].columns)
        parts[number] = _with_content(result, content)
    return PartialResults(tuple(parts))


def _with_columns(
    shared: LabelPass, path: str, place: tuple[str, int, int], footer: Footer, rows: int
) -> tuple[list[PartialResult], tuple[int, ...]]:
    """Return what is bad for games whose columns are missing, and the numbers of the others."""
    parts, able = [], []
    for number, game in enumerate(shared.games):
        try:
            check_columns(shared, game, footer, path)
        except NotEvaluableError as error:
            parts.append(all_bad(game, place, rows, error))
        else:
            parts.append(PartialResult.zero(game))
            able.append(number)
    return parts, tuple(able)


def _scan_decoded(
    shared: LabelPass, numbers: tuple[int, ...], group: RowGroup, file: str, meter: Meter
) -> dict[int, PartialResult]:
    """Scan a row group; where it is damaged, once for each game, as if there were no others."""
    try:
        return _scan_batches(shared, numbers, group, file, meter)
    except NotEvaluableError:
        pass
    results: dict[int, PartialResult] = {}
    for number in numbers:
        try:
            results |= _scan_batches(shared, (number,), group, file, meter)
        except NotEvaluableError as error:
            rows = group.footer.groups[group.index].rows
            results[number] = all_bad(shared.games[number], (file, group.index, 0), rows, error)
    return results


def _scan_batches(
    shared: LabelPass, numbers: tuple[int, ...], group: RowGroup, file: str, meter: Meter
) -> dict[int, PartialResult]:
    """Return the results of one row group; a game that fails once fails for all of it."""
    columns = shared.columns(numbers)
    classes = max(len(shared.games[number].source.label.classes) for number in numbers)
    most = max(1, min(_BATCH_ROWS, _BATCH_PROBABILITIES // classes))
    results = {number: PartialResult.zero(shared.games[number]) for number in numbers}
    failed: dict[int, PartialResult] = {}
    start = 0
    opened = Opened(shared.lake, group, columns, is_inspected(shared.partition, file))
    # Spelled out, every row would say "train" or "holdout" anew.
    batches = group.batches(columns, rows=most, encoded={SPLIT})
    while True:
        with meter.stage("decode"):
            table = next(batches, None)
            if table is None:
                break
            batch = Batch(table, group.path, (file, group.index, start))
        scores = SharedScores(meter.stage)
        for number in numbers:
            game = shared.games[number]
            if number in failed:
                continue
            try:
                with scores.stage("decode"):
                    playing = players(game, batch)
                    asked = _asked(game, batch, scores, playing, opened)
                result = _scan_batch(shared, game, batch, asked, playing)
                result = _with_unread(result, shared, game, batch, asked, playing)
                with scores.stage("look"):
                    seen = Seen(game.source, game.plan, batch, asked, playing, opened)
                    looks = look_at(seen)
                results[number] += dataclasses.replace(result, looks=looks)
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


def _scan_batch(
    shared: LabelPass, game: Game, batch: Batch, scores: SharedScores, playing: Players
) -> PartialResult:
    source, plan = game.source, game.plan
    with scores.stage("decode"):
        labels, people = playing.labels, playing.people
        arms = [playing.training, playing.holdout]
        slices = [batch.groups(column) for column in plan.slices]
        if plan.other_labels:
            slices.append(batch.groups_together(plan.other_labels))
        if game.segments is not None:
            slices += game.segments.groups(batch)
    scored = scored_batch(shared, game, batch, scores, labels)
    target, proxy = scored.records.target, scored.records.proxy
    day, days = scored.records.group, len(source.days)
    with scores.stage("play"), refusing_probabilities():
        held = arms[1]
        calibration = fidelity(target.take(held, axis=0), proxy.take(held, axis=0), labels[held])
        result = dataclasses.replace(
            PartialResult.zero(game),
            fidelity=calibration,
            excluded_records=playing.excluded,
            bad=playing.bad,
            unread_labels=playing.unread_labels,
        )
        if people is not None:
            unit_key = game.unit_key(shared.partition.day)
            persons = [persons_of(scored, people, rows, unit_key) for rows in arms]
            return dataclasses.replace(result, units=(persons[0], persons[1]))
        training, control = (
            play_arm(scored, rows, slices, control=control)
            for rows, control in zip(arms, (False, True), strict=True)
        )
    return dataclasses.replace(
        result,
        tallies=dataclasses.replace(
            result.tallies,
            game=training.tally,
            control_game=control.tally,
            odds=of_one_day(training.odds, day, days),
            control_odds=of_one_day(control.odds, day, days),
            student=training.student,
            control_student=control.student,
            labels=training.labels,
            control_labels=control.labels,
        ),
        slices=tuple(map(add_slices, training.slices, control.slices)),
        proxy_fits=(training.proxy_fit, control.proxy_fit),
    )


def _with_unread(
    result: PartialResult,
    shared: LabelPass,
    game: Game,
    batch: Batch,
    scores: SharedScores,
    playing: Players,
) -> PartialResult:
    """Return the result with the rows whose label cannot be read; they play in public alone."""
    if not any(rows.size for rows in playing.unread):
        return result
    untaught, unknown = dataclasses.replace(game, student=None), np.zeros_like(playing.labels)
    scored = scored_batch(shared, untaught, batch, scores, unknown)
    day, days = scored.records.group, len(game.source.days)
    with scores.stage("play"), refusing_probabilities():
        if playing.people is not None:
            people, unit_key = playing.people, game.unit_key(shared.partition.day)
            one, other = (
                persons_of(scored, people, rows, unit_key).unread() for rows in playing.unread
            )
            return dataclasses.replace(result, unread_units=(one, other))
        arms = map(scored.records.of, playing.unread)
        training, control = (unread_odds(arm.target, arm.proxy) for arm in arms)
    tallies = dataclasses.replace(
        result.tallies,
        unread=of_one_day(training, day, days),
        control_unread=of_one_day(control, day, days),
    )
    return dataclasses.replace(result, tallies=tallies)


def _with_content(result: PartialResult, content: ContentDigest) -> PartialResult:
    return dataclasses.replace(result, content=result.content + content)


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
        key=_stream(shared, game, batch),
        indices=np.arange(labels.size) + first,
        group=shared.partition.group(file),
    )
    return ScoredBatch(game, batch, records)


def persons_of(
    scored: ScoredBatch, people: NDArray[np.str_], rows: NDArray[np.int64], unit_key: int
) -> UnitChoices:
    """Return the records of each person of an arm that play.

    Args:
        scored: the batch.
        people: shape (rows of the batch,), whose each row is.
        rows: of the arm, their places in the batch.
        unit_key: the stream of the audit's privacy units, the same in every shard.
    """
    fitted = scored.game.student

    def student(units: NDArray[np.uint64]) -> NDArray[np.float64]:
        assert fitted is not None  # noqa: S101  # else not called
        return fitted.probabilities(scored.batch, rows, folds_of(units))

    return unit_records(
        scored.records.of(rows),
        people[rows],
        unit_key=unit_key,
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
    fit = _proxy_fit(game, some)
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


def _proxy_fit(game: Game, records: ScoredRecords) -> LabelFit:
    """Return how well the proxy held an arm's labels, where that is asked."""
    if game.source.proxy_is_earlier:
        return LabelFit()
    return label_fit(records.proxy, records.labels)


def _stream(shared: LabelPass, game: Game, batch: Batch) -> int:
    """Return the stream of a row group in a game."""
    file, row_group, _ = batch.place
    model, day = game.source.model, str(shared.partition.day)
    return stream_key(game.plan.seed, model, day, file, row_group)


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
