"""A report of many models and nights: time, memory and size, beside those of a tenth of them.

    python -m tests.benchmarks.report [MODELS] [DAYS]

500 models of 400 days by default. Times grow in proportion, or something is wrong.
"""

import pathlib
import resource
import sys
import tempfile
import time

import polars as pl

from flows.report.report_rows import Tables, read_tables
from flows.report.site import write_pages
from tests.support.report import FIRST, everything_beside, record
from tests.support.warehouse import evaluated, put_rows
from workers.warehouse.store import Warehouse


def rows(models: int, days: int) -> Tables:
    """Return random-looking nights of many models, with everything beside each model's last."""
    night = pl.DataFrame([record().model_dump()], infer_schema_length=None)
    number = pl.int_range(models * days, eager=True).alias("number")
    audits = (
        night.join(pl.DataFrame(number), how="cross")
        .with_columns(
            model=pl.format("model-{}", pl.col("number") // days),
            day=FIRST + pl.duration(days=pl.col("number") % days),
            audit_id=pl.col("number").cast(pl.String),
            epsilon_lower=(pl.col("number") * 7919 % 1000) / 500.0,
        )
        .drop("number")
    )
    last = audits.group_by("model").agg(pl.col("audit_id").last())
    beside: dict[str, list[dict[str, object]]] = {}
    for row in everything_beside(record(epsilon_declared=0.5)):
        beside.setdefault(type(row).__name__, []).append(row.model_dump())
    frames = (
        pl.DataFrame(beside[kind], infer_schema_length=None)
        .drop("audit_id")
        .join(last.select("audit_id"), how="cross")
        for kind in ("BoundRow", "PromiseRow", "SliceRow", "ReliabilityRow", "ScoreRow")
    )
    return Tables(audits, *frames)


def measure(models: int, days: int) -> float:
    """Draw a report and print what it took; return the seconds."""
    tables = rows(models, days)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        write_pages(tables, folder)
        seconds = time.monotonic() - begun
        files = list(pathlib.Path(folder).rglob("*.html"))
        index = (pathlib.Path(folder) / "index.html").stat().st_size
        undrawn = sum("cannot be drawn" in path.read_text("utf-8") for path in files)
    here, below = (
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(  # noqa: T201
        f"{models} models x {days} days: {seconds:.0f} s, {len(files)} pages ({undrawn} undrawn), "
        f"index {index / 1e6:.2f} MB, most memory {here:.0f} MB here, {below:.0f} MB in a child"
    )
    return seconds


def measure_reading(models: int, days: int) -> None:
    """Print how long a warehouse of so many audits takes to be read, windows and all."""
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Warehouse(folder)
        first = evaluated("model-0", FIRST)
        for model in range(models):
            put_rows(
                warehouse,
                [
                    first.model_copy(
                        update={
                            part: tuple(
                                row.model_copy(
                                    update={"audit_id": f"{model}-{day}"}
                                    | (
                                        {
                                            "model": f"model-{model}",
                                            "day": FIRST.fromordinal(FIRST.toordinal() + day),
                                        }
                                        if part == "wealth"
                                        else {}
                                    )
                                )
                                for row in getattr(first, part)
                            )
                            for part in ("bounds", "wealth", "promises")
                        }
                        | {
                            "audit": first.audit.model_copy(
                                update={
                                    "audit_id": f"{model}-{day}",
                                    "model": f"model-{model}",
                                    "day": FIRST.fromordinal(FIRST.toordinal() + day),
                                }
                            )
                        }
                    )
                    for day in range(days)
                ],
            )
        begun = time.monotonic()
        height = read_tables(warehouse).audits.height
        print(f"read {height} audits: {time.monotonic() - begun:.0f} s")  # noqa: T201


if __name__ == "__main__":
    asked = [int(word) for word in sys.argv[1:]] or [500, 400]
    tenth = measure(asked[0] // 10, asked[1])
    whole = measure(*asked)
    print(f"ten times the models took {whole / tenth:.1f} times as long")  # noqa: T201
    measure_reading(*asked)
