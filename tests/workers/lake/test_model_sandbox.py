import os
import pathlib
import random
import shutil
import time

import pytest

from privcore.exceptions import TransientError
from tests.support.lake import DAY, PLAN, clone_model, model_path, replace_model
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake import limits, model_sandbox
from workers.lake.layout import Lake
from workers.lake.model_sandbox import ModelDescription, UnreadableModelError, describe_model


@pytest.fixture(scope="module")
def model(template: Lake) -> bytes:
    return (model_path(template, "good") / "model.cbm").read_bytes()


def damaged(model: bytes, seed: int) -> bytes:
    """Return the file with one to eight of its bytes changed."""
    chance, content = random.Random(seed), bytearray(model)  # noqa: S311
    for _ in range(chance.choice([1, 1, 2, 8])):
        content[chance.randrange(len(content))] = chance.randrange(256)
    return bytes(content)


def first_that_crashes(model: bytes) -> bytes:
    for seed in range(400):
        content = damaged(model, seed)
        try:
            describe_model(content)
        except UnreadableModelError as error:
            if "crashes CatBoost (SIG" in error.why:
                return content
    pytest.fail("No damage crashed CatBoost's reader: is the sandbox still needed?")


def test_a_model_is_described_as_it_is(model: bytes) -> None:
    assert describe_model(model) == ModelDescription(
        features=("delay", "hour", "city"), categorical=(2,), classes=("0", "1")
    )


def test_a_file_that_crashes_catboost_ends_as_a_record_and_the_next_audit_goes_on(
    model: bytes, template: Lake, tmp_path: pathlib.Path
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    shutil.copytree(template.uri, lake.uri)
    clone_model(lake, "bad")
    replace_model(lake, "bad", DAY, first_that_crashes(model))

    row = run_audit(lake, "bad", DAY, plan=PLAN, executor=InProcess()).audit

    assert (row.status, row.reason_code) == ("not_evaluable", "checkpoint_invalid")
    assert f"The checkpoint of bad for {DAY} crashes CatBoost (SIG" in row.reason
    assert run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit.status == "evaluated"


@pytest.mark.parametrize("content", [b"", b"\0", b"CBM1", b"not a model", os.urandom(4096)])
def test_what_is_no_model_is_said_to_be_none(content: bytes) -> None:
    with pytest.raises(UnreadableModelError, match="is not in CatBoost's format"):
        describe_model(content)


def test_a_reader_that_went_away_is_started_again(model: bytes) -> None:
    describe_model(model)
    model_sandbox._reader.kill()
    model_sandbox._reader.wait()
    assert describe_model(model).classes == ("0", "1")


def test_a_reader_that_dies_while_it_reads_is_a_passing_fault(
    model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_sandbox._stop()
    monkeypatch.setattr(model_sandbox, "_START", "import sys; sys.stdin.buffer.read(9)")
    with pytest.raises(TransientError, match="try again"):
        describe_model(model)
    monkeypatch.undo()
    assert describe_model(model).classes == ("0", "1")


def test_the_reader_has_no_credentials(monkeypatch: pytest.MonkeyPatch, model: bytes) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted")
    model_sandbox._stop()
    describe_model(model)
    environment = pathlib.Path(f"/proc/{model_sandbox._reader.pid}/environ")
    if not environment.exists():
        pytest.skip("no /proc on this system")
    held = environment.read_bytes()
    assert b"PYTHONPATH=" in held
    assert b"planted" not in held


def test_a_model_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MODEL_SECONDS", 1)
    monkeypatch.setattr(model_sandbox, "_answer", lambda *_: time.sleep(60))
    assert b"took CatBoost over 1 seconds to read" in model_sandbox._in_a_child(b"")


def test_a_model_that_takes_too_much_memory_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_sandbox, "_answer", lambda *_: bytearray(limits.MODEL_MEMORY_BYTES))
    assert b"takes CatBoost too much memory" in model_sandbox._in_a_child(b"")


def test_the_reader_writes_no_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    written = tmp_path / "written"
    monkeypatch.setattr(model_sandbox, "_answer", lambda *_: written.write_bytes(b"x" * 100))
    sentence = model_sandbox._in_a_child(b"")
    assert b"crashes CatBoost (SIGXFSZ)" in sentence or written.read_bytes() == b""
