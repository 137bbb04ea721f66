"""Databases of PostgreSQL, by ADBC: where one is, how it is asked, and what its errors come to.

A database's address holds a password, so only the environment names it
(`PRIVAUDIT_DATABASE_<NAME>`), and settings and records know the name alone. What a driver says
where it cannot connect may quote parts of the address, and what a server says of values may quote
a label: neither is passed on. A server that is stopped answers nothing for ever, so every call has
a thread of its own, which is left behind where it takes too long.
"""

import contextlib
import os
import re
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from privcore.exceptions import TerminalError, TransientError
from workers.exceptions import NotEvaluableError, Reason
from workers.lake import limits
from workers.patience import within

Result = TypeVar("Result")

VARIABLE = "PRIVAUDIT_DATABASE_"
"""Environment variables that hold addresses begin so; a database's name in capitals follows."""
NAME = r"^[A-Za-z][A-Za-z0-9_]*$"
"""Names of databases: what an environment variable may be called by."""
_SCHEMES = ("postgresql://", "postgres://")
_CURSOR = "privaudit_rows"
_GRACE = 15.0
"""Seconds that a server has to end a statement by itself before it is left behind."""
_ABOUT_THE_QUERY = re.compile("42|0A|25006|21")
"""SQLSTATE of errors whose message quotes the statement and names, and no values."""
_ABOUT_VALUES = re.compile("22|23")
_LOGIN = re.compile("28")
_TOOK_TOO_LONG = "57014"
_QUOTED = 300


class Connection:
    """An open connection."""

    def __init__(self, name: str, opened: Any) -> None:
        self.name = name
        self._opened = opened
        self._left_behind = False

    def run(self, statement: str, *parameters: Any) -> None:
        """Run a statement, in the transaction that is open.

        Raises:
            NotEvaluableError: the database refuses it, or it took too long.
            TransientError: the database went away.
        """
        self._ask(lambda cursor: cursor.execute(statement, parameters or None))

    def batches(self, query: str, *parameters: Any) -> Iterator[Any]:
        """Yield a query's rows as Arrow tables of bounded numbers of rows, one at least; as `run`.

        The driver would hold the whole answer in memory where there are parameters, so a cursor of
        the server gives it piece by piece.
        """
        # A statement that writes is refused, whatever the login may do.
        self.run("set transaction isolation level repeatable read, read only")
        self.run(f"declare {_CURSOR} no scroll cursor for\n{query}", *parameters)

        def fetch(cursor: Any) -> Any:
            cursor.execute(f"fetch forward {limits.DATABASE_BATCH_ROWS} from {_CURSOR}")
            return cursor.fetch_arrow_table()

        first = True
        while (rows := self._ask(fetch)).num_rows or first:
            yield rows
            first = False
        self._told(self._opened.rollback)

    def begin(self) -> None:
        """Bound the time of each statement to come, and read times in UTC; as `run`."""
        self.run(f"set statement_timeout = {int(limits.DATABASE_SECONDS * 1000)}")
        self.run("set time zone 'UTC'")
        self._told(self._opened.commit)

    def close(self) -> None:
        """End the connection, and with it a transaction that was not committed."""
        if not self._left_behind:
            with contextlib.suppress(Exception):
                within(_GRACE, self._opened.close)

    def _ask(self, action: Callable[[Any], Result]) -> Result:
        """Return what `action` does with a new cursor (DB API, by ADBC)."""
        # Without COPY, which knows no parameters and no cursors.
        options = {"adbc.postgresql.use_copy": "false"}

        def act() -> Result:
            with self._opened.cursor(adbc_stmt_kwargs=options) as cursor:
                return action(cursor)

        return self._told(act)

    def _told(self, action: Callable[[], Result]) -> Result:
        import adbc_driver_manager  # noqa: PLC0415

        try:
            return within(limits.DATABASE_SECONDS + _GRACE, action)
        except TimeoutError:
            self._left_behind = True  # its thread may still hold it
            raise TransientError(
                f"The database {self.name} gave no answer within {limits.DATABASE_SECONDS:g} "
                "seconds: see that it runs, and try again."
            ) from None
        except adbc_driver_manager.Error as error:
            raise _in_words(self.name, error) from None


