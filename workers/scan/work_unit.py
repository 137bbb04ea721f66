"""One work unit of a day's labels: read once, scored by all models, folded into tallies."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import (
    LabelFit,
    OddsTally,
    Score,
    ScoreTally,
    SliceTallies,
    Tally,
    Undecided,
    UnitRecords,
    deal,
    decoy_tally,
    fidelity,
    fit_of,
    label_fit,
    odds_tally,
    replay,
    score_distribution,
    score_named,
    slice_tallies,
    stream_key,
    unit_records,
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
from workers.scan.cost import Cost, Meter
from workers.scan.near_copies import NearCopies, looked_at, near_copies
from workers.scan.partial_results import (
    MAXIMUM_SLICES,
    Game,
    LabelPass,
    PartialResult,
    PartialResults,
    add_slices,
    all_bad,
)
from workers.scan.score_diagnostics import diagnose
from workers.sources.source import SharedScores, Source

_BATCH_ROWS = 1 << 18
_BATCH_PROBABILITIES = 1 << 22  # with many classes fewer rows are held at once


def scan_work_unit(shared: LabelPass, unit: WorkUnit) -> tuple[Cost, PartialResults]:
    """Play the games on a work unit's training rows, and the control games on its holdout rows.

    The streams depend on the audit's seed and the shards' identities alone, so the answer is the
    same to the bit whoever computes it, in whatever order, however often. A game's answer does not
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
    stop = len(footer.groups) if piece.stop is None else piece.stop
    for index in range(piece.start, stop):
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
        plan = game.plan
        try:
            game.source.check_columns(footer, path, slices=plan.slices, unit=plan.privacy_unit)
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
                result = _scan_batch(shared, game, batch, scores)
                with scores.stage("look"):
                    copies = _copies(shared, game, batch)
                decoys = _decoys(game.source, batch, scores)
                result = dataclasses.replace(
                    result,
                    copies=copies,
                    tallies=dataclasses.replace(result.tallies, decoys=decoys),
                    diagnostics=diagnose(game.source, batch, scores),
                )
                results[number] += result
            except NotEvaluableError as error:
                rows = group.footer.groups[group.index].rows
                failed[number] = all_bad(game, (file, group.index, 0), rows, error)
        start += table.num_rows
    return results | failed


def _scan_batch(shared: LabelPass, game: Game, batch: Batch, scores: SharedScores) -> PartialResult:
    source, plan = game.source, game.plan
    with scores.stage("decode"):
        labels, bad = source.labels(batch)
        train, holdout = source.arms(batch)
        known = labels >= 0
        people = None
        if plan.privacy_unit is not None:
            people, without_person = batch.units(plan.privacy_unit, among=known)
            known &= people != ""
            bad += without_person
        others = source.others(batch)
        if others is not None:
            known &= others < 0  # what a coin chose is no fresh label: it is a decoy alone
        arms = [np.flatnonzero(arm & known) for arm in (train, holdout)]
        slices = [batch.groups(column) for column in plan.slices]
        undecided = source.undecided(batch)
    scored = source.probabilities(batch, scores)
    file, row_group, start = batch.place
    day, days = shared.partition.group(file), len(source.days)
    key = stream_key(plan.seed, source.model, str(shared.partition.day), file, row_group)
    score = score_named(plan.score, power=plan.power)
    with scores.stage("play"), refusing_probabilities():
        held = arms[1]
        calibration = fidelity(
            scored[0].take(held, axis=0), scored[1].take(held, axis=0), labels[held]
        )
        result = dataclasses.replace(
            PartialResult.zero(game),
            fidelity=calibration,
            excluded_records=int(np.count_nonzero(known & ~(train | holdout))),
            bad=bad,
        )
        if people is not None:
            unit_key = game.unit_key(shared.partition.day)
            persons = [
                _persons(scored, labels, undecided, people, rows, unit_key, key, start, day)
                for rows in arms
            ]
            return dataclasses.replace(result, units=(persons[0], persons[1]))
        training, control = (
            _play_arm(
                game, scored, labels, undecided, rows, slices, key, start, score, control=control
            )
            for rows, control in zip(arms, (False, True), strict=True)
        )
    return dataclasses.replace(
        result,
        tallies=dataclasses.replace(
            result.tallies,
            game=training.tally,
            control_game=control.tally,
            odds=_only(training.odds, day, days),
            control_odds=_only(control.odds, day, days),
        ),
        scores=(training.scores, control.scores),
        slices=tuple(map(add_slices, training.slices, control.slices)),
        proxy_fits=(training.proxy_fit, control.proxy_fit),
    )


def _only(odds: OddsTally, day: int, days: int) -> tuple[OddsTally, ...]:
    """Return one day's tally among those of all days: records are matched within their day."""
    return tuple(odds if place == day else OddsTally.zero() for place in range(days))


def _copies(shared: LabelPass, game: Game, batch: Batch) -> NearCopies:
    if not looked_at(shared.partition, batch.place[0]):
        return NearCopies.none()
    return near_copies(batch, game.source, game.plan.privacy_unit)


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


def _persons(
    scored: tuple[NDArray[np.float64], NDArray[np.float64]],
    labels: NDArray[np.int64],
    undecided: Undecided | None,
    people: NDArray[np.str_],
    rows: NDArray[np.int64],
    unit_key: int,
    key: int,
    start: int,
    day: int,
) -> UnitRecords:
    """Return one record for each person of an arm."""
    return unit_records(
        scored[0][rows],
        scored[1][rows],
        labels[rows],
        people[rows],
        unit_key=unit_key,
        key=key,
        indices=rows + start,
        group=day,
        undecided=None if undecided is None else undecided.of(rows),
    )


@dataclass(frozen=True, slots=True)
class _Arm:
    """What the training or the holdout rows of a batch came to."""

    tally: Tally
    odds: OddsTally
    scores: ScoreTally
    proxy_fit: LabelFit
    slices: tuple[SliceTallies | None, ...]


def _play_arm(
    game: Game,
    scored: tuple[NDArray[np.float64], NDArray[np.float64]],
    all_labels: NDArray[np.int64],
    undecided: Undecided | None,
    rows: NDArray[np.int64],
    groupings: list[tuple[tuple[str, ...], NDArray[np.int64]]],
    key: int,
    start: int,
    score: Score,
    *,
    control: bool,
) -> _Arm:
    target, proxy = (
        model.take(rows, axis=0) for model in scored
    )  # several times as fast as [rows]
    labels, indices = all_labels[rows], rows + start
    repetitions = game.plan.repetitions
    stands = None if undecided is None else undecided.of(rows)
    order = None if stands is None else stands.order
    fit = LabelFit()
    if not game.source.proxy_is_earlier:  # else nobody asks
        fit = label_fit(proxy, labels) if stands is None else fit_of(stands.near)
    if game.plan.secret is Secret.MEMBERSHIP:
        # Its game is of pairs, which are made once all records are counted.
        return _Arm(
            Tally.zero(repetitions),
            odds_tally(target, proxy, labels),
            ScoreTally.zero(),
            fit,
            (),
        )
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
            )
        )
    dealt = deal(target, proxy, labels, score=score, key=key, indices=indices)
    return _Arm(
        replay(dealt, repetitions=repetitions),
        odds_tally(target, proxy, labels, order=order),
        score_distribution(dealt),
        fit,
        tuple(sliced),
    )


def _with_content(result: PartialResult, content: ContentDigest) -> PartialResult:
    return dataclasses.replace(result, content=result.content + content)
