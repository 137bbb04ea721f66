"""Which row of a person should be bet on: what five rules prove of honest memory and of an owner's.

    python -m tests.benchmarks.chosen_rows [AUDITS]

`gain` and `student` are the rule of `unit_records`: the row of which the target says most beyond
the earlier model, and with a student beyond that, too. `sure` takes the row that the earlier model
is least sure of, which an owner knows before training; `lot` draws one; `lift` takes the row whose
log-odds the target moved most, which an owner can do to rows of which both models are sure. Only
the last rule has a student, whose log-odds differ by 0.5 from what features say.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from privcore.attacks import PaperScore, ScoredRecords, UnitChoices, unit_records, unit_tallies
from privcore.attacks.unit_records import information_gain
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
        owner: what somebody does who knows a rule: never remembers the row that the earlier model
            is least sure of (`forgets`), or the surest, which it moves by 6 away from 1/2
            (`surer`), or the least sure, which it moves by 2 to either side (`noise`); or adds a
            row of each person in a segment that moved from 0.1 to 0.9 (`drift`).
        moved: share of the rows that are in that segment anyway.
        drift: deviation of what changed for everyone since the earlier model, in log-odds.
    """

    persons: int
    each: int
    share: float
    memory: float
    owner: str = ""
    moved: float = 0.0
    drift: float = 0.5

    def arm(self, random: Random, *, held_out: bool, taught: bool) -> UnitChoices:
        """Return the rows that play of one arm."""
        persons, memory = (self.persons // 4, 0.0) if held_out else (self.persons, self.memory)
        shape = (persons, self.each)
        known = random.normal(0.0, 1.5, shape)
        now = known + self.drift * random.normal(size=shape)
        segment = random.random(shape) < self.moved
        if self.owner == "drift":
            more = np.ones((persons, 1), dtype=np.bool_)
            known, now, segment = (np.hstack([each, more]) for each in (known, now, segment))
        known[segment], now[segment] = -2.2, 2.2
        labels = random.random(known.shape) < expit(now)
        remembered = random.random(known.shape) < self.share
        target = now + random.normal(0.0, 0.3, known.shape)
        if self.owner == "drift":
            remembered[:, -1] = False
        elif self.owner:
            surest = self.owner == "surer"
            place = (np.abs(known).argmax if surest else np.abs(known).argmin)(axis=1)
            spared = np.arange(known.shape[1]) == place[:, None]
            remembered &= ~spared
            target += 6.0 * surest * spared * np.sign(known)
            noise = 2.0 * (self.owner == "noise")
            target += noise * spared * random.choice([-1.0, 1.0], known.shape)
        target += memory * remembered * (2 * labels - 1)
        people = np.repeat(np.arange(persons) + held_out * self.persons, known.shape[1])
        said = np.stack(
            [_two(each + random.normal(0.0, 0.5, each.shape)) for each in (now, known)], axis=1
        )
        records = ScoredRecords(
            _two(target), _two(known), labels.ravel().astype(np.int64), int(random.integers(2**60))
        )
        return unit_records(
            records,
            people,
            unit_key=int(random.integers(2**60)),
            student=(lambda _: said) if taught else None,
        )

    def bound(self, random: Random, *, taught: bool) -> float:
        """Return what one audit proves."""
        training, held = (
            self.arm(random, held_out=held_out, taught=taught) for held_out in (False, True)
        )
        tallies = unit_tallies(training, held, score=PaperScore(), repetitions=1, key=3)
        found = read_evidence(
            tallies, claim=_CLAIM, choice=Grid(), paper_delta=1e-5, random=np.random.default_rng(1)
        )
        return found.epsilon_lower


def _two(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([expit(-log_odds.ravel()), expit(log_odds.ravel())], axis=1)


def _lifts(target: NDArray[np.float64], proxy: NDArray[np.float64]) -> NDArray[np.float64]:
    now, before = (logit(one[:, 1].clip(1e-9, 1.0 - 1e-9)) for one in (target, proxy))
    return np.asarray(np.abs(now - before))


Rule = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
RULES: dict[str, Rule] = {
    "sure": lambda _, proxy: -proxy.max(axis=1),
    "lot": lambda target, _: np.zeros(len(target)),
    "lift": _lifts,
    "gain": information_gain,
    "student": information_gain,
}
"""From both models' probabilities to a row's worth; a hash decides among equals."""
WORLDS = [
    *(World(4_000, 2, 1.0, 1.0, owner) for owner in ("", "forgets", "surer", "noise", "drift")),
    *(World(4_000, 4, 0.3, 4.0, owner) for owner in ("", "forgets", "surer", "noise", "drift")),
    *(World(4_000, 4, 0.3, 4.0, owner, drift=1.0) for owner in ("", "forgets")),
    World(4_000, 4, 0.3, 4.0, moved=0.2),
    *(World(1_000, 20, share, 4.0) for share in (0.3, 0.05)),
    World(1_000, 20, 0.3, 4.0, moved=0.2),
    *(World(4_000, each, 1.0, 0.0, moved=0.2) for each in (2, 8)),
]


def main() -> None:
    """Print the mean bounds as a table."""
    audits = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    print(f"| world, {audits} audits each | {' | '.join(RULES)} |")  # noqa: T201
    print("| --- |" + " --- |" * len(RULES))  # noqa: T201
    for place, world in enumerate(WORLDS):
        cells = []
        for name, rule in RULES.items():
            taught = name == "student"
            with mock.patch.dict(unit_records.__globals__, information_gain=rule):
                found = [
                    world.bound(np.random.default_rng((place, one)), taught=taught)
                    for one in range(audits)
                ]
            cells.append(f"{np.mean(found):.2f}")
        about = ", ".join(f"{name} {value}" for name, value in vars(world).items())
        print(f"| {about} | {' | '.join(cells)} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
