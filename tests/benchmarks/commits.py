"""The cost of committing many audits: on disk, and to an object store that answers slowly.

    python -m tests.benchmarks.commits [--audits 1000] [--batch 64] [--nights 3] [--s3]

Every audit is a copy of one real record under a name, a day and an id of its own; each night
commits the audits of all models. With `--s3` the warehouse is in moto behind a proxy that lets each
request wait for 30 ms. Two columns of figures are seconds and this process's processor seconds;
the object store is a thread of the same process.
"""

import argparse
import contextlib
import datetime as dt
import pathlib
import tempfile
import time
from collections.abc import Iterator

from tests.support.audits import copy_of
from tests.support.faulty_store import faulty_store
from tests.support.lake import DAY, declared, small_lake
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.plan import Plan
from workers.warehouse.store import Warehouse

_DELAY = 0.03


@contextlib.contextmanager
def slow_bucket() -> Iterator[str]:
    """Yield the URI of an empty bucket whose store lets every request wait."""

    def wait(_method: str, _path: str) -> None:
        time.sleep(_DELAY)

    with faulty_store() as (store, bucket):
        store.choice = wait
        yield f"{bucket}/warehouse"


def main() -> None:
    """Commit nights of audits, and print what each took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--nights", type=int, default=3)
    parser.add_argument("--s3", action="store_true")
    given = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp())
    lake = small_lake(folder / "lake", privacy=declared())
    record = run_audit(lake, "good", DAY, plan=Plan(), executor=InProcess())
    on_disk = contextlib.nullcontext(str(folder / "warehouse"))
    with slow_bucket() if given.s3 else on_disk as uri:
        for night in range(given.nights):
            day = DAY + dt.timedelta(days=night)
            records = [copy_of(record, f"model-{number}", day) for number in range(given.audits)]
            begun, cpu = time.monotonic(), time.process_time()
            for start in range(0, given.audits, given.batch):
                new = Warehouse(uri).commit_all(records[start : start + given.batch])
                assert all(each is True for each in new)
            seconds, cpu = time.monotonic() - begun, time.process_time() - cpu
            print(f"night {night}: {seconds:.1f} s, {cpu:.1f} CPU s", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
