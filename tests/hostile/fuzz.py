"""Files with some bytes changed, audited one after the other in a process that may crash.

    python -m tests.hostile.fuzz FOLDER labels|model FIRST STOP

Says on standard output, in a line of JSON each, which file it begins and what came of it; whoever
started it knows by the last line which file has ended it, and why it is started again behind that.
"""

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from tests.support.lake import DAY, EVE, declared, edit_manifest, label_path, label_rows, put_model
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.labels.shards import write_labels
from workers.lake import checkpoints, limits
from workers.lake.layout import Lake
from workers.plan import Plan

KINDS = ("labels", "model")
PLAN = Plan(repetitions=1, minimum_records=50, minimum_control_records=10, slices=("city",))
SECONDS = 10
"""How long the first reading of a model file may take here: some have no end."""
_ROWS = 120
_WRITERS: tuple[Callable[[pl.DataFrame, pathlib.Path], Any], ...] = (
    lambda frame, path: pq.write_table(frame.to_arrow(), path, row_group_size=50),
    lambda frame, path: pq.write_table(
        frame.to_arrow(), path, compression="none", use_dictionary=False
    ),
    lambda frame, path: pq.write_table(frame.to_arrow(), path, compression="none"),
    lambda frame, path: pq.write_table(
        frame.to_arrow(), path, compression="zstd", data_page_version="2.0", version="2.6"
    ),
    lambda frame, path: pq.write_table(
        frame.to_arrow(),
        path,
        compression="gzip",
        use_dictionary=False,
        column_encoding={
            "delay": "BYTE_STREAM_SPLIT",
            "hour": "DELTA_BINARY_PACKED",
            "city": "DELTA_BYTE_ARRAY",
            "split": "DELTA_LENGTH_BYTE_ARRAY",
        },
    ),
    lambda frame, path: frame.write_parquet(path, compression="lz4", row_group_size=50),
)
"""How different writers write the same rows."""


def make_lake(folder: pathlib.Path) -> Lake:
    """Write a lake of one model; `labels-N.parquet` beside it are its labels by each writer."""
    lake = Lake(str(folder / "lake"))
    for seed, day in enumerate((EVE, DAY)):
        rows = label_rows(_ROWS, seed=seed, holdout=0.4)
        write_labels(lake, "flights", day, rows.to_arrow(), row_group_size=50)
        put_model(lake, day, privacy=declared())
        for number, write in enumerate(_WRITERS):
            write(rows, folder / f"labels-{number}.parquet")
    return lake


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Return a file as a bad disk, a bad writer or a bad person leaves it."""
    changed = bytearray(content)
    place = chance.randrange(len(changed))
    kind = chance.randrange(6)
    if kind <= 2:  # some bytes, in the metadata as often as in the data
        tail = min(len(changed), 3000)
        for _ in range(chance.choice([1, 1, 2, 8])):
            spot = chance.randrange(len(changed))
            if chance.random() < 0.5:
                spot = len(changed) - 1 - chance.randrange(tail)
            changed[spot] = chance.randrange(256)
    elif kind == 3:
        del changed[place:]
    elif kind == 4:
        length = chance.randrange(1, 200)
        changed[place : place + length] = chance.randbytes(length)
    else:
        changed[place:place] = changed[place // 2 : place // 2 + chance.randrange(1, 200)]
    return bytes(changed)


def damaged_file(folder: pathlib.Path, kind: str, seed: int) -> bytes:
    """Return the file of a seed; the lake is one that `make_lake` wrote."""
    chance = random.Random(seed)  # noqa: S311
    if kind == "model":
        path = folder / "lake" / "models" / "good" / f"day={DAY}" / "model.cbm"
        good = folder / "good.cbm"
        if not good.exists():
            good.write_bytes(path.read_bytes())
        return damaged(good.read_bytes(), chance)
    return damaged((folder / f"labels-{seed % len(_WRITERS)}.parquet").read_bytes(), chance)


def audited(lake: Lake, kind: str, content: bytes) -> dict[str, Any]:
    """Put a file in the place of the model's or the labels', audit, and return what came of it."""
    if kind == "model":
        path = pathlib.Path(lake.uri) / "models" / "good" / f"day={DAY}" / "model.cbm"
        path.write_bytes(content)
        edit_manifest(lake, "good", DAY, sha256=hashlib.sha256(content).hexdigest())
    else:
        label_path(lake, "flights").write_bytes(content)
    audit = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    return {
        "status": str(audit.status),
        "reason_code": audit.reason_code,
        "reason": audit.reason,
        "epsilon_lower": audit.epsilon_lower,
    }


def play(folder: pathlib.Path, kind: str, seeds: range) -> Iterator[dict[str, Any]]:
    """Yield what came of every seed's file; what ended the process that read it is its `status`.

    The process is started again behind the file that ended it.
    """
    first = seeds.start
    while first < seeds.stop:
        command = [sys.executable, "-m", __name__, str(folder), kind, str(first), str(seeds.stop)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            assert child.stdout is not None
            for line in child.stdout:
                said = json.loads(line)
                first = said["seed"] + 1
                if "status" in said:
                    yield said
                    begun = None
                else:
                    begun = said["seed"]
        if begun is None and child.returncode == 0:
            return
        yield {"seed": begun, "status": f"exit code {child.returncode}"}


def main() -> None:
    """Play the seeds that the command line names."""
    folder, kind = pathlib.Path(sys.argv[1]), sys.argv[2]
    limits.MODEL_SECONDS = SECONDS
    lake = Lake(str(folder / "lake"))
    # The checkpoints that no seed changes are read by CatBoost once, and not once a file.
    checkpoints.describe_model = functools.lru_cache(8)(checkpoints.describe_model)  # type: ignore[assignment]
    said = os.fdopen(os.dup(1), "w")
    with contextlib.redirect_stdout(sys.stderr):
        for seed in range(int(sys.argv[3]), int(sys.argv[4])):
            print(json.dumps({"seed": seed}), file=said, flush=True)
            content = damaged_file(folder, kind, seed)
            print(json.dumps({"seed": seed} | audited(lake, kind, content)), file=said, flush=True)


if __name__ == "__main__":
    main()
