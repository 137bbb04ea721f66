import base64
import datetime as dt
import hashlib
import json
import pickle
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from privcore.exceptions import TerminalError
from tests.support.lake import DAY
from tests.support.statements import PUBLISHED, statement
from tests.support.warehouse import evaluated
from workers.evidence.attestation import (
    EXACT_RECORD,
    LABEL_STATEMENT,
    LIFETIME,
    UntrustedSignatureError,
    attest,
    canonical_json,
    expiry,
    key_id,
    make_bundle,
    make_key_pair,
    pre_authentication_encoding,
    read_private_key,
    read_public_key,
    signed,
    verified_payload,
    verify_bundle,
    words_of,
)
from workers.publication.statements import Statement
from workers.versions import METHOD_VERSION
from workers.warehouse.record_digest import seal

TYPE = "application/vnd.in-toto+json"
PAYLOAD = '{"a":"ü \\u0000"}'.encode()


@pytest.fixture
def key(tmp_path):
    make_key_pair(tmp_path / "evidence.pem")
    return tmp_path / "evidence.pem"


def public_of(key):
    return key.with_name(key.name + ".pub")


def sign(key):
    return signed(PAYLOAD, read_private_key(str(key))), read_public_key(public_of(key))


def own_encoding(payload_type, payload):
    """PAE by the text of the DSSE protocol."""
    parts = [b"DSSEv1"]
    for each in (payload_type, payload):
        parts += [str(len(each)).encode("ascii"), each]
    return b" ".join(parts)


def test_the_encoding_is_that_of_the_protocol():
    encoded = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    for payload in (b"", b"x", PAYLOAD, bytes(range(256)) * 5):
        assert pre_authentication_encoding(TYPE, payload) == own_encoding(TYPE.encode(), payload)


def test_a_key_that_openssl_made_signs_and_its_id_is_the_public_keys_digest(tmp_path):
    made = tmp_path / "made.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", made], check=True)
    made.chmod(0o600)
    to_public = ["openssl", "pkey", "-in", made, "-pubout"]
    public_of(made).write_bytes(subprocess.run(to_public, capture_output=True, check=True).stdout)
    der = subprocess.run([*to_public, "-outform", "DER"], capture_output=True, check=True).stdout
    data, trusted = sign(made)
    assert verified_payload(data, [trusted]) == PAYLOAD
    assert key_id(trusted) == hashlib.sha256(der).hexdigest()
    (one,) = json.loads(data)["signatures"]
    assert one["keyid"] == key_id(trusted)


def test_a_bundle_in_any_other_form_is_found():
    bundle = make_bundle(statement(), KEY)
    envelope = json.loads(bundle)
    (one,) = envelope["signatures"]
    flipped = bytearray(base64.b64decode(one["sig"]))
    flipped[10] ^= 1
    # Base64 has one form: the last letter before == has bits that are none of the signature's.
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    assert one["sig"].endswith("==")
    other = one["sig"][:-3] + letters[letters.index(one["sig"][-3]) ^ 1] + "=="
    assert base64.b64decode(other) == base64.b64decode(one["sig"])
    payload = base64.b64decode(envelope["payload"])
    changes = (
        {"payload": base64.b64encode(payload + b" ").decode()},
        {"payload": envelope["payload"][:-1] + "\n"},
        {"payload": 7},
        {"payloadType": "text/plain"},
        {"signatures": [one | {"sig": base64.b64encode(flipped).decode()}]},
        {"signatures": [one | {"sig": other}]},
        {"signatures": [one | {"keyid": [one["keyid"]]}]},
        {"signatures": [one, one]},
        {"signatures": None},
        {"more": 1},
    )
    for other in (
        *(canonical_json(envelope | change) + b"\n" for change in changes),
        bundle[:-1],
        bundle + b"\n",
        b"",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps(envelope, indent=2).encode(),
        bundle.replace(b'"payload":', b'"payload":"","payload":'),
    ):
        with pytest.raises(UntrustedSignatureError):
            verified(other)


