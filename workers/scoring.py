"""One unit of a day's labels: read once, scored by all models, played, folded into tallies."""

import dataclasses
import datetime as dt
import functools
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.attacks import (
    FidelityTally,
    LiftTally,
    ScoreTally,
    SliceTallies,
    Tallies,
    Tally,
    UnitRecords,
    fidelity,
    label_inference,
    label_lifts,
    score_distribution,
    score_named,
    slice_tallies,
    stream_key,
    unit_records,
    unit_tallies,
)
from privcore.exceptions import InvalidInputError
from workers.bad_records import BadRecords
from workers.checkpoints import Checkpoint, as_pool, load, predict
from workers.content import ContentDigest
from workers.exceptions import NotEvaluableError, Reason
from workers.labels import SPLIT, Batch, Partition, Piece, Unit, check_columns, unreadable
from workers.lake import Lake, labels_folder
from workers.manifest import Feature
from workers.parquet import DamagedFileError, Footer, RowGroup, read_footer, read_row_group
from workers.plan import Plan

MAXIMUM_SLICES = 1000
"""A slice column of more values is a mistake, and would name people."""

_BATCH_ROWS = 1 << 17
_BATCH_PROBABILITIES = 1 << 22  # with many classes fewer rows are held at once


@dataclass(frozen=True, slots=True)
class Game:
    """One audited model: the checkpoints and the plan that it is played by."""

    target: Checkpoint
    proxy: Checkpoint
    plan: Plan

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features of either model, each once."""
        both = (*self.proxy.manifest.features, *self.target.manifest.features)
        return tuple(dict.fromkeys(both))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the game needs of the label files."""
        names = [feature.name for feature in self.features]
        label, unit = self.target.manifest.label.column, self.plan.privacy_unit
        units = [] if unit is None else [unit]
        return tuple(dict.fromkeys([label, SPLIT, *names, *self.plan.slices, *units]))

    def unit_key(self, day: dt.date) -> int:
        """The stream of the audit's privacy units, the same in every shard."""
        return stream_key(self.plan.seed, self.target.manifest.model, str(day), "units")

    def tallies(self, score: "Score", day: dt.date) -> Tallies:
        """Return what was played, once all shards are added: records, or privacy units."""
        if score.units is None:
            return score.tallies
        training, control = score.units
        return unit_tallies(
            training,
            control,
            score=score_named(self.plan.score, power=self.plan.power),
            repetitions=self.plan.repetitions,
            key=self.unit_key(day),
            shift=self.plan.shift,
        )


