"""Steps that a reader can try next: their effort, the role that does them, and their text."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Role that does a step."""

    OWNER = "model owner"
    ENGINEER = "privacy engineer"
    AUDITOR = "auditor"


class Effort(StrEnum):
    """Effort that a step costs, the cheapest first."""

    READING = "minutes"
    SETTING = "a setting"
    PIPELINE = "a change of the pipeline"
    TRAINING = "a new training run"


_ORDER = list(Effort)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to try."""

    cost: Effort
    role: Role
    text: str


def in_order(steps: list[Step]) -> tuple[Step, ...]:
    """Return the steps, the cheapest first; steps of one cost stay as they are."""
    return tuple(sorted(steps, key=lambda step: _ORDER.index(step.cost)))


def look(role: Role, text: str) -> Step:
    """Return a step that costs minutes."""
    return Step(Effort.READING, role, text)


def setting(role: Role, text: str) -> Step:
    """Return a step that changes a setting."""
    return Step(Effort.SETTING, role, text)


def pipeline(role: Role, text: str) -> Step:
    """Return a step that changes what data the audit gets."""
    return Step(Effort.PIPELINE, role, text)


def training(role: Role, text: str) -> Step:
    """Return a step that trains the model again."""
    return Step(Effort.TRAINING, role, text)
