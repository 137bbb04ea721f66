"""Who carries the work: this process, or Ray on one machine or many, with the same answer."""

import contextlib
import logging
import operator
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import ray

from privcore.exceptions import TransientError

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")

_PENDING_PER_CPU = 4
_RETRIES = 3


class Executor(Protocol):
    """Applies a function to many items; results come in any order."""

    def map(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Result]:
        """Yield `function(shared, item)` for every item, in any order."""
        ...


@dataclass(frozen=True, slots=True)
class InProcess:
    """Does the work here and now; what most tests use."""

    def map(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Result]:
        """Yield the results in the order of the items."""
        for item in items:
            yield function(shared, item)


@dataclass(frozen=True, slots=True)
class OnRay:
    """Does the work in tasks of one CPU each, on the Ray that this process is connected to.

    Work in flight is bounded. A task is tried again where a worker or node was lost or the function
    raised `TransientError`, and never for anything else.
    """

    def map(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item]
    ) -> Iterator[Result]:
        """Yield the results as they come; what the function raises is raised here.

        Raises:
            TransientError: Ray kept losing the workers that carried an item.
        """
        # Ray's stubs know retry_exceptions only as a bool, and less of the rest.
        options: Any = {
            "num_cpus": 1,
            "max_retries": _RETRIES,
            "retry_exceptions": [TransientError],
        }
        task: Any = ray.remote(**options)(function)
        reference = ray.put(shared)
        cluster: Any = ray
        limit = _PENDING_PER_CPU * max(1, int(cluster.cluster_resources().get("CPU", 1)))
        pending: list[Any] = []
        try:
            for item in items:
                if len(pending) >= limit:
                    done, pending = ray.wait(pending)
                    yield _result(done[0])
                pending.append(task.remote(reference, item))
            while pending:
                done, pending = ray.wait(pending)
                yield _result(done[0])
        finally:
            for left in pending:
                ray.cancel(left, force=False)


def in_order(
    executor: Executor,
) -> Callable[[Callable[[Item], Result], Iterable[Item]], list[Result]]:
    """Return a `map` that has `executor` do the work and keeps the order of the items.

    What `privcore` takes as a mapper (`reidentification_private`, Algorithm 1), so that models are
    trained in parallel on Ray while privcore knows no Ray.
    """

    def mapped(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        numbered = executor.map(_numbered, function, enumerate(items))
        return [result for _, result in sorted(numbered, key=operator.itemgetter(0))]

    return mapped


def _numbered(function: Callable[[Item], Result], item: tuple[int, Item]) -> tuple[int, Result]:
    return item[0], function(item[1])


@contextlib.contextmanager
def on_ray(address: str = "local", cpus: int | None = None) -> Iterator[OnRay]:
    """Yield an executor on Ray, connecting first where this process has not yet.

    `address` is `local` (a Ray of our own, in this process, with `cpus`), `auto`, or
    `ray://host:port`. Who connected disconnects.
    """
    mine = not ray.is_initialized()
    if mine:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        local: dict[str, Any] = {"include_dashboard": False, "num_cpus": cpus}
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            **(local if address == "local" else {}),
        )
    try:
        yield OnRay()
    finally:
        if mine:
            ray.shutdown()


def _result(reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        # The cause is the exception that the function raised, as it raised it.
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise TransientError(
            f"Ray lost a worker or its result more than {_RETRIES} times "
            f"({type(error).__name__}): try again."
        ) from None
