"""What is handed over: a signed attestation of a public statement, or of an exact record.

A bundle is a DSSE envelope (Dead Simple Signing Envelope, version 1.0.2) with one Ed25519
signature, whose payload is an in-toto Statement v1. DSSE signs PAE(type, payload): the text
`DSSEv1`, then type and payload, each after its length in bytes. So a payload of one type is never
taken for another, and verification needs no canonical form of the payload. The file's bytes have
one form (`canonical_json` and a newline), and what is not signed follows from what is.

The predicate's type says which of the two it is. The predicate holds all of its columns, and what
follows from these in words; of a statement also PASSED, WARNED or FAILED, as in-toto's
`test-result` has it (https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md).
"""

import base64
import datetime as dt
import hashlib
import json
import math
import pathlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from pydantic import ValidationError

from privcore.exceptions import TerminalError
from privcore.lower_bounds.verdicts import Verdict
from workers.plain_files import read_key_file, write_new
from workers.plan import Plan
from workers.publication.statements import Statement, sentence_of, verdict_of
from workers.warehouse.record_digest import record_digest
from workers.warehouse.schema import AuditRecord, AuditRow, Status
from workers.warehouse.table_row import AS_STORED

_COMMAND = "privaudit attest-key"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_BARE_KEY = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
"""A key in base64 or hexadecimal digits, which a person may paste instead of a path."""


class UntrustedSignatureError(TerminalError):
    """No trusted key verifies a signature."""

    def __init__(self, what: str, sentence: str) -> None:
        self.what = what
        self.sentence = sentence
        super().__init__(sentence)


def key_id(key: Ed25519PublicKey) -> str:
    """Return the id of a public key: the SHA-256 digest of its DER form, 64 hexadecimal digits."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def canonical_json(value: Any) -> bytes:
    """Return a value as JSON of one form: sorted keys, no spaces, UTF-8, numbers as Python's repr.

    Raises:
        TerminalError: a number that is infinite or not a number, which JSON does not have.
    """
    try:
        text = json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
    except ValueError:
        raise TerminalError(
            "The statement holds a number that is infinite or not a number, which JSON cannot "
            "express: give the model a finite declaration and audit it again."
        ) from None
    return text.encode()


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that DSSE signs: what `openssl pkeyutl -verify` has to be given."""
    named = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(named), named, len(payload), payload)


