"""Name of the caller who asks for an audit, as far as this machine knows."""

import getpass

from prefect.runtime import deployment, flow_run


def asked_by() -> str | None:
    """Return the deployment that runs the audit, or the operating system's user; None if unknown.

    Neither is a proof: the person who starts a run may choose its name and its user.
    """
    if deployment.name is not None:
        return f"deployment {flow_run.flow_name}/{deployment.name}"
    try:
        return f"user {getpass.getuser()}"
    except (KeyError, OSError):  # a container's user may have no name
        return None
