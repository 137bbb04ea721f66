"""`privaudit verify --bundle` on bundles of version 1, in a folder with nothing else."""

import datetime as dt
import json
import pathlib
import shutil

import pytest

from flows.commands.verify_bundle import check_evidence
from privcore.exceptions import TerminalError
from tests.flows.conftest import Command
from tests.support.statements import statement
from workers.evidence.bundle import make_bundle
from workers.evidence.envelope import make_key_pair, signer_for

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures" / "bundles"
IN_TIME, LATE = "2026-12-01", "2027-02-01"
KEY = ("--trust", "version-1.pub")


@pytest.fixture
def bundles(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    for file in FIXTURES.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("bundles")
@pytest.mark.parametrize(
    ("name", "at", "code", "finding", "result"),
    [
        ("version-1.json", IN_TIME, 0, "verified", "PASSED"),
        ("version-1.json", LATE, 2, "expired", "PASSED"),
        ("version-1-refuted.json", IN_TIME, 0, "verified", "FAILED"),
        ("version-1-refuted.json", LATE, 2, "expired", "FAILED"),
    ],
)
def test_a_bundle_of_version_1(
    name: str, at: str, code: int, finding: str, result: str, privaudit: Command
) -> None:
    answer = privaudit("verify", "--bundle", name, *KEY, "--at", at)
    assert answer.code == code, answer.err
    assert answer.out.startswith(f"{finding}: The bundle is signed")
    assert f"{result}. " in answer.out
    assert answer.out.count("assumed: ") >= 1
    assert answer.out.count("not tested: ") >= 1
    answer = privaudit("verify", "--bundle", name, *KEY, "--at", at, "--json")
    found = json.loads(answer.out)
    assert (answer.code, found["finding"], found["result"]) == (code, finding, result)
    assert (found["earlier_log"] is None) == (name == "version-1.json")


def test_a_conclusion_that_does_not_follow_is_different(bundles: pathlib.Path) -> None:
    public = make_key_pair(bundles / "key")
    made = statement(evidence=20000, pvalue=0.5, verdict="not_refuted")
    data = make_bundle(
        [made.content()], made.statement_id, signer_for(str(bundles / "key")),
        time=made.published_at,
    )  # fmt: skip
    (bundles / "made.json").write_bytes(data)
    found = check_evidence(bundles / "made.json", [public], made.published_at)
    assert found.finding == "different"
    assert "its conclusion does not follow from its figures" in found.sentence
    assert found.bundle is not None


def test_what_is_no_bundle_is_altered(bundles: pathlib.Path, privaudit: Command) -> None:
    other = bundles / "other.json"
    for data in (b"", b"{}", bytes(range(256)), b"{" * (1 << 21)):
        other.write_bytes(data)
        answer = privaudit("verify", "--bundle", "other.json", *KEY)
        assert answer.code == 1
        assert answer.out.startswith("altered: The file is no bundle of version 1")
    with pytest.raises(TerminalError, match=r"cannot be read \(Is a directory\)"):
        check_evidence(bundles, [bundles / "version-1.pub"], dt.datetime.now(dt.UTC))
