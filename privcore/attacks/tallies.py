"""Everything that one pass over the records leaves behind."""

from dataclasses import dataclass

from privcore.attacks.odds import OddsTally
from privcore.attacks.tally import Tally


@dataclass(frozen=True, slots=True)
class Tallies:
    """What one pass leaves behind: game and odds, for training and control records.

    Attributes:
        game: of the training records.
        control_game: of records that were never trained on.
        odds: of the training records, in the groups within which they are matched.
        control_odds: of the control's, in the same groups.
        classes: number of classes.
    """

    game: Tally
    control_game: Tally
    odds: tuple[OddsTally, ...]
    control_odds: tuple[OddsTally, ...]
    classes: int

    @classmethod
    def zero(cls, *, repetitions: int, classes: int) -> "Tallies":
        """Return the tallies of no records in one group, the identity of addition."""
        game, odds = Tally.zero(repetitions), OddsTally.zero()
        return cls(game, game, (odds,), (odds,), classes)

    def __add__(self, other: "Tallies") -> "Tallies":
        """Return the tallies of both sets of records."""
        return Tallies(
            self.game + other.game,
            self.control_game + other.control_game,
            tuple(a + b for a, b in zip(self.odds, other.odds, strict=True)),
            tuple(a + b for a, b in zip(self.control_odds, other.control_odds, strict=True)),
            self.classes,
        )
