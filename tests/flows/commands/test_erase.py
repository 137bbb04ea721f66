"""`privaudit erase-statement`: what is gone, what stays, and what nobody gains by it."""

import json
import pathlib
import shutil
import threading
from typing import Any

import deltalake
import polars as pl
import pytest
from securesystemslib.signer import Signer

import workers.publication.statement_store
from flows.commands.erase import _buried
from tests.flows.commands.conftest import publish
from tests.flows.conftest import Command
from tests.support.statements import statement
from workers.evidence.envelope import UntrustedSignatureError, read_public_key, signer_for
from workers.evidence.log_heads import tree_of_contents
from workers.publication.charges import OverspentError
from workers.publication.erased import ErasedStatement
from workers.publication.statement_row import Statement
from workers.publication.statement_store import ErasedError, Statements

DAY = "2026-11-01"
KEY = ("--key", "evidence.pem")
BEFORE = ("_replace", "_set_append_only", "write")
"""Steps before the commit that puts the tombstone in its place."""


@pytest.fixture
def statements(project: pathlib.Path) -> Statements:
    return Statements(str(project / "statements"))


def id_of(number: int) -> str:
    return statement(number).statement_id


def erase(privaudit: Command, number: int, *more: str) -> Any:
    return privaudit("erase-statement", id_of(number), "--reason", "Court order 7", *KEY, *more)


def held(project: pathlib.Path, number: int) -> list[pathlib.Path]:
    """Return every file of the table that holds a statement's figures or commitments."""
    made = statement(number)
    found = []
    for path in (project / "statements").rglob("*"):
        if path.suffix == ".parquet":
            text = str(pl.read_parquet(path).to_dicts())
        elif path.is_file():
            text = path.read_bytes().decode(errors="replace")
            assert r"\"content\":\"" not in text, "the log's statistics repeat statements"
        else:
            continue
        if made.labels_commitment[:12] in text or f'"target_sha256":"{made.target_sha256}' in text:
            found.append(path)
    return found


def signer() -> Signer:
    return signer_for("evidence.pem")


def put(statements: Statements, made: Statement, *, limit: float = 10.0, **more: Any) -> Statement:
    return statements.publish(
        lambda _: made,
        dataset=made.dataset,
        same=lambda other: other.model == made.model,
        epsilon_per_label=limit,
        **more,
    )


def test_an_erased_statement_is_in_no_file_and_its_tombstone_is_in_its_place(
    project: pathlib.Path, statements: Statements, privaudit: Command
) -> None:
    before = statements.contents()
    statements.compact(kept_days=30)  # keeps the files that it replaced
    assert len(held(project, 1)) == 2
    answer = erase(privaudit, 1)
    assert answer.code == 0, answer.err
    assert "about model-1 on 2026-11-01 is erased since" in answer.out
    assert held(project, 1) == []
    after = statements.contents()
    assert (after[0], after[2]) == (before[0], before[2])
    entry = statements.all()[1]
    assert isinstance(entry, ErasedStatement)
    assert (entry.statement_id, entry.reason) == (id_of(1), "Court order 7")
    again = erase(privaudit, 1)
    assert again.code == 0
    assert statements.contents() == after
    statements.compact(kept_days=0)
    publish(project, 3)
    assert statements.contents()[:3] == after


@pytest.mark.usefixtures("project")
def test_the_log_keeps_its_root_and_the_other_bundles(privaudit: Command) -> None:
    log = ("attest-log", "log", *KEY)
    assert privaudit("attest", "model-0", DAY, *KEY, "--out", "before").code == 0
    root = privaudit(*log).out.rpartition(" ")[2]
    assert erase(privaudit, 1).code == 0
    answer = privaudit(*log)
    assert (answer.code, answer.out.rpartition(" ")[2]) == (0, root), answer.err
    answer = privaudit("attest", "model-2", DAY, *KEY, "--out", "after", "--since", "before")
    assert answer.code == 0, answer.err
    for bundle in ("before", "after"):
        answer = privaudit("verify", "--bundle", bundle, "--trust", "evidence.pem.pub")
        assert answer.code == 0, answer.out
    answer = privaudit("attest", "model-1", DAY, *KEY)
    assert answer.code == 3
    assert answer.err.count("\n") == 1
    assert "about model-1 on 2026-11-01 was erased on" in answer.err
    assert answer.err.rstrip().endswith("Court order 7")


@pytest.mark.usefixtures("project")
def test_a_tombstone_that_no_trusted_key_signed_is_no_tombstone(privaudit: Command) -> None:
    """Else whoever may write the table could erase, and the log would be signed."""
    assert privaudit("attest-log", "log", *KEY).code == 0
    assert privaudit("attest-key", "thief.pem").code == 0
    reason = ("--reason", "none")
    assert privaudit("erase-statement", id_of(1), *reason, "--key", "thief.pem").code == 0
    for command in (("attest-log", "log"), ("attest", "model-0", DAY)):
        answer = privaudit(*command, *KEY)
        assert answer.code == 3
        assert "The signature of a tombstone names" in answer.err
        assert privaudit(*command, *KEY, "--trust", "thief.pem.pub").code == 0


def test_a_changed_tombstone_or_reason_is_found(
    project: pathlib.Path, statements: Statements, privaudit: Command
) -> None:
    assert privaudit("attest-log", "log", *KEY).code == 0
    assert erase(privaudit, 1).code == 0
    entry = statements.all()[1]
    assert isinstance(entry, ErasedStatement)
    trusted = [read_public_key(project / "evidence.pem.pub")]
    tree = tree_of_contents(statements.contents(), trusted)
    assert tree.size == 3
    for change in ({"reason": "another"}, {"statement_id": id_of(0)}):
        forged = entry.model_copy(update=change).content()
        with pytest.raises(UntrustedSignatureError, match="was changed"):
            tree_of_contents([forged], trusted)
    stone = json.loads(entry.content())["tombstone"] | {"payload": "AAAA"}
    with pytest.raises(UntrustedSignatureError):
        tree_of_contents([entry.model_copy(update={"tombstone": stone}).content()], trusted)


