"""On a large day lots decide which rows play: an audit of more costs more, and proves hardly more.

A row's lot follows from its place, from the target, and from all that is read of the rows but their
labels. So nobody can train otherwise on the rows that play, or lay others where no lot falls: that
would be another target, or other rows, and all lots would fall anew. No label moves a lot.
"""

from dataclasses import dataclass, field

from workers.labels.parquet import ContentDigest

MOST_TRAINING, MOST_HOLDOUT = 2_400_000, 1_200_000
"""About how many rows of each arm are drawn."""


def may_be_large(rows: int) -> bool:
    """Return whether lots may have to decide which of so many rows of both arms play."""
    return rows > min(MOST_TRAINING, MOST_HOLDOUT)


@dataclass(frozen=True, slots=True)
class RowDraw:
    """Numbers of the day's rows in both arms, whatever their labels are, and of how many play.

    Attributes:
        training: rows that training saw.
        holdout: rows that were held out.
        content: digest of what is read of the rows, but for their labels.
    """

    training: int
    holdout: int
    content: ContentDigest = field(default_factory=ContentDigest)

    def __add__(self, other: "RowDraw") -> "RowDraw":
        """Return the numbers of both sets of rows."""
        return RowDraw(
            self.training + other.training,
            self.holdout + other.holdout,
            self.content + other.content,
        )

    @property
    def large(self) -> bool:
        """True if either arm has more rows than are drawn of it."""
        return self.training > MOST_TRAINING or self.holdout > MOST_HOLDOUT

    @property
    def shares(self) -> tuple[float, float]:
        """The probability by which a row of training, and of the holdout, plays."""
        return (
            MOST_TRAINING / max(self.training, MOST_TRAINING),
            MOST_HOLDOUT / max(self.holdout, MOST_HOLDOUT),
        )

    def sentence(self, training: int, holdout: int) -> str:
        """Say of how many rows those that played, by lot, were drawn."""
        return (
            f"Lots chose {training:,} of the {self.training:,} training rows and {holdout:,} of "
            f"the {self.holdout:,} holdout rows, and these played: more would prove hardly more."
        )
