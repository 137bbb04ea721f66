"""Start a flow from a terminal: under Prefect if a server is configured, otherwise without it.

Without a server, no page would show the run afterwards, and starting a server takes longer than a
small audit. Both ways call the same functions with the same number of attempts, and run the same
number of audits at once.
"""

from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import State
from prefect.settings import PREFECT_API_URL

from flows.run.attempts import stoppable


def start(flow: Flow[..., Any], **parameters: Any) -> Any:
    """Run a flow and return its result; its exceptions are raised.

    Args:
        flow: a flow whose tasks are started through `flows.run.attempts`.
        parameters: the flow's parameters. Without a server they are passed on without validation.
    """
    if PREFECT_API_URL.value():
        return flow(**parameters)
    with stoppable():
        ended = flow.fn(**parameters)
    return ended.data if isinstance(ended, State) else ended
