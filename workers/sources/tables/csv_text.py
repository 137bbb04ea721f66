"""Contents of a CSV file as Parquet, made in a contained child: text has no types and no bounds.

No value is guessed where a setting says what its column is: scores are numbers, and names of
records and persons stay text, so that leading zeros count. Only features may be either: numbers
where every value of the column is one as a program writes it, and text otherwise.
"""

import csv
import io
from codecs import BOM_UTF8
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from blake3 import blake3

from workers.contained import Contained, ContainedError
from workers.contained_child import WithBytes
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.parquet import check_unchanged
from workers.lake import limits
from workers.lake.layout import LabelFile, Lake
from workers.sources.tables.day_tables import Kind

_ABSENT = pa.array(("", "NA", "NaN", "nan", "NULL", "null", "\\N"))
"""Numbers, flags and times that are missing, as pandas, R and databases write them. For its first
array pyarrow imports pandas: here it does so once, and not in the fork of each call."""
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_PLAIN = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_WHOLE = r"^-?(0|[1-9][0-9]{0,17})$"
_FLAG = r"^([Tt]rue|TRUE|[Ff]alse|FALSE)$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_DAY = r"^[0-9]{4}-?[0-9]{2}-?[0-9]{2}$"
_SEPARATORS = (b",", b";", b"\t")
_PACKED = {"gz": "gzip", "zst": "zstd"}
_SHOWN, _GROUP_ROWS = 20, 1 << 20


class _RefusedError(Exception):
    """An error whose text completes "The file ..." in a sentence."""


def convert(content: bytes, packed: str, kinds: dict[str, Kind] | None, rows: int) -> Any:
    """Return the columns as a Parquet file, and which features are text; or why they are refused.

    Args:
        content: of the file.
        packed: what it is compressed by, gzip or zstd; empty where it is not.
        kinds: columns to read and their kinds; all, by what they hold, if None.
        rows: how many rows are returned at most; 0 for all.
    """
    try:
        digest = blake3(content).hexdigest()
        table = _read(_unpacked(content, packed) if packed else content, kinds)
        asked = dict.fromkeys(table.column_names) if kinds is None else kinds
        columns = [_typed(table[name], name, kind) for name, kind in asked.items()]
    except _RefusedError as error:
        return {"refused": str(error)}
    made = pa.table(columns, names=list(asked))
    newest = {
        name: str(pc.max(column).as_py())[:10]
        for name, column in zip(asked, columns, strict=True)
        if pa.types.is_temporal(column.type) and column.null_count < len(column)
    }
    sink = io.BytesIO()
    kept = (made.slice(0, rows) if rows else made).replace_schema_metadata({"csv_blake3": digest})
    # Plain pages, whose bytes are digested.
    pq.write_table(
        kept, sink, compression="none", use_dictionary=False, write_statistics=False,
        row_group_size=_GROUP_ROWS,
    )  # fmt: skip
    text = [name for name in asked if pa.types.is_string(made.schema.field(name).type)]
    return WithBytes({"text": text, "newest": newest}, sink.getvalue())


def _unpacked(content: bytes, how: str) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(content), how) as stream:
            found: bytes = stream.read(limits.CSV_BYTES + 1)
    except OSError:
        raise _RefusedError(f"is damaged: it cannot be unpacked by {how}, write it again") from None
    if len(found) > limits.CSV_BYTES:
        raise _RefusedError(
            f"unpacks to more than the {limits.CSV_BYTES:,} bytes that are read: write several "
            "files in one folder, or Parquet"
        )
    return found


def _read(content: bytes, kinds: dict[str, Kind] | None) -> pa.Table:
    """Return the asked columns as text, null where a field is empty."""
    if b"\0" in content:
        raise _RefusedError("holds bytes of zero, as text of 16 bits does: write it in UTF-8")
    header = io.BytesIO(content).readline().removeprefix(BOM_UTF8).rstrip(b"\r\n")
    separator = max(_SEPARATORS, key=header.count)
    if not header:
        raise _RefusedError("has no first line with the names of its columns: write one")
    names = _names(content, separator.decode())
    wanted = names if kinds is None else list(kinds)
    for name in wanted:
        if names.count(name) > 1:
            raise _RefusedError(f"has several columns {name!r}: write one")
        if name not in names:
            raise _RefusedError(
                f"has no column {name!r}: correct scores in the settings, or write it; it has "
                f"{', '.join(names[:_SHOWN])}"
            )
    table = _parsed(content, wanted, separator.decode())
    if b'\\"' in content:
        _check_backslashes(table, content, separator.decode())
    return table


def _check_backslashes(table: pa.Table, content: bytes, separator: str) -> None:
    """Refuse text of which readers take other values that hold a backslash for an escape."""
    try:
        same = _parsed(content, table.column_names, separator, escape="\\").equals(table)
    except _RefusedError:
        same = False
    if not same:
        raise _RefusedError(
            "holds a backslash before a quotation mark, so that readers such as Spark take other "
            "rows or values: write a quotation mark within a field twice"
        )


