"""Versions of the code and of the method that made a figure; both stand in every row."""

import importlib.metadata
import socket

from privcore.exceptions import TerminalError

METHOD_VERSION = "18"
"""Raised with every change of what a number means; part of `audit_id`."""

CODE_VERSION = importlib.metadata.version("privaudit")

BOTH = f"{CODE_VERSION} (method version {METHOD_VERSION})"


def check_same(version: str) -> None:
    """Refuse to work for an audit that another version began.

    Raises:
        TerminalError: this node has another version of privaudit.
    """
    if version != BOTH:
        raise TerminalError(
            f"The node {socket.gethostname()} has privaudit {BOTH}, but the audit was begun by "
            f"{version}: install the same on every node."
        )
