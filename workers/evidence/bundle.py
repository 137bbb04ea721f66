"""The file that is handed over: one signed envelope about a public statement or an exact record.

Its bytes have one form (`canonical_json` and a newline), and what is not signed follows from what
is. So no byte can be changed without notice.
"""

import contextlib
import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from privcore.exceptions import TerminalError
from workers.evidence.attestation import (
    EXACT_RECORD,
    IN_TOTO,
    LABEL_STATEMENT,
    LIFETIME,
    PAYLOAD_TYPE,
    attest,
    expiry,
    result_of,
    words_of,
)
from workers.evidence.envelope import (
    DsseEnvelope,
    PublicKey,
    UntrustedSignatureError,
    canonical_json,
    sign_payload,
    verified_payload,
)
from workers.publication.statement_row import Statement, verdict_of
from workers.warehouse.record_digest import record_digest
from workers.warehouse.schema import AuditRecord
from workers.warehouse.table_row import AS_STORED

LARGEST = 4 << 20
"""Bytes of a bundle: an exact record has some hundred kilobytes."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class VerifiedBundle:
    """Content of a bundle that was verified.

    Attributes:
        made: the statement, or the exact record.
        result: PASSED, WARNED or FAILED of a statement; the verdict of a record.
        words: what follows in words, by this version.
        expires_at: when it stops being evidence.
        recomputed: whether a statement's p-values and verdict follow from its figures by this
            version of the method; None if another version made it, and of a record.
    """

    made: Statement | AuditRecord
    result: str
    words: dict[str, Any]
    expires_at: dt.datetime
    recomputed: bool | None

    def expired(self, at: dt.datetime) -> bool:
        """Return whether it is no evidence at a time: any more, or, beyond a day, yet.

        A signer could else publish in the year 9999.
        """
        return not self.expires_at - LIFETIME - dt.timedelta(days=1) <= at < self.expires_at


def make_bundle(made: Statement | AuditRecord, key: Ed25519PrivateKey) -> bytes:
    """Return the bundle of a statement, or of an exact record.

    Raises:
        TerminalError: a number is infinite.
    """
    envelope = sign_payload(attest(made), PAYLOAD_TYPE, key)
    return canonical_json(envelope.model_dump(mode="json")) + b"\n"


def verify_bundle(
    data: bytes, trusted: Sequence[PublicKey], *, method_version: str
) -> VerifiedBundle:
    """Verify a bundle with public keys alone; whether it has expired is for the caller to judge.

    Args:
        data: the file's bytes.
        trusted: public keys; one of them must have signed.
        method_version: version of the method that is installed; p-values of another one are not
            computed again.

    Raises:
        UntrustedSignatureError: a byte was changed, parts do not follow from one another, or no
            trusted key has signed.

    The answer does not say that the signer is honest: the figures are the signer's.
    """
    payload = verified_payload(_envelope(data), PAYLOAD_TYPE, trusted, "the attestation")
    made = _attested(payload)
    if _without_words(attest(made)) != _without_words(payload):
        raise _inconsistent("its subjects, result or expiry do not follow from its columns")
    if isinstance(made, AuditRecord):
        if record_digest(made) != made.audit.record_digest:
            raise _inconsistent("the digest of its record is another one")
        result, recomputed = str(made.audit.verdict), None
    else:
        result, recomputed = result_of(made), _follows(made, method_version)
    return VerifiedBundle(made, result, words_of(made), expiry(made), recomputed)


def _envelope(data: bytes) -> DsseEnvelope:
    """Return the envelope, whose signature is not verified yet."""
    envelope: DsseEnvelope | None = None
    with contextlib.suppress(ValidationError, ValueError, TerminalError):
        envelope = DsseEnvelope.model_validate_json(data)
    if envelope is None or canonical_json(envelope.model_dump(mode="json")) + b"\n" != data:
        raise UntrustedSignatureError(
            "altered",
            "The file is no bundle as privaudit writes it: it was changed after signing, formatted "
            "anew, or it is another file. Ask the signer for the bundle again.",
        )
    return envelope


def _attested(payload: bytes) -> Statement | AuditRecord:
    """Return what a signed payload is about."""
    try:
        content = json.loads(payload)
        in_toto, kind, predicate = content["_type"], content["predicateType"], content["predicate"]
        columns = predicate["record" if kind == EXACT_RECORD else "statement"]
        one_form = canonical_json(content) == payload
    except (ValueError, KeyError, TypeError, RecursionError, TerminalError):
        raise _inconsistent("its attestation is no in-toto statement of ours") from None
    if not one_form:
        raise _inconsistent("its attestation says a field twice, or is not as privaudit writes it")
    if in_toto != IN_TOTO or kind not in {LABEL_STATEMENT, EXACT_RECORD}:
        raise _inconsistent(f"its attestation is of the unknown type {kind!r}")
    read = AuditRecord if kind == EXACT_RECORD else Statement
    try:
        return read.model_validate_json(canonical_json(columns), context=AS_STORED)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "all of it"
        raise _inconsistent(
            f"its columns are not those of this version ({where} is wrong), so verify it with the "
            "version of privaudit that signed it"
        ) from None


def _without_words(payload: bytes) -> dict[str, Any]:
    """Return an attestation without what it says in words, which other versions say otherwise."""
    content: dict[str, Any] = json.loads(payload)
    content["predicate"].pop("words", None)
    return content


def _follows(made: Statement, method_version: str) -> bool | None:
    """Return whether a statement's verdict follows from its figures; None if not known."""
    if made.method_version != method_version:
        return None
    figures = made.figures
    said = made.pvalue, made.premises_pvalue, made.log_evalue
    again = figures.pvalue, figures.premises_pvalue, figures.evidence.log_evalue
    return all(map(_alike, said, again)) and made.verdict is verdict_of(made, figures)


def _alike(said: float | None, again: float | None) -> bool:
    """Return whether two numbers differ by rounding alone."""
    if said is None or again is None:
        return said is again
    return abs(said - again) <= _ROUNDING * max(abs(said), abs(again))


def _inconsistent(why: str) -> UntrustedSignatureError:
    return UntrustedSignatureError("altered", f"The bundle does not hold together: {why}.")
