"""A night of many small models: processor seconds a model, the largest process, and what they do.

    python -m tests.benchmarks.fleet [MODELS ...] [--stages] [--folder FOLDER]

100 models by default. Each model is a copy of one of three: the demo's private model (CatBoost),
and models of the same labels, privatised, by XGBoost and LightGBM. Every copy has bytes of its own,
so no two files have one digest. They are audited on the 877 flights of one day, in 10 label
partitions that hold the same rows. `privaudit night` runs as a user runs it, in a process of its
own.

The benchmark looks at all processes below it five times a second: processor seconds are those of
the operating system, and memory is each process's peak resident set (shared memory included). With
`--stages` the same command also counts the processor seconds of the driver's threads by stage,
without threads of libraries (delta-rs, polars, Arrow) and without child processes. What workers do
of a stage is in their role alone.
"""

import argparse
import collections
import contextlib
import datetime as dt
import functools
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import lightgbm
import numpy as np
import polars as pl
import psutil
import xgboost

from flows.learn.demo import recipes
from privcore.attacks import generator
from privcore.mechanisms import RandomizedResponse
from workers.datasets.flights import DATASET, FEATURES, LABEL, read_flights, write_day
from workers.labels.shards import write_labels
from workers.lake import limits
from workers.lake.checkpoints import read_manifest, write_checkpoint
from workers.lake.layout import Lake
from workers.training.jobs import TrainingJob, read_training_data, train

PARTITIONS = 10
DAY = dt.date(2013, 2, 6)
"""884 flights left, of which 877 have an arrival delay."""
_DAYS = (DAY - dt.timedelta(days=1), DAY)
_SEED, _TREES = 2013, 100


def make_fleet(folder: pathlib.Path, models: int) -> pathlib.Path:
    """Write a lake of so many models and its settings; return the settings' file."""
    lake, flights = Lake(str(folder / "lake")), read_flights()
    first = {day: _files(lake, flights, day) for day in _DAYS}
    for partition in range(PARTITIONS):
        for day in _DAYS:
            table = pl.read_parquet(folder / f"lake/labels/{DATASET}/day={day}")
            name = f"{DATASET}-{partition}"
            write_labels(lake, name, day, table.to_arrow(), row_group_size=256)
    kinds = list(_COPIES)
    names = [f"model-{number:04d}" for number in range(models)]
    for number, name in enumerate(names):
        kind = kinds[number % len(kinds)]
        for day in _DAYS:
            declared, files = first[day]
            about = declared | {"model": name, "dataset": f"{DATASET}-{number % PARTITIONS}"}
            copy = _COPIES[kind](files[kind], number)
            write_checkpoint(lake, about, copy, format=kind)
    listed = "\n".join(f'[[models]]\nname = "{name}"\n' for name in names)
    settings = folder / "privaudit.toml"
    places = 'lake = "lake"\nwarehouse = "warehouse"\nreport = "report"\n'
    settings.write_text(f"{places}\n{listed}", encoding="utf-8")
    return settings


