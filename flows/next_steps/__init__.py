"""Next steps: what a verdict allows, and what to try next, in order of cost, by role."""

from flows.next_steps.card import (
    Card,
    Conclusion,
    card_of,
    cards_of,
    conclusion_of,
    next_steps_table,
)
from flows.next_steps.steps import Effort, Role, Step

__all__ = [
    "Card",
    "Conclusion",
    "Effort",
    "Role",
    "Step",
    "card_of",
    "cards_of",
    "conclusion_of",
    "next_steps_table",
]
