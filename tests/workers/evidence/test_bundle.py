"""Bundles: what verifies, and that nothing else does."""

import base64
import datetime as dt
import json
import pathlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from securesystemslib.signer import CryptoSigner, Signer, SSlibKey

from privcore.exceptions import InvalidInputError, TerminalError
from tests.support.statements import PUBLISHED, night, statement
from workers.evidence.attestation import LIFETIME, attest_result, attest_statement
from workers.evidence.bundle import (
    EvidenceBundle,
    make_bundle,
    read_bundle,
    verify_bundle,
)
from workers.evidence.envelope import (
    UntrustedSignatureError,
    canonical_json,
    make_key_pair,
    read_public_key,
    sign_payload,
    signer_for,
)
from workers.evidence.log_heads import sign_head
from workers.evidence.merkle_log import MerkleTree, leaf_hash
from workers.publication.statement_row import PublicVerdict, Statement
from workers.versions import METHOD_VERSION

STATEMENTS = [statement(number) for number in range(7)]
CONTENTS = [one.content() for one in STATEMENTS]
NOW = PUBLISHED + dt.timedelta(days=1)
FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures" / "bundles"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Signer, SSlibKey]]:
    folder = tmp_path_factory.mktemp("keys")
    made = {}
    for name in ("old", "new"):
        public = make_key_pair(folder / name)
        made[name] = signer_for(str(folder / name)), read_public_key(public)
    return made


@pytest.fixture(scope="module")
def signer(keys: dict[str, tuple[Signer, SSlibKey]]) -> Signer:
    return keys["old"][0]


@pytest.fixture(scope="module")
def trusted(keys: dict[str, tuple[Signer, SSlibKey]]) -> list[SSlibKey]:
    return [keys["old"][1]]


@pytest.fixture(scope="module")
def bundle(signer: Signer) -> bytes:
    return make_bundle(CONTENTS, STATEMENTS[3].statement_id, signer, time=NOW)


def verified(data: bytes, trusted: list[SSlibKey], version: str = METHOD_VERSION) -> Any:
    return verify_bundle(data, trusted, method_version=version)


def test_a_bundle_verifies_with_the_public_key_alone(
    bundle: bytes, trusted: list[SSlibKey]
) -> None:
    found = verified(bundle, trusted)
    assert found.columns == json.loads(CONTENTS[3])
    assert (found.index, found.head.size, found.result) == (3, 7, "PASSED")
    assert found.head.time == NOW
    assert found.earlier is None
    assert found.recomputed is True


def test_a_bundle_exposes_no_other_statement(bundle: bytes) -> None:
    whole = b"".join(
        base64.b64decode(each["payload"]) for each in json.loads(bundle)["attestations"]
    )
    for number, one in enumerate(STATEMENTS):
        for text in (one.statement_id, one.model, str(one.target_sha256)):
            assert (text.encode() in whole + bundle) == (number == 3)


def test_a_changed_byte_is_found(bundle: bytes, trusted: list[SSlibKey]) -> None:
    read_bundle(bundle)
    unseen = []
    for place in range(0, len(bundle), 11):
        changed = bytearray(bundle)
        changed[place] ^= 1 + place % 7
        try:
            verified(bytes(changed), trusted)
        except UntrustedSignatureError:
            continue
        unseen.append(place)
    assert unseen == []


@pytest.mark.slow
def test_every_changed_bit_is_found(bundle: bytes, trusted: list[SSlibKey]) -> None:
    for place in range(len(bundle)):
        for bit in range(8):
            changed = bytearray(bundle)
            changed[place] ^= 1 << bit
            with pytest.raises(UntrustedSignatureError):
                verified(bytes(changed), trusted)


def _other_form(envelope: dict[str, Any], order: int) -> dict[str, Any]:
    """Return an envelope with s replaced by order - s in its ECDSA signature (r, s)."""
    (signature,) = envelope["signatures"]
    r, s = decode_dss_signature(base64.b64decode(signature["sig"]))
    turned = base64.b64encode(encode_dss_signature(r, order - s)).decode()
    return envelope | {"signatures": [signature | {"sig": turned}]}


def test_the_other_form_of_an_ecdsa_signature_verifies_as_the_same_evidence() -> None:
    """FIPS 186-5 lets a signer choose either form, and key services do; no content rests on it."""
    private = ec.generate_private_key(ec.SECP256R1())
    key = SSlibKey.from_crypto(private.public_key(), keyid="a" * 64)
    data = make_bundle(CONTENTS, STATEMENTS[3].statement_id, CryptoSigner(private, key), time=NOW)
    parsed = json.loads(data)
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    turned = parsed | {
        "attestations": [_other_form(each, order) for each in parsed["attestations"]],
        "head": _other_form(parsed["head"], order),
    }
    other = canonical_json(turned) + b"\n"
    assert other != data
    assert verified(other, [key]) == verified(data, [key])


