"""The whole audit of a day against a bare loop that reads the files and predicts with both models.

All sides do their work on one thread of a process of their own, on the same Parquet files, taking
turns: `bare` reads the features of each row group, makes one CatBoost pool and calls `predict` of
both models on it; `audit` is `run_audits` from the lake to the record, with everything that it
does; `alone` is the same without a student. Each file has 250,000 rows of its own. What is compared
is processor time, medians over turns, since other processes on the machine cost wall clock to
whoever is running.

With `--workers` the audit runs on a Ray of one and of two CPUs instead, and wall clock is compared.
"""

import argparse
import contextlib
import datetime as dt
import json
import multiprocessing
import pathlib
import shutil
import statistics
import tempfile
import time
from typing import Any
from unittest import mock

import catboost
import numpy as np
import polars as pl
import pyarrow.parquet as pq

from privcore.attacks import PaperScore, Tallies, label_inference, odds_tally
from privcore.lower_bounds import Claim, Grid, read_evidence
from tests.benchmarks.measure import usage
from tests.support.audits import run_audits
from workers.audit.request import Request
from workers.executors import InProcess, on_ray
from workers.labels.shards import write_labels
from workers.lake.checkpoints import read_checkpoint, write_checkpoint
from workers.lake.layout import Lake, labels_folder
from workers.plan import Plan
from workers.scan.partial_results import Game
from workers.scan.work_unit import Cost

DAY = dt.date(2026, 3, 2)
EVE = DAY - dt.timedelta(days=1)
BLOCK = 250_000
NUMERIC = [f"number_{place}" for place in range(13)]
WORDS = [f"word_{place}" for place in range(26)]
CARDINALITIES = (10, 100, 1_000, 10_000, 100_000)
MODEL = {"iterations": 200, "depth": 6, "learning_rate": 0.1, "thread_count": 2, "verbose": False}


def block(place: int, *, words: bool) -> pl.DataFrame:
    """Return a file's rows: numbers and, where asked for, words of many values."""
    random = np.random.default_rng(place + 1)
    numbers = random.normal(size=(len(NUMERIC), BLOCK)).astype(np.float32)
    columns: dict[str, Any] = dict(zip(NUMERIC, numbers, strict=True))
    for number, name in enumerate(WORDS if words else []):
        values = random.integers(0, CARDINALITIES[number % len(CARDINALITIES)], BLOCK)
        columns[name] = np.char.mod("%08x", values * 2654435761 % 2**32)
    chance = 1.0 / (1.0 + np.exp(1.0 - numbers[0] - 0.5 * numbers[1]))
    return pl.DataFrame(
        columns
        | {
            "clicked": (random.random(BLOCK) < chance).astype(np.int8),
            "split": np.where(random.random(BLOCK) < 0.2, "holdout", "train"),
        }
    )


def make_lake(folder: pathlib.Path, *, words: bool) -> Lake:
    """Return a lake with two models and one block of labels."""
    lake = Lake(str(folder))
    rows = block(0, words=words)
    names = [*NUMERIC, *(WORDS if words else [])]
    kinds = ["categorical" if name in WORDS else "numeric" for name in names]
    for seed, day in enumerate((EVE, DAY)):
        part = rows.slice(50_000 * seed, 50_000)
        model = catboost.CatBoostClassifier(random_seed=seed, allow_writing_files=False, **MODEL)
        categorical = [name for name in names if name in WORDS]
        model.fit(
            catboost.Pool(
                part.select(names), label=part["clicked"].to_numpy(), cat_features=categorical
            )
        )
        write_checkpoint(
            lake,
            {
                "model": "clicks",
                "day": day,
                "dataset": "clicks",
                "label": {"column": "clicked", "classes": (0, 1)},
                "features": [
                    {"name": name, "kind": kind} for name, kind in zip(names, kinds, strict=True)
                ],
                "trained_on": {"first": day, "last": day, "split": "train"},
                "privacy": None,
            },
            model._serialize_model(),
        )
    write_labels(lake, "clicks", DAY, rows.to_arrow(), row_group_size=BLOCK)
    return lake


def grow_labels(lake: Lake, rows: int, *, words: bool) -> int:
    """Have the day hold `rows` in whole blocks, one a file; returns how many.

    Copies of one block would not do: their rows were held out together, which is refused.
    """
    folder = pathlib.Path(lake.uri) / labels_folder("clicks", DAY)
    blocks = max(1, round(rows / BLOCK))
    for place in range(1, blocks):
        path = folder / f"part-{place:05d}.parquet"
        if not path.exists():
            pq.write_table(block(place, words=words).to_arrow(), path, row_group_size=BLOCK)
    for path in sorted(folder.glob("part-*.parquet"))[blocks:]:
        path.unlink()
    return blocks * BLOCK


def bare(uri: str, _repetitions: int) -> dict[str, Any]:
    """Read the files and predict with both models, and nothing else."""
    lake = Lake(uri)
    checkpoints = [read_checkpoint(lake, "clicks", day) for day in (DAY, EVE)]
    names = [feature.name for feature in checkpoints[0].manifest.features]
    categorical = [name for name in names if name in WORDS]
    models = [catboost.CatBoost().load_model(blob=each.content) for each in checkpoints]
    folder = pathlib.Path(uri) / labels_folder("clicks", DAY)
    with usage() as used:
        for path in sorted(folder.glob("part-*.parquet")):
            file = pq.ParquetFile(path)
            for group in range(file.num_row_groups):
                rows = pl.DataFrame(file.read_row_group(group, columns=names, use_threads=False))
                pool = catboost.Pool(rows, cat_features=categorical)
                for model in models:
                    model.predict(pool, prediction_type="Probability", thread_count=1)
    return used


