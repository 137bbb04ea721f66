"""Publication of an exact statement: noise, commitments, and the place where it is kept."""

import datetime as dt
import functools
import hashlib
import hmac
from typing import Any

from privcore.exceptions import TerminalError
from privcore.publication import (
    ExactStatement,
    KeyedBits,
    NoisyWealth,
    RecurringTest,
    exactly,
    publish_statement,
)
from workers.publication.erased import Entry, Published, named_by, subject_of
from workers.publication.recurring import NightOfTest, answer_before, next_question
from workers.publication.statement_row import Statement, verdict_of
from workers.publication.statement_store import Statements, not_erased
from workers.publication.threshold_night import ThresholdNight, night_verdict
from workers.warehouse.exact_statement_row import ExactStatementRow, StatementFacts

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
    also: frozenset[dt.date] = frozenset(),
) -> Published:
    """Publish the public result of an audit, or return what was published of the same.

    It is a statement, or where `exact.test_nights` is set an answer of a test over nights.

    Args:
        exact: what is to be said, without noise.
        statements: where statements are kept.
        key: secret, of 32 bytes or more.
        epsilon_per_label: what all statements in which a label takes part may cost together.
        again: publish another one with noise of its own, which is charged, too.
        also: other days on which its labels were there (`training_again.days_again`).

    Raises:
        OverspentError: a label would be charged more; nothing is published.
        ErasedError: the statement was erased, and no other one is asked for.
        AskedError: the test over nights was asked about the day, of another audit.
        TerminalError: the statements cannot be read or written, or a test over nights is to be
            asked again.
    """
    if exact.test_nights is not None:
        if again:
            raise TerminalError(
                f"{exact.model} has one public test over nights (nights_per_test), which is asked "
                "once about each day: leave out --again. Corrected labels that recur are asked "
                "about on the next night."
            )
        return statements.append(
            functools.partial(_next_night, exact, key),
            dataset=exact.dataset,
            epsilon_per_label=epsilon_per_label,
            also=also,
        )
    return statements.publish(
        lambda revision: statement_of(exact, revision, key),
        dataset=exact.dataset,
        same=functools.partial(is_about, exact),
        epsilon_per_label=epsilon_per_label,
        again=again,
        also=also,
    )


def is_about(exact: ExactStatementRow, entry: Entry) -> bool:
    """Return whether a statement is or was about this audit, as far as the public can know."""
    return subject_of(entry) == subject_of(exact)


def statement_of(exact: ExactStatementRow, revision: int, key: bytes) -> Statement:
    """Return the public statement of a revision.

    The statement's id is drawn for what the audit read, labels included, and for the revision, and
    its noise for the id: noise that is the same for two versions of the labels would cancel in
    their difference.
    """
    named = (*named_by(exact), exact.audit_id, str(exact.labels_digest))
    statement_id = _name(key, "statement", *named, revision)
    sketch = sketch_under(key, exact.holdout_sketch)
    return _made(exact, revision, statement_id, opening_of(statement_id, key), sketch)


def night_of(exact: ExactStatementRow, question: NightOfTest, key: bytes) -> ThresholdNight:
    """Return the answer of a test over nights.

    The test's name is drawn for what its first night read, labels included, and is stored. So its
    threshold's noise is drawn once, whatever the labels of later nights are. The night's noise is
    drawn for the night's id, which is drawn for what the night read.
    """
    named = (*named_by(exact), exact.audit_id, str(exact.labels_digest))
    test_id = question.test_id
    if test_id is None:
        test_id = _name(key, "test", *named, question.tests_before)
    night_id = _name(key, "night", test_id, *named)
    opening, sketch = opening_of(test_id, key), sketch_under(key, exact.holdout_sketch)
    return _answered(exact, test_id, question.test_night, night_id, opening, sketch)


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


def opening_of(name: str, key: bytes) -> bytes:
    """Return the opening of a statement, or of all answers of a test over nights, 32 bytes.

    With it and the exact audit what was published can be recomputed: noise and commitments. It
    opens this statement or test and no other, so that the key need not be handed over.
    """
    return KeyedBits(key, "opening", name).below(1 << 256).to_bytes(32, "big")