def test_a_wrong_key_is_said(key, tmp_path):
    data, trusted = sign(key)
    other = read_public_key(make_key_pair(tmp_path / "other.pem"))
    with pytest.raises(UntrustedSignatureError) as refused:
        verified_payload(data, [other])
    assert refused.value.what == "wrong_key"
    for word in ("the attestation", key_id(trusted), key_id(other), "give --trust"):
        assert word in str(refused.value)
    again = pickle.loads(pickle.dumps(refused.value))  # noqa: S301
    assert (str(again), again.what) == (str(refused.value), "wrong_key")
    claimed = data.replace(key_id(trusted).encode(), key_id(other).encode())
    with pytest.raises(UntrustedSignatureError, match="changed after signing"):
        verified_payload(claimed, [other])


def test_a_key_pair_is_its_owners_alone_and_is_never_overwritten(key):
    assert key.stat().st_mode & 0o777 == 0o600
    before = key.read_bytes()
    with pytest.raises(TerminalError, match="exists already"):
        make_key_pair(key)
    assert key.read_bytes() == before
    for mode in (0o640, 0o604, 0o700, 0o620):
        key.chmod(mode)
        with pytest.raises(TerminalError, match=f"has mode {mode:o}.*set mode 600"):
            read_private_key(str(key))
    key.chmod(0o400)
    data, trusted = sign(key)
    assert verified_payload(data, [trusted]) == PAYLOAD


def test_absent_and_foreign_keys_are_said(key, tmp_path):
    foreign = tmp_path / "foreign.pem"
    made = ec.generate_private_key(ec.SECP256R1())
    kinds = {
        "holds no private key in PEM": b"nothing",
        "holds a private key of another kind": made.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ),
        "is encrypted": ed25519.Ed25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")
        ),
    }
    for sentence, content in kinds.items():
        foreign.write_bytes(content)
        foreign.chmod(0o600)
        with pytest.raises(TerminalError, match=sentence):
            read_private_key(str(foreign))
    with pytest.raises(TerminalError, match=r"private key .*absent.pem cannot be read \(No such"):
        read_private_key(str(tmp_path / "absent.pem"))
    with pytest.raises(TerminalError, match=r"public key .* cannot be read"):
        read_public_key(tmp_path / "absent.pub")
    with pytest.raises(TerminalError, match="holds a private key, and a public key is needed"):
        read_public_key(key)
    foreign.write_bytes(b"-----BEGIN PUBLIC KEY-----\nxx\n-----END PUBLIC KEY-----\n")
    with pytest.raises(TerminalError, match="holds no public key in PEM"):
        read_public_key(foreign)


def test_a_public_key_of_another_kind_is_refused(tmp_path):
    file, key = tmp_path / "signer.pub", ec.generate_private_key(ec.SECP256R1()).public_key()
    file.write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(TerminalError, match="of a kind that signs no evidence"):
        read_public_key(file)


KINDS = {
    "kept": (statement(), "PASSED"),
    "refuted": (statement(evidence=20000), "FAILED"),
    "doubtful": (statement(premises=9000), "WARNED"),
    "says nothing": (statement(declaration_empty=True), "WARNED"),
    "too small": (statement(epsilon_ceiling=0.5), "WARNED"),
    "blind": (statement(sees_from=None), "WARNED"),
}


@pytest.mark.parametrize(("made", "result"), KINDS.values(), ids=KINDS)
def test_a_statement_passes_only_if_a_false_one_would_have_been_refuted(made, result):
    content = json.loads(attest(made))
    assert content["predicateType"] == LABEL_STATEMENT
    assert content["predicate"]["result"] == result
    assert content["predicate"]["statement"] == json.loads(made.model_dump_json())


def test_subjects_are_the_columns_and_both_models():
    made = statement(proxy_sha256=None)
    columns = canonical_json(json.loads(made.model_dump_json()))
    assert json.loads(attest(made))["subject"] == [
        {"name": "statement", "digest": {"sha256": hashlib.sha256(columns).hexdigest()}},
        {"name": "target", "digest": {"sha256": made.target_sha256}},
    ]