def test_cut_added_and_formatted_bytes_are_found(bundle: bytes, trusted: list[SSlibKey]) -> None:
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
        canonical_json({name: parsed[name] for name in parsed if name != "head"}) + b"\n",
        bundle.replace(b'"index":3', b'"index":3,"index":3'),
    ):
        with pytest.raises(UntrustedSignatureError) as refused:
            verified(other, trusted)
        assert refused.value.what == "altered"


def test_parts_of_two_bundles_do_not_fit(
    bundle: bytes, signer: Signer, trusted: list[SSlibKey]
) -> None:
    other = json.loads(make_bundle(CONTENTS, STATEMENTS[5].statement_id, signer, time=NOW))
    short = json.loads(make_bundle(CONTENTS[:4], STATEMENTS[3].statement_id, signer, time=NOW))
    own = json.loads(bundle)
    two, one = own["attestations"][::-1]
    for changed in (
        {"attestations": other["attestations"]},
        {"attestations": [other["attestations"][0], own["attestations"][1]]},
        {"attestations": [two, one]},
        {"attestations": [one]},
        {"attestations": [one, two, two]},
        {"head": short["head"]},
        {"head": one},
        {"index": 2},
        {"inclusion": other["inclusion"]},
        {"inclusion": own["inclusion"][:-1]},
        {"consistency": own["inclusion"][:1]},
        {"earlier": short["head"]},
    ):
        with pytest.raises(UntrustedSignatureError):
            verified(canonical_json(own | changed) + b"\n", trusted)


def exchanged(made: Statement, part: str, content: Any, of: Any = attest_statement) -> bytes:
    """Return an attestation, one part of which is another."""
    return canonical_json(json.loads(of(made)) | {part: content})


def test_a_signer_that_contradicts_itself_is_found(signer: Signer, trusted: list[SSlibKey]) -> None:
    """The result, the sections and the figures have to follow from the statement in the log."""

    def signed(result: bytes, own: bytes, content: str) -> bytes:
        tree = MerkleTree([leaf_hash(content.encode())])
        made = EvidenceBundle(
            mediaType="application/vnd.privaudit.bundle.v1+json",
            attestations=[
                sign_payload(payload, "application/vnd.in-toto+json", signer)
                for payload in (result, own)
            ],
            head=sign_head(tree, NOW, signer),
            index=0,
            inclusion=[],
            earlier=None,
            consistency=[],
        )
        return canonical_json(made.model_dump(mode="json")) + b"\n"

    one = STATEMENTS[0]
    bad = statement(0, evidence=20000)
    assert verified(
        signed(attest_result(one), attest_statement(one), CONTENTS[0]), trusted
    ).recomputed
    better = json.loads(attest_statement(bad))
    better["predicate"]["conclusion"]["verdict"] = "not_refuted"
    lacking = json.loads(attest_statement(bad))
    del lacking["predicate"]["claim"]
    undated = json.loads(attest_statement(bad))
    undated["predicate"]["expires_at"] = 7
    short = json.loads(attest_statement(bad))
    del short["predicate"]["claim"]["unit"]
    kinder_claim = bad.model_copy(update={"epsilon_declared": 9.0})
    claimed = exchanged(
        bad, "predicate", json.loads(attest_result(kinder_claim))["predicate"], attest_result
    )
    swapped = json.loads(attest_statement(STATEMENTS[1]))["subject"]
    for result, own, why in (
        (attest_result(one), attest_statement(bad), "does not follow from its verdict"),
        (attest_result(bad), canonical_json(better), "its sections are not those"),
        (attest_result(bad), canonical_json(lacking), "has another form than version 1"),
        (attest_result(STATEMENTS[1]), attest_statement(bad), "about other models"),
        (attest_result(bad), exchanged(bad, "subject", swapped), "about other models"),
        (
            exchanged(bad, "subject", swapped, attest_result),
            exchanged(bad, "subject", swapped),
            "about other models",
        ),
        (claimed, attest_statement(bad), "does not follow from its verdict and claim"),
        (attest_result(bad), canonical_json(undated), "its expiry is no time"),
        (attest_result(bad), canonical_json(short), "lacks columns of version 1"),
    ):
        with pytest.raises(UntrustedSignatureError, match=why):
            verified(signed(result, own, bad.content()), trusted)
    kinder = bad.model_copy(update={"verdict": PublicVerdict.NOT_REFUTED, "pvalue": 0.4})
    found = verified(
        signed(attest_result(kinder), attest_statement(kinder), kinder.content()), trusted
    )
    assert found.recomputed is False
    assert found.columns["pvalue"] == 0.4


