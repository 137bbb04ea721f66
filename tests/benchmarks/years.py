"""Years of nights: a warehouse of 500 models and 400 nights, and what reading it takes.

    python -m tests.benchmarks.years make FOLDER [MODELS] [NIGHTS] [NIGHTS_A_FILE]
    python -m tests.benchmarks.years read FOLDER
    python -m tests.benchmarks.years night FOLDER

`make` writes the tables through the row schemas of the project, `NIGHTS_A_FILE` nights in one file
(40 by default, as compaction leaves them; 1 is as nights leave them). `read` runs `show`, `sql` and
`report` in processes of their own and prints processor seconds, wall clock and the largest process.
`night` adds one more night of every model; `read` then shows what a changed night costs.
"""

import datetime as dt
import hashlib
import os
import pathlib
import resource
import subprocess
import sys
import time
from collections.abc import Sequence

import deltalake
import numpy as np
import polars as pl
import pyarrow as pa

from privcore.lower_bounds.verdicts import Verdict
from privcore.lower_bounds.windows import WINDOW_EPSILONS
from tests.support.lake import PLAN
from tests.support.report import everything_beside, record
from workers.versions import METHOD_VERSION
from workers.warehouse.store import Warehouse
from workers.warehouse.table_row import TableRow
from workers.warehouse.tables import PARTS, TABLES, arrow_schema

MODELS, NIGHTS, NIGHTS_A_FILE = 500, 400, 40
FIRST = dt.date(2025, 10, 1)
DATASETS, TEAMS = 25, 40
"""So many datasets, and owners, share the models."""
STRATEGIES = 6
_PRICED = 4
"""One model in so many declares a delta, which has a price."""
_COMMANDS = {
    "show": ["show"],
    "sql": ["sql", "select count(*) from audits"],
    "report": ["report"],
}
_PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
_CALL = "from flows.cli import main; main()"


