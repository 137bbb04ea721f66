"""Damage to the warehouse's files is one sentence, whatever reads them."""

import contextlib
import json
import os
import pathlib
import shutil
from collections.abc import Callable

import pytest

from privcore.exceptions import TerminalError, TransientError
from tests.support.lake import DAY
from tests.support.warehouse import evaluated, failed
from workers.audit.verify import verify_all_stored
from workers.warehouse.delta import TornAnswerError, readable, whole
from workers.warehouse.maintenance import compact
from workers.warehouse.nights_together import with_windows
from workers.warehouse.sql import query
from workers.warehouse.store import Warehouse

READINGS: dict[str, Callable[[Warehouse], object]] = {
    "current": lambda warehouse: warehouse.current(),
    "sql": lambda warehouse: query(warehouse, "from latest_audits"),
    "verify": lambda warehouse: list(verify_all_stored(warehouse)),
    "windows": lambda warehouse: with_windows(warehouse, warehouse.current()),
}
DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "cut in half": lambda content: content[: len(content) // 2],
    "cut by a byte": lambda content: content[:-1],
    "empty": lambda _: b"",
    "overwritten": lambda content: content[:8] + os.urandom(len(content) - 16) + content[-8:],
    "longer": lambda content: content + b"\0" * 100,
    "lost": lambda _: None,
}


@pytest.fixture(scope="module")
def written_once(tmp_path_factory):
    """Return a warehouse of two records, to be copied and never changed."""
    warehouse = Warehouse(str(tmp_path_factory.mktemp("two-records") / "warehouse"))
    warehouse.commit([evaluated("ads", DAY)])
    warehouse.commit([failed("loans", DAY)])
    return warehouse


@pytest.fixture
def warehouse(written_once, tmp_path):
    shutil.copytree(written_once.uri, tmp_path / "warehouse")
    return Warehouse(str(tmp_path / "warehouse"))


def put_damage(path: pathlib.Path, damage: str) -> None:
    content = DAMAGES[damage](path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_data_file_is_a_sentence(warehouse, damage, capfd):
    (path, *_) = sorted(pathlib.Path(warehouse.path("audits")).glob("*.parquet"))
    put_damage(path, damage)
    for reading in READINGS.values():
        with pytest.raises(TerminalError) as caught:
            reading(warehouse)
        assert "\n" not in str(caught.value)
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("damage", ["cut in half", "overwritten"])
def test_a_damaged_log_is_a_sentence(warehouse, damage):
    log = pathlib.Path(warehouse.path("audits")) / "_delta_log" / f"{2:020}.json"
    put_damage(log, damage)
    for attempt in (*READINGS.values(), lambda of: of.commit([failed("new", DAY)]), compact):
        with pytest.raises(TerminalError, match="cannot be read or written") as caught:
            attempt(warehouse)
        assert "\n" not in str(caught.value)


GONE = "S3 error\n  \x1b[31m↳\x1b[0m GET http://h/timeout/p in 503 ms\n  ↳ not found\n\n\n[1]"
TORN = "Kernel error -> S3 error\n \x1b[31m↳\x1b[0m HTTP error\n ↳ response body error"


@pytest.mark.parametrize(
    ("place", "said", "kind", "words"),
    [
        ("s3://b/w", "Generic S3 error: operation timed out", TransientError, "try again"),
        ("s3://b/w", "got 503 Slow Down after 10 retries", TransientError, "try again"),
        ("s3://b/w", "got 403 Forbidden", TerminalError, "403 Forbidden"),
        ("s3://b/w", GONE, TerminalError, r"\(S3 error: not found\)"),
        ("s3://b/w", TORN, TornAnswerError, r"\(Kernel error -> S3 error: .* body error\): try"),
        ("/w", "a response body ended", TerminalError, "restore it"),
        ("/w", "No space left on device (os error 28)", TerminalError, "is no space left on /w"),
        ("/w", "Permission denied (os error 13)", TerminalError, "Permission denied"),
    ],
)
def test_what_storage_says_decides_whether_to_try_again(place, said, kind, words):
    with pytest.raises(kind, match=words), readable(place):
        raise OSError(said)


@pytest.mark.parametrize("other", [KeyboardInterrupt, ZeroDivisionError])
def test_what_is_no_fault_of_the_files_passes(other):
    with pytest.raises(other), readable("/w"):
        raise other


@pytest.mark.parametrize(
    ("said", "torn", "raised", "tries"),
    [
        ("error reading a body from connection", 0, None, 1),
        ("error reading a body from connection", 3, None, 4),
        ("error reading a body from connection", 9, None, 10),
        ("end of file before message length reached", 99, TornAnswerError, 10),
        ("timeout", 99, TransientError, 1),
    ],
)
def test_a_torn_answer_is_asked_for_again_and_one_that_stays_torn_is_told(
    waits, said, torn, raised, tries
):
    asked = []

    def ask() -> str:
        asked.append(1)
        if len(asked) <= torn:
            raise OSError(said)
        return "whole"

    with pytest.raises(raised) if raised else contextlib.nullcontext():
        assert whole("s3://b/w", ask) == "whole"
    assert len(asked) == tries
    assert len(waits) == tries - 1


def test_rows_that_readers_would_see_otherwise_are_refused(warehouse):
    """`show` left out a row by a deletion vector, and `sql` and exports had it."""
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7} | features
    log = pathlib.Path(warehouse.path("audits"), "_delta_log")
    number = 1 + max(int(file.stem) for file in log.glob("0*.json"))
    (log / f"{number:020}.json").write_text(json.dumps({"protocol": protocol}), "utf-8")
    with pytest.raises(TerminalError, match="another program changed it"):
        query(warehouse, "from audits")
