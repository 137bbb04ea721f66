"""Name of the caller who asks for an audit, as far as this machine knows."""

import functools
import getpass

from prefect.runtime import deployment, flow_run

from flows.notify.prefect_context import best_effort


def asked_by() -> str | None:
    """Return the deployment that runs the audit, or the operating system's user; None if unknown.

    Neither is a proof: the person who starts a run may choose its name and its user.
    """
    run = flow_run.id
    deployed = "" if run is None else _deployment_of(str(run))
    if deployed != "":
        return deployed
    try:
        return f"user {getpass.getuser()}"
    except (KeyError, OSError):  # a container's user may have no name
        return None


@functools.lru_cache(maxsize=16)
def _deployment_of(_run: str) -> str | None:
    """Return of which deployment a run is: "" for none, None where the server does not answer.

    The server is asked once a run, since a night of many records would wait for each answer.
    """
    with best_effort("the question of which deployment this run is of"):
        name = deployment.name
        return "" if name is None else f"deployment {flow_run.flow_name}/{name}"
    return None
