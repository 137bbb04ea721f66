"""Finished work units of an audit that is not committed yet: what a driver that starts again finds.

    <staging>/<key>/<work unit>.tally

The key digests everything that the tallies depend on, so nothing stale is ever found. A file is a
tag and compressed arrays: one that was cut off, written by two at once, moved, or made without the
driver's secret is not taken, and its work unit is scanned again. Others may write to a warehouse.
"""

import dataclasses
import datetime as dt
import hashlib
import io
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import fs

from privcore.attacks import (
    FidelityTally,
    HoldoutSketch,
    LabelCounts,
    LabelFit,
    OddsTally,
    ScoreTally,
    SliceTallies,
    StudentTallies,
    Tallies,
    Tally,
)
from workers.exceptions import Reason
from workers.labels.bad_records import BadRecords
from workers.labels.content_digest import ContentDigest
from workers.labels.shards import WorkUnit
from workers.lake.layout import open_filesystem
from workers.lake.retries import patiently
from workers.lake.tagged import driver_secret, tag, untagged
from workers.scan.near_copies import NearCopies
from workers.scan.partial_results import PartialResult, PartialResults
from workers.scan.rows_alike import RowsAlike
from workers.scan.sampling_weights import SamplingWeights
from workers.scan.score_diagnostics import ScoreDiagnostics
from workers.sources import join_context

KEPT = dt.timedelta(days=7)
"""Time that an abandoned audit's tallies are kept."""
FORMAT = 16
"""Raised with every change of what a file holds, so that an older one is not found."""
_SPARSE, _LARGE = 8, 1 << 12
"""A larger array of counts is kept by its occupied cells, if at most one of so many is."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Staging:
    """The staging area of one pass, below a path or URI; cheap to build in every worker.

    Attributes:
        uri: where staging areas are.
        key: names the pass (`pass_key`).
        secret: of the driver, which gives it to workers with their tasks.
    """

    uri: str
    key: str
    secret: bytes = field(default_factory=driver_secret, repr=False)

    def save(self, unit: WorkUnit, results: PartialResults) -> None:
        """Keep a finished work unit's results."""
        packed, path = _pack(results), self._path(unit)
        content = tag(self.secret, path, packed) + packed

        def action() -> None:
            files = open_filesystem(self.uri)
            files.create_dir(self.key, recursive=True)
            with files.open_output_stream(path) as stream:
                stream.write(content)

        try:
            patiently(action, path)
        except FileNotFoundError:  # another driver of the same audit has just swept the folder
            patiently(action, path)

    def load(self, unit: WorkUnit) -> PartialResults | None:
        """Return a work unit's results, or None where it is not finished, or not under our tag."""
        path = self._path(unit)

        def action() -> bytes:
            with open_filesystem(self.uri).open_input_stream(path) as stream:
                content: bytes = stream.read()
            return content

        try:
            content = patiently(action, path)
        except FileNotFoundError:
            return None
        packed = untagged(self.secret, path, content)
        return None if packed is None else _unpack(bytes(packed))

    def sweep(self) -> None:
        """Delete what this pass has kept, and what others left behind: rows sooner than tallies."""
        files = open_filesystem(self.uri)
        now = dt.datetime.now(dt.UTC)
        entries = patiently(
            lambda: files.get_file_info(fs.FileSelector("", recursive=True, allow_not_found=True)),
            "the staging area",
        )
        mine = {entry.path.partition("/")[0]: entry for entry in entries}
        # Folders as well: one that an audit beside this has just made holds nothing yet.
        fresh = {
            entry.path.partition("/")[0]
            for entry in entries
            if entry.mtime is not None and entry.mtime > now - _kept(entry.path.partition("/")[0])
        }
        for key in mine:
            if key == self.key or key not in fresh:
                patiently(lambda key=key: _delete(files, key), "the staging area")  # type: ignore[misc]

    def _path(self, unit: WorkUnit) -> str:
        words = [(piece.file, piece.start, piece.stop) for piece in unit]
        name = hashlib.sha256(json.dumps(words).encode()).hexdigest()[:32]
        return f"{self.key}/{name}.tally"


def _kept(key: str) -> dt.timedelta:
    return join_context.KEPT if key.endswith(join_context.ROWS) else KEPT


def _delete(files: fs.FileSystem, key: str) -> None:
    try:
        files.delete_dir(key)
    except FileNotFoundError:
        return  # another driver of the same audit swept first


