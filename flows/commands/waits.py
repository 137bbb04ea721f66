"""Waits of a night: one line that changes on a terminal, else a JSON line per model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flows.commands.printing import print_event
from flows.progress import Wait
from workers.plain_text import plain_text

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class WaitLines:
    """Waits as JSON lines: each model once, and again when it waits for something else."""

    def __init__(self) -> None:
        self._printed: set[Wait] = set()

    def show(self, waits: Sequence[Wait], models: int) -> None:
        """Print what is new, and the number of models that are waited for."""
        for one in waits:
            if one not in self._printed:
                event = "left_out" if one.until is None else "waiting"
                until = {} if one.until is None else {"until": one.until}
                print_event(event, model=one.model, missing=one.missing, **until)
        print_event("inputs", there=models - len(waits), models=models)
        self._printed = set(waits)


class WaitBar:
    """Waits as one bar beside the audits' own; what is left out at its end is printed."""

    def __init__(self, bars: "Progress") -> None:
        self._bars = bars
        self._bar: TaskID | None = None

    def show(self, waits: Sequence[Wait], models: int) -> None:
        """Show how many models' inputs are there, and what the first of the others waits for."""
        if waits and waits[0].until is None:
            self._bars.console.print(sentence(waits), markup=False, highlight=False)
            return
        if self._bar is None:
            if not waits:
                return
            self._bar = self._bars.add_task("", total=models)
        self._bars.update(
            self._bar,
            description=sentence(waits) if waits else "Inputs",
            completed=models - len(waits),
            visible=bool(waits),
        )


def sentence(waits: Sequence[Wait]) -> str:
    """Return what is waited for, or left out, in one sentence, however many models there are."""
    first, others = waits[0], len(waits) - 1
    more = f" and {others} other model{'s' if others > 1 else ''}" if others else ""
    what = f"{first.model}{more}"
    if first.until is None:
        return plain_text(f"Left out: {what}. {first.missing} is not there.")
    last = max(one.until for one in waits if one.until is not None)
    return plain_text(
        f"Waiting until {last:%Y-%m-%d %H:%M %Z} for {what}: {first.missing} is not there"
    )
