"""The file that is handed over: both attestations, the log's signed head, and the inclusion proof.

Its bytes have one form (`canonical_json` and a newline), and each part is signed or is checked
against what is signed. So no byte can be changed without notice, but for the two forms that each
ECDSA signature has. It names no other statement.
"""

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import ConfigDict, ValidationError
from securesystemslib.signer import Key, Signer

from privcore.exceptions import InvalidInputError, TerminalError
from privcore.publication import NightAnswer, NoisyWealth
from workers.evidence.attestation import (
    LIFETIME,
    NIGHT_TYPE,
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    TEST_RESULT_TYPE,
    attest_result,
    attest_statement,
    predicate_type_of,
    result_predicate,
    sections_of,
    subjects_of,
    words_of,
)
from workers.evidence.envelope import (
    DsseEnvelope,
    UntrustedSignatureError,
    canonical_json,
    has_one_form,
    sign_payload,
    verified_payload,
)
from workers.evidence.log_heads import (
    HexDigest,
    LogHead,
    check_grown,
    read_head,
    sign_head,
    tree_of_contents,
)
from workers.evidence.merkle_log import is_consistent, is_included, leaf_hash
from workers.publication.erased import ErasedStatement, NoStatementError, Published, entry_of
from workers.publication.statement_row import PublicVerdict, verdict_of
from workers.publication.threshold_night import ThresholdNight, night_verdict
from workers.strict_model import StrictModel

MEDIA_TYPE: Final = "application/vnd.privaudit.bundle.v1+json"
LARGEST = 1 << 20
"""Bytes of a bundle: an inclusion proof in a log of 2^64 statements needs 4 kB."""
_ROUNDING = 1e-9
_TEXTS = ("model", "day", "published_at", "verdict", "statement_id")
_NUMBERS = ("epsilon_declared", "epsilon_ceiling", "significance", "records", "control_records")
_MAYBE_NUMBERS = ("pvalue", "premises_pvalue", "epsilon_detectable", "test_night", "test_nights")
"""Columns that verification reads, whatever version wrote them."""


class EvidenceBundle(StrictModel):
    """A bundle, version 1, as JSON has it."""

    model_config = ConfigDict(strict=True)

    mediaType: Literal["application/vnd.privaudit.bundle.v1+json"]  # noqa: N815  # as in-toto has it
    attestations: list[DsseEnvelope]
    head: DsseEnvelope
    index: int
    inclusion: list[HexDigest]
    earlier: DsseEnvelope | None
    consistency: list[HexDigest]


@dataclass(frozen=True, slots=True)
class VerifiedBundle:
    """Content of a bundle that was verified.

    Attributes:
        columns: the columns of the statement.
        words: what follows from the statement in words: this version's, and the signed ones where
            it does not know the statement.
        result: PASSED, WARNED or FAILED.
        head: the log that the statement is in.
        index: its place in the log, from 0 on.
        earlier: a head of before, all of whose statements are still in the log; None without one.
        expires_at: when the statement stops being evidence.
        recomputed: whether its p-values follow from its figures by this version of the method; None
            if another version made it.
    """

    columns: dict[str, Any]
    words: dict[str, Any]
    result: str
    head: LogHead
    index: int
    earlier: LogHead | None
    expires_at: dt.datetime
    recomputed: bool | None

    def expired(self, at: dt.datetime) -> bool:
        """Return whether the statement is no evidence at a time: any more, or, beyond a day, yet.

        A signer could else publish in the year 9999.
        """
        return not self.expires_at - LIFETIME - dt.timedelta(days=1) <= at < self.expires_at


def make_bundle(
    contents: Sequence[str],
    statement_id: str,
    signer: Signer,
    *,
    time: dt.datetime,
    earlier: DsseEnvelope | None = None,
    trusted: Sequence[Key] = (),
) -> bytes:
    """Return the bundle of one statement of a log.

    Given the signed head of an earlier bundle, it proves that the log has only grown since.

    Raises:
        InvalidInputError: no such statement, or it was erased.
        UntrustedSignatureError: the earlier head or a tombstone is not signed by a trusted key.
    """
    entries = [entry_of(text) for text in contents]
    ids = [entry.statement_id for entry in entries]
    index = ids.index(statement_id) if statement_id in ids else None
    statement = None if index is None else entries[index]
    if index is None or not isinstance(statement, Published):
        raise InvalidInputError("statement_id", statement_id, "the log has no such statement")
    tree = tree_of_contents(contents, trusted)
    proof = [] if earlier is None else check_grown(read_head(earlier, trusted), tree)
    bundle = EvidenceBundle(
        mediaType=MEDIA_TYPE,
        attestations=[
            sign_payload(payload, PAYLOAD_TYPE, signer)
            for payload in (attest_result(statement), attest_statement(statement))
        ],
        head=sign_head(tree, time, signer),
        index=index,
        inclusion=[each.hex() for each in tree.inclusion_proof(index)],
        earlier=earlier,
        consistency=[each.hex() for each in proof],
    )
    return canonical_json(bundle.model_dump(mode="json")) + b"\n"


