"""Three tables joined by record on Ray against DuckDB's own join in one process, on as many cores.

Both read the same Parquet files in turn and write the joined rows sorted by record, once to be warm
and then once for each turn. DuckDB's is one statement, in the memory of one machine; ours deals the
records into buckets and counts what does not join. Compared is the wall clock, since Ray's workers
are processes of their own, beside the largest memory that this process held.

    python -m tests.benchmarks.join --records 8000000
"""

import argparse
import contextlib
import json
import pathlib
import tempfile

import duckdb
import numpy as np
import polars as pl

from tests.benchmarks.measure import run
from tests.support.lake import DAY
from workers.executors import on_ray
from workers.sources.join_context import JoinContext
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores, find_scores

_FILE_RECORDS = 1_000_000
_TABLES = {"labels": ("clicked", "split"), "target": ("p",), "proxy": ("p",)}


def main() -> None:
    """Print what was measured, in JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=8_000_000)
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--turns", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, on_ray(cpus=given.cpus) as ray:
        place = pathlib.Path(folder)
        _write(place, given.records)
        beside = {"column": "p"}
        tables = ScoreTables.model_validate(
            {
                "table": f"{place}/labels",
                "record": "event_id",
                "label": "clicked",
                "target": {"table": f"{place}/target", **beside},
                "proxy": {"table": f"{place}/proxy", **beside},
            }
        )
        source = find_scores("ads", DAY, SuppliedScores(tables))

        def mine() -> None:
            with contextlib.ExitStack() as made:
                joining = JoinContext(ray, made, f"{place}/staging")
                source.find_partition(joining=joining)

        for join in (mine, lambda: _bare(place, given.cpus)):
            join()
        ours, theirs = [], []
        for _ in range(given.turns):
            ours.append(run(mine))
            theirs.append(run(lambda: _bare(place, given.cpus)))
    found = {
        "records": given.records,
        "cpus": given.cpus,
        "join_seconds": [round(one.wall, 1) for one in ours],
        "duckdb_seconds": [round(one.wall, 1) for one in theirs],
        "join_driver_megabytes": round(max(one.megabytes for one in ours)),
        "duckdb_megabytes": round(max(one.megabytes for one in theirs)),
    }
    print(json.dumps(found))  # noqa: T201


def _write(place: pathlib.Path, records: int) -> None:
    for table in _TABLES:
        (place / table / f"day={DAY}").mkdir(parents=True)
    for number in range(records // _FILE_RECORDS):
        random = np.random.default_rng(number)
        chance = random.uniform(0.01, 0.99, _FILE_RECORDS)
        frame = pl.DataFrame(
            {
                "event_id": [f"{number:08d}-{one:028d}" for one in range(_FILE_RECORDS)],
                "clicked": (random.random(_FILE_RECORDS) < chance).astype(np.int8),
                "p": chance,
                "split": np.where(random.random(_FILE_RECORDS) < 0.2, "holdout", "train"),
            }
        )
        for table, columns in _TABLES.items():
            rows = frame.select("event_id", *columns).sample(
                fraction=1.0, shuffle=True, seed=number
            )
            rows.write_parquet(place / table / f"day={DAY}" / f"part-{number:05d}.parquet")


def _bare(place: pathlib.Path, cpus: int) -> None:
    labels, target, proxy = (f"read_parquet('{place}/{table}/*/*.parquet')" for table in _TABLES)
    with duckdb.connect(config={"threads": cpus}) as database:
        database.execute(
            f"COPY (SELECT clicked, split, t.p, y.p AS q FROM {labels} LEFT JOIN {target} t "  # noqa: S608
            f"USING (event_id) LEFT JOIN {proxy} y USING (event_id) ORDER BY event_id) "
            f"TO '{place}/bare.parquet' (COMPRESSION uncompressed)"
        ).fetchall()


if __name__ == "__main__":
    main()
