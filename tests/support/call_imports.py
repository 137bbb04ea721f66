"""What a contained function imports when it is called: in each call's fork it does so anew."""

import subprocess
import sys


def imported_by_a_call(module: str, call: str, content: bytes) -> list[str]:
    """Return the modules that a call imports beyond its own module's, in a fresh process.

    It ends at once, as a contained child does: a library's threads may abort one that tidies up.

    Args:
        module: of the function.
        call: an expression of the module's names, with `content` for the bytes.
        content: the bytes.
    """
    read = (
        f"import os, sys; from {module} import *; content, before = sys.stdin.buffer.read(), "
        f"{{*sys.modules}}; {call}; print(*{{*sys.modules}} - before, flush=True); "
        "os._exit(0)"
    )
    command = [sys.executable, "-c", read]
    done = subprocess.run(command, input=content, capture_output=True, check=True)
    return sorted(done.stdout.decode().split())
