"""`privaudit attest`, and `privaudit verify --bundle` in a folder without settings."""

import base64
import datetime as dt
import json
import re
import shutil
import subprocess

import pytest

from tests.flows.commands.conftest import NOW, publish
from tests.support.lake import DAY, write_settings
from tests.support.statements import statement
from tests.support.warehouse import evaluated, failed
from workers.evidence.attestation import make_bundle, read_private_key
from workers.plain_files import make_key
from workers.warehouse.store import Warehouse


@pytest.fixture
def elsewhere(tmp_path, project, privaudit):
    """Return a folder with a bundle and a public key, and nothing else."""
    answer = privaudit("attest", "model-0", "2026-11-01", "--key", "evidence.pem")
    assert answer.code == 0, answer.err
    folder = tmp_path / "auditor"
    folder.mkdir()
    for name in ("model-0-2026-11-01.bundle.json", "evidence.pem.pub"):
        (project / name).rename(folder / name)
    return folder


BUNDLE = "model-0-2026-11-01.bundle.json"


def verify(privaudit, *more):
    answer = privaudit("verify", "--bundle", BUNDLE, "--trust", "evidence.pem.pub", *more)
    return answer.code, answer.out + answer.err


def test_a_bundle_is_verified_where_there_is_nothing_else(elsewhere, privaudit, monkeypatch):
    monkeypatch.chdir(elsewhere)
    code, said = verify(privaudit)
    assert code == 0, said
    assert said.startswith("verified: The bundle is signed by a trusted key and unchanged.")
    for word in (
        "public statement: model-0 on 2026-11-01: PASSED",
        "they follow from the signed",
        "assumed: The holdout was drawn",
        "not tested: Another epsilon",
    ):
        assert word in said
    code, said = verify(privaudit, "--json")
    found = json.loads(said)
    assert (code, found["finding"], found["result"], found["recomputed"]) == (
        0, "verified", "PASSED", True,
    )  # fmt: skip
    assert found["statement"]["model"] == "model-0"
    assert {path.name for path in elsewhere.iterdir()} == {BUNDLE, "evidence.pem.pub"}


def test_a_refuted_declaration_is_attested_as_failed(project, privaudit):
    answer = privaudit(
        "attest", "model-2", "2026-11-01", "--key", "evidence.pem", "--out", "two.json"
    )
    assert answer.code == 0, answer.err
    assert answer.out.startswith("two.json: ")
    assert "is refuted" in answer.out
    answer = privaudit("verify", "--bundle", "two.json", "--trust", "evidence.pem.pub", "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["result"] == "FAILED"
    assert not [path for path in project.iterdir() if path.name.endswith(".part")]


def with_foreign_key_id(content):
    """Return the bundle with a key's name that would clear the terminal."""
    (name,) = re.findall(rb'"keyid":"(.*?)"', content)
    return content.replace(name, rb"\u001b[2J[red]verified")


def unfounded(_):
    """Return a bundle whose verdict does not follow from its figures."""
    made = statement(evidence=20000, pvalue=0.5, verdict="not_refuted", published_at=NOW)
    return make_bundle(made, read_private_key("evidence.pem"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda bundle: bundle.replace(b"e", b"f", 1), "altered: "),
        (lambda _: b"{" * (1 << 21), "altered: The file is no bundle"),
        (with_foreign_key_id, "wrong_key: "),
        (unfounded, "different: "),
    ],
)
def test_a_bundle_that_proves_nothing_is_said_with_exit_code_1(project, privaudit, change, said):
    asked = ("attest", "model-0", "2026-11-01", "--key", "evidence.pem", "--out", BUNDLE)
    assert privaudit(*asked).code == 0
    (project / BUNDLE).write_bytes(change((project / BUNDLE).read_bytes()))
    code, told = verify(privaudit)
    assert (code, told.startswith(said), "\x1b" in told) == (1, True, False)
    code, told = verify(privaudit, "--json")
    assert (code, json.loads(told)["finding"]) == (1, said.partition(":")[0])


def test_a_key_that_is_not_trusted_absent_or_no_file_is_said(elsewhere, privaudit, monkeypatch):
    monkeypatch.chdir(elsewhere)
    assert privaudit("attest-key", "other").code == 0
    answer = privaudit("verify", "--bundle", BUNDLE, "--trust", "other.pub")
    assert answer.code == 1
    assert "wrong_key: The signature of the attestation names" in answer.out
    both = ("--trust", "other.pub", "--trust", "evidence.pem.pub")
    assert privaudit("verify", "--bundle", BUNDLE, *both).code == 0
    answer = privaudit("verify", "--bundle", BUNDLE, "--trust", "absent.pub")
    assert answer.code == 3
    assert "The public key absent.pub cannot be read (No such file or directory)" in answer.err
    answer = privaudit("verify", "--bundle", ".", "--trust", "evidence.pem.pub")
    assert (answer.code, "Is a directory" in answer.err) == (3, True)


