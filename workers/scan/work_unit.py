"""One work unit of a day's labels: read once, scored by all models, folded into tallies."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import (
    LabelCounts,
    LabelFit,
    OddsTally,
    RankedPredictions,
    ScoreTally,
    SliceTallies,
    StudentTallies,
    Tally,
    UnitRecords,
    decoy_tally,
    draw_counterfactuals,
    fidelity,
    fit_of,
    folds_of,
    label_counts,
    label_fit,
    odds_tally,
    replay,
    score_distribution,
    score_named,
    slice_tallies,
    stream_key,
    unit_records,
    unread_odds,
)
from privcore.lower_bounds import Secret
from workers.exceptions import NotEvaluableError, refusing_probabilities
from workers.labels.columns import SPLIT, Batch
from workers.labels.content_digest import ContentDigest
from workers.labels.decoys import committed
from workers.labels.parquet import (
    Footer,
    RowGroup,
    read_footer,
    read_row_group,
)
from workers.labels.shards import Piece, WorkUnit
from workers.scan.against_student import against_student
from workers.scan.cost import Cost, Meter
from workers.scan.holdout_rows import holdout_rows
from workers.scan.near_copies import NearCopies, is_inspected, near_copies
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
from workers.scan.players import Players, check_columns, players
from workers.scan.rows_alike import Looked, RowsAlike, columns_to_look_at, rows_alike
from workers.scan.score_diagnostics import diagnose
from workers.sources.source import SharedScores, Source

_BATCH_ROWS = 1 << 18
_BATCH_PROBABILITIES = 1 << 22  # with many classes fewer rows are held at once


def scan_work_unit(shared: LabelPass, unit: WorkUnit) -> tuple[Cost, PartialResults]:
    """Play the games on a work unit's training rows, and the control games on its holdout rows.

    The streams depend on the audit's seed and the shards' identities alone, so the answer is the
    same to the bit on every worker, in whatever order, however often. A game's answer does not
    depend on the others of the pass.

    Raises:
        TransientError: storage kept failing.
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
            parts[number] = all_bad(shared.games[number], place, rows, error)
        return PartialResults(tuple(parts))
    meter.read(group.bytes_read, rows)
    for number, result in _scan_decoded(shared, able, group, file, meter).items():
        own = shared.games[number].columns
        bytes_of = [part for name in sorted(own) for part in (name, group.digests.get(name, b""))]
        content = ContentDigest.of("row group", file, index, *bytes_of)
        parts[number] = _with_content(result, content)
        source = shared.games[number].source
        if source.decoys is not None:
            names = {"label": source.label.column, "column": source.decoys.column}
            entry = committed(file, index, group.digests, **names)
            parts[number] = dataclasses.replace(parts[number], committed=entry)
    return PartialResults(tuple(parts))


def _with_columns(
    shared: LabelPass, path: str, place: tuple[str, int, int], footer: Footer, rows: int
) -> tuple[list[PartialResult], tuple[int, ...]]:
    """Return what is bad for games whose columns are missing, and the numbers of the others."""
    parts, able = [], []
    for number, game in enumerate(shared.games):
        try:
            check_columns(game, footer, path)
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
    looked = _looked(shared, group, file, columns, meter)
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
                result = _scan_batch(shared, game, batch, scores, playing)
                result = _with_unread(result, shared, game, batch, scores, playing)
                with scores.stage("look"):
                    copies = _copies(shared, game, batch)
                    alike = _alike(game, batch, scores, looked)
                    held = holdout_rows(game.source, batch, playing.held)
                decoys = _decoys(game.source, batch, scores)
                result = dataclasses.replace(
                    result,
                    copies=copies,
                    alike=alike,
                    holdout=held,
                    tallies=dataclasses.replace(result.tallies, decoys=decoys),
                    diagnostics=diagnose(game.source, batch, scores),
                )
                results[number] += result
            except NotEvaluableError as error:
                rows = group.footer.groups[group.index].rows
                failed[number] = all_bad(game, (file, group.index, 0), rows, error)
        start += table.num_rows
    return results | failed