def read_bundle(data: bytes) -> EvidenceBundle:
    """Return a bundle whose signatures are not verified yet.

    Raises:
        UntrustedSignatureError: the bytes are no bundle of a known version, in its one form.
    """
    try:
        bundle = EvidenceBundle.model_validate_json(data)
        whole = canonical_json(bundle.model_dump(mode="json")) + b"\n"
    except (ValidationError, ValueError, TerminalError):
        raise UntrustedSignatureError(
            "altered",
            "The file is no bundle of version 1: it was changed, or it is another file. Ask the "
            "signer for the bundle again.",
        ) from None
    if whole != data:
        raise UntrustedSignatureError(
            "altered",
            "The bundle's bytes are not in the form in which privaudit writes them: it was changed "
            "after signing, or formatted anew. Ask the signer for the bundle again.",
        )
    return bundle


def read_bundle_head(data: bytes) -> DsseEnvelope:
    """Return the signed head of an earlier bundle, which is not verified yet.

    Raises:
        UntrustedSignatureError: the bytes are no bundle.
    """
    return read_bundle(data).head


def verify_bundle(data: bytes, trusted: Sequence[Key], *, method_version: str) -> VerifiedBundle:
    """Verify a bundle with public keys alone; whether it has expired is for the caller to judge.

    Args:
        data: the file's bytes.
        trusted: public keys; each part must be signed by one of them.
        method_version: version of the method that is installed; p-values of another one are not
            computed again.

    Raises:
        UntrustedSignatureError: a byte was changed, parts do not belong together, or no trusted key
            has signed.

    The answer does not say that the signer is honest: the figures are the signer's.
    """
    bundle = read_bundle(data)
    if len(bundle.attestations) != 2:
        raise _inconsistent(f"it has {len(bundle.attestations)} attestations instead of 2")
    result, statement = (
        _in_toto(envelope, trusted, predicate_types)
        for envelope, predicate_types in zip(
            bundle.attestations, ((TEST_RESULT_TYPE,), (PREDICATE_TYPE, NIGHT_TYPE)), strict=True
        )
    )
    predicate = statement["predicate"]
    columns = _columns(predicate, statement["predicateType"])
    if not result["subject"] == statement["subject"] == subjects_of(columns):
        raise _inconsistent("its attestations are about other models than its statement")
    if result["predicate"] != result_predicate(columns):
        raise _inconsistent("its result does not follow from its verdict and claim")
    head = read_head(bundle.head, trusted)
    path = [bytes.fromhex(each) for each in bundle.inclusion]
    leaf = leaf_hash(predicate["content"].encode())
    if not is_included(leaf, bundle.index, head.size, path, bytes.fromhex(head.root)):
        raise _inconsistent("the log of the signed head does not hold its statement")
    return VerifiedBundle(
        columns=columns,
        words=_words(predicate),
        result=result["predicate"]["result"],
        head=head,
        index=bundle.index,
        earlier=_earlier(bundle, head, trusted),
        expires_at=_expiry(predicate, columns),
        recomputed=_recomputed(predicate["content"], method_version),
    )


def _expiry(predicate: dict[str, Any], columns: dict[str, Any]) -> dt.datetime:
    """Return when the statement expires: a time of a known zone, in its lifetime."""
    try:
        expires = dt.datetime.fromisoformat(predicate["expires_at"]).astimezone(dt.UTC)
        last = dt.datetime.fromisoformat(columns["published_at"]).astimezone(dt.UTC) + LIFETIME
    except (KeyError, TypeError, ValueError, OverflowError):
        raise _inconsistent("its expiry is no time, or its publication is none") from None
    if expires > last:
        raise _inconsistent(f"it expires more than {LIFETIME.days} days after its publication")
    return expires


def _words(predicate: dict[str, Any]) -> dict[str, Any]:
    """Return the words that follow from an entry; the signed ones where a later version wrote it.

    Whoever signs could say in words what the figures do not.
    """
    try:
        statement = entry_of(predicate["content"])
    except NoStatementError:
        pass
    else:
        if isinstance(statement, ErasedStatement):
            raise _inconsistent("its statement was erased")
        return words_of(statement)
    try:
        return _SignedWords.model_validate(predicate.get("words"), strict=True).model_dump()
    except ValidationError:
        raise _inconsistent("its words are none") from None


class _SignedWords(StrictModel):
    """Words of a statement of a later version."""

    conclusion: str
    assumptions: list[str]
    not_tested: list[str]


def _recomputed(content: str, method_version: str) -> bool | None:
    """Return whether an entry's conclusion follows from its figures; None if not known."""
    try:
        statement = entry_of(content)
    except NoStatementError:
        return None  # a later version wrote it, with other columns
    if isinstance(statement, ErasedStatement) or statement.method_version != method_version:
        return None
    if isinstance(statement, ThresholdNight):
        return _answer_follows(statement)
    figures = statement.figures
    said = statement.pvalue, statement.premises_pvalue, statement.log_evalue
    again = figures.pvalue, figures.premises_pvalue, figures.evidence.log_evalue
    if not all(map(_alike, said, again)):
        return False
    vacuous = statement.verdict is PublicVerdict.VACUOUS
    return statement.verdict is verdict_of(figures, vacuous=vacuous)


