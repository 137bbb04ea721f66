"""Contents of a Delta table's log, as a contained child reads them (`table_child`)."""

import datetime as dt
import re
import urllib.parse
from typing import Any

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError, TableNotFoundError

from workers.exceptions import NotEvaluableError, Reason
from workers.sources.tables.table_child import answering
from workers.sources.tables.table_days import (
    days_among,
    days_named,
    may_hold,
    moment_named,
    names_day,
    words_of_day,
)

_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/|/")
"""Beginnings of a path that is not relative to the table."""


def files_of_day(
    table: str, version: int | None, column: str | None, day: str, zone: str
) -> dict[str, Any]:
    """Return a Delta table's version, and its files that may hold a day.

    All files without a `column` that says the day. `said` is how partitions spell the day, nothing
    where rows are to be asked, and `apart` are columns that the log holds in place of files.

    Raises:
        NotEvaluableError: there is no such table or version, or it holds what is not in its files.
    """
    asked = dt.date.fromisoformat(day)
    delta = _open(table, version)
    features = set(delta.protocol().reader_features or ())
    mapped = delta.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"
    if mapped or ("deletionVectors" in features and _has_deletions(delta)):
        raise NotEvaluableError(
            Reason.TABLE_UNSUPPORTED,
            f"The Delta table {table} keeps "
            f"{'renamed columns' if mapped else 'deleted rows'} beside its files, which are read "
            "as they are: rewrite the day without (OPTIMIZE, or REORG TABLE ... APPLY (PURGE)).",
        )
    apart = delta.metadata().partition_columns
    names, said = [], set[str]()
    for action in _actions(delta):
        words = words_of_day(_partitions(action), str(column)) if column in apart else []
        if column in apart:
            there = any(names_day(word, asked, zone) for word in words)
        else:
            least, greatest = action.get(f"min.{column}"), action.get(f"max.{column}")
            there = column is None or may_hold(least, greatest, asked)
        if there:
            said.update(words)
            names.append(urllib.parse.unquote(action["path"]))
    return {"version": delta.version(), "files": names, "said": sorted(said), "apart": apart}


def days_of_files(table: str, version: int | None) -> dict[str, Any]:
    """Return a Delta table's partition columns, and the newest days that are said of each file.

    Raises:
        NotEvaluableError: there is no such table or version.
    """
    delta = _open(table, version)
    files, days = [], []
    for action in _actions(delta):
        most = [(name.removeprefix("max."), word) for name, word in action.items()
                if name.startswith("max.")]  # fmt: skip
        named = (*days_named(_partitions(action)), *days_among(most))
        files.append(urllib.parse.unquote(action["path"]))
        days.append([(name, day.isoformat()) for name, day in named])
    return {"partitions": delta.metadata().partition_columns, "files": files, "days": days}


def _open(table: str, version: int | None) -> deltalake.DeltaTable:
    try:
        return deltalake.DeltaTable(table, version=version)
    except TableNotFoundError:
        raise NotEvaluableError(
            Reason.MISSING_LABELS, f"There is no Delta table at {table}."
        ) from None
    except (DeltaError, OSError) as error:
        said = str(error).partition("\n")[0][:200]
        at = "" if version is None else f" at version {version}"
        raise NotEvaluableError(
            Reason.PATH_UNREADABLE,
            f"The Delta table {table}{at} cannot be opened ({said}): check the address, "
            "the credentials, and that vacuum has not deleted the version.",
        ) from None


def _actions(delta: deltalake.DeltaTable) -> list[dict[str, Any]]:
    # pa.table would import pandas, which takes a second.
    actions = pa.RecordBatchReader.from_stream(delta.get_add_actions(flatten=True))
    listed: list[dict[str, Any]] = actions.read_all().to_pylist()
    own = f"{delta.table_uri.rstrip('/')}/"
    for action in listed:
        action["path"] = action["path"].removeprefix(own)
        if _ELSEWHERE.match(action["path"]):
            raise NotEvaluableError(
                Reason.TABLE_UNSUPPORTED,
                f"The log of the Delta table {delta.table_uri} names files outside of its folder "
                f"({action['path'][:200]}), as that of a shallow clone does: name the table that "
                "was cloned, or write a DEEP CLONE.",
            )
    return listed


def _has_deletions(delta: deltalake.DeltaTable) -> bool:
    """Return whether some file has a deletion vector, also one that cannot be read."""
    try:
        vectors = pa.RecordBatchReader.from_stream(delta.deletion_vectors())
        return any(len(batch) for batch in vectors)
    except (DeltaError, OSError):
        return True


def _partitions(action: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the log says of a file's partitions, as words.

    Of a time deltalake gives the moment as if the log's clock were UTC's. Which clock it is, only
    the folder's word says; where there is none, it is the zone's.
    """
    folders = (part.partition("=") for part in urllib.parse.unquote(action["path"]).split("/"))
    spelled = {name: urllib.parse.unquote(word) for name, _, word in folders}
    found = []
    for key, value in action.items():
        name = key.removeprefix("partition.")
        if name == key or value is None:
            continue
        word = str(value)
        if isinstance(value, dt.datetime):
            word = str(value.replace(tzinfo=None))
            if moment_named(spelled.get(name, ""), "UTC") == value.replace(tzinfo=None):
                word = spelled[name]
        found.append((name, word))
    return found


answer = answering(files_of_day, days_of_files)
"""Function that the contained child calls."""
