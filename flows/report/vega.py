"""Vega, in a process of its own: what makes it abort ends one plot, and nothing else.

Vega runs in an engine of native code, which ends its whole process at text that it cannot hold, or
where memory runs out. The process is started with the first plot, and again after it was lost.
"""

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

PATIENCE = 60.0
"""Seconds after which a plot is given up; one takes some hundredths of a second."""
_SERVE = """
import json, signal, sys
import vl_convert
signal.signal(signal.SIGINT, signal.SIG_IGN)
for line in sys.stdin:
    try:
        answer = {"svg": vl_convert.vega_to_svg(json.loads(line))}
    except Exception as error:
        answer = {"why": type(error).__name__}
    print(json.dumps(answer), flush=True)
"""


class PlotError(Exception):
    """A plot cannot be drawn; the message says why."""


def vega_to_svg(spec: Mapping[str, Any]) -> str:
    """Return a chart in Vega's language as SVG.

    Raises:
        PlotError: Vega cannot draw it, ends its process over it, or takes more than a minute.
    """
    line = json.dumps(spec)
    with _lock:
        process = _running()
        impatience = threading.Timer(PATIENCE, process.kill)
        impatience.start()
        try:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            drawn = process.stdout.readline()
        except OSError:
            drawn = ""
        finally:
            impatience.cancel()
        if not drawn.endswith("\n"):
            _stop()
            raise PlotError(f"Vega ended at it, or took over {PATIENCE:.0f} seconds")
    answer: dict[str, str] = json.loads(drawn)
    if "why" in answer:
        raise PlotError(f"Vega refused it: {answer['why']}")
    return answer["svg"]


_lock = threading.Lock()
_process: Any = None


def _running() -> Any:
    global _process  # noqa: PLW0603  # one process for all plots: starting it takes a moment
    if _process is None or _process.poll() is not None:
        _stop()
        _process = subprocess.Popen(  # noqa: S603  # our own code
            [sys.executable, "-P", "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={"PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)},
        )
    return _process


def _stop() -> None:
    global _process
    stopped, _process = _process, None
    if stopped is not None:
        stopped.kill()
        for stream in (stopped.stdin, stopped.stdout):
            with contextlib.suppress(OSError):
                stream.close()
        stopped.wait()


atexit.register(_stop)