def _answer_follows(night: ThresholdNight) -> bool:
    """Return whether an answer's threshold, p-value and verdict follow from its signed parts."""
    if (night.premises_figure is None) == night.alarm or not night.test_night >= 1:
        return False
    each, premises = night.test.each, None
    if night.premises_figure is not None:
        premises = NoisyWealth(each, night.premises_gap, night.premises_figure)
    answer = NightAnswer(night.alarm, premises)
    vacuous = night.verdict is PublicVerdict.VACUOUS
    verdict = night_verdict(alarm=night.alarm, doubtful=answer.doubtful, vacuous=vacuous)
    threshold = night.test.alarms.threshold(night.evidence_gap, night.evidence_price)
    near = night.threshold == threshold
    if night.threshold is not None and threshold is not None:
        near = abs(night.threshold - threshold) <= 1  # by rounding, on another processor
    return (
        near
        and night.test_night <= night.test_nights
        and _alike(night.premises_pvalue, answer.premises_pvalue)
        and night.verdict is verdict
    )


def _alike(said: float | None, again: float | None) -> bool:
    """Return whether two numbers differ by rounding alone."""
    if said is None or again is None:
        return said is again
    return abs(said - again) <= _ROUNDING * max(abs(said), abs(again))


def _columns(predicate: dict[str, Any], predicate_type: str) -> dict[str, Any]:
    """Return the columns of a statement from the predicate's sections."""
    sections = sections_of(predicate_type)
    try:
        columns: dict[str, Any] = json.loads(predicate["content"])
        shown = {
            name: predicate[section][name] for section in sections for name in predicate[section]
        }
    except (KeyError, TypeError, ValueError):
        raise _inconsistent("its predicate has another form than version 1") from None
    if strange := _of_another_kind(columns):
        raise _inconsistent(f"its {strange} is of another kind than a statement's")
    needed = {name for names in sections.values() for name in names}
    if not needed <= shown.keys() or predicate_type_of(columns) != predicate_type:
        raise _inconsistent("its predicate lacks columns of version 1")
    if shown != columns:
        raise _inconsistent("its sections are not those of the statement that the log holds")
    return columns


def _of_another_kind(columns: Any) -> str | None:
    """Return a column that is not of the kind in which it is read; None of a statement."""
    if not isinstance(columns, dict):
        return "content"
    kinds: dict[str, Any] = dict.fromkeys(_TEXTS, str) | dict.fromkeys(_NUMBERS, (int, float))
    kinds |= {name: (int, float) for name in _MAYBE_NUMBERS if columns.get(name) is not None}
    if "test_id" not in columns:
        kinds |= dict.fromkeys(("pvalue", "premises_pvalue"), (int, float))
    wrong = (name for name, kind in kinds.items() if not isinstance(columns.get(name), kind))
    return next(wrong, None)


def _earlier(bundle: EvidenceBundle, head: LogHead, trusted: Sequence[Key]) -> LogHead | None:
    """Return the earlier head, if the log has only grown since."""
    if bundle.earlier is None:
        if bundle.consistency:
            raise _inconsistent("it proves that a log has grown, and names no earlier head")
        return None
    earlier = read_head(bundle.earlier, trusted)
    proof = [bytes.fromhex(each) for each in bundle.consistency]
    roots = bytes.fromhex(earlier.root), bytes.fromhex(head.root)
    if not is_consistent(earlier.size, roots[0], head.size, roots[1], proof):
        raise _inconsistent("the log does not begin with what its earlier head held")
    return earlier


def _in_toto(
    envelope: DsseEnvelope, trusted: Sequence[Key], predicate_types: Sequence[str]
) -> dict[str, Any]:
    """Return an in-toto statement that a trusted key signed."""
    payload = verified_payload(envelope, PAYLOAD_TYPE, trusted, "an attestation")
    try:
        statement: dict[str, Any] = json.loads(payload)
        found = statement["_type"], statement["predicateType"]
        predicate, content = statement["predicate"], statement["predicate"].get("content", "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        predicate, content, found = None, None, (None, None)
    if not (isinstance(predicate, dict) and isinstance(content, str)):
        raise _inconsistent("an attestation is no in-toto statement")
    if not has_one_form(payload):
        raise _inconsistent("an attestation says a field twice, or is not as privaudit writes JSON")
    if found[0] != STATEMENT_TYPE or found[1] not in predicate_types:
        wanted = " or ".join(map(repr, predicate_types))
        raise _inconsistent(f"an attestation is of type {found[1]!r} instead of {wanted}")
    return statement


def _inconsistent(why: str) -> UntrustedSignatureError:
    return UntrustedSignatureError(
        "altered", f"The parts of the bundle do not belong together: {why}."
    )