def signed(payload: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return the file of a payload that a key signs."""
    signature = key.sign(pre_authentication_encoding(PAYLOAD_TYPE, payload))
    return _envelope(payload, key_id(key.public_key()), signature)


def _envelope(payload: bytes, keyid: str, signature: bytes) -> bytes:
    """Return a DSSE envelope in the one form that it has as a file."""
    sig, content = (base64.standard_b64encode(each).decode() for each in (signature, payload))
    signatures = [{"keyid": keyid, "sig": sig}]
    envelope = {"payload": content, "payloadType": PAYLOAD_TYPE, "signatures": signatures}
    return canonical_json(envelope) + b"\n"


def verified_payload(data: bytes, trusted: Sequence[Ed25519PublicKey]) -> bytes:
    """Return the payload of a file that one of the trusted keys has signed, and no other key.

    Raises:
        UntrustedSignatureError: a byte differs from what `signed` writes, or the signature is wrong
            or by no trusted key.
    """
    try:
        envelope = json.loads(data)
        (signature,) = envelope["signatures"]
        keyid = signature["keyid"]
        payload, sig = map(base64.b64decode, (envelope["payload"], signature["sig"]))
        written = _envelope(payload, keyid, sig) == data
    except (ValueError, LookupError, TypeError, RecursionError, TerminalError):
        written = False
    if not written:
        raise UntrustedSignatureError(
            "altered",
            "The file is no bundle as privaudit writes it: it was changed after signing, formatted "
            "anew, or it is another file. Ask the signer for the bundle again.",
        )
    by_id = {key_id(each): each for each in trusted}
    if keyid not in list(by_id):
        raise UntrustedSignatureError(
            "wrong_key",
            f"The signature of the attestation names {keyid}, and the trusted keys are "
            f"{', '.join(sorted(by_id))}: give --trust the public key of the signer.",
        )
    try:
        by_id[keyid].verify(sig, pre_authentication_encoding(PAYLOAD_TYPE, payload))
    except InvalidSignature:
        raise UntrustedSignatureError(
            "altered",
            "The signature of the attestation does not fit its content: the attestation was "
            "changed after signing.",
        ) from None
    return payload


def make_key_pair(path: pathlib.Path) -> pathlib.Path:
    """Write a new Ed25519 key pair, and return the path of the public key, which ends with `.pub`.

    Raises:
        TerminalError: one of the two files is there already, or cannot be written.
    """
    public = path.with_name(path.name + ".pub")
    for file in (path, public):
        if file.exists() or file.is_symlink():
            raise TerminalError(f"{file} exists already: name another file, or move it away.")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    shown = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    write_new(path, secret)
    write_new(public, shown, mode=0o644)
    return public


def read_public_key(path: pathlib.Path) -> Ed25519PublicKey:
    """Return an Ed25519 public key from its PEM file.

    Raises:
        TerminalError: no file, no public key in it, or one of another kind.
    """
    content = read_key_file(path, "public key", make=_COMMAND, public=True)
    if b"PRIVATE KEY" in content:
        raise TerminalError(
            f"{path} holds a private key, and a public key is needed: give the file that ends "
            "with .pub, or make one with openssl pkey -pubout."
        )
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise TerminalError(
            f"{path} holds no public key in PEM: give the file that privaudit attest-key wrote "
            "beside the private key, or one by openssl pkey -pubout."
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise TerminalError(
            f"{path} holds a public key of a kind that signs no evidence: give one of Ed25519, as "
            "privaudit attest-key makes it."
        )
    return key


def read_private_key(path: str) -> Ed25519PrivateKey:
    """Return an Ed25519 private key from its PEM file, of mode 600 or 400.

    Raises:
        TerminalError: an absent key, one that others can read, or one of another kind.
    """
    if "PRIVATE KEY" in path or "\n" in path or _BARE_KEY.fullmatch(path):
        raise TerminalError(
            "--key was given a private key itself, and others can see command lines: make a new "
            "key with privaudit attest-key, and give the path of its file."
        )
    content = read_key_file(pathlib.Path(path), "private key", make=_COMMAND)
    try:
        private = load_pem_private_key(content, None)
    except TypeError:  # cryptography's word for a password that is missing
        raise TerminalError(
            f"{path} is encrypted, and privaudit asks for no password: give a key without one, of "
            "mode 600."
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise TerminalError(
            f"{path} holds no private key in PEM: make one with privaudit attest-key."
        ) from None
    if not isinstance(private, Ed25519PrivateKey):
        raise TerminalError(
            f"{path} holds a private key of another kind, and evidence is signed with Ed25519: "
            "make one with privaudit attest-key."
        )
    return private


IN_TOTO = "https://in-toto.io/Statement/v1"
LABEL_STATEMENT = "urn:uuid:572f2cd3-9d1a-4660-be36-cbea48ec87bf#label-statement/v1"
"""Type of the predicate of a statement. A UUID's URN is unique, and needs no host name."""
EXACT_RECORD = "urn:uuid:572f2cd3-9d1a-4660-be36-cbea48ec87bf#exact-record/v1"
"""Type of the predicate of an exact record: for people who may read results about labels."""
LIFETIME = dt.timedelta(days=90)
"""Time that an attestation is evidence, from the publication or the audit on.

A model that is trained every night is another model after a quarter, attacks improve, and reviews
of models are commonly held once a quarter. An expired attestation is still authentic.
"""
_OF_STATEMENT = (
    "The holdout was drawn like the training records, by chance or by a rule that reads no label.",
    "The labels of different records are independent, given the features.",
    "Models, features and the choice of training records depend on a label through training alone.",
    "The key of the noise is secret and random.",
)
"""Assumptions of the test and of the statement's own privacy; the second figure tests some."""
_NOT_TESTED = (
    "Another epsilon, delta, relation or unit than the claim's.",
    "Other secrets than labels: membership, attributes, features.",
    "Parts of the data: a leak that touches few records can stay below the noise.",
    "Attacks that see more than predictions, for example gradients or several versions of a model.",
    "Whether the declared mechanism runs as its parameters say.",
)
"""Subjects that a statement says nothing about."""
_RESULTS = {
    Verdict.VIOLATED: "FAILED",
    Verdict.NOT_REFUTED: "PASSED",
    Verdict.INCONCLUSIVE: "WARNED",
}
_OF_RECORD = "Another attack, which may prove more: a lower bound is not the loss."
_SUPPLIED = (
    "The probabilities were supplied: that both models gave them, that training saw the "
    "training records with these labels, and that it saw no holdout record, is taken from the "
    "tables."
)
_DISTRIBUTE = "This is an exact record: give it only to people who may read results about labels."


def expiry(made: Statement | AuditRecord) -> dt.datetime:
    """Return when a statement, or a record, stops being evidence."""
    begun = made.published_at if isinstance(made, Statement) else made.audit.recorded_at
    return begun + LIFETIME


def attest(made: Statement | AuditRecord) -> bytes:
    """Return the in-toto statement about a public statement or an exact record, to be signed."""
    if isinstance(made, Statement):
        predicate_type, audited = LABEL_STATEMENT, made
        columns = made.model_dump(mode="json")
        predicate: dict[str, Any] = {"statement": columns, "result": _RESULTS[made.verdict]}
        subject = "statement", hashlib.sha256(canonical_json(columns)).hexdigest()
    else:
        predicate_type, audited = EXACT_RECORD, made.audit  # type: ignore[assignment]
        predicate = {"record": made.model_dump(mode="json")}
        subject = "record", made.audit.record_digest or ""
    predicate |= {"expires_at": expiry(made).isoformat(), "words": words_of(made)}
    digests = (subject, ("target", audited.target_sha256), ("proxy", audited.proxy_sha256))
    return canonical_json({
        "_type": IN_TOTO,
        "subject": [
            {"name": name, "digest": {"sha256": digest}} for name, digest in digests if digest
        ],
        "predicateType": predicate_type,
        "predicate": predicate,
    })  # fmt: skip


def words_of(made: Statement | AuditRecord) -> dict[str, Any]:
    """Return what follows in words: a text, and two lists of texts."""
    if isinstance(made, Statement):
        words = sentence_of(made), list(_OF_STATEMENT), list(_NOT_TESTED)
    else:
        words = (
            f"{made.audit.reason} {_DISTRIBUTE}",
            [*_assumed(made.audit), _mode(made.audit)],
            [_OF_RECORD],
        )
    return dict(zip(("verdict", "assumptions", "not_tested"), words, strict=True))


def _assumed(audit: AuditRow) -> list[str]:
    """Say what a record's figures assume; nothing where there are none."""
    if audit.status is not Status.EVALUATED:
        return []
    said = Plan.model_validate_json(audit.plan).assumption
    return [said] if audit.target_sha256 else [said, _SUPPLIED]


def _mode(audit: AuditRow) -> str:
    said = f"The evidence's mode of trust is {audit.trust}."
    return f"{said} {audit.trust.stands_on}" if audit.verdict == Verdict.NOT_REFUTED else said


LARGEST = 4 << 20
"""Bytes of a bundle: an exact record has some hundred kilobytes."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class VerifiedBundle:
    """Content of a bundle that was verified.

    Attributes:
        result: PASSED, WARNED or FAILED of a statement; the verdict of a record.
        words: what follows in words, by this version.
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
    return signed(attest(made), key)


def verify_bundle(
    data: bytes, trusted: Sequence[Ed25519PublicKey], *, method_version: str
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
    payload = verified_payload(data, trusted)
    made = _attested(payload)
    if _without_words(attest(made)) != _without_words(payload):
        raise _inconsistent("its subjects, result or expiry do not follow from its columns")
    if isinstance(made, AuditRecord):
        if record_digest(made) != made.audit.record_digest:
            raise _inconsistent("the digest of its record is another one")
        result, recomputed = str(made.audit.verdict), None
    else:
        result, recomputed = _RESULTS[made.verdict], _follows(made, method_version)
    return VerifiedBundle(made, result, words_of(made), expiry(made), recomputed)


def _attested(payload: bytes) -> Statement | AuditRecord:
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
    return math.isclose(said, again, rel_tol=_ROUNDING)


def _inconsistent(why: str) -> UntrustedSignatureError:
    return UntrustedSignatureError("altered", f"The bundle does not hold together: {why}.")
