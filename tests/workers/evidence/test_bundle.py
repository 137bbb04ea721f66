"""Bundles: what verifies, and that nothing else does."""

import datetime as dt
import json
import pathlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.lake import DAY
from tests.support.statements import PUBLISHED, statement
from tests.support.warehouse import evaluated
from workers.evidence.attestation import LIFETIME, PAYLOAD_TYPE, attest
from workers.evidence.bundle import VerifiedBundle, make_bundle, verify_bundle
from workers.evidence.envelope import (
    PublicKey,
    UntrustedSignatureError,
    canonical_json,
    sign_payload,
)
from workers.publication.statement_row import Statement
from workers.versions import METHOD_VERSION
from workers.warehouse.record_digest import seal
from workers.warehouse.schema import AuditRecord

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
TRUSTED = [PublicKey(KEY.public_key())]
RECORD = seal(evaluated("ads", DAY))
MADE: dict[str, Statement | AuditRecord] = {"statement": statement(), "record": RECORD}


def verified(data: bytes, version: str = METHOD_VERSION) -> VerifiedBundle:
    return verify_bundle(data, TRUSTED, method_version=version)


def signed(payload: Any) -> bytes:
    """Return a bundle of any payload, as a signer with the key could make one."""
    raw = payload if isinstance(payload, bytes) else canonical_json(payload)
    envelope = sign_payload(raw, PAYLOAD_TYPE, KEY)
    return canonical_json(envelope.model_dump(mode="json")) + b"\n"


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_bundle_verifies_with_the_public_key_alone(made: Statement | AuditRecord) -> None:
    found = verified(make_bundle(made, KEY))
    assert found.made == made
    assert type(found.made) is type(made)
    assert found.result == ("PASSED" if isinstance(made, Statement) else made.audit.verdict)
    assert found.recomputed is (True if isinstance(made, Statement) else None)


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_changed_byte_is_found(made: Statement | AuditRecord) -> None:
    bundle = make_bundle(made, KEY)
    for place in range(0, len(bundle), max(1, len(bundle) // 150)):
        changed = bytearray(bundle)
        changed[place] ^= 1 + place % 7
        with pytest.raises(UntrustedSignatureError):
            verified(bytes(changed))


def test_cut_added_and_formatted_bytes_are_found() -> None:
    bundle = make_bundle(statement(), KEY)
    parsed = json.loads(bundle)
    for other in (
        bundle[:-1],
        bundle + b"\n",
        b" " + bundle,
        bundle[: len(bundle) // 2],
        b"",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps(parsed, indent=2).encode(),
        canonical_json(parsed | {"more": 1}) + b"\n",
        bundle.replace(b'"payload":', b'"payload":"","payload":'),
    ):
        with pytest.raises(UntrustedSignatureError) as refused:
            verified(other)
        assert refused.value.what == "altered"


def test_another_key_verifies_nothing() -> None:
    other = Ed25519PrivateKey.from_private_bytes(bytes(32))
    with pytest.raises(UntrustedSignatureError) as refused:
        verified(make_bundle(statement(), other))
    assert refused.value.what == "wrong_key"


def test_a_signer_that_contradicts_itself_is_found() -> None:
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
        content | {"predicate": {}},
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
        attest(statement()).replace(b'"_type":', b'"_type":"","_type":'),
    ):
        with pytest.raises(UntrustedSignatureError) as refused:
            verified(signed(other))
        assert refused.value.what == "altered"


def test_the_words_are_this_versions_whatever_the_signer_says() -> None:
    content = json.loads(attest(statement()))
    content["predicate"]["words"] = {"verdict": "The model is private."}
    found = verified(signed(content))
    assert "not refuted" in found.words["verdict"]


def test_columns_of_another_version_are_said() -> None:
    content = json.loads(attest(statement()))
    content["predicate"]["statement"]["later"] = 1
    with pytest.raises(UntrustedSignatureError, match="version of privaudit that signed it"):
        verified(signed(content))


def test_a_verdict_is_computed_again_by_the_same_method_alone() -> None:
    for changed in ({"pvalue": 0.9}, {"premises_pvalue": 0.2}, {"log_evalue": None},
                    {"verdict": "violated"}):  # fmt: skip
        assert verified(make_bundle(statement(**changed), KEY)).recomputed is False
    assert verified(make_bundle(statement(), KEY), "other").recomputed is None


def test_a_bundle_is_evidence_for_its_lifetime() -> None:
    found, day = verified(make_bundle(statement(), KEY)), dt.timedelta(days=1)
    assert found.expires_at == PUBLISHED + LIFETIME
    times = (PUBLISHED - 2 * day, PUBLISHED - day / 2, PUBLISHED + LIFETIME - day, found.expires_at)
    assert [found.expired(at) for at in times] == [True, False, False, True]


def test_a_bundle_of_an_exact_record_keeps_every_bit(tmp_path: pathlib.Path) -> None:
    row = RECORD.audit.model_copy(update={"epsilon_lower": 0.1 + 0.2, "record_digest": None})
    record = seal(RECORD.model_copy(update={"audit": row}))
    (tmp_path / "bundle").write_bytes(make_bundle(record, KEY))
    found = verified((tmp_path / "bundle").read_bytes()).made
    assert isinstance(found, AuditRecord)
    assert found == record