@contextlib.contextmanager
def connected(name: str) -> Iterator[Connection]:
    """Yield a connection to a database of the environment.

    Raises:
        TerminalError: the environment does not name it, or its driver is not installed.
        TransientError: it cannot be reached, or lets nobody in.
    """
    variable = VARIABLE + name.upper()
    address = os.environ.get(variable)
    if not address:
        raise TerminalError(
            f"The database {name} has no address: set {variable} in the environment, like "
            "postgresql://user:password@host:5432/database."
        )
    if not address.startswith(_SCHEMES):
        raise TerminalError(
            f"The address of the database {name} begins with no scheme that is known: write "
            "postgresql://user:password@host:5432/database."
        )
    connection = Connection(name, _open(name, address))
    try:
        connection.begin()
        yield connection
    finally:
        connection.close()


def unverified_databases() -> list[str]:
    """Return the names of the environment's databases of which no certificate is checked.

    PostgreSQL's client goes on without encryption where whoever answers says that it has none, and
    takes any certificate unless its address asks for more. Login and rows are then open to every
    machine on the way. One on this machine needs none.
    """
    found = []
    for variable, address in os.environ.items():
        if not variable.startswith(VARIABLE) or not address.startswith(_SCHEMES):
            continue
        with contextlib.suppress(ValueError):  # said where it is connected to
            parts = urllib.parse.urlsplit(address)
            given = dict(urllib.parse.parse_qsl(parts.query))
            host = given.get("host", parts.hostname or "/")
            mode = given.get("sslmode", os.environ.get("PGSSLMODE", ""))
            here = host.startswith(("/", "127.")) or host in {"localhost", "::1"}
            if not here and not mode.startswith("verify-"):
                found.append(variable.removeprefix(VARIABLE).lower())
    return found


def _open(name: str, address: str) -> Any:
    try:
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415
    except ImportError:
        raise TerminalError(
            "The driver for PostgreSQL is not installed: install privaudit[sql]."
        ) from None
    try:
        return within(
            limits.CONNECT_SECONDS + _GRACE, lambda: dbapi.connect(_with_timeouts(address))
        )
    except TimeoutError:
        pass
    except dbapi.Error:
        pass  # its message may quote the address
    raise TransientError(
        f"The database {name} cannot be reached, or lets nobody in by the address that it has: see "
        f"that it runs, and that {VARIABLE}{name.upper()} names the right host, port, "
        "user, password and database."
    )


def _with_timeouts(address: str) -> str:
    """Return PostgreSQL's address with limits on how long a network may be silent."""
    address, mark, query = address.partition("?")
    given = {key for key, _ in urllib.parse.parse_qsl(query)}
    limited = {
        "connect_timeout": f"{limits.CONNECT_SECONDS:g}",
        "keepalives_idle": "30",
        "keepalives_interval": "10",
        "keepalives_count": "6",
        "tcp_user_timeout": "90000",
        "application_name": "privaudit",
    }
    more = urllib.parse.urlencode({key: said for key, said in limited.items() if key not in given})
    return f"{address}?{query}&{more}" if mark and query else f"{address}?{more}"


def _in_words(name: str, error: Any) -> Exception:
    """Return what a driver's error comes to, without what it may quote of values."""
    state = str(getattr(error, "sqlstate", None) or "")
    if state == _TOOK_TOO_LONG:
        return NotEvaluableError(
            Reason.TOO_LARGE,
            f"The database {name} ended the query after {limits.DATABASE_SECONDS:g} seconds: make "
            "it faster, as by an index on the day, or query a table that is made beforehand.",
        )
    if _ABOUT_THE_QUERY.match(state):
        return NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"The database {name} refuses the statement (SQLSTATE {state}): {_first_line(error)}.",
        )
    if _ABOUT_VALUES.match(state):
        return NotEvaluableError(
            Reason.LABEL_INVALID,
            f"The database {name} cannot compute the query from its rows (SQLSTATE {state}, a "
            "value that does not fit): run the query there to see which, and correct it.",
        )
    if _LOGIN.match(state):
        return TerminalError(
            f"The database {name} refuses the login (SQLSTATE {state}): correct "
            f"{VARIABLE}{name.upper()}."
        )
    told = f"SQLSTATE {state}" if state else "no SQLSTATE"
    return TransientError(
        f"The database {name} failed or went away in the middle ({told}): see that it runs, and "
        "try again."
    )


def _first_line(error: Any) -> str:
    """Return a server's own sentence of its error."""
    text = str(error).partition("\nLINE ")[0].partition(". SQLSTATE")[0]
    said = " ".join(text.rpartition("ERROR:")[2].split()).rstrip(".")
    return said if len(said) <= _QUOTED else f"{said[:_QUOTED]}..."