def _pack(results: PartialResults) -> bytes:
    arrays: Arrays = {}
    for number, result in enumerate(results.parts):
        kept = _occupied(_arrays(result))
        arrays |= {f"{number}/{name}": array for name, array in kept.items()}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    plain = buffer.getvalue()
    compressed: bytes = pa.compress(plain, codec="zstd", asbytes=True)
    return len(plain).to_bytes(8, "little") + compressed


def _unpack(packed: bytes) -> PartialResults:
    size = int.from_bytes(packed[:8], "little")
    plain = pa.decompress(packed[8:], decompressed_size=size, codec="zstd", asbytes=True)
    with np.load(io.BytesIO(plain), allow_pickle=False) as found:
        arrays = dict(found)
    games = 1 + max(int(name.partition("/")[0]) for name in arrays)
    return PartialResults(
        tuple(
            _result(
                _whole(
                    {
                        name.partition("/")[2]: array
                        for name, array in arrays.items()
                        if name.partition("/")[0] == str(number)
                    }
                )
            )
            for number in range(games)
        )
    )


def _occupied(arrays: Arrays) -> Arrays:
    """Return arrays, those that are mostly empty as their shape, and places and counts of cells."""
    kept: Arrays = {}
    for name, array in arrays.items():
        counts = array.ravel()
        # Of truth values: a tenth of the time.
        places = np.flatnonzero(counts != 0) if array.dtype == np.int64 else np.arange(array.size)
        if array.size < _LARGE or places.size > array.size // _SPARSE:
            kept[name] = array
        else:
            kept[f"{name}:shape"] = np.array(array.shape)
            kept[f"{name}:cells"] = np.stack([places, counts[places]])
    return kept


def _whole(kept: Arrays) -> Arrays:
    """Return the arrays that `_occupied` was given."""
    arrays: Arrays = {}
    for entry, array in kept.items():
        name, _, part = entry.partition(":")
        if part == "shape":
            counts = np.zeros(array, dtype=np.int64)
            places, values = kept[f"{name}:cells"]
            counts.ravel()[places] = values
            arrays[name] = counts
        elif not part:
            arrays[name] = array
    return arrays


def _arrays(result: PartialResult) -> Arrays:
    tallies, fidelity, bad = result.tallies, result.fidelity, result.bad
    facts = {
        "decoys": None if tallies.decoys is None else tallies.decoys.records,
        "records": [tallies.game.records, tallies.control_game.records, fidelity.records],
        "odds": [
            [odds.records for odds in arm]
            for arm in (tallies.odds, tallies.control_odds, tallies.unread, tallies.control_unread)
        ],
        "unread_labels": result.unread_labels,
        "hashed": sorted(result.hashed),
        "weights": dataclasses.astuple(result.weights),
        "student": None
        if tallies.student is None or tallies.control_student is None
        else [
            [odds.records for odds in arm.odds]
            for arm in (tallies.student, tallies.control_student)
        ],
        "classes": tallies.classes,
        "ordered": tallies.ordered,
        "excluded": result.excluded_records,
        "trained": result.table_training_rows,
        "holdout": [result.holdout.rows, result.holdout.total],
        "slices": [
            None if part is None else [part.values, part.repetitions, part.student]
            for part in result.slices
        ],
        "copies": [dict(result.copies.judged), list(result.copies.found.items())],
        "diagnostics": result.diagnostics.as_json(),
        "bad": [dict(bad.counts), bad.first, bad.reason, bad.sentence, bad.fatal],
    }
    arrays: Arrays = {
        "facts": np.array(json.dumps(facts)),
        "guesses": tallies.game.guesses,
        "correct": tallies.game.correct,
        "control_guesses": tallies.control_game.guesses,
        "control_correct": tallies.control_game.correct,
        "log_loss": fidelity.log_loss,
        "predictions": fidelity.predictions,
        "predicted": fidelity.predicted,
        "observed": fidelity.observed,
        "right": fidelity.right,
        "proxy_fits": np.array([dataclasses.astuple(fit) for fit in result.proxy_fits]),
        "scores": np.stack([part.counts for part in result.scores]),
        "content": result.content.lanes,
        "committed": result.committed.lanes,
        "holdout": result.holdout.hashes,
        **result.alike.arrays(),
    }
    arrays |= _tally_arrays(tallies)
    if tallies.decoys is not None:
        arrays["decoys"] = tallies.decoys.counts
    return arrays | _slice_arrays(result)


def _slice_arrays(result: PartialResult) -> Arrays:
    return {
        f"slice{place}_{name}": getattr(part, name)
        for place, part in enumerate(result.slices)
        if part is not None
        for name in ("records", "cells", "counts")
    }