def _files(
    lake: Lake, flights: pl.DataFrame, day: dt.date
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return what a manifest declares of a day's models, and a file of each framework."""
    recipe = recipes()[1]
    write_day(lake, flights, day, seed=_SEED)
    train(lake, TrainingJob(recipe, day, _SEED))
    declared = read_manifest(lake, recipe.model, day).manifest
    data = read_training_data(lake, recipe, day)
    mechanism = RandomizedResponse(2.0, 2)
    private = mechanism.sample(data.labels, generator(_SEED, "fleet", str(day)))
    rows = data.features.to_numpy().astype(np.float32)
    names = [feature.name for feature in FEATURES]
    table = xgboost.DMatrix(rows, label=private, feature_names=names)
    shape = {"objective": "binary:logistic", "max_depth": 6, "nthread": 1}
    trees = lightgbm.Dataset(rows.astype(float), label=private, feature_name=names)
    quiet = {"objective": "binary", "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 2}
    files = {
        "catboost": lake.read(
            f"models/{recipe.model}/day={day}/{declared.file}", at_most=limits.CHECKPOINT_BYTES
        ),
        "xgboost": bytes(xgboost.train(shape, table, _TREES).save_raw("ubj")),
        "lightgbm": lightgbm.train(quiet, trees, _TREES).model_to_string().encode(),
    }
    about = declared.model_dump(exclude={"schema_version", "format", "file", "sha256"})
    return about | {"label": LABEL.model_dump()}, files


def _copy_of_catboost(content: bytes, number: int) -> bytes:
    model = _catboost(content)
    model.get_metadata()["copy"] = str(number)
    return bytes(model._serialize_model())  # CatBoost has no public way to bytes


@functools.cache
def _catboost(content: bytes) -> Any:
    import catboost  # noqa: PLC0415

    model = catboost.CatBoost()
    model.load_model(blob=content, format="cbm")
    return model


def _copy_of_xgboost(content: bytes, number: int) -> bytes:
    model = xgboost.Booster()
    model.load_model(bytearray(content))
    model.set_attr(copy=str(number))
    return bytes(model.save_raw("ubj"))


def _copy_of_lightgbm(content: bytes, number: int) -> bytes:
    return content.replace(b"[verbosity: -1]", f"[verbosity: -1]\n[data: {number}]".encode())


_COPIES: dict[str, Callable[[bytes, int], bytes]] = {
    "catboost": _copy_of_catboost,
    "xgboost": _copy_of_xgboost,
    "lightgbm": _copy_of_lightgbm,
}


class Family:
    """CPU time and memory of all processes below one process, read until the block ends."""

    def __init__(self, root: int) -> None:
        self._root = psutil.Process(root)
        self._seen: dict[psutil.Process, dict[str, Any]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def roles(self) -> dict[str, dict[str, float]]:
        """Return processor seconds and the largest peak in MB by what processes do."""
        reaped: dict[int, float] = collections.Counter()
        for one in self._seen.values():
            reaped[one["parent"]] += one["own"] + one["children"]
        roles: dict[str, dict[str, float]] = {}
        for process, one in self._seen.items():
            # Children that came and went between two looks are known by their parent alone.
            unseen = one["children"] - reaped[process.pid] if one["role"] == "readers" else 0.0
            role = roles.setdefault(one["role"], {"cpu_s": 0.0, "processes": 0, "largest_mb": 0.0})
            role["cpu_s"] += one["own"] + max(0.0, unseen)
            role["processes"] += 1
            role["largest_mb"] = max(role["largest_mb"], one["peak"])
        return roles

    def others(self) -> dict[str, float]:
        """Return processor seconds of processes that no role names, by their command line."""
        found: dict[str, float] = collections.Counter()
        for one in self._seen.values():
            if one["role"] == "other":
                found[one["command"]] += one["own"]
        return found

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            with contextlib.suppress(psutil.Error):
                for process in (self._root, *self._root.children(recursive=True)):
                    with contextlib.suppress(psutil.Error, OSError):  # it has ended
                        self._look(process)

    def _look(self, process: psutil.Process) -> None:
        known = self._seen.get(process, {"peak": 0.0, "role": "other"})
        times, command = process.cpu_times(), " ".join(process.cmdline())
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text("ascii", "replace")
        peak = status.partition("VmHWM:")[2].split()
        self._seen[process] = {
            "parent": process.ppid(),
            "own": times.user + times.system,
            "children": times.children_user + times.children_system,
            "peak": max(known["peak"], int(peak[0]) / 1024.0 if peak else 0.0),
            "command": command[:80],
            "role": _role(command) or known["role"],
        }


def _role(command: str) -> str:
    """Return what a process does, by its command line."""
    words = (
        ("workers.contained", "readers"),
        ("ray::DashboardAgent", "ray itself"),
        ("ray::RuntimeEnvAgent", "ray itself"),
        ("ray::IDLE", "workers"),
        ("ray::", "workers"),
        ("default_worker.py", "workers"),
        ("raylet", "ray itself"),
        ("gcs_server", "ray itself"),
        ("ray/", "ray itself"),
        ("spawn_main", "report"),
        ("resource_tracker", "report"),
        ("night", "driver"),
    )
    return next((role for word, role in words if word in command), "")


def count_stages(arguments: list[str], file: pathlib.Path) -> None:
    """Run the command line with counted stages, in this process; write them to a file."""
    from flows.run import auditing, conclusion, night_plan  # noqa: PLC0415
    from workers.audit import run  # noqa: PLC0415
    from workers.warehouse.store import Warehouse  # noqa: PLC0415

    seconds: dict[str, float] = collections.Counter()
    times: dict[str, int] = collections.Counter()
    lock = threading.Lock()

    def counted(stage: str, place: Any, name: str) -> None:
        original = getattr(place, name)

        @functools.wraps(original)
        def call(*given: Any, **more: Any) -> Any:
            begun = time.thread_time()
            try:
                return original(*given, **more)
            finally:
                with lock:
                    seconds[stage] += time.thread_time() - begun
                    times[stage] += 1

        setattr(place, name, call)

    counted("look", night_plan, "plan_audit")
    counted("read", run, "find_inputs")
    counted("play", run, "scan_labels")
    counted("prove", run, "prove")
    counted("commit", Warehouse, "commit")
    counted("alert", auditing, "announce")
    counted("draw", conclusion, "write")
    begun = time.process_time()
    from flows.cli import main  # noqa: PLC0415

    sys.argv = ["privaudit", *arguments]
    try:
        main()
    finally:
        all_threads = time.process_time() - begun
        said = {"stages": seconds, "calls": times, "driver_all_threads": all_threads}
        file.write_text(json.dumps(said), encoding="utf-8")


def night(settings: pathlib.Path, *, stages: bool) -> dict[str, Any]:
    """Run a night; return its figures."""
    command = ["night", "--config", str(settings), "--day", str(DAY), "--json"]
    file = settings.parent / "stages.json"
    plain = [str(pathlib.Path(sys.executable).parent / "privaudit")]
    with_counts = [sys.executable, "-m", "tests.benchmarks.fleet", "--counted", str(file)]
    start = with_counts if stages else plain
    begun = time.monotonic()
    with (settings.parent / "night.txt").open("wb") as said:
        process = subprocess.Popen([*start, *command], stdout=said, stderr=said)
        with Family(process.pid) as family:
            code = process.wait()
    roles = family.roles()
    found: dict[str, Any] = {
        "exit_code": code,
        "seconds": time.monotonic() - begun,
        "cpu_s": sum(role["cpu_s"] for role in roles.values()),
        "largest_mb": max(role["largest_mb"] for role in roles.values()),
        "roles": roles,
        "others": family.others(),
    }
    return found | (json.loads(file.read_text("utf-8")) if stages else {})


def main() -> None:
    """Make fleets, run their nights, and print what they took."""
    if sys.argv[1:2] == ["--counted"]:
        count_stages(sys.argv[3:], pathlib.Path(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=int, default=[100])
    parser.add_argument("--stages", action="store_true", help="count the driver's stages, too")
    parser.add_argument("--folder", type=pathlib.Path, help="where fleets are kept for later runs")
    given = parser.parse_args()
    for models in given.models:
        folder = (given.folder or pathlib.Path(tempfile.mkdtemp())) / f"fleet-{models}"
        settings = folder / "privaudit.toml"
        if not settings.exists():
            make_fleet(folder, models)
        audited = folder / f"night-{int(time.time())}"
        audited.mkdir()
        text = settings.read_text("utf-8").replace('"lake"', '"../lake"')
        (audited / "privaudit.toml").write_text(text, encoding="utf-8")
        found = night(audited / "privaudit.toml", stages=given.stages)
        a_model = {"models": models, "cpu_s_a_model": found["cpu_s"] / models}
        print(json.dumps(a_model | found, indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
