"""Cost of a work unit: processor time by stage, rows, bytes."""

import os
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from workers.labels.shards import WorkUnit, work_unit_name


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a work unit: reported once, and part of no number."""

    unit: str
    rows: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    cpu_seconds: Counter[str] = field(default_factory=Counter)
    worker: str = ""


class Meter:
    """Measures what a work unit costs."""

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

    def cost(self, unit: WorkUnit) -> Cost:
        """Return what was measured."""
        return Cost(
            work_unit_name(unit),
            self._rows,
            self._bytes,
            time.perf_counter() - self._start,
            self._stages,
            worker=f"{socket.gethostname()}:{os.getpid()}",
        )
