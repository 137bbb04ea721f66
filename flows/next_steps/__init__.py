"""Next steps: what a verdict allows, what to do first, and whether a model may be released."""

from flows.next_steps.card import Card, card_of, cards_of, counted, rank_of, with_next_steps
from flows.next_steps.steps import Role, Step

__all__ = ["Card", "Role", "Step", "card_of", "cards_of", "counted", "rank_of", "with_next_steps"]
