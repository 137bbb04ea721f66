"""Signed payloads: DSSE envelopes by `securesystemslib`, and the keys that sign and verify them.

DSSE (Dead Simple Signing Envelope, version 1.0.2) signs PAE(type, payload): the text `DSSEv1`, then
type and payload, each after its length in bytes. So a payload of one type is never taken for
another, and verification needs no canonical form of the payload.
"""

import base64
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from pydantic import ConfigDict
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import UnsupportedLibraryError, VerificationError
from securesystemslib.signer import CryptoSigner, Key, Signature, Signer, SSlibKey

from privcore.exceptions import TerminalError
from workers.secret_files import read_open, read_secret, write_new
from workers.strict_model import StrictModel

SERVICES = {
    "awskms": "awskms",
    "azurekms": "azurekms",
    "gcpkms": "gcpkms",
    "hsm": "hsm",
    "hv": "vault",
}
"""Schemes of key URIs, and the extra of securesystemslib that each one needs."""
PIN = "PRIVAUDIT_HSM_PIN"
"""The environment variable with the PIN of an HSM's token."""
_COMMAND = "privaudit attest-key"
_PRIME = 2**255 - 19
_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER = {0, 1, _PRIME - 1, _PRIME, _PRIME + 1, _ORDER_8, _PRIME - _ORDER_8}
"""Points of Ed25519 for which one signature verifies all content (RFC 7748, section 6.1), by their
coordinate y, in each form that is read."""
_RSA_BITS = 2048
"""The least that NIST SP 800-131A accepts. Weak curves have no scheme in securesystemslib."""
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
    """An envelope, as JSON has it: payload and signatures are in base64."""

    model_config = ConfigDict(strict=True)

    payload: str
    payloadType: str  # noqa: N815  # DSSE's own name
    signatures: list[DsseSignature]


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


def has_one_form(payload: bytes) -> bool:
    """Return whether bytes are JSON as `canonical_json` writes it.

    Other bytes may say a field twice, and verifiers differ in which of the two they read.
    """
    try:
        return canonical_json(json.loads(payload)) == payload
    except (ValueError, RecursionError, TerminalError):
        return False


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that DSSE signs: what `openssl pkeyutl -verify` has to be given."""
    return Envelope(payload, payload_type, {}).pae()


def sign_payload(payload: bytes, payload_type: str, signer: Signer) -> DsseEnvelope:
    """Return an envelope with one signature, which the signer's public key verifies.

    Raises:
        TerminalError: the key service refuses to sign, is out of reach, or signs with another key.
    """
    envelope = Envelope(payload, payload_type, {})
    try:
        envelope.sign(signer)
    except Exception as error:  # each service has errors of its own
        raise TerminalError(
            f"The key service did not sign ({type(error).__name__}): check the key's URI, the "
            "permission to sign with it, and the network."
        ) from error
    try:  # a service signs with its key, whatever public key was given for it
        envelope.verify([signer.public_key], 1)
    except VerificationError:
        raise TerminalError(
            "The key service signed with another key than that of --public, so nobody could verify "
            "it: give the public key that the service exports for this URI."
        ) from None
    return DsseEnvelope.model_validate(envelope.to_dict())


def verified_payload(
    envelope: DsseEnvelope, payload_type: str, trusted: Sequence[Key], what: str
) -> bytes:
    """Return the payload of an envelope that one of the trusted keys has signed.

    Args:
        envelope: what is verified.
        payload_type: the only type that is accepted.
        trusted: public keys; one of them must have signed, and no signature may be wrong.
        what: name of the payload in errors, for example "the signed head".

    Raises:
        UntrustedSignatureError: another type, base64 of another form, no signature by a trusted
            key, or a wrong one.
    """
    changed = f"The signature of {what} does not fit its content: {what} was changed after signing."
    if envelope.payloadType != payload_type:
        raise UntrustedSignatureError(
            "altered", f"The type of {what} is {envelope.payloadType!r}, not {payload_type!r}."
        )
    signatures: dict[str, Signature] = {}
    payload = _from_base64(envelope.payload, changed)
    for each in envelope.signatures:
        signatures[each.keyid] = Signature(each.keyid, _from_base64(each.sig, changed).hex())
    if len(signatures) != len(envelope.signatures):
        raise UntrustedSignatureError("altered", changed)
    by_id = {key.keyid: key for key in trusted}
    if not signatures.keys() & by_id.keys():
        signed = ", ".join(sorted(signatures)) or "no key"
        raise UntrustedSignatureError(
            "wrong_key",
            f"The signature of {what} names {signed}, and the trusted keys are "
            f"{', '.join(sorted(by_id))}: give --trust the public key of the signer.",
        )
    if not signatures.keys() <= by_id.keys():
        raise UntrustedSignatureError(
            "wrong_key", f"A second signature of {what} is by a key that is not trusted."
        )
    keys = [by_id[keyid] for keyid in signatures]
    try:
        Envelope(payload, payload_type, signatures).verify([*keys], len(keys))
    except VerificationError:
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


def read_public_key(path: pathlib.Path) -> SSlibKey:
    """Return a public key from its PEM file; its id is the SHA-256 digest of its DER form.

    Raises:
        TerminalError: no file, no public key in it, a key that signs by no known scheme, or RSA of
            fewer than 2,048 bits.
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
    if isinstance(key, RSAPublicKey) and key.key_size < _RSA_BITS:
        raise TerminalError(
            f"{path} holds an RSA key of {key.key_size} bits, which others may forge: give one of "
            f"{_RSA_BITS} bits or more, or of Ed25519."
        )
    try:
        return _trusted(key)
    except (ValueError, UnsupportedAlgorithm):
        raise TerminalError(
            f"{path} holds a public key of a kind that signs no evidence: give one of Ed25519, of "
            "ECDSA on P-256, P-384 or P-521, or of RSA."
        ) from None