def _tally_arrays(tallies: Tallies) -> Arrays:
    """Return the counts of both models' odds, but of empty groups, and of labels."""
    arrays: Arrays = {}
    student, control_student = (
        StudentTallies((), None) if arm is None else arm
        for arm in (tallies.student, tallies.control_student)
    )
    for name, arm in (
        ("odds", tallies.odds),
        ("control_odds", tallies.control_odds),
        ("unread", tallies.unread),
        ("control_unread", tallies.control_unread),
        ("student_odds", student.odds),
        ("control_student_odds", control_student.odds),
    ):
        for place, odds in enumerate(arm):
            if odds.records:
                arrays[f"{name}{place}"] = odds.counts
    for name, counted in (
        ("labels", tallies.labels),
        ("control_labels", tallies.control_labels),
        ("student_labels", student.labels),
        ("control_student_labels", control_student.labels),
    ):
        if counted is not None:
            arrays[name] = counted.counts
    return arrays


def _odds(
    arrays: Arrays, names: tuple[str, ...], records: list[list[int]]
) -> tuple[tuple[OddsTally, ...], ...]:
    """Return the odds of arms by their groups, of which empty ones were not kept."""
    return tuple(
        tuple(
            OddsTally(count, arrays[f"{name}{place}"]) if count else OddsTally.zero()
            for place, count in enumerate(arm)
        )
        for name, arm in zip(names, records, strict=True)
    )


def _labels(arrays: Arrays, name: str) -> LabelCounts | None:
    return LabelCounts(arrays[name]) if name in arrays else None


def _slices(arrays: Arrays, facts: list[Any]) -> tuple[SliceTallies | None, ...]:
    """Return the tallies of slices, none where a column had too many values."""
    return tuple(
        None
        if part is None
        else SliceTallies(
            tuple(part[0]),
            arrays[f"slice{place}_records"],
            arrays[f"slice{place}_cells"],
            arrays[f"slice{place}_counts"],
            part[1],
            part[2],
        )
        for place, part in enumerate(facts)
    )


def _students(
    arrays: Arrays, records: list[list[int]] | None
) -> tuple[StudentTallies | None, StudentTallies | None]:
    """Return the student's tallies of both arms; None where there is no student."""
    if records is None:
        return None, None
    one, other = _odds(arrays, ("student_odds", "control_student_odds"), records)
    return (
        StudentTallies(one, _labels(arrays, "student_labels")),
        StudentTallies(other, _labels(arrays, "control_student_labels")),
    )


def _result(arrays: Arrays) -> PartialResult:
    facts = json.loads(str(arrays["facts"]))
    game, control, predicted = facts["records"]
    arms = ("odds", "control_odds", "unread", "control_unread")
    odds, control_odds, unread, control_unread = _odds(arrays, arms, facts["odds"])
    student, control_student = _students(arrays, facts["student"])
    counts, first, reason, sentence, fatal = facts["bad"]
    judged, found = facts["copies"]
    return PartialResult(
        Tallies(
            Tally(game, arrays["guesses"], arrays["correct"]),
            Tally(control, arrays["control_guesses"], arrays["control_correct"]),
            odds,
            control_odds,
            facts["classes"],
            None if facts["decoys"] is None else OddsTally(facts["decoys"], arrays["decoys"]),
            facts["ordered"],
            student,
            control_student,
            _labels(arrays, "labels"),
            _labels(arrays, "control_labels"),
            unread,
            control_unread,
        ),
        FidelityTally(
            predicted,
            arrays["log_loss"],
            arrays["predictions"],
            arrays["predicted"],
            arrays["observed"],
            arrays["right"],
        ),
        (ScoreTally(arrays["scores"][0]), ScoreTally(arrays["scores"][1])),
        _slices(arrays, facts["slices"]),
        facts["excluded"],
        BadRecords(
            Counter(counts),
            (first[0], first[1], first[2]),
            None if reason is None else Reason(reason),
            sentence,
            fatal,
        ),
        ContentDigest(arrays["content"]),
        (LabelFit(*arrays["proxy_fits"][0].tolist()), LabelFit(*arrays["proxy_fits"][1].tolist())),
        copies=NearCopies(
            Counter(judged), Counter({(name, column): files for (name, column), files in found})
        ),
        alike=RowsAlike.from_arrays(arrays),
        committed=ContentDigest(arrays["committed"]),
        diagnostics=ScoreDiagnostics.from_json(facts["diagnostics"]),
        unread_labels=facts["unread_labels"],
        holdout=HoldoutSketch(arrays["holdout"], *facts["holdout"]),
        hashed=frozenset(facts["hashed"]),
        table_training_rows=facts["trained"],
        weights=SamplingWeights(*facts["weights"]),
    )
