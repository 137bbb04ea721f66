import datetime as dt
import pathlib
import random
import shutil
import subprocess

import pytest
from securesystemslib.signer import Signer, SSlibKey

from privcore.exceptions import TerminalError
from tests.support.statements import PUBLISHED
from workers.evidence.envelope import (
    UntrustedSignatureError,
    canonical_json,
    make_key_pair,
    read_public_key,
    sign_payload,
    signer_for,
)
from workers.evidence.log_heads import (
    HEAD_TYPE,
    TamperedEntry,
    Tampering,
    bury,
    check_grown,
    find_tampering,
    read_head,
    read_log,
    read_tombstone,
    sign_head,
    tree_of,
    write_log,
)
from workers.evidence.merkle_log import MerkleTree, leaf_hash

ENTRIES = [f"statement {number}".encode() for number in range(11)]
LEAVES = [leaf_hash(entry) for entry in ENTRIES]


@pytest.fixture
def signer(tmp_path: pathlib.Path) -> Signer:
    make_key_pair(tmp_path / "log.pem")
    return signer_for(str(tmp_path / "log.pem"))


@pytest.fixture
def trusted(signer: Signer, tmp_path: pathlib.Path) -> list[SSlibKey]:
    assert signer.public_key
    return [read_public_key(tmp_path / "log.pem.pub")]


def test_a_head_is_read_as_it_was_signed(signer: Signer, trusted: list[SSlibKey]) -> None:
    zone = dt.timezone(dt.timedelta(hours=2))
    head = read_head(sign_head(MerkleTree(LEAVES), PUBLISHED.astimezone(zone), signer), trusted)
    assert (head.size, head.root) == (11, MerkleTree(LEAVES).root.hex())
    assert head.time == PUBLISHED
    assert head.time.utcoffset() == dt.timedelta(0)


def test_a_head_of_another_form_is_refused(signer: Signer, trusted: list[SSlibKey]) -> None:
    payload = canonical_json({"size": 3, "root": "0" * 64, "time": "2026-11-01", "more": 1})
    with pytest.raises(UntrustedSignatureError, match="another form than"):
        read_head(sign_payload(payload, HEAD_TYPE, signer), trusted)


def test_a_tombstone_is_no_head(signer: Signer, trusted: list[SSlibKey]) -> None:
    stone = bury(ENTRIES[0], "a" * 32, reason="asked for", time=PUBLISHED, signer=signer)
    with pytest.raises(UntrustedSignatureError, match="The type of the log's head"):
        read_head(stone, trusted)


def test_an_erased_statement_leaves_its_hash_and_the_root(
    signer: Signer, trusted: list[SSlibKey], tmp_path: pathlib.Path
) -> None:
    stone = bury(ENTRIES[4], "a" * 32, reason="court order", time=PUBLISHED, signer=signer)
    erased = [*ENTRIES[:4], stone, *ENTRIES[5:]]
    assert tree_of(erased, trusted).root == tree_of(ENTRIES, []).root
    said = read_tombstone(stone, trusted)
    assert (said.statement_id, said.reason, said.erased_at) == ("a" * 32, "court order", PUBLISHED)
    assert ENTRIES[4] not in canonical_json(stone.model_dump(mode="json"))
    other = read_public_key(make_key_pair(tmp_path / "other.pem"))
    with pytest.raises(UntrustedSignatureError):
        tree_of(erased, [other])


def test_a_log_that_grew_proves_it(signer: Signer, trusted: list[SSlibKey]) -> None:
    tree = MerkleTree(LEAVES)
    for size in range(len(LEAVES) + 1):
        head = read_head(sign_head(MerkleTree(LEAVES[:size]), PUBLISHED, signer), trusted)
        assert check_grown(head, tree) is not None


@pytest.mark.parametrize(
    ("later", "sentence"),
    [
        (LEAVES[:3] + LEAVES[4:] + [leaf_hash(b"new")] * 3, "removed, changed or reordered"),
        ([*LEAVES[:3], leaf_hash(b"x"), *LEAVES[4:]], "changed or reordered"),
        ([LEAVES[1], LEAVES[0], *LEAVES[2:]], "changed or reordered"),
        (LEAVES[:-1], "has 10 statements, and the head of 2026-11-02 04:30 UTC counts 11"),
        ([], "its end was cut off"),
    ],
)
def test_a_log_that_did_not_only_grow_is_refused(
    signer: Signer, trusted: list[SSlibKey], later: list[bytes], sentence: str
) -> None:
    head = read_head(sign_head(MerkleTree(LEAVES), PUBLISHED, signer), trusted)
    with pytest.raises(TerminalError, match=sentence):
        check_grown(head, MerkleTree(later))


