"""Labels that cannot be read: one more value that a label can have.

A statement must not tell whether one label can be read. So records play whatever their label is:
presence, models and features decide all tables. `match_everyone` counts such a label against a
refutation.
"""

from dataclasses import replace

from privcore.attacks import Tallies
from privcore.attacks.tallies import added


def with_unread(tallies: Tallies) -> Tallies:
    """Return the tallies with unreadable labels counted as another class, in both arms.

    Bets on the arms' labels read these. Where labels of both arms are as often unreadable, chance
    still divides what is counted.
    """
    return replace(
        tallies,
        odds=added(tallies.odds, tallies.unread),
        control_odds=added(tallies.control_odds, tallies.control_unread),
        unread=(),
        control_unread=(),
    )


def unread_records(tallies: Tallies) -> int:
    """Return how many records of both arms have an unreadable label."""
    return sum(odds.records for odds in (*tallies.unread, *tallies.control_unread))
