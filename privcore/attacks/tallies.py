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
        decoys: of records whose label a coin chose (`decoy_tally`), which are in no other tally;
            None where there is no such design.
    """

    game: Tally
    control_game: Tally
    odds: tuple[OddsTally, ...]
    control_odds: tuple[OddsTally, ...]
    classes: int
    decoys: OddsTally | None = None

    @classmethod
    def zero(
        cls, *, repetitions: int, classes: int, groups: int = 1, decoys: bool = False
    ) -> "Tallies":
        """Return the tallies of no records in so many groups, the identity of addition."""
        game, odds = Tally.zero(repetitions), OddsTally.zero()
        empty = (odds,) * groups
        return cls(game, game, empty, empty, classes, odds if decoys else None)

    def __add__(self, other: "Tallies") -> "Tallies":
        """Return the tallies of both sets of records."""
        return Tallies(
            self.game + other.game,
            self.control_game + other.control_game,
            tuple(a + b for a, b in zip(self.odds, other.odds, strict=True)),
            tuple(a + b for a, b in zip(self.control_odds, other.control_odds, strict=True)),
            self.classes,
            None if self.decoys is None or other.decoys is None else self.decoys + other.decoys,
        )
