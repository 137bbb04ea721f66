"""Everything that one pass over the records leaves behind."""

from dataclasses import dataclass, replace

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
        ordered: whether the proxy is undecided about every record, and odds count the records'
            places in an order in place of its log-odds (`privcore.attacks.order`).
    """

    game: Tally
    control_game: Tally
    odds: tuple[OddsTally, ...]
    control_odds: tuple[OddsTally, ...]
    classes: int
    decoys: OddsTally | None = None
    ordered: bool = False

    @classmethod
    def zero(
        cls,
        *,
        repetitions: int,
        classes: int,
        groups: int = 1,
        decoys: bool = False,
        ordered: bool = False,
    ) -> "Tallies":
        """Return the tallies of no records in so many groups, the identity of addition."""
        game, odds = Tally.zero(repetitions), OddsTally.zero()
        empty = (odds,) * groups
        return cls(game, game, empty, empty, classes, odds if decoys else None, ordered)

    def believed(self) -> "Tallies":
        """Return the tallies by what the proxy believes of each record: where ordered, 1/2."""
        if not self.ordered:
            return self
        return replace(
            self,
            odds=tuple(odds.undecided() for odds in self.odds),
            control_odds=tuple(odds.undecided() for odds in self.control_odds),
            ordered=False,
        )

    def __add__(self, other: "Tallies") -> "Tallies":
        """Return the tallies of both sets of records."""
        return Tallies(
            self.game + other.game,
            self.control_game + other.control_game,
            tuple(a + b for a, b in zip(self.odds, other.odds, strict=True)),
            tuple(a + b for a, b in zip(self.control_odds, other.control_odds, strict=True)),
            self.classes,
            None if self.decoys is None or other.decoys is None else self.decoys + other.decoys,
            self.ordered,
        )
