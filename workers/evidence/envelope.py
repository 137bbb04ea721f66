"""Signed payloads: DSSE envelopes, and the Ed25519 keys that sign and verify them.

DSSE (Dead Simple Signing Envelope, version 1.0.2) signs PAE(type, payload): the text `DSSEv1`, then
type and payload, each after its length in bytes. So a payload of one type is never taken for
another, and verification needs no canonical form of the payload.
"""

import base64
import binascii
import hashlib
import json
import pathlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from pydantic import ConfigDict

from privcore.exceptions import TerminalError
from workers.secret_files import read_open, read_secret, write_new
from workers.strict_model import StrictModel

_COMMAND = "privaudit attest-key"
_PRIME = 2**255 - 19
_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER = {0, 1, _PRIME - 1, _PRIME, _PRIME + 1, _ORDER_8, _PRIME - _ORDER_8}
"""Points of Ed25519 for which one signature verifies all content (RFC 7748, section 6.1), by their
coordinate y, in each form that is read."""
_BARE_KEY = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
"""A key in base64 or hexadecimal digits, which a person may paste instead of a path."""


class UntrustedSignatureError(TerminalError):
    """No trusted key verifies a signature."""

    def __init__(self, what: str, sentence: str) -> None:
        self.what = what
        self.sentence = sentence
        super().__init__(sentence)


class DsseSignature(StrictModel):
    """One signature of an envelope, as JSON has it."""

    model_config = ConfigDict(strict=True)

    keyid: str
    sig: str


class DsseEnvelope(StrictModel):
    """An envelope, as JSON has it: payload and signature are in base64."""

    model_config = ConfigDict(strict=True)

    payload: str
    payloadType: str  # noqa: N815  # DSSE's own name
    signatures: list[DsseSignature]


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key, under the SHA-256 digest of its DER form."""

    key: Ed25519PublicKey

    @property
    def keyid(self) -> str:
        """The key's id, 64 hexadecimal digits."""
        der = self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
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


def sign_payload(payload: bytes, payload_type: str, key: Ed25519PrivateKey) -> DsseEnvelope:
    """Return an envelope with one signature."""
    signature = key.sign(pre_authentication_encoding(payload_type, payload))
    return DsseEnvelope(
        payload=base64.standard_b64encode(payload).decode(),
        payloadType=payload_type,
        signatures=[
            DsseSignature(
                keyid=PublicKey(key.public_key()).keyid,
                sig=base64.standard_b64encode(signature).decode(),
            )
        ],
    )


def verified_payload(
    envelope: DsseEnvelope, payload_type: str, trusted: Sequence[PublicKey], what: str
) -> bytes:
    """Return the payload of an envelope that one of the trusted keys has signed, and no other key.

    Args:
        envelope: what is verified.
        payload_type: the only type that is accepted.
        trusted: public keys.
        what: name of the payload in errors, for example "the attestation".

    Raises:
        UntrustedSignatureError: another type, base64 of another form, not one signature, a wrong
            one, or one by no trusted key.
    """
    changed = f"The signature of {what} does not fit its content: {what} was changed after signing."
    if envelope.payloadType != payload_type:
        raise UntrustedSignatureError(
            "altered", f"The type of {what} is {envelope.payloadType!r}, not {payload_type!r}."
        )
    if len(envelope.signatures) != 1:
        raise UntrustedSignatureError("altered", changed)
    (signature,) = envelope.signatures
    payload, sig = _from_base64(envelope.payload, changed), _from_base64(signature.sig, changed)
    by_id = {each.keyid: each.key for each in trusted}
    if signature.keyid not in by_id:
        raise UntrustedSignatureError(
            "wrong_key",
            f"The signature of {what} names {signature.keyid}, and the trusted keys are "
            f"{', '.join(sorted(by_id))}: give --trust the public key of the signer.",
        )
    try:
        by_id[signature.keyid].verify(sig, pre_authentication_encoding(payload_type, payload))
    except InvalidSignature:
        raise UntrustedSignatureError("altered", changed) from None
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


def read_public_key(path: pathlib.Path) -> PublicKey:
    """Return an Ed25519 public key from its PEM file.

    Raises:
        TerminalError: no file, no public key in it, one of another kind, or one that anyone can
            sign for.
    """
    content = read_open(path, "public key", make=_COMMAND)
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
    height = 0
    if isinstance(key, Ed25519PublicKey):
        height = int.from_bytes(key.public_bytes_raw(), "little") % 2**255
    if not isinstance(key, Ed25519PublicKey) or height in _SMALL_ORDER:
        raise TerminalError(
            f"{path} holds a public key of a kind that signs no evidence: give one of Ed25519, as "
            "privaudit attest-key makes it."
        )
    return PublicKey(key)


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
    content = read_secret(pathlib.Path(path), "private key", make=_COMMAND)
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


def _from_base64(text: str, otherwise: str) -> bytes:
    """Return bytes; one text only is the base64 of them, so that no byte can change unseen."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UntrustedSignatureError("altered", otherwise) from None
    if base64.standard_b64encode(content).decode() != text:
        raise UntrustedSignatureError("altered", otherwise)
    return content