@pytest.mark.parametrize(
    "changed",
    [
        {"verdict": "not_refuted"},
        {"verdict": "doubtful"},
        {"pvalue": 1e-3},
        {"premises_pvalue": 0.2},
        {"log_evalue": 9.0},
        {"log_evalue": None},
    ],
)
def test_a_conclusion_that_does_not_follow_is_said(
    changed: dict[str, Any], signer: Signer, trusted: list[SSlibKey]
) -> None:
    made = statement(0, evidence=20000, **changed)
    bundle = make_bundle([made.content()], made.statement_id, signer, time=NOW)
    assert verified(bundle, trusted).recomputed is False


def test_figures_of_another_method_are_not_computed_again(
    bundle: bytes, trusted: list[SSlibKey]
) -> None:
    assert verified(bundle, trusted, "0").recomputed is None


def test_a_wrong_key_is_said(bundle: bytes, keys: dict[str, tuple[Signer, SSlibKey]]) -> None:
    with pytest.raises(UntrustedSignatureError) as refused:
        verified(bundle, [keys["new"][1]])
    assert refused.value.what == "wrong_key"


def test_a_statement_expires_after_its_lifetime(bundle: bytes, trusted: list[SSlibKey]) -> None:
    found = verified(bundle, trusted)
    end = STATEMENTS[3].published_at + LIFETIME
    assert found.expires_at == end
    assert not found.expired(end - dt.timedelta(seconds=1))
    assert found.expired(end)
    assert not found.expired(STATEMENTS[3].published_at)
    assert found.expired(STATEMENTS[3].published_at - dt.timedelta(days=2))


def test_a_new_key_signs_new_heads_and_old_bundles_verify_with_the_old_one(
    bundle: bytes, keys: dict[str, tuple[Signer, SSlibKey]]
) -> None:
    (_, old), (new_signer, new) = keys["old"], keys["new"]
    more = [*CONTENTS, statement(7).content()]
    rotated = make_bundle(
        more,
        statement(7).statement_id,
        new_signer,
        time=NOW + dt.timedelta(days=1),
        earlier=read_bundle(bundle).head,
        trusted=[old],
    )
    assert verified(bundle, [old]).head.size == 7
    assert verified(bundle, [new, old]).head.size == 7
    found = verified(rotated, [new, old])
    assert (found.earlier.size, found.head.size) == (7, 8)
    for keys_ in ([old], [new]):
        with pytest.raises(UntrustedSignatureError):
            verified(rotated, keys_)


def test_a_log_that_did_not_only_grow_is_not_signed(
    bundle: bytes, signer: Signer, trusted: list[SSlibKey]
) -> None:
    head = read_bundle(bundle).head
    wanted = STATEMENTS[3].statement_id
    for contents in (
        CONTENTS[:-1],
        [*CONTENTS[1:], statement(8).content()],
        [CONTENTS[1], CONTENTS[0], *CONTENTS[2:]],
        [CONTENTS[0].replace("not_refuted", "violated"), *CONTENTS[1:]],
    ):
        with pytest.raises(TerminalError, match="statements' table"):
            make_bundle(contents, wanted, signer, time=NOW, earlier=head, trusted=trusted)


def test_a_statement_that_the_log_lacks_is_said(signer: Signer) -> None:
    with pytest.raises(InvalidInputError, match="the log has no such statement"):
        make_bundle(CONTENTS, "0" * 32, signer, time=NOW)


@pytest.mark.parametrize("name", ["version-1", "version-1-refuted"])
def test_bundles_of_earlier_versions_verify_for_ever(name: str) -> None:
    """Written on 2026-11-27. Their private key was not kept: never make them anew."""
    trusted = [read_public_key(FIXTURES / "version-1.pub")]
    data = (FIXTURES / f"{name}.json").read_bytes()
    found = verified(data, trusted)
    refuted = name.endswith("refuted")
    assert found.result == ("FAILED" if refuted else "PASSED")
    assert found.columns["verdict"] == ("violated" if refuted else "not_refuted")
    assert found.expires_at == dt.datetime(2027, 1, 31, 4, 32 if refuted else 30, tzinfo=dt.UTC)
    assert not found.expired(dt.datetime(2027, 1, 31, tzinfo=dt.UTC))
    assert found.recomputed in {True, None}
    assert (found.earlier is None) != refuted


