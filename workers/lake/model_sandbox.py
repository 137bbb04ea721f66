"""A model file is first read where it may crash: in a process that has nothing to lose.

CatBoost's reader is C++ and trusts the file: about 4% of files with a few bytes changed end the
process that loads them. So one idle process with an empty environment is kept, and forks a child
for every model; the child reads it, scores one row, says what it found, and ends in one way or
another.
"""

import atexit
import contextlib
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any, BinaryIO

from privcore.exceptions import TransientError
from workers.lake import limits

_LENGTH = struct.Struct(">Q")
_START = "from workers.lake.model_sandbox import serve; serve()"


class UnreadableModelError(Exception):
    """CatBoost cannot read the model file; `why` completes "the file ..."."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What a model file says of itself.

    Attributes:
        features: names, in the model's order.
        categorical: positions of the categorical ones.
        classes: as text, in the order of the probabilities.
    """

    features: tuple[str, ...]
    categorical: tuple[int, ...]
    classes: tuple[str, ...]


def describe_model(content: bytes) -> ModelDescription:
    """Return what the model file `content` says of itself.

    Raises:
        UnreadableModelError: it is no CatBoost model, or reading it or scoring one row with it
            crashes, or takes too long or too much memory.
        TransientError: the process that reads models went away.
    """
    with _lock:
        try:
            reader = _running()
            reader.stdin.write(_LENGTH.pack(len(content)))
            reader.stdin.write(content)
            reader.stdin.flush()
            line = reader.stdout.readline()
        except OSError:
            line = b""
        if not line:
            _stop()
            raise TransientError("The process that reads model files went away: try again.")
    found: dict[str, Any] = json.loads(line)
    if "why" in found:
        raise UnreadableModelError(found["why"])
    return ModelDescription(
        *(tuple(found[name]) for name in ("features", "categorical", "classes"))
    )


_lock = threading.Lock()
_reader: Any = None


def _running() -> Any:
    global _reader  # noqa: PLW0603  # one process for all threads: starting it takes seconds
    if _reader is None or _reader.poll() is not None:
        _stop()
        _reader = subprocess.Popen(  # noqa: S603  # our own code
            [sys.executable, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # No credentials, and no pools of threads: the process forks.
            env={
                "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path),
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "POLARS_MAX_THREADS": "1",
            },
        )
    return _reader


def _stop() -> None:
    global _reader
    stopped, _reader = _reader, None
    if stopped is not None:
        for stream in (stopped.stdin, stopped.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # what the process waits for
        stopped.wait()


atexit.register(_stop)


def serve() -> None:
    """Answer every model file on standard input with a line of JSON on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to answer
    import catboost  # noqa: F401, PLC0415  # before any fork, so that children start at once

    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while header := requests.read(_LENGTH.size):
        content = requests.read(_LENGTH.unpack(header)[0])
        answers.write(_in_a_child(content) + b"\n")
        answers.flush()


def _in_a_child(content: bytes) -> bytes:
    mine, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(mine)
        with contextlib.suppress(BaseException), os.fdopen(theirs, "wb") as answer:
            _confine()
            _answer(content, answer)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(mine, "rb") as answer:
        content = answer.read(limits.CHECKPOINT_BYTES)
    end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if end == -signal.SIGALRM:
        return _cannot(f"took CatBoost over {limits.MODEL_SECONDS} seconds to read")
    if end < 0:
        return _cannot(f"crashes CatBoost ({signal.Signals(-end).name})")
    return content or _cannot("takes CatBoost too much memory to read")


def _confine() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    signal.alarm(limits.MODEL_SECONDS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (limits.MODEL_MEMORY_BYTES,) * 2)


def _answer(content: bytes, answer: BinaryIO) -> None:
    import catboost  # noqa: PLC0415  # it is there already

    model = catboost.CatBoost()
    try:
        model.load_model(blob=content, format="cbm")
        names = list(model.feature_names_)
        categorical = [int(position) for position in model.get_cat_feature_indices()]
        row = ["" if position in categorical else 0.0 for position in range(len(names))]
        pool = catboost.Pool([row], cat_features=categorical, feature_names=names)
        model.predict(pool, prediction_type="Probability", thread_count=1)
        found = {
            "features": names,
            "categorical": categorical,
            "classes": [str(value) for value in model.classes_],
        }
    except Exception as error:  # noqa: BLE001  # whatever a bad file makes it raise
        answer.write(_cannot(f"is not in CatBoost's format ({type(error).__name__})"))
    else:
        answer.write(json.dumps(found).encode())


def _cannot(why: str) -> bytes:
    return json.dumps({"why": why}).encode()