def test_erasing_gives_no_budget_back_and_draws_no_noise_for_free(
    statements: Statements, privaudit: Command
) -> None:
    assert erase(privaudit, 1).code == 0
    another = statement(7, model="model-1", dataset="clicks-1")
    with pytest.raises(ErasedError, match="Court order 7"):
        put(statements, another)
    with pytest.raises(OverspentError, match="1 statements that cost"):
        put(statements, another, limit=0.15, again=True)
    with pytest.raises(OverspentError):
        put(statements, statement(8, dataset="clicks-1"), limit=0.15)
    revisions: list[int] = []

    def make(revision: int) -> Statement:
        revisions.append(revision)
        return another

    statements.publish(
        make, dataset="clicks-1", same=lambda other: other.model == "model-1",
        epsilon_per_label=0.2, again=True,
    )  # fmt: skip
    assert revisions == [2]
    with pytest.raises(ErasedError):  # the revision does not take the first one's place
        statements.of("model-1", another.day)


@pytest.mark.parametrize("step", [*BEFORE, "_complete_erasures", "delete"])
def test_a_kill_between_the_steps_leaves_all_or_a_tombstone_and_the_rest_can_be_done(
    step: str,
    project: pathlib.Path,
    statements: Statements,
    privaudit: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = statements.contents()
    place, name = {
        "delete": (workers.publication.statement_store, "_delete_files"),
        "write": (deltalake, "write_deltalake"),
    }.get(step, (Statements, step))

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(place, name, killed)
        with pytest.raises(KeyboardInterrupt):
            statements.erase(id_of(1), lambda made: _buried(made, "Court order 7", signer()))
    if step in BEFORE:
        assert statements.contents() == before
    else:
        assert isinstance(statements.all()[1], ErasedStatement)
        assert held(project, 1)
    publish(project, 3)  # publishing goes on
    shutil.copytree(project / "statements", project / "copy")
    assert erase(privaudit, 1).code == 0
    assert held(project, 1) == []
    assert append_only(statements)
    shutil.rmtree(project / "statements")
    (project / "copy").rename(project / "statements")
    statements.compact(kept_days=30)  # the nightly maintenance does what is left, too
    assert append_only(statements)
    if step not in BEFORE:
        assert held(project, 1) == []


def append_only(statements: Statements) -> bool:
    table = deltalake.DeltaTable(f"{statements.uri}/statements")
    return table.metadata().configuration["delta.appendOnly"] == "true"


def test_files_of_other_statements_that_are_not_committed_yet_stay(
    project: pathlib.Path, privaudit: Command
) -> None:
    """A writer may be about to commit one, or just have; a file of the erased statement goes."""
    file = next((project / "statements" / "statements").glob("*.parquet"))
    waiting, lost = file.with_name("waiting.parquet"), file.with_name("lost.parquet")
    pl.read_parquet(file).with_columns(statement_id=pl.lit(id_of(9))).write_parquet(waiting)
    pl.read_parquet(file).with_columns(statement_id=pl.lit(id_of(1))).write_parquet(lost)
    assert erase(privaudit, 1).code == 0
    assert waiting.exists()
    assert not lost.exists()
    used = deltalake.DeltaTable(f"{project}/statements/statements").file_uris()
    compacted = shutil.copy(used[0], file.with_name("compacted.parquet"))  # holds the tombstone
    assert erase(privaudit, 1).code == 0
    assert pathlib.Path(compacted).exists()


def test_public_pages_say_that_it_is_erased(project: pathlib.Path, privaudit: Command) -> None:
    assert erase(privaudit, 2).code == 0
    assert privaudit("report").code == 0
    index = (project / "report" / "index.html").read_text(encoding="utf-8")
    page = (project / "report" / "models" / "model-2.html").read_text(encoding="utf-8")
    assert "and 1 statement was erased" in index
    assert "<h1>model-2: erased</h1>" in page
    assert "The reason given: Court order 7" in page
    assert "This is no acquittal" in page
    assert statement(2).labels_commitment not in page
    assert "not refuted" in (project / "report" / "models" / "model-1.html").read_text()


@pytest.mark.usefixtures("project")
def test_what_cannot_be_erased_is_said(privaudit: Command) -> None:
    answer = privaudit("erase-statement", "0" * 32, "--reason", "x", *KEY)
    assert answer.code == 3
    assert f"No statement {'0' * 32} was published" in answer.err
    for reason in (" ", "x" * 501):
        assert privaudit("erase-statement", id_of(1), "--reason", reason, *KEY).code == 64
    assert privaudit("erase-statement", id_of(1), *KEY).code == 64


@pytest.mark.slow
def test_publishing_at_the_same_time_loses_nothing(
    project: pathlib.Path, statements: Statements
) -> None:
    before = statements.contents()
    threads = [threading.Thread(target=publish, args=(project, number)) for number in range(3, 9)]
    for thread in threads:
        thread.start()
    statements.erase(id_of(1), lambda made: _buried(made, "asked", signer()))
    for thread in threads:
        thread.join()
    entries = statements.all()
    assert {one.statement_id for one in entries} == {id_of(number) for number in range(9)}
    assert isinstance(entries[1], ErasedStatement)
    after = statements.contents()
    assert (len(after), after[0], after[2]) == (9, before[0], before[2])
    assert append_only(statements)