def _parsed(
    content: bytes, wanted: list[str], separator: str, *, escape: str | bool = False
) -> pa.Table:
    """Return columns as text, null where a field is empty."""
    wrong: list[Any] = []

    def remember(row: Any) -> str:
        wrong.append(row)
        return "error"

    try:
        return pa.csv.read_csv(
            pa.BufferReader(content),
            read_options=pa.csv.ReadOptions(use_threads=False, block_size=limits.CSV_ROW_BYTES),
            parse_options=pa.csv.ParseOptions(
                delimiter=separator,
                newlines_in_values=True,
                invalid_row_handler=remember,
                escape_char=escape,
            ),
            convert_options=pa.csv.ConvertOptions(
                include_columns=wanted,
                default_column_type=pa.string(),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid as error:
        raise _RefusedError(_why(str(error), wrong)) from None


def _names(content: bytes, separator: str) -> list[str]:
    """Return the names in the first row, which may be quoted."""
    source = io.BytesIO(content)
    source.seek(len(BOM_UTF8) if content.startswith(BOM_UTF8) else 0)
    text = io.TextIOWrapper(source, "utf-8", "surrogateescape", newline="")
    return next(csv.reader(text, delimiter=separator))


def _why(said: str, wrong: list[Any]) -> str:
    if wrong:
        row = wrong[0]
        at = "" if row.number is None else f" {row.number:,}"
        return (
            f"has a row{at} with another number of fields ({row.actual_columns:,}) than its first "
            f"line has names ({row.expected_columns:,}): quote fields that hold the separator or a "
            "quotation mark"
        )
    if "UTF8" in said or "utf8" in said.lower():
        return "holds text that is not UTF-8: write it in UTF-8"
    if "straddling" in said:
        return (
            f"has a row of more than {limits.CSV_ROW_BYTES:,} bytes, or a quotation mark without "
            "its second one: correct that row"
        )
    if "mpty CSV" in said:
        return "has no rows: write the day's rows"
    return "is no CSV that can be read: write it anew, with quoted fields where they hold a comma"


_AS_TIMES = ((None, pa.timestamp("us")), (None, pa.timestamp("us", "UTC")))
_STORED: dict[Kind | None, tuple[tuple[str | None, pa.DataType], ...]] = {
    "feature": ((_PLAIN, pa.float64()),),
    "flag": ((_FLAG, pa.bool_()),),
    "day": _AS_TIMES,
    "time": _AS_TIMES,
    None: (
        (_WHOLE, pa.int64()), (_PLAIN, pa.float64()), (_DATE, pa.date32()), (_FLAG, pa.bool_()),
        *_AS_TIMES,
    ),
}  # fmt: skip
"""As what a kind may be stored, where all values have the pattern: the first that holds them."""


def _typed(column: pa.ChunkedArray, name: str, kind: Kind | None) -> pa.ChunkedArray:
    """Return a column as its kind, or, for a look at an unknown table, as all its values allow."""
    if kind == "text" or (kind == "day" and _first_other(column, _DAY) is None):
        return column
    absent = pc.is_in(column, value_set=_ABSENT)
    known = pc.if_else(absent, pa.scalar(None, pa.string()), column)
    if kind == "number":
        known = pc.utf8_trim_whitespace(known)
        first = _first_other(known, _NUMBER)
        if first is not None:
            raise _RefusedError(
                f"has in row {first + 1:,} below the names no number in {name!r}: write numbers "
                "with a full stop, like 0.93, or name another column in the settings"
            )
        return known.cast(pa.float64())
    if kind is None and known.null_count == len(known):
        return column
    values = column if kind == "day" else known
    for pattern, stored in _STORED[kind]:
        if pattern is None or _first_other(values, pattern) is None:
            try:
                return (pc.utf8_lower(values) if stored == pa.bool_() else values).cast(stored)
            except pa.ArrowInvalid:  # the 30th of February
                continue
    if kind in {"day", "time"}:
        raise _RefusedError(
            f"has in {name!r} values that are no times: write all of them like "
            "2026-03-02T10:30:00, or all with a zone, like 2026-03-02T10:30:00+01:00"
        )
    return column


def _first_other(column: pa.ChunkedArray, pattern: str) -> int | None:
    """Return the place of the first value that is not of a pattern; None where all are."""
    other = pc.invert(pc.match_substring_regex(column, pattern))
    place = pc.index(other.fill_null(False), True).as_py()  # noqa: FBT003
    return None if place < 0 else int(place)


_convert = Contained(
    f"{__name__}:{convert.__name__}",
    seconds=limits.CSV_SECONDS,
    memory=limits.CSV_MEMORY_BYTES,
    fork=True,
)


def parquet_of(
    root: Lake, file: LabelFile, kinds: dict[str, Kind] | None, *, rows: int = 0
) -> tuple[bytes, dict[str, Any]]:
    """Return a CSV file as Parquet, and what `convert` says of its columns.

    Raises:
        NotEvaluableError: it is no such CSV, is larger than what is read, or was replaced.
    """
    try:
        content = root.read(file.name, at_most=limits.CSV_BYTES)
    except FileNotFoundError:
        raise NotEvaluableError(
            Reason.LABELS_CHANGED,
            f"{file.name} was listed, and then was gone: audit the day again.",
        ) from None
    check_unchanged(root, file.name, file)
    try:
        packed = _PACKED.get(file.name.lower().rpartition(".")[2], "")
        answer = _convert(content, packed=packed, kinds=kinds, rows=rows)
    except ContainedError as error:
        raise NotEvaluableError(
            Reason.LABELS_UNREADABLE if error.kind == "raised" else Reason.TOO_LARGE,
            f"{file.name} cannot be read as CSV (its reader {error.why}): write it anew in "
            "smaller files, or as Parquet.",
        ) from None
    if not isinstance(answer, WithBytes):
        raise NotEvaluableError(Reason.LABELS_UNREADABLE, f"{file.name} {answer['refused']}.")
    return answer.content, answer.value
