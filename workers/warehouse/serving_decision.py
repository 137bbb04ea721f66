"""Decision whether a model file may be served, by the audits that know it."""

import hashlib
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from privcore.exceptions import TerminalError
from privcore.lower_bounds.question import Secret
from privcore.lower_bounds.verdicts import ReasonCode, Trust, Verdict
from workers.plain_files import open_plain
from workers.warehouse.nights_together import with_windows
from workers.warehouse.store import Warehouse

_WORST_FIRST = Verdict.VIOLATED, Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.UNDECLARED


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
    return _with_verdicts_of_days(warehouse, with_windows(warehouse, found))


def _with_verdicts_of_days(warehouse: Warehouse, found: pl.DataFrame) -> pl.DataFrame:
    """Return audits with their model's violation on their day, also where another counts now."""
    key, days = ("model", "day", "secret"), found["day"].unique().to_list()
    current = warehouse.current(every_secret=True, models=found["model"].unique(), days=days)
    others = current.join(found, on="audit_id", how="anti")
    if others.is_empty():
        return found
    # What another file's night proves alone is that file's.
    word, why = "verdict_together", "reason_code_together"
    together = pl.col("refuted_together") | (pl.col(why) == ReasonCode.EARLIER_NIGHT)
    nights, earlier = str(ReasonCode.NIGHTS_TOGETHER), str(ReasonCode.EARLIER_NIGHT)
    code = pl.when("refuted_together").then(pl.lit(nights)).otherwise(pl.lit(earlier))
    stood = with_windows(warehouse, others).filter(together).select(*key, stood=code)
    with_both = found.join(stood, on=key, how="left")
    takes = pl.col("stood").is_not_null() & (pl.col(word) != Verdict.VIOLATED)
    return with_both.with_columns(
        pl.when(takes).then(pl.lit(str(Verdict.VIOLATED))).otherwise(word).alias(word),
        pl.when(takes).then("stood").otherwise(why).alias(why),
    ).drop("stood")


def serving_verdict(
    audits: pl.DataFrame, accepted: Collection[ReasonCode] = ()
) -> tuple[Verdict, str]:
    """Return the verdict on a file, and why in one sentence.

    It is the worst of all audits that know the file: violated, failed, inconclusive, undeclared;
    of an attribute or of membership only a violation counts. It is `not_refuted`, and may be
    served, where at least one audit of labels is, and no other says otherwise. Labels that were
    privatised before training are judged by the same day's released ones, where these are audited:
    that training read no others is not checked.

    `audits` are of the file, as `audits_of` returns them; inconclusive ones of `accepted` reasons
    are taken for not_refuted.
    """
    of_labels = {Secret.LABEL, Secret.RELEASED}
    released = set(
        audits.filter(pl.col("secret") == Secret.RELEASED).select("model", "day").iter_rows()
    )

    def counts(row: Mapping[str, Any]) -> Verdict:
        word = Verdict(row["verdict_together"])
        taken = word is Verdict.INCONCLUSIVE and row["reason_code_together"] in set(accepted)
        return Verdict.NOT_REFUTED if taken else word

    rows = [
        (counts(row), row)
        for row in audits.iter_rows(named=True)
        if row["secret"] in of_labels or row["verdict_together"] == Verdict.VIOLATED
        if row["reason_code_together"] != ReasonCode.LABELS_PRIVATISED
        or (row["model"], row["day"]) not in released
    ]
    if not rows:
        kind = " of labels" if audits.height else ""
        why = "." if audits.height else ": it is not what was audited."
        return Verdict.INCONCLUSIVE, f"No audit{kind} knows this file{why}"
    found = {word for word, _ in rows}
    worst = next((word for word in _WORST_FIRST if word in found), Verdict.NOT_REFUTED)
    if worst is Verdict.NOT_REFUTED:
        modes = {Trust(row["trust"]) for _, row in rows}
        weakest = next(mode for mode in Trust if mode in modes)
        why = "No audit that knows this file refutes what was declared for it."
        return worst, f"{why} {weakest.stands_on}"
    named = ", ".join(
        f"{row['model']} on {row['day']} is {worst} ({row['reason_code_together']})"
        for word, row in rows
        if word is worst
    )
    begins = "must not be served" if worst is Verdict.VIOLATED else "is not cleared"
    return worst, f"This file {begins}: {named}."
