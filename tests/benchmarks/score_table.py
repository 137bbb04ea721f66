"""The audit of a score table against a bare scan of the columns that it reads, and its memory.

Both read the same Parquet files in turn, in this process, on one thread. `bare` decodes the label,
the split and both models' probabilities of each row group and adds them up; `audit` is `run_audit`
to the record. What is compared is processor time, as medians over turns, beside the largest memory
that either held. Files are written by repeating rows of one million.

    python -m tests.benchmarks.score_table --rows 20000000
"""

import argparse
import json
import pathlib
import shutil
import tempfile

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.benchmarks.measure import beside
from tests.support.lake import DAY
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.plan import Plan
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores

_FILE_ROWS = 1_000_000
_COLUMNS = ["clicked", "p_today", "p_yesterday", "split"]


def main() -> None:
    """Print what was measured, in JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repetitions", type=int, default=Plan().repetitions)
    parser.add_argument("--pairs", type=int, default=3)
    given = parser.parse_args()
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / f"day={DAY}"
        _write(place, given.rows)
        tables = ScoreTables(
            table=folder, label="clicked", target="p_today", proxy="p_yesterday"
        )  # fmt: skip
        plan = Plan(repetitions=given.repetitions)

        def audit() -> object:
            supplied = SuppliedScores(tables)
            return run_audit(
                Lake(folder), "ads", DAY, plan=plan, executor=InProcess(), external_inputs=supplied
            )

        pair = beside(audit, lambda: _scan(place), pairs=given.pairs)
    found = {
        "rows": given.rows,
        "repetitions": given.repetitions,
        "audit_seconds": round(pair.mine.seconds, 2),
        "scan_seconds": round(pair.peer.seconds, 2),
        "times_a_scan": round(1.0 / pair.ratio, 2),
        "audit_megabytes": round(pair.mine.megabytes),
        "scan_megabytes": round(pair.peer.megabytes),
    }
    print(json.dumps(found))  # noqa: T201


def _write(place: pathlib.Path, rows: int) -> None:
    place.mkdir()
    random = np.random.default_rng(0)
    proxy = random.uniform(0.01, 0.99, _FILE_ROWS)
    target = np.clip(proxy + random.normal(0.0, 0.05, _FILE_ROWS), 0.001, 0.999)
    frame = pl.DataFrame(
        {
            "clicked": (random.random(_FILE_ROWS) < proxy).astype(np.int8),
            "p_today": target.astype(np.float32),
            "p_yesterday": proxy.astype(np.float32),
            "split": np.where(random.random(_FILE_ROWS) < 0.2, "holdout", "train"),
        }
    )
    first = place / "part-00000.parquet"
    pq.write_table(frame.to_arrow(), first, row_group_size=_FILE_ROWS)
    for number in range(1, rows // _FILE_ROWS):
        shutil.copyfile(first, place / f"part-{number:05d}.parquet")


def _scan(place: pathlib.Path) -> float:
    """Decode each row group's columns on one thread, and look at every value once."""
    total = 0.0
    for path in sorted(place.glob("*.parquet")):
        file = pq.ParquetFile(path)
        for index in range(file.num_row_groups):
            table = file.read_row_group(index, columns=_COLUMNS, use_threads=False)
            total += sum(pc.sum(table[name]).as_py() for name in _COLUMNS[:3])
            total += pc.sum(pc.equal(table["split"], "train")).as_py()
    return total


if __name__ == "__main__":
    main()
