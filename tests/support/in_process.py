"""Flows that do their work in the process of the test."""

import contextlib
from types import SimpleNamespace

import pytest

from workers.executors import InProcess


def work_in_process(patched: pytest.MonkeyPatch) -> None:
    """Let the flows do their work in this process instead of on Ray, and try again at once."""
    here = contextlib.nullcontext(InProcess())
    patched.setattr("workers.patience.time", SimpleNamespace(sleep=lambda _: None))
    for module in ("flows.run.nightly", "workers.executors"):
        patched.setattr(f"{module}.on_ray", lambda *_: here)
    for module in ("flows.run.nightly", "flows.run.night_plan"):
        patched.setattr(f"{module}.choose_executor", lambda *_: here)
