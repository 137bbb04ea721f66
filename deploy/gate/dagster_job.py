"""Dagster: the op `gate` fails where `privaudit gate` does not pass, so `release` does not run."""  # noqa: INP001

import shutil
import subprocess

from dagster import In, Nothing, job, op

GATE = (
    "privaudit gate --target new.ubj --proxy old.ubj --table rows.parquet --label late "
    "--split split --declared 2 --max-epsilon 4"
)


@op
def gate() -> None:
    """Audit the candidate; exit codes 1, 2 and 3 raise CalledProcessError."""
    subprocess.run(GATE.split(), check=True)  # noqa: S603  # our own words


@op(ins={"passed": In(Nothing)})
def release() -> None:
    """Release the candidate."""
    shutil.copy("new.ubj", "released.ubj")


@job
def release_job() -> None:
    """Gate first."""
    release(passed=gate())
