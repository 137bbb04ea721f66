"""Everything that one pass over the records leaves behind."""

from dataclasses import dataclass

from privcore.attacks.lifts import LiftTally
from privcore.attacks.tally import Tally


@dataclass(frozen=True, slots=True)
class Tallies:
    """What one pass leaves behind: game and names, for training and control records.

    `classes` is the number of classes; the control's records were never trained on.
    """

    game: Tally
    control_game: Tally
    lifts: LiftTally
    control_lifts: LiftTally
    classes: int

    @classmethod
    def zero(cls, *, repetitions: int, classes: int) -> "Tallies":
        """Return the tallies of no records, the identity of addition."""
        game, lifts = Tally.zero(repetitions), LiftTally.zero()
        return cls(game, game, lifts, lifts, classes)

    def __add__(self, other: "Tallies") -> "Tallies":
        """Return the tallies of both sets of records."""
        return Tallies(
            self.game + other.game,
            self.control_game + other.control_game,
            self.lifts + other.lifts,
            self.control_lifts + other.control_lifts,
            self.classes,
        )
