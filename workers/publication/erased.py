"""Remainder of an erased statement in the log of statements: its tombstone and its charge."""

import datetime as dt
import hashlib
import json
from fractions import Fraction

from pydantic import Field, ValidationError

from privcore.exceptions import TerminalError
from privcore.publication import exactly
from workers.publication.statement_row import PublishedRow, Statement
from workers.publication.threshold_night import ThresholdNight
from workers.warehouse.exact_statement_row import StatementFacts
from workers.warehouse.table_row import Moment, PlainRow

_FIRST = "tombstone"
_SAME = (
    "model",
    "day",
    "dataset",
    "label_days",
    "method_version",
    "target_sha256",
    "proxy_sha256",
    "family",
    "epsilon_declared",
    "delta_declared",
    "neighbors",
    "unit",
    "by_policy",
    "epsilon_public",
)
"""Fields that make two audits the same to the public: none that a label changes."""


class ErasedStatement(PlainRow):
    """The entry that replaces an erased statement. No label changes any of it.

    The charge stays: a statement that was read has told something about labels, whether or not it
    is erased later. What names the audit stays as a digest, so that the same audit is not published
    anew without a charge.
    """

    tombstone: dict[str, object] = Field(
        description="The signed tombstone: a DSSE envelope (`workers.evidence.log_heads`)."
    )
    statement_id: str = Field(description="Id of the erased statement.")
    revision: int = Field(description="Revision of the erased statement.")
    erased_at: Moment = Field(description="When it was erased, UTC.")
    reason: str = Field(description="Why it was erased; public.")
    model: str = Field(description="Name of the audited model.")
    day: dt.date = Field(description="Day whose training labels were audited.")
    dataset: str = Field(description="Dataset or table whose labels were scanned.")
    label_days: tuple[dt.date, ...] = Field(description="Days whose labels are charged.")
    labels_recur: bool = Field(description="Whether labels may play again on later nights.")
    holdout_sketch: str | None = Field(
        default=None, description="Sketch of the holdout, as the statement had it."
    )
    epsilon_public: float = Field(
        ge=0.0, allow_inf_nan=False, description="Privacy loss that stays charged to each label."
    )
    epsilon_declared: float = Field(description="Epsilon that was tested.")
    significance: float = Field(description="Significance at which it was tested.")
    method_version: str = Field(description="Version of the method.")
    evaluated: bool = Field(
        description="Whether it had an e-value, and so took part in all nights together."
    )
    subject: str = Field(description="Digest of what makes two audits the same to the public.")
    test_id: str | None = Field(
        default=None,
        description="The test over nights that it was an answer of. Null of a statement.",
    )

    @property
    def charge(self) -> Fraction:
        """Privacy loss that stays charged."""
        return exactly(self.epsilon_public)

    def content(self) -> str:
        """Return the entry as the one text that is stored."""
        return self.model_dump_json()


Published = Statement | ThresholdNight
"""Publication about one night."""
Entry = Published | ErasedStatement
"""An entry of the log of statements."""
_SHOWN = 60
"""Letters of a strange entry that an error shows."""
_OF_TEST = '"test_id":'
"""Text in every night of a test, and in no statement: within strings quotes are escaped."""


class NoStatementError(TerminalError):
    """An entry of the statements' table is no statement of this version."""


def entry_of(content: str) -> Entry:
    """Return the entry that a stored text holds.

    Raises:
        NoStatementError: it holds none that this version knows.
    """
    kind: type[Entry] = ThresholdNight if _OF_TEST in content else Statement
    if content.startswith(f'{{"{_FIRST}":'):
        kind = ErasedStatement
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "all of it"
        raise NoStatementError(
            f"The statements' table holds {content[:_SHOWN]!a}, which is no statement ({where} is "
            "wrong): restore the table from a copy, since the audit alone writes there, or use the "
            "newer version of privaudit that wrote it."
        ) from None


def erased(
    statement: PublishedRow, *, tombstone: str, reason: str, time: dt.datetime
) -> ErasedStatement:
    """Return the entry that replaces a statement."""
    shared = set(ErasedStatement.model_fields) & set(type(statement).model_fields)
    kept = shared - {"epsilon_public"}
    return ErasedStatement(
        **{name: getattr(statement, name) for name in kept},
        tombstone=json.loads(tombstone),
        erased_at=time,
        reason=reason,
        epsilon_public=float(statement.charge),
        evaluated=isinstance(statement, Statement) and statement.log_evalue is not None,
        subject=subject_of(statement),
    )


def subject_of(row: StatementFacts | Entry) -> str:
    """Return the digest of what makes two audits the same to the public, 64 hexadecimal digits."""
    if isinstance(row, ErasedStatement):
        return row.subject
    return hashlib.sha256(json.dumps(named_by(row)).encode()).hexdigest()


def named_by(row: StatementFacts) -> list[str]:
    """Return what makes two audits the same to the public, each as text."""
    return [str(getattr(row, name)) for name in _SAME]