def test_a_record_says_that_it_is_exact_and_for_whom():
    record = seal(evaluated("ads", DAY))
    content = json.loads(attest(record))
    assert content["predicateType"] == EXACT_RECORD
    assert "result" not in content["predicate"]
    assert content["subject"][0] == {
        "name": "record", "digest": {"sha256": record.audit.record_digest},
    }  # fmt: skip
    assert "who may read results about labels" in words_of(record)["verdict"]
    assert expiry(record) - record.audit.recorded_at == LIFETIME


def test_a_number_that_json_has_not_is_refused():
    with pytest.raises(TerminalError, match="infinite or not a number"):
        attest(statement(sees_from=float("inf")))


KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
TRUSTED = [KEY.public_key()]
RECORD = seal(evaluated("ads", DAY, epsilon_lower=0.1 + 0.2))
MADE = {"statement": statement(), "record": RECORD}


def verified(data, version=METHOD_VERSION):
    return verify_bundle(data, TRUSTED, method_version=version)


def signed_bundle(payload):
    """Return a bundle of any payload, as a signer with the key could make one."""
    return signed(payload if isinstance(payload, bytes) else canonical_json(payload), KEY)


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_bundle_verifies_with_the_public_key_alone_and_a_changed_byte_is_found(made):
    bundle = make_bundle(made, KEY)
    found = verified(bundle)
    assert (found.made, type(found.made)) == (made, type(made))
    assert found.result == ("PASSED" if isinstance(made, Statement) else made.audit.verdict)
    assert found.recomputed is (True if isinstance(made, Statement) else None)
    for place in range(0, len(bundle), max(1, len(bundle) // 150)):
        changed = bytearray(bundle)
        changed[place] ^= 1 + place % 7
        with pytest.raises(UntrustedSignatureError):
            verified(bytes(changed))


def test_a_signer_that_contradicts_itself_is_found():
    """Result, expiry and subjects have to follow from the columns, and a record has its digest."""
    content = json.loads(attest(statement()))
    predicate = content["predicate"]
    record = json.loads(attest(RECORD))
    forged = json.loads(attest(RECORD))
    forged["predicate"]["record"]["audit"]["epsilon_lower"] = 0.0
    for other in (
        content | {"predicate": predicate | {"result": "FAILED"}},
        content | {"predicate": predicate | {"expires_at": "2099-01-01T00:00:00+00:00"}},
        content | {"predicate": predicate | {"more": 1}},
        content | {"predicate": []},
        content | {"subject": content["subject"][1:]},
        content | {"predicateType": record["predicateType"]},
        content | {"predicateType": "urn:other"},
        content | {"_type": "other"},
        record | {"predicateType": content["predicateType"]},
        forged,
        [],
        b"\xff",
        json.dumps(content, indent=1).encode(),
    ):
        with pytest.raises(UntrustedSignatureError) as refused:
            verified(signed_bundle(other))
        assert refused.value.what == "altered"


def test_words_are_this_versions_and_columns_of_another_version_are_said():
    content = json.loads(attest(statement()))
    content["predicate"]["words"] = {"verdict": "The model is private."}
    assert "not refuted" in verified(signed_bundle(content)).words["verdict"]
    content["predicate"]["statement"]["later"] = 1
    with pytest.raises(UntrustedSignatureError, match="version of privaudit that signed it"):
        verified(signed_bundle(content))


def test_a_verdict_is_computed_again_by_the_same_method_alone():
    for changed in ({"pvalue": 0.9}, {"premises_pvalue": 0.2}, {"log_evalue": None},
                    {"verdict": "violated"}):  # fmt: skip
        assert verified(make_bundle(statement(**changed), KEY)).recomputed is False
    assert verified(make_bundle(statement(), KEY), "other").recomputed is None


def test_a_bundle_is_evidence_for_its_lifetime():
    found, day = verified(make_bundle(statement(), KEY)), dt.timedelta(days=1)
    assert found.expires_at == PUBLISHED + LIFETIME
    times = (PUBLISHED - 2 * day, PUBLISHED - day / 2, PUBLISHED + LIFETIME - day, found.expires_at)
    assert [found.expired(at) for at in times] == [True, False, False, True]
