"""Properties of the run in which this code is: who asked for it, and when it was first started."""

import datetime as dt
import functools
import os
import pwd
import uuid
from dataclasses import dataclass

import prefect
from prefect.runtime import deployment, flow_run

from flows.notify.prefect_context import best_effort


@dataclass(frozen=True, slots=True)
class _Known:
    """What Prefect's server knows of a run."""

    deployment: str | None
    first_start: dt.datetime | None


def asked_by() -> str | None:
    """Return the deployment that runs the audit, or the operating system's user; None if unknown.

    Neither is a proof: the person who starts a run may choose its name. The user is the process's
    own, whatever `LOGNAME` says.
    """
    run = flow_run.id
    if run is not None:
        known = _ask_server(str(run))
        if known is None or known.deployment is not None:
            return None if known is None else known.deployment
    user = os.getuid()
    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:  # a container's user may have no name
        return f"user {user}"


def first_start() -> dt.datetime | None:
    """Return when this run was first started; None where this is its first start, or outside."""
    run = flow_run.id
    known = None if run is None else _ask_server(str(run))
    return None if known is None else known.first_start


@functools.lru_cache(maxsize=16)
def _ask_server(run: str) -> _Known | None:
    """Return what the server knows; None where it does not answer.

    It is asked once a run, since a night of many records would wait for each answer.
    """
    with (
        best_effort("the question of what run this is"),
        prefect.get_client(sync_client=True) as client,
    ):
        found, name = client.read_flow_run(uuid.UUID(run)), deployment.name
        return _Known(
            None if name is None else f"deployment {flow_run.flow_name}/{name}",
            found.start_time if found.run_count > 1 else None,
        )
    return None
