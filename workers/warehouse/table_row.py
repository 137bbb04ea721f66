"""Fields that all rows have: text that is safe to show, and the origin of each row."""

import datetime as dt
from typing import Annotated, Any, TypeVar

import polars as pl
from polars import selectors as cs
from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from workers.plain_text import plain_text
from workers.strict_model import StrictModel


def in_utc(moment: dt.datetime) -> dt.datetime:
    """Return a moment in UTC, as which one without a zone is read, whatever this machine's is."""
    return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


Moment = Annotated[dt.datetime, AfterValidator(in_utc)]


AS_STORED = {"as_stored": True}
"""Context in which rows are validated as the warehouse holds them, to be digested."""


class PlainRow(StrictModel):
    """A row whose text is safe to show: a writer of its table may write anything."""

    @model_validator(mode="before")
    @classmethod
    def _make_text_plain(cls, values: Any, info: ValidationInfo) -> Any:
        """Make all text safe to show, where a row is born or read; not where it is digested."""
        if not isinstance(values, dict) or info.context is AS_STORED:
            return values
        return {
            name: plain_text(value) if type(value) is str else value
            for name, value in values.items()
        }


class TableRow(PlainRow):
    """The columns of every table: they trace each row to the inputs and the code that made it."""

    audit_id: str = Field(description="Digest of everything that changes the audit's numbers.")
    method_version: str = Field(
        description="Version of the method; raised when a figure's meaning changes."
    )
    code_version: str = Field(description="Version of privaudit that wrote the row.")
    target_sha256: str | None = Field(description="Digest of the audited checkpoint's model file.")
    proxy_sha256: str | None = Field(description="Digest of the earlier model's file.")
    labels_digest: str | None = Field(
        description="Digest of the labels that were scanned: the files' footers and the columns "
        "that were read. It is keyed by the warehouse, and `audit_id` follows from it, so neither "
        "tells a label to a reader of pages and alerts."
    )


AnyRow = TypeVar("AnyRow", bound=TableRow)


def typed_rows(kind: type[AnyRow], frame: pl.DataFrame) -> tuple[AnyRow, ...]:
    """Return a frame's rows, text safe to show; a NaN is None, since neither is a figure.

    Columns that this version does not know are passed over.

    Raises:
        pydantic.ValidationError: a row is none of its table's.
    """
    known = [name for name in frame.columns if name in kind.model_fields]
    # By column: to look through the text of one row after the other takes as long as all the rest.
    columns = map(_plain_values, frame.select(known).with_columns(cs.float().fill_nan(None)))
    return tuple(
        kind.model_validate(dict(zip(known, row, strict=True)), context=AS_STORED)
        for row in zip(*columns, strict=True)
    )


def _plain_values(column: pl.Series) -> list[Any]:
    values = column.to_list()
    if column.dtype != pl.String or plain_text(whole := "".join(filter(None, values))) == whole:
        return values
    return [None if value is None else plain_text(value) for value in values]
