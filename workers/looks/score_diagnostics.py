"""Likely faults of supplied probabilities: remarks in the record, which accuse nobody.

Another system computed them, and how they were written is not known. Classes in another order leave
traces, which are not certain: an honest model may leave them too. So they are sentences beside the
verdict, which say what to look at.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from privcore.attacks.known_labels import better_order, exchanged_words
from workers.looks.look import Findings, Look, Seen
from workers.remark import Remark, RemarkKind, remarked
from workers.sources.scores.supplied import ScoreSource

_LOOKED_AT = 4096
"""Rows of a row group that are looked at, at equal distances."""
_LEAST = 100
"""Records, without which nothing can be said."""


@dataclass(frozen=True, slots=True)
class ScoreDiagnostics(Look):
    """Signs of faults in a table's probabilities; they add as a tally does.

    Attributes:
        looked: row groups with enough records.
        orders: row groups in which another order of the classes fits a role's better.
    """

    looked: int = 0
    orders: Counter[tuple[str, tuple[int, ...]]] = field(default_factory=Counter)

    @classmethod
    def see(cls, seen: Seen) -> "ScoreDiagnostics | None":
        """Return what some rows of a row group say of a score table's probabilities.

        Where they are of models, nothing is looked at, nor behind a row group's first batch.
        """
        source, batch = seen.source, seen.batch
        if not isinstance(source, ScoreSource) or batch.place[2] != 0:
            return None
        read, (training, control) = source.labels(batch)[0], source.arms(batch)
        scored = source.probabilities(batch, seen.scores)
        rows = batch.table.num_rows
        places = np.linspace(0, max(rows - 1, 0), min(_LOOKED_AT, rows))
        chosen = np.unique(places.astype(np.int64))
        labels = read[chosen]
        played = (labels >= 0) & (training | control)[chosen]
        if np.count_nonzero(played) < _LEAST:
            return None
        found = (better_order(model[chosen][played], labels[played]) for model in scored)
        roles = zip(("target", "proxy"), found, strict=True)
        return cls(1, Counter({(role, order): 1 for role, order in roles if order is not None}))

    def remarks(self, found: Findings) -> tuple[Remark, ...]:
        """Return what was seen in most row groups."""
        told: list[Remark] = []
        roles: dict[tuple[int, ...], list[str]] = {}
        for (role, order), groups in sorted(self.orders.items(), reverse=True):
            if 2 * groups > self.looked:
                roles.setdefault(order, []).append(f"{role}'s")
        for order, whose in roles.items():
            known = [str(found.source.label.classes[place]) for place in order]
            sentence = f"{exchanged_words(whose, known)}see scores.classes."
            told += remarked(RemarkKind.CLASSES_EXCHANGED, sentence)
        return tuple(told)