def differences(published: Published, exact: ExactStatementRow, opening: bytes) -> tuple[str, ...]:
    """Return the columns in which a statement is not what its exact audit and its opening give.

    When it was published and by which version of the code is left out. So is how its sketch of the
    holdout was replaced: what opens that opens all statements' sketches.
    """
    made: Published
    if isinstance(published, ThresholdNight):
        asked = exact.model_copy(update={"test_nights": published.test_nights})
        named = published.test_id, published.test_night, published.statement_id
        made = _answered(asked, *named, opening, published.holdout_sketch)
    else:
        named_by_revision = published.revision, published.statement_id
        made = _made(exact, *named_by_revision, opening, published.holdout_sketch)
    columns = set(type(published).model_fields) - {"published_at", "code_version"}
    return tuple(
        sorted(name for name in columns if getattr(made, name) != getattr(published, name))
    )


def _made(
    exact: ExactStatementRow, revision: int, statement_id: str, opening: bytes, sketch: str | None
) -> Statement:
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
            epsilon_detectable=exact.epsilon_detectable,
            evidence=NoisyWealth(
                each, exact.evidence_gap, exact.evidence_figure, exact.evidence_price
            ),
            premises=NoisyWealth(each, exact.premises_gap, exact.premises_figure),
        ),
        key=opening,
        named=(statement_id,),
    )
    return Statement(
        **_shared(exact, KeyedBits(opening, "nonce"), sketch) | {"significance": significance},
        statement_id=statement_id,
        revision=revision,
        evidence_figure=made.evidence.figure,
        premises_figure=made.premises.figure,
        verdict=verdict_of(made, vacuous=exact.vacuous),
        pvalue=made.pvalue,
        log_evalue=made.evidence.log_evalue,
        premises_pvalue=made.premises_pvalue,
    )


def _next_night(exact: ExactStatementRow, key: bytes, known: list[Entry]) -> tuple[Published, bool]:
    before = answer_before(exact, known)
    if before is not None:
        return not_erased(before), False
    return night_of(exact, next_question(exact, known), key), True


def _answered(
    exact: ExactStatementRow,
    test_id: str,
    test_night: int,
    night_id: str,
    opening: bytes,
    sketch: str | None,
) -> ThresholdNight:
    """Return the answer for a night, with its commitments."""
    assert exact.test_nights is not None  # noqa: S101
    test = RecurringTest(exactly(exact.epsilon_public), exact.significance, exact.test_nights)
    each = test.each
    answer = test.answer(
        NoisyWealth(each, exact.evidence_gap, exact.evidence_figure, exact.evidence_price),
        NoisyWealth(each, exact.premises_gap, exact.premises_figure),
        key=opening,
        test=test_id,
        night=(night_id,),
    )
    return ThresholdNight(
        **_shared(exact, KeyedBits(opening, "nonce", night_id), sketch),
        statement_id=night_id,
        revision=1,
        test_id=test_id,
        test_nights=exact.test_nights,
        test_night=test_night,
        threshold=exact.threshold,
        alarm=answer.alarm,
        premises_figure=None if answer.premises is None else answer.premises.figure,
        premises_pvalue=answer.premises_pvalue,
        verdict=night_verdict(alarm=answer.alarm, doubtful=answer.doubtful, vacuous=exact.vacuous),
    )


def _shared(exact: ExactStatementRow, random: KeyedBits, sketch: str | None) -> dict[str, Any]:
    """Return the columns of whatever is published: public facts, and commitments."""
    nonce = random.below(1 << 256).to_bytes(32, "big")
    return {name: getattr(exact, name) for name in _TAKEN_OVER} | {
        "published_at": dt.datetime.now(dt.UTC),
        "holdout_sketch": sketch,
        "labels_commitment": _commitment(exact.labels_digest or "", nonce),
        "audit_commitment": _commitment(exact.audit_id, nonce),
    }


def _name(key: bytes, *named: str | int) -> str:
    """Return a random id, 32 hexadecimal digits."""
    return f"{KeyedBits(key, *named).below(1 << 128):032x}"


def _commitment(digest: str, nonce: bytes) -> str:
    """Return the commitment to a digest, 64 hexadecimal digits: its HMAC-SHA256 under the nonce."""
    return hmac.new(nonce, digest.encode(), hashlib.sha256).hexdigest()