@pytest.mark.parametrize(("alarm", "result"), [(False, "PASSED"), (True, "FAILED")])
def test_an_answer_of_a_test_over_nights_is_handed_over_like_a_statement(
    signer: Signer, trusted: list[SSlibKey], alarm: bool, result: str
) -> None:
    made = night(2, alarm=alarm)
    contents = [*CONTENTS[:2], made.content(), *CONTENTS[3:]]
    found = verified(make_bundle(contents, made.statement_id, signer, time=NOW), trusted)
    assert found.columns == json.loads(made.content())
    assert (found.result, found.index, found.recomputed) == (result, 2, True)
    assert verified_with_another_version(contents, made.statement_id, signer, trusted) is None


def verified_with_another_version(
    contents: list[str], statement_id: str, signer: Signer, trusted: list[SSlibKey]
) -> bool | None:
    data = make_bundle(contents, statement_id, signer, time=NOW)
    recomputed: bool | None = verified(data, trusted, "0").recomputed
    return recomputed


@pytest.mark.parametrize(
    "forged",
    [
        {"verdict": PublicVerdict.VIOLATED},
        {"alarm": True},
        {"threshold": 1},
        {"threshold": None},
        {"premises_figure": 3},
        {"premises_pvalue": 0.5},
        {"test_night": 31},
        {"test_night": 0},
        {"test_nights": 7},
        {"significance": 0.01},
    ],
)
def test_a_signed_answer_whose_parts_do_not_fit_is_different(
    signer: Signer, trusted: list[SSlibKey], forged: dict[str, Any]
) -> None:
    made = night(2).model_copy(update=forged)
    found = verified(make_bundle([made.content()], made.statement_id, signer, time=NOW), trusted)
    assert found.recomputed is False


def test_an_answer_is_no_statement_and_the_reverse(
    signer: Signer, trusted: list[SSlibKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The type of the predicate is held against its columns."""
    monkeypatch.setattr("workers.evidence.attestation.NIGHT_TYPE", "urn:uuid:0#label-statement/v1")
    monkeypatch.setattr("workers.evidence.bundle.NIGHT_TYPE", "urn:uuid:0#label-statement/v1")
    made = night(2)
    data = make_bundle([made.content()], made.statement_id, signer, time=NOW)
    monkeypatch.undo()
    with pytest.raises(UntrustedSignatureError, match="is of type"):
        verified(data, trusted)


def signed(signer: Signer, statement_of: Any, number: int = 2) -> bytes:
    """Return a bundle with what `statement_of` makes of its statement's attestation, signed."""
    made = json.loads(make_bundle(CONTENTS, STATEMENTS[number].statement_id, signer, time=NOW))
    payload = statement_of(json.loads(attest_statement(STATEMENTS[number])))
    envelope = sign_payload(payload, "application/vnd.in-toto+json", signer)
    made["attestations"][1] = envelope.model_dump(mode="json")
    return canonical_json(made) + b"\n"


def test_a_signer_extends_no_lifetime(signer: Signer, trusted: list[SSlibKey]) -> None:
    def later(found: dict[str, Any]) -> bytes:
        found["predicate"]["expires_at"] = "9999-12-30T00:00:00+00:00"
        return canonical_json(found)

    with pytest.raises(UntrustedSignatureError, match="more than 90 days after its publication"):
        verified(signed(signer, later), trusted)


@pytest.mark.parametrize("words", [{"conclusion": "The model is safe."}, None, 5, []])
def test_words_follow_from_figures_whatever_was_signed(
    signer: Signer, trusted: list[SSlibKey], words: Any
) -> None:
    def said(found: dict[str, Any]) -> bytes:
        found["predicate"]["words"] = words
        return canonical_json(found)

    expected = json.loads(attest_statement(STATEMENTS[2]))["predicate"]["words"]
    assert verified(signed(signer, said), trusted).words == expected


@pytest.mark.parametrize("payload", [b"[" * 100_000, b"[]", b"{", b'{"a":' + b"9" * 5000 + b"}"])
def test_a_signed_payload_that_is_no_statement_is_said_to_be_so(
    signer: Signer, trusted: list[SSlibKey], payload: bytes
) -> None:
    with pytest.raises(UntrustedSignatureError, match="is no in-toto statement"):
        verified(signed(signer, lambda _: payload), trusted)
