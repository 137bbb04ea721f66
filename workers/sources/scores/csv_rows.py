"""Rows of a day that CSV files hold, written as Parquet below the staging area before the pass.

What the settings say of a column gives its kind, so two files of one table never differ in theirs.
The Parquet footer holds the digest of the file's own bytes, so the labels' digest pins these.
"""

import datetime as dt
from collections.abc import Iterable, Mapping

from workers.exceptions import NotEvaluableError, Reason
from workers.lake.layout import LabelFile, Lake
from workers.sources.join_context import JoinContext
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.tables.csv_text import DAY, FEATURE, FLAG, NUMBER, TEXT, TIME, parquet_of
from workers.sources.tables.table_files import CSV, TableDay


def column_kinds(
    tables: ScoreTables, role: str, also: Iterable[str], *, day_in_files: bool
) -> dict[str, str]:
    """Return the columns that are read of a table, and what each holds by the settings.

    Raises:
        NotEvaluableError: the holdout follows from a hash, which text without types does not fix.
    """
    others = tables.others
    kinds = {}
    if not role:
        kinds = dict.fromkeys(also, TEXT) | dict.fromkeys(tables.context, FEATURE)
        rule = tables.holdout_rule
        if rule.buckets:
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"scores.holdout is {tables.holdout}, and {tables.table} is CSV, which does not "
                "say whether a value is a number or text; both have different buckets: write a "
                "column that says train or holdout, or write Parquet.",
            )
        kinds[rule.column] = TEXT if rule.value is None else FLAG
    for each in [role] if role else [each for each in tables.roles if each not in others]:
        kind = FLAG if each == "label" else NUMBER
        kinds |= dict.fromkeys(tables.columns_of(each), kind)
    if tables.known_at is not None and role == ("label" if "label" in others else ""):
        kinds[tables.known_at] = TIME
    record = (others[role].record if role else None) or tables.record
    if record is not None:
        kinds[record] = TEXT
    if day_in_files:
        kinds[(others[role].day if role else None) or tables.day] = DAY
    return kinds


def as_parquet(found: TableDay, kinds: Mapping[str, str], joining: JoinContext) -> TableDay:
    """Return a day whose CSV files are Parquet ones; any other day as it is.

    A column that some file holds text of is text in all of them.

    Raises:
        NotEvaluableError: a file is no such CSV, is larger than what is read, or was replaced; or
            the deadline passed.
    """
    if found.kind != CSV:
        return found
    scratch = joining.scratch_folder()
    either = {name for name, kind in kinds.items() if kind in {DAY, FEATURE, FLAG}}
    as_text = [_written(found.root, file, kinds, scratch, joining) & either for file in found.files]
    text = set().union(*as_text)
    if any(of_file != text for of_file in as_text):
        scratch = joining.scratch_folder()  # a file of a tagged folder is written once
        settled = dict(kinds) | dict.fromkeys(text, TEXT)
        for file in found.files:
            _written(found.root, file, settled, scratch, joining)
    files = tuple(scratch.label_file(file.name)._replace(name=file.name) for file in found.files)
    return TableDay(
        scratch, found.kind, None, files, found.day_in_files, found.unread, called=found.name
    )


def _written(
    root: Lake, file: LabelFile, kinds: Mapping[str, str], scratch: Lake, joining: JoinContext
) -> set[str]:
    """Write one file as Parquet, under its own name, and return which columns are text."""
    if joining.deadline is not None and dt.datetime.now(dt.UTC) > joining.deadline:
        raise NotEvaluableError(
            Reason.DEADLINE,
            f"The deadline, {joining.deadline:%Y-%m-%d %H:%M:%S %Z}, passed before {file.name} was "
            "read: begin earlier, or write Parquet.",
        )
    if ".." in file.name.split("/"):
        raise NotEvaluableError(
            Reason.PATH_OUTSIDE, f"{file.name!r} leads out of its folder: rename it."
        )
    content, said = parquet_of(root, file, dict(kinds))
    scratch.write(file.name, content)
    return set(said["text"])
