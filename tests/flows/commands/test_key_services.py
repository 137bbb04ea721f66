"""Evidence signed by a key service: AWS KMS's protocol on loopback, and a PKCS#11 token.

The service keeps the private key, and privaudit's own commands sign and verify. OpenSSL verifies,
too. No test reaches a host outside.
"""

import base64
import json
import pathlib
import subprocess
import uuid
from collections.abc import Iterator

import boto3
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, utils
from moto.kms.utils import ECDSAPrivateKey, RSAPrivateKey

from tests.flows.commands.conftest import publish
from tests.flows.conftest import Command
from tests.support.lake import write_settings
from tests.support.object_store import led_to, object_store

DAY = "2026-11-01"
HASHES = {32: hashes.SHA256(), 48: hashes.SHA384()}
TOKENS = pathlib.Path("/usr/lib/softhsm/libsofthsm2.so")
needs_token = pytest.mark.skipif(not TOKENS.exists(), reason="needs Debian's softhsm2 and opensc")


@pytest.fixture
def project(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return a folder in which two statements are published, and stand in it."""
    write_settings(tmp_path, ["model-0"], more='[publication]\nstatements = "statements"\n')
    monkeypatch.chdir(tmp_path)
    publish(tmp_path, 0, 1)
    return tmp_path


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve KMS's protocol. AWS signs digests as they are; moto 5 would digest them once more."""
    monkeypatch.setattr(
        ECDSAPrivateKey,
        "sign",
        lambda key, digest, _: key.private_key.sign(
            digest, ec.ECDSA(utils.Prehashed(HASHES[len(digest)]))
        ),
    )
    monkeypatch.setattr(
        RSAPrivateKey,
        "sign",
        lambda key, digest, _: key.private_key.sign(
            digest,
            padding.PSS(padding.MGF1(HASHES[len(digest)]), padding.PSS.DIGEST_LENGTH),
            utils.Prehashed(HASHES[len(digest)]),
        ),
    )
    with object_store() as endpoint, led_to(endpoint, ("a-key-of-this-test", "a-secret")):
        yield endpoint


def key_of_service(kind: str, public: pathlib.Path) -> str:
    """Make a key in the service, write its public key, and return its URI."""
    alias = f"alias/{uuid.uuid4()}"
    client = boto3.client("kms")
    key = client.create_key(KeySpec=kind, KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"]
    client.create_alias(AliasName=alias, TargetKeyId=key)
    der = client.get_public_key(KeyId=key)["PublicKey"]
    subprocess.run(
        ["openssl", "pkey", "-pubin", "-inform", "DER", "-out", public], input=der, check=True
    )
    return f"awskms:{alias}"


def openssl_verifies(bundle: pathlib.Path, public: pathlib.Path, digest: str) -> bool:
    """Return whether OpenSSL verifies every ECDSA signature of a bundle."""
    found = json.loads(bundle.read_bytes())
    answers = []
    for envelope in (*found["attestations"], found["head"]):
        payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
        pae, sig = bundle.with_suffix(".pae"), bundle.with_suffix(".sig")
        pae.write_bytes(f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload)
        sig.write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
        checked = subprocess.run(
            ["openssl", "dgst", f"-{digest}", "-verify", public, "-signature", sig, pae],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        answers.append(checked.stdout.strip() == "Verified OK")
    return all(answers)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "digest"), [("ECC_NIST_P256", "sha256"), ("ECC_NIST_P384", "sha384")]
)
def test_a_key_of_a_service_signs_bundles_and_the_log(
    kind: str, digest: str, project: pathlib.Path, service: str, privaudit: Command
) -> None:
    del service
    key = ("--key", key_of_service(kind, project / "k.pub"), "--public", "k.pub")
    answer = privaudit("attest", "model-0", DAY, *key, "--out", "b")
    assert answer.code == 0, answer.err
    assert openssl_verifies(project / "b", project / "k.pub", digest)
    answer = privaudit("verify", "--bundle", "b", "--trust", "k.pub")
    assert answer.code == 0, answer.out
    assert answer.out.startswith("verified: ")
    publish(project, 2)
    answer = privaudit("attest", "model-2", DAY, *key, "--out", "c", "--since", "b")
    assert answer.code == 0, answer.err
    assert privaudit("verify", "--bundle", "c", "--trust", "k.pub").code == 0
    for new in (3, 0):
        answer = privaudit("attest-log", "log", *key)
        assert answer.out.startswith(f"log: 3 statements, {new} of them new"), answer.err
    changed = (project / "b").read_bytes().replace(b'"index":0', b'"index":1')
    (project / "b").write_bytes(changed)
    assert privaudit("verify", "--bundle", "b", "--trust", "k.pub").code == 1


@pytest.mark.slow
def test_an_rsa_key_of_a_service_signs_and_erases(
    project: pathlib.Path, service: str, privaudit: Command
) -> None:
    del service
    key = ("--key", key_of_service("RSA_3072", project / "k.pub"), "--public", "k.pub")
    assert privaudit("attest", "model-0", DAY, *key, "--out", "b").code == 0
    answer = privaudit("verify", "--bundle", "b", "--trust", "k.pub", "--json")
    found = json.loads(answer.out)
    assert (answer.code, found["finding"]) == (0, "verified")
    name = found["statement"]["statement_id"]
    answer = privaudit("erase-statement", name, "--reason", "Court order 7", *key)
    assert answer.code == 0, answer.err
    assert privaudit("attest-log", "log", *key).code == 0


def test_a_service_that_signs_with_another_key_writes_no_bundle(
    project: pathlib.Path, service: str, privaudit: Command
) -> None:
    """Its public key is that of another key of the same kind; a service does not look at it."""
    key_of_service("ECC_NIST_P256", project / "other.pub")
    uri = key_of_service("ECC_NIST_P256", project / "k.pub")
    for command in (("attest", "model-0", DAY, "--out", "b"), ("attest-log", "b")):
        answer = privaudit(*command, "--key", uri, "--public", "other.pub")
        assert answer.code == 3
        assert "signed with another key than that of --public" in answer.err
        assert not (project / "b").exists()
    absent = ("--key", "awskms:alias/absent", "--public", "k.pub")
    answer = privaudit("attest", "model-0", DAY, *absent)
    assert answer.code == 3
    assert "The key service did not sign (NotFoundException)" in answer.err
    with led_to(service.rpartition(":")[0] + ":9", ("a-key-of-this-test", "a-secret")):
        answer = privaudit("attest", "model-0", DAY, "--key", uri, "--public", "k.pub")
    assert answer.code == 3
    assert "The key service did not sign (EndpointConnectionError)" in answer.err
    assert "a-secret" not in answer.err


@pytest.fixture
def token(project: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Make a PKCS#11 token with a key on P-256, write its public key, and return that one's path.

    The library reads its settings once a process, so all tokens of these tests lie in one folder.
    """
    tokens = project / "tokens"
    tokens.mkdir()
    (project / "softhsm2.conf").write_text(f"directories.tokendir = {tokens}\n", encoding="utf-8")
    monkeypatch.setenv("SOFTHSM2_CONF", str(project / "softhsm2.conf"))
    monkeypatch.setenv("PYKCS11LIB", str(TOKENS))
    pin = ["--pin", "1234"]
    tool = ["pkcs11-tool", "--module", str(TOKENS), "--token-label", "evidence"]
    for command in (
        [
            "softhsm2-util",
            "--init-token",
            "--free",
            "--label",
            "evidence",
            "--so-pin",
            "5678",
            *pin,
        ],
        [*tool, *pin, "--keypairgen", "--key-type", "EC:prime256v1", "--id", "02"],
        [*tool, "--read-object", "--type", "pubkey", "--id", "02", "-o", str(project / "k.der")],
    ):
        subprocess.run(command, check=True, capture_output=True)
    subprocess.run(
        ["openssl", "pkey", "-pubin", "-inform", "DER", "-in", "k.der", "-out", "k.pub"],
        check=True, cwd=project,
    )  # fmt: skip
    return project / "k.pub"


@needs_token
def test_a_key_in_a_token_signs_with_its_pin(
    token: pathlib.Path, privaudit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pkcs11")
    key = ("--key", "hsm:2?label=evidence", "--public", "k.pub")
    answer = privaudit("attest", "model-0", DAY, *key, "--out", "b")
    assert answer.code == 3
    assert "A key of hsm: needs the PIN of its token: set PRIVAUDIT_HSM_PIN" in answer.err
    for pin, code in (("4321", 3), ("1234", 0)):
        monkeypatch.setenv("PRIVAUDIT_HSM_PIN", pin)
        answer = privaudit("attest", "model-0", DAY, *key, "--out", "b")
        assert answer.code == code, answer.err
        assert pin not in answer.err + answer.out
    assert openssl_verifies(token.with_name("b"), token, "sha256")
    answer = privaudit("verify", "--bundle", "b", "--trust", "k.pub")
    assert answer.code == 0, answer.out
    wrong = ("--key", "hsm:7?label=evidence", "--public", "k.pub")
    answer = privaudit("attest", "model-0", DAY, *wrong, "--out", "c")
    assert answer.code == 3
    assert "The key service did not sign (ValueError)" in answer.err
