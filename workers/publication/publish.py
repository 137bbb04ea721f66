"""From an exact statement to a public one: noise, commitments, and the place where it is kept."""

import datetime as dt
import functools
import hashlib
import hmac

from privcore.publication import (
    ExactStatement,
    KeyedBits,
    NoisyWealth,
    exactly,
    publish_statement,
)
from workers.publication.erased import Entry, named_by, subject_of
from workers.publication.statement_row import Statement, verdict_of
from workers.publication.store import Statements
from workers.warehouse.statement_row import ExactStatementRow, StatementFacts

_TAKEN_OVER = (
    *StatementFacts.model_fields,
    "method_version",
    "code_version",
    "target_sha256",
    "proxy_sha256",
)


def publish(
    exact: ExactStatementRow,
    *,
    statements: Statements,
    key: bytes,
    epsilon_per_label: float,
    again: bool = False,
) -> Statement:
    """Publish the statement of an audit, or return the one that was published of the same.

    Args:
        exact: what is to be said, without noise.
        statements: where statements are kept.
        key: secret, of 32 bytes or more.
        epsilon_per_label: what all statements in which a label takes part may cost together.
        again: publish another one with noise of its own, which is charged, too.

    Raises:
        OverspentError: a label would be charged more; nothing is published.
        ErasedError: the statement was erased, and no other one is asked for.
        TransientError: other writers kept winning, or storage kept failing.
        TerminalError: the statements cannot be read or written.
    """
    return statements.publish(
        lambda revision: statement_of(exact, revision, key),
        dataset=exact.dataset,
        same=functools.partial(is_about, exact),
        epsilon_per_label=epsilon_per_label,
        again=again,
    )


def is_about(exact: ExactStatementRow, entry: Entry) -> bool:
    """Return whether a statement is or was about this audit, as far as the public can know."""
    return subject_of(entry) == subject_of(exact)


def statement_of(exact: ExactStatementRow, revision: int, key: bytes) -> Statement:
    """Return the public statement of a revision.

    The statement's id is drawn for what the audit read, labels included, and for the revision, and
    its noise for the id: noise that is the same for two versions of the labels would cancel in
    their difference.

    Args:
        exact: what is to be said, without noise.
        revision: how many statements there are of the same audit, this one included.
        key: secret, of 32 bytes or more.
    """
    named = (*named_by(exact), exact.audit_id, str(exact.labels_digest))
    drawn = KeyedBits(key, "statement", *named, revision).below(1 << 128)
    statement_id = f"{drawn:032x}"
    return _made(exact, revision, statement_id, opening_of(statement_id, key))


def opening_of(statement_id: str, key: bytes) -> bytes:
    """Return the opening of a statement, 32 bytes.

    With it and the exact audit the statement can be recomputed: noise and commitments. It opens
    this statement and no other, so that the key need not be handed over.
    """
    return KeyedBits(key, "opening", statement_id).below(1 << 256).to_bytes(32, "big")


def differences(published: Statement, exact: ExactStatementRow, opening: bytes) -> tuple[str, ...]:
    """Return the columns in which a statement is not what its exact audit and its opening give.

    When it was published and by which version of the code is left out.

    Args:
        published: the statement.
        exact: from the record of the audit that it is said to be about.
        opening: from `opening_of`, 32 bytes.
    """
    made = _made(exact, published.revision, published.statement_id, opening)
    columns = set(Statement.model_fields) - {"published_at", "code_version"}
    return tuple(
        sorted(name for name in columns if getattr(made, name) != getattr(published, name))
    )


def _made(exact: ExactStatementRow, revision: int, statement_id: str, opening: bytes) -> Statement:
    """Return a statement; each revision is tested at half the significance of the one before.

    Revisions can be asked for after the first one was read. So the chance that any of them refutes
    a true declaration is at most twice the significance.
    """
    significance = exact.significance / 2 ** (revision - 1)
    each = exactly(exact.epsilon_public) / 2
    made = publish_statement(
        ExactStatement(
            significance=significance,
            records=exact.records,
            control=exact.control_records,
            epsilon_ceiling=exact.epsilon_ceiling,
            evidence=NoisyWealth(
                each, exact.evidence_gap, exact.evidence_figure, exact.evidence_price
            ),
            premises=NoisyWealth(each, exact.premises_gap, exact.premises_figure),
        ),
        key=opening,
        named=(statement_id,),
    )
    nonce = KeyedBits(opening, "nonce").below(1 << 256).to_bytes(32, "big")
    return Statement(
        **{name: getattr(exact, name) for name in _TAKEN_OVER} | {"significance": significance},
        statement_id=statement_id,
        revision=revision,
        published_at=dt.datetime.now(dt.UTC),
        labels_commitment=_commitment(exact.labels_digest or "", nonce),
        audit_commitment=_commitment(exact.audit_id, nonce),
        evidence_figure=made.evidence.figure,
        premises_figure=made.premises.figure,
        verdict=verdict_of(made, vacuous=exact.vacuous),
        pvalue=made.pvalue,
        log_evalue=made.evidence.log_evalue,
        premises_pvalue=made.premises_pvalue,
    )


def _commitment(digest: str, nonce: bytes) -> str:
    """Return the commitment to a digest, 64 hexadecimal digits: its HMAC-SHA256 under the nonce."""
    return hmac.new(nonce, digest.encode(), hashlib.sha256).hexdigest()
