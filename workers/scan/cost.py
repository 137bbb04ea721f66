"""What a unit of work costs: processor time by stage, rows, bytes."""

import os
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from workers.labels.shards import Unit, unit_name
from workers.scan.partial_results import Work


class Meter:
    """Measures what a unit costs."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._stages: Counter[str] = Counter()
        self._bytes = self._rows = 0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the processor time of what is done inside under a name."""
        start = time.process_time()
        try:
            yield
        finally:
            self._stages[name] += time.process_time() - start  # type: ignore[assignment]

    def read(self, count: int, rows: int) -> None:
        """Count what was fetched."""
        self._bytes += count
        self._rows += rows

    def work(self, unit: Unit) -> Work:
        """Return what was measured."""
        return Work(
            unit_name(unit),
            self._rows,
            self._bytes,
            time.perf_counter() - self._start,
            self._stages,
            worker=f"{socket.gethostname()}:{os.getpid()}",
        )