def test_what_lacks_is_said_in_a_sentence(project, privaudit):
    day = "2026-11-01"
    for arguments, sentence in (
        (("attest", "model-9", day, "--key", "evidence.pem"),
         "No statement about model-9 on 2026-11-01 was published: run privaudit publish."),
        (("attest", "model-0", day, "--key", "absent.pem"),
         "The private key absent.pem cannot be read"),
        (("attest", "model-9", day, "--exact", "--key", "evidence.pem"),
         "There is no audit of model-9 for 2026-11-01"),
        (("attest", "model-0", day, "--key", "evidence.pem", "--out", "no/folder/x"),
         "no/folder/x cannot be written"),
        (("verify", "--bundle", "absent", "--trust", "evidence.pem.pub"),
         "The bundle absent cannot be read"),
        (("attest-key", "evidence.pem"), "evidence.pem exists already"),
    ):  # fmt: skip
        answer = privaudit(*arguments)
        assert answer.code == 3
        assert sentence in answer.err
    for arguments in (
        ("verify", "--bundle", "x"),
        ("verify", "--trust", "x", "--stored"),
        ("verify", "--bundle", "x", "--trust", "x", "--stored"),
    ):
        assert privaudit(*arguments).code == 64
    write_settings(project, ["model-0"])
    answer = privaudit("attest", "model-0", day, "--key", "evidence.pem")
    assert answer.code == 3
    assert "The settings have no [publication]" in answer.err


def test_an_old_statement_is_signed_with_a_warning(tmp_path, privaudit, monkeypatch):
    monkeypatch.chdir(tmp_path)
    more = '[publication]\nstatements = "statements"\nkey_file = "key"\n'
    write_settings(tmp_path, ["model-0"], more=more)
    make_key(tmp_path / "key")
    publish(tmp_path, 0, published_at=NOW - dt.timedelta(days=100))
    privaudit("attest-key", "evidence.pem")
    answer = privaudit("attest", "model-0", "2026-11-01", "--key", "evidence.pem")
    assert answer.code == 0
    assert "It expired on" in answer.err
    code, said = verify(privaudit)
    assert code == 2
    assert "expired: The bundle is signed and unchanged, but it expired on" in said


def test_the_private_key_is_in_no_output(project, privaudit):
    secret = (project / "evidence.pem").read_text(encoding="ascii").splitlines()[1]
    raw = base64.b64decode(secret)[-32:]
    damaged = f"-----BEGIN {'PRIVATE'} KEY-----\n{secret[:-4]}\n"
    (project / "damaged.pem").write_text(damaged, encoding="ascii")
    (project / "damaged.pem").chmod(0o600)
    shown = {
        secret.encode(),
        raw,
        raw.hex().encode(),
        base64.b64encode(raw).rstrip(b"="),
        secret[:20].encode(),
        secret[-40:].encode(),
    }
    said = b""
    for arguments in (
        ("attest", "model-0", "2026-11-01", "--key", "evidence.pem"),
        ("attest", "model-0", "2026-11-01", "--key", secret),
        ("attest", "model-0", "2026-11-01", "--key", f"-----BEGIN PRIVATE KEY-----\n{secret}\n"),
        ("attest", "model-0", "2026-11-01", "--key", "damaged.pem"),
        ("attest-key", "evidence.pem"),
        ("--debug", "attest", "model-9", "2026-11-01", "--key", "evidence.pem"),
        ("--debug", "verify", "--bundle", BUNDLE, "--trust", "evidence.pem"),
        ("verify", "--bundle", BUNDLE, "--trust", "evidence.pem.pub", "--json"),
        ("verify", "--bundle", "evidence.pem", "--trust", "evidence.pem.pub"),
    ):
        answer = privaudit(*arguments)
        said += (answer.out + answer.err).encode()
    keys = {"evidence.pem", "damaged.pem"}
    files = [path for path in project.rglob("*") if path.is_file() and path.name not in keys]
    assert len(files) > 3
    for path in files:
        said += path.read_bytes()
    assert not [each for each in shown if each in said]
    assert (project / "evidence.pem").stat().st_mode & 0o777 == 0o600