def signer_for(key: str, public: pathlib.Path | None = None) -> Signer:
    """Return the signer of a private key's file, or of a URI of a key service.

    Args:
        key: path of an Ed25519 private key in PEM, of mode 600 or 400, or a URI of `SERVICES`.
        public: PEM file of the public key, which a URI needs.

    Raises:
        TerminalError: an absent key, one that others can read, one of another kind; a URI without
            its public key, without the package that it needs, or that its service refuses.
    """
    if "PRIVATE KEY" in key or "\n" in key or _BARE_KEY.fullmatch(key):
        raise TerminalError(
            "--key was given a private key itself, and others can see command lines: make a new "
            "key with privaudit attest-key, and give the path of its file."
        )
    scheme, colon, _ = key.partition(":")
    if colon and scheme in SERVICES:
        return _signer_by_service(key, SERVICES[scheme], public)
    if colon and not pathlib.Path(key).exists():
        raise TerminalError(
            f"{scheme}: is not a known key service: name the file of an Ed25519 private key, or a "
            f"URI that begins with {', '.join(f'{name}:' for name in SERVICES)}."
        )
    if public is not None:
        raise TerminalError("--public goes with a key service: a key file holds both keys.")
    private = _private_key(pathlib.Path(key))
    return CryptoSigner(private, _trusted(private.public_key()))


def _signer_by_service(uri: str, extra: str, public: pathlib.Path | None) -> Signer:
    scheme = uri.partition(":")[0]
    if public is None:
        raise TerminalError(
            f"A key of {scheme}: needs its public key: give --public FILE, the key in PEM that the "
            "service exports."
        )
    pin = os.environ.get(PIN)
    if scheme == "hsm" and not pin:
        raise TerminalError(
            f"A key of hsm: needs the PIN of its token: set {PIN} in the environment, and "
            "PYKCS11LIB to the path of the token's PKCS#11 library."
        )
    try:
        return Signer.from_priv_key_uri(uri, read_public_key(public), lambda _: pin or "")
    except (UnsupportedLibraryError, ImportError):
        raise TerminalError(
            f"Keys of {scheme}: need a package that is not installed: install "
            f"securesystemslib[{extra}]."
        ) from None
    except TerminalError:
        raise
    except Exception as error:  # each service has errors of its own
        raise TerminalError(
            f"The key service of {scheme}: does not give the key ({type(error).__name__}): check "
            "the key's URI, whether --public is its public key, the service's login and region in "
            "the environment, and the network."
        ) from error


def _private_key(path: pathlib.Path) -> Ed25519PrivateKey:
    content = read_secret(path, "private key", make=_COMMAND)
    try:
        private = load_pem_private_key(content, None)
    except TypeError:  # cryptography's word for a password that is missing
        raise TerminalError(
            f"{path} is encrypted, and privaudit asks for no password: give a key without one, of "
            "mode 600, or a key service."
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


def _trusted(key: Any) -> SSlibKey:
    """Return a public key as securesystemslib takes it, under an id that does not change.

    Raises:
        ValueError: the key signs by no known scheme, or anyone can sign for it.
    """
    if isinstance(key, Ed25519PublicKey):
        height = int.from_bytes(key.public_bytes_raw(), "little") % 2**255
        if height in _SMALL_ORDER:
            raise ValueError("One signature verifies all content.")
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return SSlibKey.from_crypto(key, keyid=hashlib.sha256(der).hexdigest())


def _from_base64(text: str, otherwise: str) -> bytes:
    """Return bytes; one text only is the base64 of them, so that no byte can change unseen."""
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError:
        raise UntrustedSignatureError("altered", otherwise) from None
    if base64.standard_b64encode(content).decode() != text:
        raise UntrustedSignatureError("altered", otherwise)
    return content
