"""How commands print: tables for a person, JSON for a program."""

import json
import logging
import os
from typing import TYPE_CHECKING

import typer
from rich.console import Console

if TYPE_CHECKING:
    import polars as pl


def print_audits(audits: "pl.DataFrame", *, as_json: bool) -> None:
    """Print rows of `audits` in the columns that matter first."""
    from flows.tables import audits_table

    if as_json:
        print_json(audits)
    else:
        console = Console()
        console.print(audits_table(audits, width=console.width))


def print_frame(frame: "pl.DataFrame", *, as_json: bool) -> None:
    """Print any frame with all of its columns."""
    from flows.tables import frame_table

    if as_json:
        print_json(frame)
    else:
        Console().print(frame_table(frame))


def print_json(frame: "pl.DataFrame") -> None:
    """Print a frame as a list of objects."""
    typer.echo(json.dumps(frame.to_dicts(), default=str, indent=2))


def quiet() -> None:
    """Keep Prefect's and its server's routine messages away from a person's terminal.

    Called before Prefect is imported.
    """
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "ERROR")
    logging.getLogger("httpx").setLevel(logging.ERROR)