def audit(uri: str, repetitions: int) -> dict[str, Any]:
    """Run the audit in this process and return its cost, stage by stage."""
    stages: dict[str, float] = {}
    lake, plan = Lake(uri), Plan(repetitions=repetitions)
    executor = _Adding(stages)
    _warm_up(repetitions)
    with usage() as used:
        (record,) = run_audits(lake, DAY, [Request("clicks", plan)], executor=executor)
    assert record.audit.status == "evaluated", record.audit.reason
    return used | {"stages": stages, "labels_digest": record.audit.labels_digest}


def alone(uri: str, repetitions: int) -> dict[str, Any]:
    """Run the audit without a student."""
    with mock.patch.object(Game, "may_have_student", property(lambda _: False)):
        return audit(uri, repetitions)


def _warm_up(repetitions: int) -> None:
    """Have the kernels compiled or loaded, once per machine and process."""
    random = np.random.default_rng(0)
    shares = random.random((2, 500))
    target, proxy = np.stack([shares, 1.0 - shares], axis=2)
    labels = random.integers(0, 2, 500)
    score = PaperScore()
    game = label_inference(target, proxy, labels, score=score, repetitions=repetitions, key=1)
    odds = (odds_tally(target, proxy, labels),)
    tallies = Tallies(game, game, odds, odds, 2)
    read_evidence(tallies, claim=Claim(), choice=Grid(), paper_delta=1e-5, random=random)


class _Adding(InProcess):
    """The executor of this process, which adds up what the units tell of their cost."""

    def __init__(self, stages: dict[str, float]) -> None:
        self.stages = stages

    def total(self, function: Any, shared: Any, items: Any, *, on_done: Any, deadline: Any) -> Any:
        def hear(work: Any) -> None:
            if not isinstance(work, Cost):  # a look before the pass
                return on_done(work)
            for stage, seconds in work.cpu_seconds.items():
                self.stages[stage] = self.stages.get(stage, 0.0) + seconds
            self.stages["bytes_read"] = self.stages.get("bytes_read", 0) + work.bytes_read
            return on_done(work)

        return super().total(function, shared, items, on_done=hear, deadline=deadline)


def apart(function: Any, lake: Lake, repetitions: int) -> dict[str, Any]:
    """Call in a new process, so that its memory is its own; the first call compiles and is lost."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        found: dict[str, Any] = pool.apply(function, (lake.uri, repetitions))
    return found


def on_workers(lake: Lake, repetitions: int, cpus: int) -> float:
    """Return the seconds of wall clock of an audit on a Ray of so many CPUs, once it is warm."""
    requests = [Request("clicks", Plan(repetitions=repetitions))]
    with on_ray("local", cpus) as executor:
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            # A unit for every file: the same work for any number of workers.
            (record,) = run_audits(lake, DAY, requests, executor=executor, work_unit_bytes=1 << 20)
            seconds.append(time.perf_counter() - start)
            assert record.audit.status == "evaluated"
    return seconds[-1]


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Return what was measured."""
    words, repetitions = not given.numeric, given.repetitions
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(
            given.lake or stack.enter_context(tempfile.TemporaryDirectory(prefix="scale-"))
        )
        kept = folder / f"lake-{'words' if words else 'numbers'}"
        if not (kept / "labels").exists():
            shutil.rmtree(kept, ignore_errors=True)
            make_lake(kept, words=words)
        lake = Lake(str(kept))
        rows = grow_labels(lake, given.rows, words=words)
        about = {"rows": rows, "repetitions": repetitions, "features": 39 if words else 13}
        if given.workers:
            one, two = (on_workers(lake, repetitions, cpus) for cpus in (1, 2))
            return about | {
                "seconds_1_worker": one,
                "seconds_2_workers": two,
                "times_as_fast": one / two,
            }
        sides: dict[str, list[dict[str, Any]]] = {"audit": [], "alone": [], "bare": []}
        for _ in range(given.turns):
            for name, function in (("bare", bare), ("alone", alone), ("audit", audit)):
                sides[name].append(apart(function, lake, repetitions))

        def middle(name: str, figure: str) -> float:
            return statistics.median(found[figure] for found in sides[name])

        ratios = [
            mine["cpu_seconds"] / theirs["cpu_seconds"]
            for mine, theirs in zip(sides["audit"], sides["bare"], strict=True)
        ]
        return about | {
            "ratio_to_bare_predict": statistics.median(ratios),
            "ratios": ratios,
            "ratio_to_audit_without_student": middle("audit", "cpu_seconds")
            / middle("alone", "cpu_seconds"),
            "rows_per_second": rows / middle("audit", "cpu_seconds"),
            "bare_rows_per_second": rows / middle("bare", "cpu_seconds"),
            "peak_worker_bytes": int(middle("audit", "peak_bytes")),
            "peak_bare_bytes": int(middle("bare", "peak_bytes")),
            "wall_ratio": middle("audit", "seconds") / middle("bare", "seconds"),
            "cpu_seconds_by_stage": sides["audit"][-1]["stages"],
        }


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--numeric", action="store_true", help="leave the 26 word features out")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--workers", action="store_true", help="one Ray worker against two")
    parser.add_argument("--lake", help="folder in which the lake is kept for the next time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    found = measured(given)
    lines = (f"{name}: {value}" for name, value in found.items())
    print(json.dumps(found, indent=1) if given.json else "\n".join(lines))  # noqa: T201


if __name__ == "__main__":
    main()