def test_every_tampered_entry_is_named() -> None:
    new = [leaf_hash(bytes([number])) for number in range(3)]

    def found(later: list[bytes]) -> list[TamperedEntry]:
        return find_tampering(LEAVES, later)

    assert found(LEAVES) == found([*LEAVES, *new]) == find_tampering([], LEAVES) == []
    assert found(LEAVES[:3] + LEAVES[4:]) == [TamperedEntry(Tampering.REMOVED, 3)]
    assert found([*LEAVES[:3], new[0], *LEAVES[4:]]) == [TamperedEntry(Tampering.CHANGED, 3)]
    assert found([*LEAVES[:3], new[0], *LEAVES[3:]]) == [TamperedEntry(Tampering.INSERTED, 3)]
    assert found(LEAVES[:9]) == [TamperedEntry(Tampering.CUT, 9), TamperedEntry(Tampering.CUT, 10)]
    swapped = [LEAVES[1], LEAVES[0], *LEAVES[2:]]
    assert found(swapped) == [
        TamperedEntry(Tampering.REORDERED, 0),
        TamperedEntry(Tampering.REORDERED, 1),
    ]
    assert {each.what for each in found([])} == {Tampering.CUT}


def test_a_log_that_did_not_only_grow_is_always_found() -> None:
    random_ = random.Random(34)  # noqa: S311
    for _ in range(2000):
        later = [*LEAVES]
        for _ in range(random_.randrange(1, 4)):
            act = random_.randrange(4)
            place = random_.randrange(len(later) + 1)
            if act == 0:
                later.insert(place, random_.randbytes(32))
            elif act == 1:
                del later[place : place + 1]
            elif act == 2:
                later[place : place + 1] = [random_.randbytes(32)]
            else:
                random_.shuffle(later)
        assert (find_tampering(LEAVES, later) == []) == (later[: len(LEAVES)] == LEAVES)


def run_openssl(folder: pathlib.Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["openssl", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_a_logs_file_is_anchored_by_a_time_stamp(
    signer: Signer, trusted: list[SSlibKey], tmp_path: pathlib.Path
) -> None:
    """By the commands of docs/how-to/hand-over-evidence.md, with a service of our own."""
    tree = MerkleTree([leaf_hash(b"one"), leaf_hash(b"two")])
    log = tmp_path / "statements.log.json"
    log.write_bytes(write_log(tree, PUBLISHED, signer))
    (tmp_path / "tsa.cnf").write_text(
        "[tsa]\ndefault_tsa = own\n[own]\nserial = serial\ndefault_policy = 1.2.3.4.1\n"
        "digests = sha256\nsigner_digest = sha256\n"
    )
    (tmp_path / "serial").write_text("01\n")
    run_openssl(
        tmp_path, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "service.key",
        "-out", "service.pem", "-subj", "/CN=A stamping service",
        "-addext", "extendedKeyUsage=critical,timeStamping",
    )  # fmt: skip
    query = ("-data", log.name, "-sha256", "-cert", "-out", "log.tsq")
    assert run_openssl(tmp_path, "ts", "-query", *query).returncode == 0
    run_openssl(
        tmp_path, "ts", "-reply", "-config", "tsa.cnf", "-queryfile", "log.tsq",
        "-signer", "service.pem", "-inkey", "service.key", "-out", "log.tsr",
    )  # fmt: skip
    asked = ("ts", "-verify", "-data", log.name, "-in", "log.tsr", "-CAfile", "service.pem")
    assert run_openssl(tmp_path, *asked).returncode == 0
    assert read_log(log.read_bytes(), trusted)[0].size == 2
    log.write_bytes(write_log(tree, PUBLISHED + dt.timedelta(seconds=1), signer))
    assert run_openssl(tmp_path, *asked).returncode != 0