def test_openssl_verifies_a_bundle(elsewhere, tmp_path):
    """As docs/evidence/bundle.md says."""
    bundle = json.loads((elsewhere / BUNDLE).read_bytes())
    payload = base64.b64decode(bundle["payload"])
    kind = bundle["payloadType"]
    pae = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    (tmp_path / "pae").write_bytes(pae)
    (tmp_path / "sig").write_bytes(base64.b64decode(bundle["signatures"][0]["sig"]))
    checked = subprocess.run(
        ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", elsewhere / "evidence.pem.pub",
         "-rawin", "-in", tmp_path / "pae", "-sigfile", tmp_path / "sig"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "Signature Verified Successfully" in checked.stdout


@pytest.mark.slow
def test_an_audits_own_statement_and_record_are_attested_and_verified(folder, privaudit):
    """Neither lake nor warehouse nor settings is there when they are verified."""
    more = '[publication]\nstatements = "statements"\nkey_file = "publication.key"\n'
    write_settings(folder, ["good"], more=more)
    assert privaudit("make-key", "publication.key").code == 0
    answer = privaudit("run", "--model", "good", "--day", str(DAY))
    assert answer.code in {0, 2}, answer.err
    answer = privaudit("publish")
    assert answer.code == 0, answer.err
    assert f"{DAY} good: The declared" in answer.out
    assert privaudit("attest-key", "evidence.pem").code == 0
    sign = ("attest", "good", str(DAY), "--key", "evidence.pem", "--out")
    assert privaudit(*sign, "public").code == 0
    answer = privaudit(*sign, "exact", "--exact")
    assert "who may read results about labels" in answer.words
    for used in ("lake", "warehouse", "statements", "privaudit.toml"):
        (folder / used).rename(folder / f"{used}.away")
    for bundle, kind, recomputed in (("public", "statement", True), ("exact", "record", None)):
        verify = ("verify", "--bundle", bundle, "--trust", "evidence.pem.pub")
        answer = privaudit(*verify, "--json")
        assert answer.code == 0, answer.out
        found = json.loads(answer.out)
        assert (found["finding"], found["recomputed"]) == ("verified", recomputed)
        made = found[kind] if kind == "statement" else found[kind]["audit"]
        assert (made["model"], made["day"]) == ("good", str(DAY))
        assert kind in privaudit(*verify).out


@pytest.fixture
def audited(tmp_path, monkeypatch):
    """Return a folder with settings that have a policy, two audits of a day, and a failed one."""
    monkeypatch.chdir(tmp_path)
    write_settings(tmp_path, ["ads"], more="[policy]\nmax_epsilon = 0.5\nmax_age_days = 7\n")
    now = {"recorded_at": NOW - dt.timedelta(days=2), "dataset": "clicks", "neighbors": "replace"}
    records = [
        evaluated("ads", DAY, audit_id="a" * 32, **now | {"epsilon_lower": 0.0}),
        evaluated("feed", DAY, audit_id="b" * 32, **now | {"epsilon_declared": 2.0}),
        failed("ads", DAY - dt.timedelta(days=1), reason="<b>No labels."),
    ]
    Warehouse("warehouse").commit(records)
    return tmp_path


def shown(page):
    text = page.read_text(encoding="utf-8").split("</style>")[1]
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_an_audits_page_stands_alone_and_has_three_blocks(audited, privaudit, monkeypatch):
    monkeypatch.setenv("PATH", "")
    answer = privaudit("attest", "--page", "aaaa")
    assert answer.code == 0, answer.err
    page = audited / f"ads-{DAY}.html"
    told = f"{page.name}: no browser could print it here; print it to PDF from any."
    assert answer.out.strip() == told
    text = shown(page)
    assert "<a class" in page.read_text("utf-8")
    assert "statistics.html" not in page.read_text("utf-8")
    places = [text.index(part) for part in (
        "not refuted", "Measured proved 0.00 sees from 0.90", "Not refuted, and never proven",
        "at most 3.00, its ceiling", "trust self.", "Declared epsilon 0.5", "at most 1.65 to 1",
        "same labels ads, feed were audited on the same labels.", "Policy Accepted: ",
        "the last record is 2 days old (policy.max_age_days: at most 7)", "privaudit verify aaaa",
    )]  # fmt: skip
    assert places == sorted(places)
    assert privaudit("attest", "--page", "bbbb", "--out", "two.pdf").code == 0
    assert "Not accepted: the declared epsilon is 2 (policy.max_epsilon: at most 0.5)." in shown(
        audited / "two.html"
    )
    for wrong in (("ads",), ("--key", "k"), ("--exact",)):
        assert privaudit("attest", *wrong, "--page", "aaaa").code == 64
    assert privaudit("attest", "ads", str(DAY)).code == 64


def test_no_page_is_made_of_an_audit_that_does_not_count(audited, privaudit):
    Warehouse("warehouse").withdraw("a" * 32, "Another day's labels.")
    answer = privaudit("attest", "--page", "aaaa")
    assert (answer.code, list(audited.glob("*.html"))) == (3, [])
    assert "There is no page of audit aaaaaaaa. This audit was withdrawn: " in answer.words


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_an_audits_page_is_printed_on_one_sheet_where_a_browser_is(audited, privaudit):
    answer = privaudit("attest", "--page", "aaaa", "--out", "one.html")
    assert answer.out.strip() == "one.html and one.pdf"
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", (audited / "one.pdf").read_bytes())) == 1
