"""The command `privaudit`: puts the commands of `flows.commands` together and reports errors.

Standard output and error outlast their readers, so that no reader decides an exit code. A build
pipes a command into another one (`| head -1`, `| grep -q pass`), which may end first. Then words go
nowhere, and the command goes on: to its records, its alerts and its own exit code.
"""

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TextIO

import typer

from flows.commands import (
    attach,
    audits,
    gate,
    handover,
    learn,
    memorization,
    operate,
    study,
    verify,
    warehouse,
)
from flows.commands.options import AUDIT, LEARN
from flows.failures import WrongUsageError, in_one_sentence
from privcore.exceptions import AuditError, is_failure
from workers.memory import return_freed_memory
from workers.plain_text import plain_text
from workers.versions import CODE_VERSION, METHOD_VERSION

_STREAMS = ("stdin", "stdout", "stderr")


def open_closed_streams() -> None:
    """Open the standard streams that the caller closed, so that no other file takes their place.

    What a library prints would else be written into a table or a pipe.
    """
    for number, name in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


@contextlib.contextmanager
def outlasting_readers() -> Iterator[None]:
    """In the block, let standard output and error go on where their reader has gone.

    What the command has to say besides its result costs no audit either: a full disk below
    standard error loses these words alone.
    """
    before = sys.stdout, sys.stderr
    sys.stdout = LastingOutput(sys.stdout)
    sys.stderr = LastingOutput(sys.stderr, optional=True)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class LastingOutput:
    """A text stream that goes nowhere once its reader has gone; `optional`: whatever fails."""

    def __init__(self, stream: TextIO, *, optional: bool = False) -> None:
        self._stream, self._optional = stream, optional

    def write(self, text: str) -> int:
        """Write text, and return its length."""
        self._or_nowhere(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        self._or_nowhere(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        """Return what the stream itself has."""
        return getattr(self._stream, name)

    def _or_nowhere(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BrokenPipeError:
            _lead_nowhere(self._stream)
        except OSError:
            if not self._optional:
                raise
            there = os.dup(self._stream.fileno())
            _lead_nowhere(self._stream)
            os.dup2(there, self._stream.fileno())
            os.close(there)
        except ValueError:  # a handler of logs may outlive the stream
            if not self._stream.closed:
                raise


def _lead_nowhere(stream: TextIO) -> None:
    """Lead a stream nowhere, with what is buffered.

    It would be tried again when the process ends, whose exit code would then be 120.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):  # no descriptor: nothing is left to do
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    with contextlib.suppress(OSError, ValueError):
        stream.flush()


_USAGE, _ERROR, _INTERRUPTED = 64, 3, 130
_AGAIN = "Run the same command again to go on: what was made or committed stays."
# typer does not export its usage error; a bad parameter is one.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="privaudit",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

for group in (attach, audits, gate, verify, warehouse, handover, operate, learn):
    app.add_typer(group.app)
app.add_typer(memorization.app, name="memorization", rich_help_panel=AUDIT)
app.add_typer(study.app, name="study", rich_help_panel=LEARN)


def _say_version(asked: bool) -> None:  # noqa: FBT001  # as typer calls it
    if asked:
        typer.echo(f"privaudit {CODE_VERSION}, method version {METHOD_VERSION}")
        raise typer.Exit


@app.callback()
def privaudit(
    context: typer.Context,
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[  # noqa: ARG001  # its callback answers
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_say_version,
            help="Print the versions of code and method, and end.",
        ),
    ] = False,
) -> None:
    """Nightly observational audits of differential-privacy guarantees for labels.

    For each model and day, privaudit proves a lower bound on the privacy loss epsilon from the
    trained model itself, holds it against what the owner declared, and commits one record.

    **Begin**: privaudit demo shows all of it on real data. For your own lake: privaudit init,
    privaudit check, then privaudit run for one model and day, and
    docs/how-to/nightly-service.md for every night.

    **Output**: tables; --json prints JSON instead. Progress goes to standard error: bars on a
    terminal, else one JSON line per event.

    **Exit codes**: 0 fine; 1 violated (check, overdue: something failed or is missing);
    2 inconclusive by a doubt or an empty declaration; 3 failed; 64 wrong usage; 130 interrupted.
    """
    context.obj = debug


def main() -> None:
    """Run the command line; an error is one sentence and exit code 3, unless --debug."""
    open_closed_streams()
    return_freed_memory()
    with outlasting_readers():
        _run()


def _run() -> None:
    try:
        code = app(standalone_mode=False, prog_name="privaudit")
    except _UsageError as error:
        _print_usage(error)
        code = _USAGE
    except typer.Abort:
        code = _INTERRUPTED
    except BaseException as error:
        if not is_failure(error):
            raise
        _print_error(error)
        code = _USAGE if isinstance(error, WrongUsageError) else _ERROR
    try:
        sys.stdout.flush()
    except OSError:  # a full disk: the exit code says the same without these words
        _lead_nowhere(sys.stdout)
    if code == _INTERRUPTED:
        typer.echo(f"privaudit: interrupted. {_AGAIN}", err=True)
        os._exit(_INTERRUPTED)  # Ray's threads may still crash an interpreter that ends
    sys.exit(code if isinstance(code, int) else 0)


def _print_error(error: BaseException) -> None:
    if "--debug" in sys.argv[1:]:
        for line in "".join(traceback.format_exception(error)).splitlines():
            typer.echo(plain_text(line), err=True)  # it quotes others' words
        return
    where = "" if isinstance(error, AuditError) else " (privaudit --debug shows where)."
    typer.echo(f"privaudit: {plain_text(in_one_sentence(error))}{where}", err=True)


def _print_usage(error: Exception) -> None:
    """Print what is wrong with the words of a command: in a box where a person looks at it."""
    if not sys.stderr.isatty():
        context = getattr(error, "ctx", None)
        if context is not None:
            typer.echo(" ".join(context.get_usage().split()), err=True)
        typer.echo(f"privaudit: {plain_text(error.format_message())}", err=True)  # type: ignore[attr-defined]
        return
    from typer.rich_utils import rich_format_error  # noqa: PLC0415

    rich_format_error(error)  # type: ignore[arg-type]
