"""Choice of the executor for a few audits: Ray, or a child process where that is quicker."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from flows.run.night_plan import Planned
from flows.settings import RaySettings
from workers.executors import Executor, connected, on_ray
from workers.labels.shards import WORK_UNIT_BYTES
from workers.one_child import OneChild


@contextmanager
def choose_executor(planned: Sequence[Planned], ray: RaySettings) -> Iterator[Executor]:
    """Yield the executor: Ray, or a child process where there is one work unit at most.

    There is nothing to share out then, and starting a Ray would take longer than the audit.
    """
    small = sum(each.label_bytes for each in planned) <= WORK_UNIT_BYTES
    if small and ray.address == "local" and not connected():
        with OneChild() as child:
            yield child
    else:
        with on_ray(ray.address, ray.cpus, ray.task_cpus, ray.task_memory) as executor:
            yield executor
