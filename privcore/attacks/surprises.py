"""Labels that the proxy held unlikely: how many of them the target knows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privcore.attacks.odds import OddsTally


@dataclass(frozen=True, slots=True)
class Surprises:
    """Records of one set whose label the proxy held unlikely.

    Args:
        records: how many there are.
        known: of how many of them the target holds the label likely.
    """

    records: int
    known: int

    @property
    def share(self) -> float:
        """Share of them that the target knows, in [0, 1]; NaN if there are none."""
        return self.known / self.records if self.records else math.nan


def surprises(tallies: Sequence[OddsTally]) -> Surprises:
    """Count the records whose label contradicts the proxy, and of how many the target knows it.

    Of each record one class is looked at (`OddsTally`): the proxy is contradicted where it holds
    that class likely and it is not the label, or unlikely and it is.

    A model knows hardly any such label that it was not trained on, unless the proxy is far out of
    date: this tells neither cause from the other, and proves nothing of the privacy loss.
    """
    records = known = 0
    for tally in tallies:
        cells = tally.cells()
        for label, likely in ((cells.ones, 1.0), (cells.zeros, -1.0)):
            contradicted = cells.proxy * likely < 0.0
            records += int(label[contradicted].sum())
            known += int(label[contradicted & (cells.target * likely > 0.0)].sum())
    return Surprises(records, known)
