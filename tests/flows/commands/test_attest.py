"""`privaudit attest`, and `privaudit verify --bundle` in a folder without settings."""

import base64
import datetime as dt
import json
import pathlib
import shutil
import subprocess

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.flows.commands.conftest import NOW, publish
from tests.flows.conftest import Command
from tests.support.lake import DAY, write_settings


@pytest.fixture
def elsewhere(tmp_path: pathlib.Path, project: pathlib.Path, privaudit: Command) -> pathlib.Path:
    """Return a folder with a bundle and a public key, and nothing else."""
    answer = privaudit("attest", "model-0", "2026-11-01", "--key", "evidence.pem")
    assert answer.code == 0, answer.err
    folder = tmp_path / "auditor"
    folder.mkdir()
    for name in ("model-0-2026-11-01.bundle.json", "evidence.pem.pub"):
        (project / name).rename(folder / name)
    return folder


BUNDLE = "model-0-2026-11-01.bundle.json"


def verify(privaudit: Command, *more: str) -> tuple[int, str]:
    answer = privaudit("verify", "--bundle", BUNDLE, "--trust", "evidence.pem.pub", *more)
    return answer.code, answer.out + answer.err


def test_a_bundle_is_verified_where_there_is_nothing_else(
    elsewhere: pathlib.Path, privaudit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(elsewhere)
    code, said = verify(privaudit)
    assert code == 0, said
    assert said.startswith("verified: The bundle is signed by a trusted key and unchanged.")
    for word in (
        "model-0 on 2026-11-01: PASSED",
        "statement 1 of 3",
        "they follow from the signed",
    ):
        assert word in said
    code, said = verify(privaudit, "--json")
    found = json.loads(said)
    assert (code, found["finding"], found["result"], found["recomputed"]) == (
        0, "verified", "PASSED", True,
    )  # fmt: skip
    assert found["log"]["size"] == 3
    assert found["statement"]["model"] == "model-0"
    assert {path.name for path in elsewhere.iterdir()} == {BUNDLE, "evidence.pem.pub"}


def test_a_refuted_declaration_is_attested_as_failed(
    project: pathlib.Path, privaudit: Command
) -> None:
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


def test_altered_expired_and_foreign_bundles_are_said(
    elsewhere: pathlib.Path, privaudit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(elsewhere)
    code, said = verify(privaudit, "--at", str(NOW.date() + dt.timedelta(days=91)))
    assert code == 2
    assert "expired: The bundle is signed and unchanged, but its statement expired on" in said
    assert privaudit("attest-key", "other").code == 0
    answer = privaudit("verify", "--bundle", BUNDLE, "--trust", "other.pub")
    assert answer.code == 1
    assert "wrong_key: The signature of an attestation names" in answer.out
    both = ("--trust", "other.pub", "--trust", "evidence.pem.pub")
    assert privaudit("verify", "--bundle", BUNDLE, *both).code == 0
    answer = privaudit("verify", "--bundle", BUNDLE, "--trust", "absent.pub")
    assert answer.code == 3
    assert "The public key absent.pub cannot be read (No such file or directory)" in answer.err
    changed = bytearray((elsewhere / BUNDLE).read_bytes())
    changed[2000] ^= 1
    (elsewhere / BUNDLE).write_bytes(changed)
    code, said = verify(privaudit)
    assert code == 1
    assert said.startswith("altered: ")
    code, said = verify(privaudit, "--json")
    assert (code, json.loads(said)["finding"]) == (1, "altered")


def test_foreign_key_ids_cannot_reach_the_terminal(
    elsewhere: pathlib.Path, privaudit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(elsewhere)
    bundle = json.loads((elsewhere / BUNDLE).read_text(encoding="utf-8"))
    bundle["attestations"][0]["signatures"][0]["keyid"] = "\x1b[2J[red]verified"
    text = json.dumps(bundle, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    (elsewhere / BUNDLE).write_text(text + "\n", encoding="utf-8")
    code, said = verify(privaudit)
    assert code == 1
    assert "\x1b" not in said
    assert said.startswith("wrong_key: ")


def test_a_log_that_grew_is_proven_and_one_that_was_cut_is_not_signed(
    project: pathlib.Path, privaudit: Command
) -> None:
    day = "2026-11-01"
    assert privaudit("attest", "model-0", day, "--key", "evidence.pem", "--out", "a").code == 0
    assert privaudit("attest-key", "new.pem").code == 0
    publish(project, 3)
    since = ("attest", "model-3", day, "--key", "new.pem", "--out", "b", "--since", "a")
    answer = privaudit(*since)
    assert answer.code == 3
    assert "give --trust the public key of the signer" in answer.err
    assert privaudit(*since, "--trust", "evidence.pem.pub").code == 0
    both = ("--trust", "evidence.pem.pub", "--trust", "new.pem.pub")
    answer = privaudit("verify", "--bundle", "b", *both)
    assert answer.code == 0, answer.err
    assert "the log has only grown since" in answer.out
    assert "when it had 3 statements" in answer.out
    answer = privaudit("verify", "--bundle", "a", "--trust", "evidence.pem.pub")
    assert answer.code == 0
    (project / "statements").rename(project / "kept")
    publish(project, 0, 1)
    answer = privaudit("attest", "model-0", day, "--key", "new.pem", "--since", "b")
    assert answer.code == 3
    assert "its end was cut off" in answer.err


def test_a_log_is_signed_while_it_only_grows_and_what_happened_is_named(
    project: pathlib.Path, privaudit: Command
) -> None:
    sign = ("attest-log", "log", "--key", "evidence.pem")
    answer = privaudit(*sign)
    assert answer.code == 0, answer.err
    assert answer.out.startswith("log: 3 statements, 3 of them new, root ")
    publish(project, 3)
    assert "4 statements, 1 of them new" in privaudit(*sign).out
    kept = (project / "log").read_bytes()
    (project / "statements").rename(project / "kept")
    for order, said in (
        ((0, 1, 3), ["Statement 3 of the log: removed."]),
        ((0, 1, 2), ["Statement 4 of the log: cut off the end."]),
        ((0, 1, 4, 3), ["Statement 3 of the log: changed."]),
        ((0, 4, 1, 2, 3), ["Statement 2 of the log: inserted."]),
        ((1, 0, 2, 3),
         ["Statement 1 of the log: reordered.", "Statement 2 of the log: reordered."]),
    ):  # fmt: skip
        publish(project, *order)
        answer = privaudit(*sign)
        assert (answer.code, answer.out.splitlines()) == (1, said)
        assert "statements' table" in answer.err
        assert (project / "log").read_bytes() == kept
        shutil.rmtree(project / "statements")


def test_an_entry_that_is_no_statement_is_named_where_it_was_known_and_not_signed_where_new(
    project: pathlib.Path, privaudit: Command
) -> None:
    sign = ("attest-log", "log", "--key", "evidence.pem")
    assert privaudit(*sign).code == 0
    kept = (project / "log").read_bytes()
    table = deltalake.DeltaTable(str(project / "statements" / "statements"))
    row = table.to_pyarrow_table().filter(pc.field("position") == 1)
    row = row.set_column(5, "content", pa.array(["figures: 12"]))
    deltalake.write_deltalake(table, row.set_column(0, "position", pa.array([3])), mode="append")
    answer = privaudit(*sign)
    assert answer.code == 3
    assert "'figures: 12', which is no statement" in answer.err
    assert "restore the table from a copy" in answer.err
    assert (project / "log").read_bytes() == kept
    answer = privaudit("attest", "model-0", "2026-11-01", "--key", "evidence.pem")
    assert answer.code == 3
    assert "which is no statement" in answer.err
    assert not (project / BUNDLE).exists()
    rows = table.to_pyarrow_table().filter(pc.field("position") != 1)
    changed = pa.concat_tables([rows, row.cast(rows.schema)])
    shutil.rmtree(project / "statements" / "statements")
    deltalake.write_deltalake(project / "statements" / "statements", changed)
    answer = privaudit(*sign)
    assert (answer.code, answer.out) == (1, "Statement 2 of the log: changed.\n")


def test_a_log_by_another_key_or_with_other_entries_is_refused(
    project: pathlib.Path, privaudit: Command
) -> None:
    assert privaudit("attest-log", "log", "--key", "evidence.pem").code == 0
    assert privaudit("attest-key", "new.pem").code == 0
    sign = ("attest-log", "log", "--key", "new.pem")
    answer = privaudit(*sign)
    assert answer.code == 3
    assert "give --trust" in answer.err
    assert privaudit(*sign, "--trust", "evidence.pem.pub").code == 0
    assert privaudit(*sign).code == 0
    found = json.loads((project / "log").read_bytes())
    for leaves in (found["leaves"][:-1], [*found["leaves"], "0" * 64], ["0" * 64]):
        (project / "log").write_text(json.dumps(found | {"leaves": leaves}), encoding="utf-8")
        answer = privaudit(*sign)
        assert answer.code == 3
        assert "The entries of the log's file are not those of its signed head" in answer.err
    (project / "log").write_text("{}", encoding="utf-8")
    assert "The file is no log of version 1" in privaudit(*sign).err


def test_what_lacks_is_said_in_a_sentence(project: pathlib.Path, privaudit: Command) -> None:
    day = "2026-11-01"
    for arguments, sentence in (
        (("attest", "model-9", day, "--key", "evidence.pem"),
         "No statement about model-9 on 2026-11-01 was published: run privaudit publish model-9"),
        (("attest", "model-0", day, "--key", "absent.pem"),
         "The private key absent.pem cannot be read"),
        (("attest", "model-0", day, "--key", "awskms:alias/x"), "give --public FILE"),
        (("attest", "model-0", day, "--key", "evidence.pem", "--out", "no/folder/x"),
         "no/folder/x cannot be written"),
        (("attest", "model-0", day, "--key", "evidence.pem", "--since", "absent"),
         "privaudit: absent cannot be read"),
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


def test_an_old_statement_is_signed_with_a_warning(
    tmp_path: pathlib.Path, privaudit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_settings(tmp_path, ["model-0"], more='[publication]\nstatements = "statements"\n')
    publish(tmp_path, 0, published_at=NOW - dt.timedelta(days=100))
    privaudit("attest-key", "evidence.pem")
    answer = privaudit("attest", "model-0", "2026-11-01", "--key", "evidence.pem")
    assert answer.code == 0
    assert "The statement expired on" in answer.err


def test_the_private_key_is_in_no_output(project: pathlib.Path, privaudit: Command) -> None:
    secret = (project / "evidence.pem").read_text(encoding="ascii").splitlines()[1]
    raw = base64.b64decode(secret)[-32:]
    shown = {
        secret.encode(),
        raw,
        raw.hex().encode(),
        base64.b64encode(raw).rstrip(b"="),
        secret[-40:].encode(),
    }
    said = b""
    for arguments in (
        ("attest", "model-0", "2026-11-01", "--key", "evidence.pem"),
        ("attest", "model-0", "2026-11-01", "--key", secret),
        ("attest", "model-0", "2026-11-01", "--key", f"-----BEGIN PRIVATE KEY-----\n{secret}\n"),
        ("attest-log", "log", "--key", "evidence.pem"),
        ("--debug", "attest", "model-9", "2026-11-01", "--key", "evidence.pem"),
        ("--debug", "verify", "--bundle", BUNDLE, "--trust", "evidence.pem"),
        ("verify", "--bundle", BUNDLE, "--trust", "evidence.pem.pub", "--json"),
        ("verify", "--bundle", "evidence.pem", "--trust", "evidence.pem.pub"),
        ("attest", "model-0", "2026-11-01", "--key", "evidence.pem", "--since", "evidence.pem"),
    ):
        answer = privaudit(*arguments)
        said += (answer.out + answer.err).encode()
    files = [path for path in project.rglob("*") if path.is_file() and path.name != "evidence.pem"]
    assert len(files) > 3
    for path in files:
        said += path.read_bytes()
    assert not [each for each in shown if each in said]
    assert (project / "evidence.pem").stat().st_mode & 0o777 == 0o600


def test_openssl_verifies_every_signature_of_a_bundle(
    elsewhere: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """As docs/evidence/bundle.md says."""
    bundle = json.loads((elsewhere / BUNDLE).read_bytes())
    for envelope in (*bundle["attestations"], bundle["head"]):
        payload = base64.b64decode(envelope["payload"])
        kind = envelope["payloadType"]
        pae = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
        (tmp_path / "pae").write_bytes(pae)
        (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
        checked = subprocess.run(
            ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", elsewhere / "evidence.pem.pub",
             "-rawin", "-in", tmp_path / "pae", "-sigfile", tmp_path / "sig"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "Signature Verified Successfully" in checked.stdout


def test_a_bundle_is_drawn_only_if_it_verifies(
    elsewhere: pathlib.Path, privaudit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(elsewhere)
    answer = privaudit("attest-page", BUNDLE, "--trust", "evidence.pem.pub")
    assert answer.code == 0, answer.err
    assert answer.out == "Wrote model-0-2026-11-01.bundle.pdf.\n"
    assert (elsewhere / "model-0-2026-11-01.bundle.pdf").read_bytes().startswith(b"%PDF")
    (elsewhere / BUNDLE).write_bytes(
        (elsewhere / BUNDLE).read_bytes().replace(b'"index":0', b'"index":1')
    )
    answer = privaudit("attest-page", BUNDLE, "--trust", "evidence.pem.pub", "--out", "x.pdf")
    assert answer.code == 3
    assert "The parts of the bundle do not belong together" in answer.err
    assert not (elsewhere / "x.pdf").exists()


@pytest.mark.slow
def test_an_audits_own_statement_is_attested_and_verified(
    folder: pathlib.Path, privaudit: Command
) -> None:
    write_settings(
        folder,
        ["good"],
        more='[publication]\nstatements = "statements"\nkey_file = "publication.key"\n',
    )
    assert privaudit("publication-key", "publication.key").code == 0
    answer = privaudit("run", "--model", "good", "--day", str(DAY))
    assert answer.code in {0, 2}, answer.err
    assert privaudit("attest-key", "evidence.pem").code == 0
    answer = privaudit("attest", "good", str(DAY), "--key", "evidence.pem", "--out", "b")
    assert answer.code == 0, answer.err
    for used in ("lake", "warehouse", "statements", "privaudit.toml"):
        (folder / used).rename(folder / f"{used}.away")
    answer = privaudit("verify", "--bundle", "b", "--trust", "evidence.pem.pub", "--json")
    assert answer.code == 0, answer.out
    found = json.loads(answer.out)
    assert (found["finding"], found["recomputed"]) == ("verified", True)
    assert found["statement"]["model"] == "good"