def make(folder: pathlib.Path, models: int, nights: int, nights_a_file: int) -> None:
    """Write a warehouse and the settings that name its models."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"model-{number:04}" for number in range(models)]
    listed = "".join(f'\n[[models]]\nname = "{name}"\n' for name in names)
    (folder / "privaudit.toml").write_text(
        f'lake = "lake"\nwarehouse = "warehouse"\nreport = "report"\n{listed}', "utf-8"
    )
    warehouse = Warehouse(str(folder / "warehouse"))
    for first in range(0, nights, nights_a_file):
        put_nights(warehouse, names, range(first, min(first + nights_a_file, nights)))


def add_night(folder: pathlib.Path) -> None:
    """Write one more night of every model."""
    warehouse = Warehouse(str(folder / "warehouse"))
    known = warehouse.collect(warehouse.scan("audits").select("model", "day"))
    newest: dt.date = known["day"].max()  # type: ignore[assignment]  # polars' union
    after = (newest - FIRST).days + 1
    put_nights(warehouse, sorted(known["model"].unique()), range(after, after + 1))


def put_nights(warehouse: Warehouse, models: Sequence[str], offsets: range) -> None:
    """Write some nights of all models in one commit a table, `audits` last."""
    audits = _audits(models, offsets)
    figures = audits.filter(pl.col("status") == "evaluated")
    beside: dict[str, list[dict[str, object]]] = {}
    for row in everything_beside(record(epsilon_declared=0.5)):
        beside.setdefault(type(row).__name__, []).append(row.model_dump())
    traced = list(TableRow.model_fields)
    for table in PARTS:
        kind = TABLES[table].row
        if kind.__name__ in beside:
            rows = pl.DataFrame(beside[kind.__name__], infer_schema_length=None).drop(traced)
            _put(warehouse, table, figures.select(traced).join(rows, how="cross"))
    _put(warehouse, "audit_wealth", _wealth(figures))
    _put(warehouse, "audits", audits)


def _audits(models: Sequence[str], offsets: range) -> pl.DataFrame:
    """Return the audits of some nights: one in a hundred refuted, another without figures."""
    rows = []
    for offset in offsets:
        day = FIRST + dt.timedelta(days=offset)
        for number, model in enumerate(models):
            seen = (number * 7919 + offset * 104729) % 100
            rows.append(
                {
                    "model": model,
                    "day": day,
                    "proxy_day": day - dt.timedelta(days=1),
                    "dataset": f"dataset-{number % DATASETS}",
                    "audit_id": _digest("audit", model, offset)[:32],
                    "target_sha256": _digest("model", model, offset),
                    "proxy_sha256": _digest("model", model, offset - 1),
                    "target_manifest_sha256": _digest("manifest", model, offset),
                    "proxy_manifest_sha256": _digest("manifest", model, offset - 1),
                    "labels_digest": _digest("labels", number % DATASETS, offset),
                    "record_digest": _digest("record", model, offset),
                    "status": "not_evaluable" if seen == 1 else "evaluated",
                    "verdict": _verdict(seen, number),
                    "reason_code": "labels_not_found" if seen == 1 else None,
                    "reason": f"At least {seen / 60:.2f} was proved of {model} on {day}.",
                    "epsilon_lower": None if seen == 1 else seen / 60,
                    "epsilon_declared": None if number % 3 == 2 else 2.0,
                    "declared_by": None if number % 3 == 2 else f"team-{number % TEAMS}",
                    "delta_declared": 1e-6 if number % _PRICED == 0 else 0.0,
                    "recorded_at": dt.datetime(day.year, day.month, day.day, 3, tzinfo=dt.UTC)
                    + dt.timedelta(days=1),
                }
            )
    of_each = pl.DataFrame(rows, infer_schema_length=None)
    given = {
        **record().model_dump(),
        "method_version": METHOD_VERSION,
        "plan": PLAN.model_dump_json(),
        "assumption": "the holdout was drawn at random from the rows trained on, " * 3,
        "asked_by": "nightly-audit/production",
        "revision": 1,
    }
    known = TABLES["audits"].row.model_fields
    same = {name: value for name, value in given.items() if name in known}
    same = {name: value for name, value in same.items() if name not in of_each.columns}
    return of_each.with_columns(
        pl.lit(value, dtype=pl.String if value is None else None).alias(name)
        for name, value in same.items()
        if value is not None
    )


def _verdict(seen: int, number: int) -> str:
    if seen == 1:
        return Verdict.NOT_EVALUABLE
    if number % 3 == 2:
        return Verdict.UNDECLARED
    return Verdict.VIOLATED if seen == 2 else Verdict.CONSISTENT


def _wealth(audits: pl.DataFrame) -> pl.DataFrame:
    """Return what each audit leaves for the nights to come; no two are alike."""
    random = np.random.default_rng(audits.height)
    size = STRATEGIES * WINDOW_EPSILONS.size
    curve = np.tile(0.4 - WINDOW_EPSILONS, STRATEGIES)
    wealth = curve + random.normal(0.0, 0.3, (audits.height, size))
    priced = (audits["delta_declared"] > 0.0).to_numpy()
    claimed = random.normal(-0.5, 0.3, (audits.height, STRATEGIES))
    standing = pl.Series(wealth * 0.9).arr.to_list()
    return audits.select(*TableRow.model_fields, "model", "day", "epsilon_declared").with_columns(
        records=pl.lit(1740),
        classes=pl.lit(2),
        family=pl.Series(np.where(priced, "approx_dp", "pure_dp")),
        delta=audits["delta_declared"],
        neighbors=pl.lit("replace"),
        labels_recur=pl.lit(value=False),
        window_log_wealth=pl.Series(wealth).arr.to_list(),
        ceiling_log_wealth=pl.Series(wealth + 2.0).arr.to_list(),
        window_price=pl.Series(np.where(priced, 1e-5, 0.0)),
        standing_log_wealth=pl.DataFrame({"of": standing, "is": priced}).select(
            pl.when("is").then("of")
        )["of"],
        standing_price=pl.Series(np.where(priced, 1e-5, 0.0)),
        claimed_log_wealth=pl.DataFrame(
            {"of": pl.Series(claimed).arr.to_list(), "is": audits["epsilon_declared"].is_not_null()}
        ).select(pl.when("is").then("of"))["of"],
    )


def _put(warehouse: Warehouse, table: str, rows: pl.DataFrame) -> None:
    schema = arrow_schema(TABLES[table].row)
    source = pl.concat(
        [pl.DataFrame(pa.Table.from_batches([], schema)), rows], how="diagonal_relaxed"
    )
    known = source.select(schema.names).to_arrow().cast(schema)
    deltalake.write_deltalake(warehouse.path(table), known, mode="append")


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def read(folder: pathlib.Path, commands: Sequence[str] = tuple(_COMMANDS)) -> None:
    """Print what each command takes, in a process of its own."""
    for name in commands:
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        peak = _largest(folder, _COMMANDS[name])
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        print(  # noqa: T201
            f"{name}: {cpu:.1f} CPU s, {time.monotonic() - begun:.1f} s, "
            f"largest process {peak / 1e6:.2f} GB"
        )


def _largest(folder: pathlib.Path, command: Sequence[str]) -> int:
    """Run a command and return the peak of its largest process, in kilobytes."""
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, sys.executable, "-c", _CALL, *command],
        cwd=folder, check=True, stdout=subprocess.PIPE, text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("PREFECT")},
    )  # fmt: skip
    code, peak = done.stdout.split()
    if code != "0":
        raise SystemExit(f"{command} ended with {code}")
    return int(peak)


def main() -> None:
    """Do what the command line asks for."""
    action, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if action == "make":
        sizes = [int(word) for word in sys.argv[3:]]
        make(folder, *sizes, *(MODELS, NIGHTS, NIGHTS_A_FILE)[len(sizes) :])
    elif action == "night":
        add_night(folder)
    else:
        read(folder, sys.argv[3:] or tuple(_COMMANDS))


if __name__ == "__main__":
    main()
