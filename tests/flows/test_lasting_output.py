"""Commands go on where nobody reads what they print, or a full disk takes none of it."""

import hashlib
import io
import os
import pathlib
import subprocess
import sys

import pytest

from flows.cli import LastingOutput
from tests.support.lake import DAY, clone_model, write_settings
from tests.support.tiers import tiered
from tests.support.warehouse import evaluated, put_rows
from workers.warehouse.store import Warehouse

PRIVAUDIT = str(pathlib.Path(sys.executable).with_name("privaudit"))


def _without_reader():
    read, write = os.pipe()
    os.close(read)
    return write


def _on_a_full_disk():
    return os.open("/dev/full", os.O_WRONLY)


@pytest.mark.parametrize("optional", [False, True])
def test_words_without_a_reader_go_nowhere(*, optional):
    with os.fdopen(_without_reader(), "w", buffering=1, encoding="utf-8") as stream:
        output = LastingOutput(stream, optional=optional)
        for _ in range(3):
            assert output.write("a line\n") == 7
            output.flush()
        assert not output.isatty()


def test_a_result_that_a_full_disk_does_not_take_is_an_error():
    stream = os.fdopen(_on_a_full_disk(), "w", buffering=1, encoding="utf-8")
    LastingOutput(stream, optional=True).write("a line\n")
    with pytest.raises(OSError, match="No space left"):
        LastingOutput(stream).write("a line\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def test_what_a_logs_handler_says_after_its_stream_was_closed_goes_nowhere():
    stream = io.StringIO()
    output = LastingOutput(stream)
    stream.close()
    assert output.write("late") == 4


@pytest.mark.parametrize("verdict", ["not_refuted", "violated"])
@pytest.mark.parametrize(
    "ends", tiered(["2>&1 | true", "<&- >&- 2>&-", "| true", ">&-", "2>/dev/full"], slow=2)
)
def test_no_reader_decides_what_a_gate_answers(tmp_path, verdict, ends):
    """A file that fails was an error, and so was one that passes: `| head -1` ended the gate."""
    content = b"a model"
    (tmp_path / "model.cbm").write_bytes(content)
    row = evaluated(
        "ads", DAY, verdict=verdict, target_sha256=hashlib.sha256(content).hexdigest(),
        epsilon_ceiling=3.0,
    )  # fmt: skip
    put_rows(Warehouse(str(tmp_path / "warehouse")), [row])
    environment = os.environ | {"PRIVAUDIT_CONFIG": str(write_settings(tmp_path, ["ads"]))}
    command = f"{PRIVAUDIT} gate --sha256 model.cbm {ends}; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment, check=False, timeout=120,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert ended.returncode == {"not_refuted": 0, "violated": 1}[verdict]


@pytest.mark.slow
def test_who_ends_a_log_ends_no_audit(tmp_path, lake):
    """Each audit of a night was an error: its progress could not be printed."""
    clone_model(lake, "bad")
    settings = write_settings(tmp_path, ["good", "bad"])
    descriptor = _on_a_full_disk()
    night = subprocess.run(
        [PRIVAUDIT, "night", "--day", str(DAY)],
        cwd=tmp_path,
        env=os.environ | {"PRIVAUDIT_CONFIG": str(settings), "PYTHONUNBUFFERED": ""},
        stdout=subprocess.DEVNULL,
        stderr=descriptor,
        check=False,
        timeout=300,
    )
    os.close(descriptor)
    assert night.returncode in {0, 2}
    rows = Warehouse(str(tmp_path / "warehouse")).current()
    assert rows["status"].to_list() == ["evaluated", "evaluated"]