@dataclass(frozen=True, slots=True)
class Pass:
    """What all units of one pass share; Ray puts it once."""

    lake: Lake
    partition: Partition
    games: tuple[Game, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The union of what the games need: what is read."""
        return tuple(dict.fromkeys(name for game in self.games for name in game.columns))


@dataclass(frozen=True, slots=True)
class Score:
    """What some records, or all of them together, came to for one game; it adds like its parts.

    Attributes:
        tallies: the game, and labels by lift; of no records where privacy units play.
        fidelity: of the holdout records.
        scores: distributions of the score, for training and for control records; where privacy
            units play, none.
        slices: one for every slice column of the plan; None once it has too many values.
        excluded_records: rows of neither split.
        bad: records that could not be played.
        content: digest of the bytes that were read.
        units: of training and of control, the record of each privacy unit that plays once all
            shards are added; None where each record is its own unit.
    """

    tallies: Tallies
    fidelity: FidelityTally
    scores: tuple[ScoreTally, ScoreTally]
    slices: tuple[SliceTallies | None, ...]
    excluded_records: int
    bad: BadRecords
    content: ContentDigest
    units: tuple[UnitRecords, UnitRecords] | None = None

    @classmethod
    def zero(cls, game: Game) -> "Score":
        """Return the score of no records, the identity of addition."""
        repetitions, classes = game.plan.repetitions, len(game.target.manifest.label.classes)
        nobody = UnitRecords.zero(classes)
        return cls(
            Tallies.zero(repetitions=repetitions, classes=classes),
            FidelityTally.zero(),
            (ScoreTally.zero(), ScoreTally.zero()),
            tuple(SliceTallies.zero(repetitions) for _ in game.plan.slices),
            0,
            BadRecords.none(),
            ContentDigest(),
            None if game.plan.privacy_unit is None else (nobody, nobody),
        )

    def __add__(self, other: "Score") -> "Score":
        """Return the score of both sets of records."""
        return Score(
            self.tallies + other.tallies,
            self.fidelity + other.fidelity,
            (self.scores[0] + other.scores[0], self.scores[1] + other.scores[1]),
            tuple(map(_add_slices, self.slices, other.slices)),
            self.excluded_records + other.excluded_records,
            self.bad + other.bad,
            self.content + other.content,
            _add_units(self.units, other.units),
        )


@dataclass(frozen=True, slots=True)
class Scores:
    """One score for every game of a pass, in its order."""

    parts: tuple[Score, ...]

    def __add__(self, other: "Scores") -> "Scores":
        """Return the scores of both sets of records."""
        return Scores(tuple(a + b for a, b in zip(self.parts, other.parts, strict=True)))


@dataclass(frozen=True, slots=True)
class Work:
    """What a unit cost: told once to whoever asked for it, and part of no number.

    Attributes:
        unit: its files and row groups.
        rows: that were read.
        bytes_read: from storage.
        seconds: of wall clock.
        cpu_seconds: by stage: read, decode, predict, play.
        reused: whether its tallies were found in the staging area.
        worker: host and process.
    """

    unit: str
    rows: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    cpu_seconds: Counter[str] = field(default_factory=Counter)
    reused: bool = False
    worker: str = ""


def play_unit(shared: Pass, unit: Unit) -> tuple[Work, Scores]:
    """Play the games on the training rows of a unit, and the control games on its holdout rows.

    The streams depend on the audit's seed and the shards' identities alone, so the answer is the
    same to the bit whoever computes it, in whatever order, however often. A game's answer does not
    depend on the others of the pass.

    Raises:
        TransientError: storage kept failing.
    """
    meter = _Meter()
    total = Scores(tuple(Score.zero(game) for game in shared.games))
    for piece in unit:
        for scores in _play_piece(shared, piece, meter):
            total += scores
    return meter.work(unit), total


def unit_name(unit: Unit) -> str:
    """Return a unit's files and row groups in words."""
    first = unit[0]
    groups = "" if first.stop is None else f" row groups {first.start}-{first.stop - 1}"
    more = f" and {len(unit) - 1} more files" if len(unit) > 1 else ""
    return f"{first.file}{groups}{more}"


def _play_piece(shared: Pass, piece: Piece, meter: "_Meter") -> Iterator[Scores]:
    partition = shared.partition
    path = f"{labels_folder(partition.dataset, partition.day)}/{piece.file}"
    everyone = tuple(range(len(shared.games)))
    try:
        with meter.stage("read"):
            footer = read_footer(shared.lake, path)
    except DamagedFileError:
        yield _all_bad(shared, everyone, (piece.file, 0, 0), 0, unreadable(path), fatal=True)
        return
    except NotEvaluableError as error:
        yield _all_bad(shared, everyone, (piece.file, 0, 0), 0, error, fatal=True)
        return
    if piece.start == 0:
        content = ContentDigest.of("footer", piece.file, footer.sha256)
        yield Scores(tuple(_with_content(Score.zero(game), content) for game in shared.games))
    stop = footer.metadata.num_row_groups if piece.stop is None else piece.stop
    for index in range(piece.start, stop):
        yield _play_row_group(shared, path, piece.file, footer, index, meter)


def _play_row_group(
    shared: Pass, path: str, file: str, footer: Footer, index: int, meter: "_Meter"
) -> Scores:
    rows = max(footer.metadata.row_group(index).num_rows, 0)
    place = (file, index, 0)
    parts, able = _with_columns(shared, path, place, footer, rows)
    if not able:
        return Scores(tuple(parts))
    columns = [name for name in shared.columns if _needed(shared, able, name)]
    try:
        with meter.stage("read"):
            group = read_row_group(shared.lake, path, footer, index, columns)
    except (DamagedFileError, NotEvaluableError) as error:
        why = unreadable(path) if isinstance(error, DamagedFileError) else error
        for number in able:
            parts[number] = _bad(shared.games[number], place, rows, why)
        return Scores(tuple(parts))
    meter.read(group.bytes_read, rows)
    for number, score in _play_decoded(shared, able, group, file, meter).items():
        own = shared.games[number].columns
        bytes_of = [part for name in sorted(own) for part in (name, group.sha256.get(name, b""))]
        content = ContentDigest.of("row group", file, index, *bytes_of)
        parts[number] = _with_content(score, content)
    return Scores(tuple(parts))


def _with_columns(
    shared: Pass, path: str, place: tuple[str, int, int], footer: Footer, rows: int
) -> tuple[list[Score], tuple[int, ...]]:
    """Return what is bad for games whose columns are missing, and the numbers of the others."""
    parts, able = [], []
    for number, game in enumerate(shared.games):
        label, plan = game.target.manifest.label, game.plan
        try:
            check_columns(
                footer,
                path,
                label=label,
                features=game.features,
                slices=plan.slices,
                unit=plan.privacy_unit,
            )
        except NotEvaluableError as error:
            parts.append(_bad(game, place, rows, error))
        else:
            parts.append(Score.zero(game))
            able.append(number)
    return parts, tuple(able)


def _play_decoded(
    shared: Pass, numbers: tuple[int, ...], group: RowGroup, file: str, meter: "_Meter"
) -> dict[int, Score]:
    """Play a row group; where it is damaged, ask each game alone, as if there were no others."""
    try:
        return _play_batches(shared, numbers, group, file, meter)
    except (DamagedFileError, NotEvaluableError):
        pass
    played: dict[int, Score] = {}
    for number in numbers:
        try:
            played |= _play_batches(shared, (number,), group, file, meter)
        except (DamagedFileError, NotEvaluableError) as error:
            why = unreadable(group.path) if isinstance(error, DamagedFileError) else error
            rows = group.footer.metadata.row_group(group.index).num_rows
            played[number] = _bad(shared.games[number], (file, group.index, 0), rows, why)
    return played


def _play_batches(
    shared: Pass, numbers: tuple[int, ...], group: RowGroup, file: str, meter: "_Meter"
) -> dict[int, Score]:
    """Return the score of one row group for some games; a game that fails once fails for it all."""
    columns = [name for name in shared.columns if _needed(shared, numbers, name)]
    classes = max(len(shared.games[number].target.manifest.label.classes) for number in numbers)
    most = max(1, min(_BATCH_ROWS, _BATCH_PROBABILITIES // classes))
    scores = {number: Score.zero(shared.games[number]) for number in numbers}
    failed: dict[int, Score] = {}
    start = 0
    batches = group.batches(columns, rows=most)
    while True:
        with meter.stage("decode"):
            table = next(batches, None)
            if table is None:
                break
            batch = Batch(pl.DataFrame(table), group.path, (file, group.index, start))
        pools: dict[Any, Any] = {}
        for number in numbers:
            game = shared.games[number]
            if number in failed:
                continue
            try:
                scores[number] += _play_batch(shared, game, batch, pools, meter)
            except NotEvaluableError as error:
                rows = group.footer.metadata.row_group(group.index).num_rows
                failed[number] = _bad(game, (file, group.index, 0), rows, error)
        start += table.num_rows
    return scores | failed


def _play_batch(
    shared: Pass, game: Game, batch: Batch, pools: dict[Any, Any], meter: "_Meter"
) -> Score:
    manifest, plan = game.target.manifest, game.plan
    with meter.stage("decode"):
        labels, bad = batch.labels(manifest.label)
        train, holdout = batch.arms()
        known = labels >= 0
        people = None
        if plan.privacy_unit is not None:
            people, strangers = batch.units(plan.privacy_unit, among=known)
            known &= people != ""
            bad += strangers
        arms = [np.flatnonzero(arm & known) for arm in (train, holdout)]
        slices = [batch.groups(column) for column in plan.slices]
    scored = [_probabilities(checkpoint, batch, pools, meter) for checkpoint in (
        game.target, game.proxy)]  # fmt: skip
    file, row_group, start = batch.place
    key = stream_key(plan.seed, manifest.model, str(shared.partition.day), file, row_group)
    score = score_named(plan.score, power=plan.power)
    with meter.stage("play"):
        try:
            held = arms[1]
            calibration = fidelity(scored[0][held], scored[1][held], labels[held])
            if people is not None:
                unit_key = game.unit_key(shared.partition.day)
                training_units, control_units = (
                    unit_records(
                        scored[0][rows],
                        scored[1][rows],
                        labels[rows],
                        people[rows],
                        unit_key=unit_key,
                        key=key,
                        indices=rows + start,
                    )
                    for rows in arms
                )
                return dataclasses.replace(
                    Score.zero(game),
                    fidelity=calibration,
                    units=(training_units, control_units),
                    excluded_records=int(np.count_nonzero(known & ~(train | holdout))),
                    bad=bad,
                )
            played = [
                _play_arm(game, scored, labels, rows, slices, key, start, score, control=control)
                for rows, control in zip(arms, (False, True), strict=True)
            ]
        except InvalidInputError as error:
            raise NotEvaluableError(Reason.PROBABILITIES_INVALID, str(error)) from None
    training, control = played
    return Score(
        Tallies(
            game=training.tally,
            control_game=control.tally,
            lifts=training.lifts,
            control_lifts=control.lifts,
            classes=len(manifest.label.classes),
        ),
        calibration,
        (training.scores, control.scores),
        tuple(map(_add_slices, training.slices, control.slices)),
        int(np.count_nonzero(known & ~(train | holdout))),
        bad,
        ContentDigest(),
    )


@dataclass(frozen=True, slots=True)
class _Arm:
    """What the training or the holdout rows of a batch came to."""

    tally: Tally
    lifts: LiftTally
    scores: ScoreTally
    slices: tuple[SliceTallies | None, ...]


def _play_arm(
    game: Game,
    scored: list[NDArray[np.float64]],
    all_labels: NDArray[np.int64],
    rows: NDArray[np.int64],
    groupings: list[tuple[tuple[str, ...], NDArray[np.int64]]],
    key: int,
    start: int,
    score: Any,
    *,
    control: bool,
) -> _Arm:
    target, proxy = (model[rows] for model in scored)
    labels, indices = all_labels[rows], rows + start
    repetitions, shift = game.plan.repetitions, game.plan.shift
    stream = {"score": score, "key": key, "indices": indices}
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
                shift=shift,
                **stream,
            )
        )
    return _Arm(
        label_inference(target, proxy, labels, repetitions=repetitions, **stream),
        label_lifts(target, proxy, labels, shift=shift),
        score_distribution(target, proxy, labels, **stream),
        tuple(sliced),
    )


def _probabilities(
    checkpoint: Checkpoint, batch: Batch, pools: dict[Any, Any], meter: "_Meter"
) -> NDArray[np.float64]:
    """Score a batch; checkpoints of the same features share a pool, and games a checkpoint."""
    manifest = checkpoint.manifest
    if checkpoint not in pools:
        with meter.stage("pool"):
            if manifest.features not in pools:
                series = [batch.feature(feature) for feature in manifest.features]
                pools[manifest.features] = as_pool(manifest, pl.DataFrame(series))
        with meter.stage("predict"):
            pools[checkpoint] = predict(
                _loaded(checkpoint), manifest, pools[manifest.features], threads=1
            )
    found: NDArray[np.float64] = pools[checkpoint]
    return found


def _add_slices(one: SliceTallies | None, other: SliceTallies | None) -> SliceTallies | None:
    if one is None or other is None:
        return None
    both = one + other
    return both if len(both.values) <= MAXIMUM_SLICES else None


def _add_units(
    one: tuple[UnitRecords, UnitRecords] | None, other: tuple[UnitRecords, UnitRecords] | None
) -> tuple[UnitRecords, UnitRecords] | None:
    if one is None or other is None:
        return None
    return one[0] + other[0], one[1] + other[1]


def _needed(shared: Pass, numbers: tuple[int, ...], column: str) -> bool:
    return any(column in shared.games[number].columns for number in numbers)


def _all_bad(
    shared: Pass,
    numbers: tuple[int, ...],
    place: tuple[str, int, int],
    rows: int,
    error: NotEvaluableError,
    *,
    fatal: bool,
) -> Scores:
    bad = [_bad(shared.games[number], place, rows, error, fatal=fatal) for number in numbers]
    return Scores(tuple(bad))


def _bad(
    game: Game,
    place: tuple[str, int, int],
    rows: int,
    error: NotEvaluableError,
    *,
    fatal: bool = False,
) -> Score:
    """Return that all of a shard is bad; a model's own fault is nothing that could be left out."""
    fatal = fatal or error.reason is Reason.PROBABILITIES_INVALID
    bad = BadRecords.at(place, rows, error.reason, error.sentence, fatal=fatal)
    return dataclasses.replace(Score.zero(game), bad=bad)


def _with_content(score: Score, content: ContentDigest) -> Score:
    return dataclasses.replace(score, content=score.content + content)


@functools.lru_cache(maxsize=32)
def _loaded(checkpoint: Checkpoint) -> Any:
    return load(checkpoint)


class _Meter:
    """Measures what a unit costs."""

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

    def work(self, unit: Unit) -> Work:
        """Return what was measured."""
        return Work(
            unit_name(unit),
            self._rows,
            self._bytes,
            time.perf_counter() - self._start,
            self._stages,
            worker=f"{socket.gethostname()}:{os.getpid()}",
        )
