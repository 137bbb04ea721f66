"""Which row of a person should play: what four rules prove of honest memory and of an owner's.

    python -m tests.benchmarks.chosen_rows [AUDITS]

`sure` is the rule of `UnitRecords`: the row that the earlier model is least sure of, which an owner
knows before training. `lot` draws one, `half` does so for half of the persons, and `lift` takes the
row whose log-odds the target moved most. That is valid for delta 0 alone (`unit_records` says why);
with a delta each row of a person would have to pay its price. There is no student.
"""

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from privcore.attacks import PaperScore, ScoredRecords, UnitRecords, unit_records, unit_tallies
from privcore.guarantees import PureDP
from privcore.lower_bounds import Claim, Grid, read_evidence

Random = np.random.Generator
_CLAIM = Claim(family=PureDP(), delta=0.0)


@dataclass(frozen=True)
class World:
    """Persons, of whose rows the target remembers some.

    Attributes:
        persons: in training; a quarter as many are held out.
        each: rows of a person.
        share: of the rows that are remembered.
        memory: by how much log-odds move to a remembered label.
        chosen: whether the row that the earlier model is least sure of is never remembered.
        drift: deviation of what changed for everyone since the earlier model, in log-odds.
    """

    persons: int
    each: int
    share: float
    memory: float
    chosen: bool = False
    drift: float = 0.5

    def arm(self, random: Random, *, persons: int, memory: float, first: int) -> UnitRecords:
        """Return the rows that play of one arm."""
        rows = persons * self.each
        known = random.normal(0.0, 1.5, rows)
        now = known + self.drift * random.normal(size=rows)
        labels = (random.random(rows) < expit(now)).astype(np.int64)
        remembered = random.random(rows) < self.share
        if self.chosen:
            least = np.abs(known).reshape(persons, self.each).argmin(axis=1)
            remembered[np.arange(persons) * self.each + least] = False
        target = now + random.normal(0.0, 0.3, rows) + memory * remembered * (2 * labels - 1)
        records = ScoredRecords(_two(target), _two(known), labels, int(random.integers(2**60)))
        people = np.repeat(np.arange(persons), self.each) + first
        return unit_records(records, people, unit_key=int(random.integers(2**60)))

    def bound(self, random: Random) -> float:
        """Return what one audit proves."""
        training = self.arm(random, persons=self.persons, memory=self.memory, first=0)
        held = self.arm(random, persons=self.persons // 4, memory=0.0, first=self.persons)
        tallies = unit_tallies(training, held, score=PaperScore(), repetitions=1, key=3)
        found = read_evidence(
            tallies, claim=_CLAIM, choice=Grid(), paper_delta=1e-5, random=np.random.default_rng(1)
        )
        return found.epsilon_lower


def _two(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([expit(-log_odds), expit(log_odds)], axis=1)


def _lifts(units: UnitRecords) -> NDArray[np.float64]:
    target, proxy = (logit(one[:, 1].clip(1e-9, 1.0 - 1e-9)) for one in (units.target, units.proxy))
    return np.asarray(-np.abs(target - proxy))


RULES: dict[str, Callable[[UnitRecords], NDArray[np.float64]]] = {
    "sure": lambda units: units.proxy.max(axis=1),
    "lot": lambda units: np.zeros(units.labels.size),
    "half": lambda units: np.where(units.streams & np.uint64(1), 0.0, units.proxy.max(axis=1)),
    "lift": _lifts,
}
"""Numbers of which a person's least decides; a hash does among equals."""
WORLDS = [
    *(World(4_000, 2, 1.0, 1.0, chosen) for chosen in (False, True)),
    *(World(4_000, 4, 0.3, 4.0, chosen) for chosen in (False, True)),
    *(World(4_000, 4, 0.3, 4.0, chosen, drift=1.0) for chosen in (False, True)),
    *(World(1_000, 20, share, 4.0) for share in (0.3, 0.05)),
    *(World(4_000, each, 1.0, 0.0) for each in (2, 8)),
]


def one_each(units: UnitRecords, rule: str) -> UnitRecords:
    """Return `UnitRecords.one_each` by another rule."""
    if not units.labels.size:
        return units
    order = np.lexsort((units.ranks, RULES[rule](units), units.streams))
    streams = units.streams[order]
    first = np.r_[True, streams[1:] != streams[:-1]]
    chosen = {name: getattr(units, name)[order[first]] for name in units.__slots__}
    total = np.add.reduceat(units.rows[order], np.flatnonzero(first))
    return replace(UnitRecords(**chosen), rows=total)


def main() -> None:
    """Print the mean bounds as a table."""
    audits = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    print(f"| world, {audits} audits each | {' | '.join(RULES)} |")  # noqa: T201
    print("| --- |" + " --- |" * len(RULES))  # noqa: T201
    for place, world in enumerate(WORLDS):
        cells = []
        for rule in RULES:
            by_rule = functools.partialmethod(one_each, rule=rule)
            with mock.patch.object(UnitRecords, "one_each", by_rule):
                found = [world.bound(np.random.default_rng((place, one))) for one in range(audits)]
            cells.append(f"{np.mean(found):.2f}")
        about = ", ".join(f"{name} {value:g}" for name, value in vars(world).items())
        print(f"| {about} | {' | '.join(cells)} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
