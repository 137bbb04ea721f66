"""How files store the column whose hash divides the records: 7 and '7' have other hashes."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from workers.exceptions import NotEvaluableError, Reason
from workers.looks.look import Findings, Look, Seen


@dataclass(frozen=True, slots=True)
class HashedKinds(Look):
    """Number of batches by the kind in which files store that column."""

    kinds: Counter[str]
    before_counting: ClassVar[bool] = True

    @classmethod
    def see(cls, seen: Seen) -> "HashedKinds | None":
        """Return the kind of a batch; None where no hash divides the records."""
        kind = seen.source.hashed_kind(seen.batch)
        return cls(Counter([kind])) if kind else None

    def check(self, found: Findings) -> None:
        """Refuse a hash rule over text and integers.

        Raises:
            NotEvaluableError: files store both.
        """
        if len(self.kinds) > 1:
            raise NotEvaluableError(
                Reason.LABEL_INVALID,
                f"Some files of {found.source.model} store the column of scores.holdout or "
                "labels.holdout as integers and others as text, which have other hashes, so that "
                "rows that training saw may count as held out: store it in one kind, as training "
                "hashed it.",
            )
