"""The one list of looks, and what is done with all of them."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from workers.looks.hashed_kinds import HashedKinds
from workers.looks.held_rows import HeldRows
from workers.looks.look import Findings, Look, Looks, Seen
from workers.looks.near_copies import NearCopies
from workers.looks.rows_alike import RowsAlike
from workers.looks.score_diagnostics import ScoreDiagnostics
from workers.looks.training_rows import TrainingRows
from workers.remark import Remark

_Key = TypeVar("_Key")
LOOKS: tuple[type[Look], ...] = (
    NearCopies,
    RowsAlike,
    ScoreDiagnostics,
    HeldRows,
    HashedKinds,
    TrainingRows,
)
"""In the order in which they see, refuse and remark."""


def look_at(seen: Seen) -> Looks:
    """Return what each look counts in a batch.

    Raises:
        NotEvaluableError: a column holds what it cannot mean.
    """
    found = ((look, look.see(seen)) for look in LOOKS)
    return {look: counts for look, counts in found if counts is not None}


def added(one: Mapping[_Key, Any], other: Mapping[_Key, Any]) -> dict[_Key, Any]:
    """Return what was counted of both sets of rows under each key; of nothing seen, the other."""
    return {**one, **other, **{key: one[key] + other[key] for key in one.keys() & other.keys()}}


def check_looks(found: Findings, *, before_counting: bool = False) -> None:
    """Refuse what a look refuses, the first by the list.

    Raises:
        NotEvaluableError: what was counted says so.
    """
    for look in LOOKS:
        if look.before_counting is before_counting and look in found.looks:
            found.looks[look].check(found)


def remarks_of_looks(found: Findings, *, after_files: bool = False) -> Iterator[Remark]:
    """Yield what looks remark on, in the order of the list."""
    for look in LOOKS:
        if look.after_files is after_files and look in found.looks:
            yield from found.looks[look].remarks(found)
