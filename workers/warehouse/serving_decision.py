"""Decision whether a model file may be served, by the audits that know it."""

import hashlib
import pathlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import polars as pl

from privcore.exceptions import TerminalError
from privcore.lower_bounds import Verdict, sensitive
from privcore.lower_bounds.secret import Secret
from workers.plain_files import open_plain
from workers.warehouse.night_columns import STANDING
from workers.warehouse.store import Warehouse
from workers.warehouse.with_windows import with_windows

_FAILING = {Verdict.VIOLATED, Verdict.VACUOUS, Verdict.NOT_A_GUARANTEE}
_PASSING = {Verdict.CONSISTENT, Verdict.PRIVATISED}


class Gate(StrEnum):
    """Decision whether a file may be served or released."""

    PASS = "pass"  # noqa: S105  # no password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


def file_sha256(path: pathlib.Path) -> str:
    """Return the digest of a model file, as records name it.

    Raises:
        TerminalError: it cannot be read.
    """
    try:
        with open_plain(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TerminalError(
            f"{path} cannot be read ({error.strerror}): give the model file that is to be served."
        ) from None


def audits_of(warehouse: Warehouse, sha256: str, model: str | None = None) -> pl.DataFrame:
    """Return the audits whose target this file is, with how their models stand after them.

    Of several of one model, day and secret the one that counts among these, also where another
    checkpoint took the file's place since, and each one that refutes what was declared: labels that
    were rewritten, or another declaration, do not take that back. Of one model alone, where it is
    given: others may have audited a copy of its file, with labels of their own.
    """
    found = warehouse.audits_of_target(sha256)
    if model is not None:
        found = found.filter(pl.col("model") == model)
    return _with_standings_of_days(warehouse, with_windows(warehouse, found))


def _with_standings_of_days(warehouse: Warehouse, found: pl.DataFrame) -> pl.DataFrame:
    """Return audits with how the model stood on their day, also where another audit counts now."""
    key, days = ("model", "day", "secret"), found["day"].unique().to_list()
    current = warehouse.current(every_secret=True, models=found["model"].unique(), days=days)
    others = current.join(found, on="audit_id", how="anti")
    if others.is_empty():
        return found
    stood = with_windows(warehouse, others).select(*key, stood=STANDING)
    standing = pl.coalesce(STANDING, "stood").alias(STANDING)
    return found.join(stood, on=key, how="left").with_columns(standing).drop("stood")


def gate(audits: pl.DataFrame) -> tuple[Gate, str]:
    """Return whether a file passes, and why in one sentence.

    It fails where one audit refutes what was declared, where its model stands violated, or where
    the declaration says nothing. It passes where at least one audit of labels concludes, and each
    one does, for the model. All else is inconclusive, which is no pass.
    """
    rows = list(audits.iter_rows(named=True))
    if not rows:
        return Gate.INCONCLUSIVE, "No audit knows this file: it is not what was audited."
    failing = [
        f"{row['model']} on {row['day']} is {row['verdict']}"
        if row["verdict"] in _FAILING
        else f"{row['model']} stands violated on {row['day']}"
        for row in rows
        if answer_of(row) is Gate.FAIL
    ]
    if failing:
        return Gate.FAIL, f"This file must not be served: {', '.join(failing)}."
    open_ones = [
        f"{row['model']} on {row['day']} is {row['verdict']}{_but(row)}"
        for row in rows
        if row["secret"] == Secret.LABEL and answer_of(row) is Gate.INCONCLUSIVE
    ]
    if open_ones:
        return Gate.INCONCLUSIVE, f"Nothing is concluded of this file: {', '.join(open_ones)}."
    if all(row["secret"] != Secret.LABEL for row in rows):
        return Gate.INCONCLUSIVE, "No audit of labels knows this file."
    return Gate.PASS, "Every audit that knows this file is consistent with what was declared."


def answer_of(row: Mapping[str, Any]) -> Gate:
    """Return what one audit says of its model's declaration."""
    if row["verdict"] in _FAILING or row["standing"] == Verdict.VIOLATED:
        return Gate.FAIL
    if row["verdict"] not in _PASSING or _but(row):
        return Gate.INCONCLUSIVE
    return Gate.PASS


def _but(row: Mapping[str, Any]) -> str:
    """Return why a consistent audit concludes nothing, or ""."""
    if row["exploratory"]:
        return ", by a plan that a person chose for that run"
    declared = row["epsilon_declared"]
    seeing = declared is None or sensitive(
        epsilon=declared,
        epsilon_ceiling=row["epsilon_ceiling"],
        epsilon_detectable=row["epsilon_detectable"],
    )
    # A holdout of a few rows acquits no model: an owner can arrange one.
    blind = row["verdict"] == Verdict.CONSISTENT and not seeing
    return ", and a false declaration would probably have looked the same" if blind else ""
