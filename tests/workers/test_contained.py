"""Whatever a call does to its process, the caller gets an answer or a sentence, and goes on."""

import json
import pathlib
import subprocess
import sys
import time

import pytest

from privcore.exceptions import TransientError
from tests.support.boundary import contained
from tests.support.contained_calls import attempt, behave, triple
from tests.support.postgresql import children
from workers import contained as boundary
from workers import contained_child
from workers.contained import ContainedError, _read
from workers.contained_child import WithBytes


def test_what_lies_in_the_working_folder_is_not_imported(tmp_path, monkeypatch):
    for module in ("workers", "json"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('this is somebody else's')")
    monkeypatch.chdir(tmp_path)
    with contained(behave) as call:
        assert call(b"content") == "content"


@pytest.fixture(params=[False, True], ids=["kept", "forked"])
def fork(request):
    return request.param


@pytest.fixture
def call(fork):
    with contained(behave, seconds=2, fork=fork) as made:
        yield made


def test_bytes_are_returned_beside_what_json_holds_and_no_more_than_are_read(fork, monkeypatch):
    with contained(triple, fork=fork) as tripling:
        assert tripling(b"\n\x00\xff") == WithBytes({"length": 3}, b"\n\x00\xff" * 3)
        assert tripling(b"") == WithBytes({"length": 0}, b"")
        monkeypatch.setattr(contained_child, "_HEADER_BYTES", 5)
        with pytest.raises((TransientError, ContainedError)):
            tripling(b"xx")


def test_a_call_is_answered_without_credentials_and_writes_no_files(call, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted")
    assert call(b"fine") == call(b"fine", how="print") == "fine"
    held = call(how="environment")
    assert "PYTHONPATH" in held
    assert "AWS_SECRET_ACCESS_KEY" not in held
    written = tmp_path / "written"
    with pytest.raises(ContainedError, match=r"raised (OSError|PermissionError)"):
        call(str(written).encode(), how="write")
    assert not written.exists() or written.read_bytes() == b""


ENDS = {
    "raise": ("raised", "raised ValueError"),
    "die": ("crashed", "crashed (SIGSEGV)"),
    "abort": ("crashed", "crashed (SIGABRT)"),
    "leave": ("crashed", "crashed (exit code 7)"),
    "sleep": ("seconds", "took over 2 seconds"),
    "grow": ("memory", "took over 1 GiB of memory"),
}


def test_however_a_call_ends_the_next_one_goes_on(call):
    for how, (kind, why) in ENDS.items():
        with pytest.raises(ContainedError) as caught:
            call(how=how)
        assert (caught.value.kind, caught.value.why) == (kind, why)
        assert call(b"next") == "next"


@pytest.mark.slow
def test_a_call_that_turns_off_its_own_alarm_is_ended(call, monkeypatch):
    monkeypatch.setattr(boundary, "_GRACE", 1.0)
    for _ in range(2):
        with pytest.raises(ContainedError, match="took over 2 seconds"):
            call(how="hang")
        assert call(b"next") == "next"


def test_a_bound_on_memory_is_no_more_than_half_of_what_is_left(call, monkeypatch, tmp_path):
    """The children of this process take what it takes for the machine's memory."""
    (tmp_path / "sitecustomize.py").write_text(
        "import pathlib, workers.memory as memory\n"
        f"memory._MEMINFO = pathlib.Path({str(tmp_path / 'meminfo')!r})\n"
    )
    (tmp_path / "meminfo").write_text("MemAvailable: 524288 kB\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ContainedError, match=r"took over 0\.25 GiB of memory"):
        call(how="grow")


def test_an_answer_that_is_none_ends_the_call_alone(fork):
    """A process that was taken over may say anything; without its fields a KeyError came of it."""
    with contained(attempt, fork=fork) as made:
        for said in (
            "{", "[" * 100_000, "9" * 5_000, "[]", '{"kind": "raised"}',
            '{"kind": "crashed", "why": 1}', '{"kind": ["value"]}',
            '{"kind": "gone", "why": "late"}',
        ):  # fmt: skip
            with pytest.raises(ContainedError, match="an answer that is none"):
                made(what="say", about=said)
        assert made(what="environment", about="no such word") == {"found": []}


def test_what_a_child_is_without_it_cannot_import(fork):
    for without, known in (((), True), (("colorsys", "wave"), False)):
        with contained(behave, fork=fork, without=without) as call:
            assert call(b"colorsys", how="import") is call(b"wave", how="import") is known
            assert call(b"fine") == "fine"


def test_only_a_kept_process_serves_several_calls_and_a_killed_one_is_started_again(call):
    assert [call(how="count"), call(how="count")] == [1, 1 if call._fork else 2]
    call._process.kill()
    call._process.wait()
    assert call(b"fine") == "fine"


def test_a_process_whose_caller_is_gone_ends(fork):
    """Its standard input ends then. Without this, three processes of each reader stayed."""
    slow = "tests.support.waits_at_its_end:answer"
    assert slow.partition(":")[0] not in sys.modules, "this process waits ten minutes at its end"
    with contained(slow, fork=fork) as made:
        assert made(b"fine") == "fine"
        made._channel.socket.close()
        assert made._process.wait(timeout=20) == 0


HOLDS = """
import sys
from workers.contained import Contained
made = Contained("tests.support.contained_calls:behave", seconds=9, memory=1 << 30, fork=True)
held = made.hold()
print(held.ask(b"held", {}), flush=True)
sys.stdin.read()
"""


def test_held_children_end_with_who_holds_them():
    """However it ends; and one that was asked nothing else finds what it had kept before."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=pathlib.Path(__file__).parents[2],
    ) as process:
        assert process.stdout.readline() == b"held\n"
        below = set(children(process.pid))
        assert len(below) > 1
        process.kill()
    deadline = time.monotonic() + 10.0
    while _alive(below) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(below)


def test_a_held_child_keeps_what_it_was_given_until_a_call_fails():
    with contained(behave, fork=True) as made:
        one, other = made.hold(), made.hold()
        assert [
            one.ask(b"", {"how": "count"}),
            one.ask(b"", {"how": "count"}),
            other.ask(b"", {"how": "count"}),
        ] == [1, 2, 1]
        with pytest.raises(ContainedError, match=r"crashed \(SIGSEGV\)"):
            one.ask(b"", {"how": "die"})
        with pytest.raises(ContainedError, match="has ended"):
            one.ask(b"", {"how": "count"})
        assert other.ask(b"", {"how": "count"}) == 2
        made.stop()
        with pytest.raises(TransientError, match="went away"):
            other.ask(b"", {"how": "count"})


def _alive(processes: set[int]) -> set[int]:
    return {one for one in processes if pathlib.Path(f"/proc/{one}/exe").exists()}


def test_a_process_that_goes_away_by_itself_is_a_passing_fault(call, monkeypatch):
    monkeypatch.setattr(boundary, "_START", "import sys; sys.stdin.buffer.read(9)")
    with pytest.raises(TransientError, match="did not start: try again"):
        call(b"")
    monkeypatch.undo()
    assert call(b"fine") == "fine"


def test_an_answer_of_many_empty_lists_is_none(monkeypatch):
    """256 MiB of them took 6.5 GB of the driver."""
    assert boundary._MOST_VALUES <= 1 << 23
    monkeypatch.setattr(boundary, "_MOST_VALUES", 1_000)
    header = b'{"with_bytes":false,"value":[' + b"[]," * 1_000 + b"[]]}"
    with pytest.raises(ValueError, match=r"^$"):
        _read(header, b"")
    assert len(_read(header.replace(b"[],", b"", 100), b"")) == 901
    with pytest.raises(ContainedError) as caught:
        _read(json.dumps({"kind": "raised", "why": "x" * 10_000}).encode(), b"")
    assert len(caught.value.why) == 300
