"""Flows for whoever waits at a terminal: under Prefect where a server stands, else without it.

Where no server stands nobody could look at a run afterwards, and starting one takes longer than a
small audit. The functions, their attempts, and how many audits run at once are the same.
"""

from typing import Any

from prefect import Flow
from prefect.client.schemas.objects import State
from prefect.settings import PREFECT_API_URL

from flows.run.attempts import stoppable


def start(flow: Flow[..., Any], **parameters: Any) -> Any:
    """Return what a flow returns; what it raises is raised.

    Args:
        flow: one that needs no more of Prefect than `flows.run.attempts` does without.
        parameters: those of the flow, all of which its function gets as they are.
    """
    if PREFECT_API_URL.value():
        return flow(**parameters)
    with stoppable():
        ended = flow.fn(**parameters)
    return ended.data if isinstance(ended, State) else ended
