"""Publication of exact statements: noise under the key, the charge, and where it is kept."""

import datetime as dt
import pathlib
import secrets
from collections.abc import Sequence

from privcore.exceptions import TerminalError
from privcore.publication import ExactStatement, KeyedBits, NoisyWealth, exactly, publish_statement
from privcore.publication.keyed_noise import KEY_BYTES
from workers.plain_files import read_secret, write_new
from workers.publication.statements import (
    OverspentError,
    Statement,
    Statements,
    check_charge,
    named_by,
    subject_of,
    verdict_of,
)
from workers.versions import CODE_VERSION
from workers.warehouse.exact_statement_row import ExactStatementRow, StatementFacts

_RULE = f"a key is {2 * KEY_BYTES} to {4 * KEY_BYTES} hexadecimal digits"
_COMMAND = "privaudit publication-key"


def read_key(given: str | None, file: str | None) -> bytes:
    """Return the key.

    Args:
        given: its hexadecimal digits, from the environment; they win over the file.
        file: path of a file that holds them, and that its owner alone may read.

    Raises:
        TerminalError: there is none, others may read its file, or it is no key.

    The answer does not say that the key is random: a key that was typed by hand can be guessed.
    """
    if given is not None:
        return _decoded(given, "PRIVAUDIT_PUBLICATION__KEY")
    if file is None:
        raise TerminalError(
            "[publication] has no key: set key_file, or PRIVAUDIT_PUBLICATION__KEY in the "
            f"environment, and make one with {_COMMAND}."
        )
    content = read_secret(pathlib.Path(file), "key", make=_COMMAND)
    return _decoded(content.decode("ascii", errors="replace"), file)


def make_key(file: str | pathlib.Path) -> None:
    """Write a new random key, readable by its owner alone."""
    write_new(pathlib.Path(file), f"{secrets.token_hex(KEY_BYTES)}\n".encode())


def _decoded(digits: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(digits.strip())
    except ValueError:
        key = b""
    if not KEY_BYTES <= len(key) <= 2 * KEY_BYTES:
        raise TerminalError(f"{where} holds no key: {_RULE}; make one with {_COMMAND}.")
    return key


_TAKEN_OVER = (*StatementFacts.model_fields, "method_version", "target_sha256", "proxy_sha256")


def publish(
    exact: Sequence[ExactStatementRow],
    *,
    statements: Statements,
    key: bytes,
    epsilon_per_label: float,
) -> tuple[list[Statement], list[OverspentError]]:
    """Publish the statements of audits of which none is published, in one append.

    Whether there is one already is decided by what no label changes (`subject_of`): to publish anew
    because labels changed would tell that they did.

    Args:
        exact: what is to be said, without noise, in the order in which it is charged.
        statements: where statements are kept.
        key: secret, of 32 bytes or more.
        epsilon_per_label: what all statements in which a label takes part may cost together.

    Returns:
        What was published now, and why some is not: a label would be charged more.

    Raises:
        TerminalError: the statements cannot be read or written.
    """
    refused: list[OverspentError] = []

    def choose(known: Sequence[Statement]) -> list[Statement]:
        there = {subject_of(one) for one in known}
        made: list[Statement] = []
        refused.clear()
        for row in exact:
            if subject_of(row) in there:
                continue
            one = statement_of(row, key)
            try:
                check_charge(one, [*known, *made], epsilon_per_label)
            except OverspentError as error:
                refused.append(error)
                continue
            made.append(one)
            there.add(subject_of(row))
        return made

    return statements.append(choose), refused


def statement_of(exact: ExactStatementRow, key: bytes) -> Statement:
    """Return the public statement of an audit.

    The statement's id is drawn under the key for what the audit read, labels included, and its
    noise for the id: noise that is the same for two versions of the labels would cancel in their
    difference. Without the key neither tells which labels were read.
    """
    named = (*named_by(exact), exact.audit_id, str(exact.labels_digest))
    statement_id = f"{KeyedBits(key, 'statement', *named).below(1 << 128):032x}"
    each = exactly(exact.epsilon_public) / 2
    made = publish_statement(
        ExactStatement(
            significance=exact.significance,
            records=exact.records,
            control=exact.control_records,
            epsilon_ceiling=exact.epsilon_ceiling,
            sees_from=exact.sees_from,
            evidence=NoisyWealth(
                each, exact.evidence_gap, exact.evidence_figure, exact.evidence_price
            ),
            premises=NoisyWealth(each, exact.premises_gap, exact.premises_figure),
        ),
        key=key,
        named=(statement_id,),
    )
    return Statement(
        **{name: getattr(exact, name) for name in _TAKEN_OVER}
        | {"holdout_sketch": sketch_under(key, exact.holdout_sketch)},
        statement_id=statement_id,
        published_at=dt.datetime.now(dt.UTC),
        code_version=CODE_VERSION,
        evidence_figure=made.evidence.figure,
        premises_figure=made.premises.figure,
        verdict=verdict_of(exact, made),
        pvalue=made.pvalue,
        log_evalue=made.evidence.log_evalue,
        premises_pvalue=made.premises_pvalue,
    )


def follows(published: Statement, exact: ExactStatementRow, key: bytes) -> bool:
    """Return whether a statement is what its audit gives under the key."""
    of_moment = {"published_at": published.published_at, "code_version": published.code_version}
    return statement_of(exact, key).model_copy(update=of_moment) == published


def sketch_under(key: bytes, sketch: str | None) -> str | None:
    """Return a holdout's sketch as the public sees it: each byte replaced at its place, by the key.

    **Privacy for labels.** The sketch is a function of the holdout rows' features and of which rows
    these are (`sketched_rows`). Both are given where a statement is private for labels
    (`publish_statement`), and no label changes them: a row whose label cannot be read is in the
    sketch, too, and the sketch exists or not whatever the labels are. So what replaces it is the
    same for all labels, it adds nothing to the privacy loss, and noise and figures are drawn
    without it.

    **Features.** Each byte is a pseudorandom function's of its place and of the sketch's byte, the
    same for all statements under one key. A reader without the key therefore learns of any two
    statements at which places their sketches agree, and no more: about the share of rows that both
    holdouts have in common. Whether a row that the reader knows is in a holdout is not told, since
    the row's hash leads to a byte that the key alone replaces. *Does tell* how much of a holdout
    comes again on which nights and beside which models, and that few rows of it changed. A reader
    who has the exact sketch of one night beside its public one knows one byte at each place, and
    recognises it on other nights.

    After a new key the first holdout looks like one that never came.
    """
    if sketch is None:
        return None
    told = enumerate(bytes.fromhex(sketch))
    return bytes(KeyedBits(key, "holdout", place, one).below(1 << 8) for place, one in told).hex()