def _scan_batch(
    shared: LabelPass, game: Game, batch: Batch, scores: SharedScores, playing: Players
) -> PartialResult:
    source, plan = game.source, game.plan
    with scores.stage("decode"):
        labels, people = playing.labels, playing.people
        arms = [playing.training, playing.holdout]
        slices = [batch.groups(column) for column in plan.slices]
        if game.segments is not None:
            slices += game.segments.groups(batch)
        undecided = source.undecided(batch)
    target, proxy = source.probabilities(batch, scores)
    day, days = shared.partition.group(batch.place[0]), len(source.days)
    key = _stream(shared, game, batch)
    scored = _Scored(game, batch, target, proxy, labels, undecided, key, day)
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
            persons = [_persons(scored, people, rows, unit_key) for rows in arms]
            return dataclasses.replace(result, units=(persons[0], persons[1]))
        training, control = (
            _play_arm(scored, rows, slices, control=control)
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
        scores=(training.scores, control.scores),
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
    target, proxy = game.source.probabilities(batch, scores)
    undecided = game.source.undecided(batch)
    day, days = shared.partition.group(batch.place[0]), len(game.source.days)
    with scores.stage("play"), refusing_probabilities():
        if playing.people is not None:
            unknown, key = np.zeros_like(playing.labels), _stream(shared, game, batch)
            untaught = dataclasses.replace(game, student=None)
            scored = _Scored(untaught, batch, target, proxy, unknown, undecided, key, day)
            people, unit_key = playing.people, game.unit_key(shared.partition.day)
            one, other = (
                _persons(scored, people, rows, unit_key).unread() for rows in playing.unread
            )
            return dataclasses.replace(result, unread_units=(one, other))
        order = None if undecided is None else undecided.order
        training, control = (
            unread_odds(target[rows], proxy[rows], order=None if order is None else order[rows])
            for rows in playing.unread
        )
    tallies = dataclasses.replace(
        result.tallies,
        unread=of_one_day(training, day, days),
        control_unread=of_one_day(control, day, days),
    )
    return dataclasses.replace(result, tallies=tallies)


def _stream(shared: LabelPass, game: Game, batch: Batch) -> int:
    """Return the stream of a row group in a game."""
    file, row_group, _ = batch.place
    model, day = game.source.model, str(shared.partition.day)
    return stream_key(game.plan.seed, model, day, file, row_group)


def _copies(shared: LabelPass, game: Game, batch: Batch) -> NearCopies:
    if not is_inspected(shared.partition, batch.place[0]):
        return NearCopies.none()
    return near_copies(batch, game.source, game.plan.privacy_unit)


def _looked(
    shared: LabelPass, group: RowGroup, file: str, columns: tuple[str, ...], meter: Meter
) -> Looked:
    """Return the columns of some files that may name persons, also those that no model takes."""
    by_row = any(game.plan.privacy_unit is None for game in shared.games)
    if not by_row or not is_inspected(shared.partition, file):
        return Looked()
    with meter.stage("look"):
        return columns_to_look_at(shared.lake, group.path, group.footer, group.index, columns)


def _alike(game: Game, batch: Batch, scores: SharedScores, looked: Looked) -> RowsAlike:
    """Return which rows belong together; where privacy units play, nothing rests on it."""
    if game.plan.privacy_unit is not None:
        return RowsAlike.none()
    return rows_alike(batch, game.source, scores, looked)


def _decoys(source: Source, batch: Batch, scores: SharedScores) -> OddsTally | None:
    """Return the tally of the batch's decoys; None where training was given none."""
    others = source.others(batch)
    if others is None:
        return None
    labels, _ = source.labels(batch)
    train, _ = source.arms(batch)
    rows = np.flatnonzero(train & (labels >= 0) & (others >= 0))
    target, proxy = source.probabilities(batch, scores)
    with scores.stage("play"), refusing_probabilities():
        return decoy_tally(target[rows], proxy[rows], labels[rows], others[rows])


@dataclass(frozen=True, slots=True)
class _Scored:
    """A batch of a game with what target and proxy say of its rows, its stream, and its day."""

    game: Game
    batch: Batch
    target: NDArray[np.float64]
    proxy: NDArray[np.float64]
    labels: NDArray[np.int64]
    undecided: RankedPredictions | None
    key: int
    day: int


def _persons(
    scored: _Scored, people: NDArray[np.str_], rows: NDArray[np.int64], unit_key: int
) -> UnitRecords:
    """Return one record for each person of an arm."""
    fitted, undecided = scored.game.student, scored.undecided

    def student(chosen: NDArray[np.int64], units: NDArray[np.uint64]) -> NDArray[np.float64]:
        assert fitted is not None  # noqa: S101  # else not called
        return fitted.probabilities(scored.batch, rows[chosen], folds_of(units))

    return unit_records(
        scored.target[rows],
        scored.proxy[rows],
        scored.labels[rows],
        people[rows],
        unit_key=unit_key,
        key=scored.key,
        indices=rows + scored.batch.place[2],
        group=scored.day,
        undecided=None if undecided is None else undecided.of(rows),
        student=None if fitted is None else student,
    )


@dataclass(frozen=True, slots=True)
class _Arm:
    """Results of the training or the holdout rows of a batch."""

    tally: Tally
    odds: OddsTally
    scores: ScoreTally
    proxy_fit: LabelFit
    slices: tuple[SliceTallies | None, ...]
    student: StudentTallies | None = None
    labels: LabelCounts | None = None


def _play_arm(
    scored: _Scored,
    rows: NDArray[np.int64],
    groupings: list[tuple[tuple[str, ...], NDArray[np.int64]]],
    *,
    control: bool,
) -> _Arm:
    game, batch, undecided = scored.game, scored.batch, scored.undecided
    key, day = scored.key, scored.day
    target = scored.target.take(rows, axis=0)  # several times as fast as [rows]
    proxy = scored.proxy.take(rows, axis=0)
    labels, indices = scored.labels[rows], rows + batch.place[2]
    plan = game.plan
    repetitions, score = plan.repetitions, score_named(plan.score, power=plan.power)
    stands = None if undecided is None else undecided.of(rows)
    order = None if stands is None else stands.order
    fit = _proxy_fit(game, proxy, labels, stands)
    if plan.secret is Secret.MEMBERSHIP:
        # Its game is of pairs, which are made once all records are counted.
        odds = odds_tally(target, proxy, labels)
        return _Arm(Tally.zero(repetitions), odds, ScoreTally.zero(), fit, ())
    student = against_student(game, batch, (target, proxy), labels, rows, day=day)
    sliced: list[SliceTallies | None] = []
    for values, groups in groupings:
        if len(values) > MAXIMUM_SLICES:
            sliced.append(None)
            continue
        sliced.append(
            slice_tallies(
                target,
                proxy,
                labels,
                groups[rows],
                values=values,
                control=control,
                repetitions=repetitions,
                score=score,
                key=key,
                indices=indices,
                order=order,
                student=None if student is None else student.cells,
            )
        )
    dealt = draw_counterfactuals(target, proxy, labels, score=score, key=key, indices=indices)
    many, days = proxy.shape[1] > 2, len(game.source.days)
    return _Arm(
        replay(dealt, repetitions=repetitions),
        odds_tally(target, proxy, labels, order=order),
        score_distribution(dealt),
        fit,
        tuple(sliced),
        None if student is None else student.tallies(day, days),
        label_counts(proxy, labels, group=day, groups=days) if many else None,
    )


def _proxy_fit(
    game: Game,
    proxy: NDArray[np.float64],
    labels: NDArray[np.int64],
    stands: RankedPredictions | None,
) -> LabelFit:
    """Return how well the proxy held an arm's labels, where that is asked."""
    if game.source.proxy_is_earlier:
        return LabelFit()
    return label_fit(proxy, labels) if stands is None else fit_of(stands.near)


def _with_content(result: PartialResult, content: ContentDigest) -> PartialResult:
    return dataclasses.replace(result, content=result.content + content)
