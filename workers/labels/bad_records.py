"""Records that cannot take part: counted by reason, with the first file that had one."""

from collections import Counter
from dataclasses import dataclass

from workers.exceptions import NotEvaluableError, Reason

Place = tuple[str, int, int]
"""File, row group, row."""


@dataclass(frozen=True, slots=True)
class BadRecords:
    """Records that were left out, with the reasons; it adds like a tally.

    Attributes:
        counts: bad records by reason.
        first: where the first of them is.
        reason: why the first is bad.
        sentence: the same in words.
        fatal: whether no number of bad records may pass: a model gives NaN, or a file does not even
            say how many records it holds.
    """

    counts: Counter[str]
    first: Place = ("", 0, 0)
    reason: Reason | None = None
    sentence: str = ""
    fatal: bool = False

    @classmethod
    def none(cls) -> "BadRecords":
        """Return that nothing is bad, the identity of addition."""
        return cls(Counter())

    @classmethod
    def at(
        cls, place: Place, records: int, reason: Reason, sentence: str, *, fatal: bool = False
    ) -> "BadRecords":
        """Return that `records` from `place` on are bad for one reason."""
        return cls(Counter({reason.value: records}), place, reason, sentence, fatal)

    @property
    def total(self) -> int:
        """Number of bad records."""
        return self.counts.total()

    def __add__(self, other: "BadRecords") -> "BadRecords":
        """Return what both found; the first in the order of the files stays first."""
        if self.reason is None or other.reason is None:
            return self if other.reason is None else other
        counts = self.counts.copy()
        counts.update(other.counts)
        earlier = min(self, other, key=lambda part: (part.first, part.reason or ""))
        return BadRecords(
            counts, earlier.first, earlier.reason, earlier.sentence, self.fatal or other.fatal
        )

    def check(self, maximum: int) -> None:
        """Raise `NotEvaluableError` where more is bad than `maximum`, or something is fatal."""
        if self.reason is not None and (self.fatal or self.total > maximum):
            raise NotEvaluableError(self.reason, f"{self.sentence} {self.summary(maximum)}".strip())

    def summary(self, maximum: int) -> str:
        """Return the counts by reason in one sentence; empty where nothing could be counted."""
        if self.total == 0:
            return ""
        parts = [f"{reason} {count}" for reason, count in sorted(self.counts.items()) if count]
        return (
            f"Bad records: {self.total} ({', '.join(parts)}), the first in {self.first[0]}; "
            f"max_bad_records is {maximum}."
        )
