"""A reader whose library waits at its end, as ONNX's does for threads that a fork left behind."""

import atexit
import time

atexit.register(time.sleep, 600)


def answer(content: bytes) -> str:
    """Return the content as text."""
    return content.decode()
