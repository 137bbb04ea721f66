"""What an audit is said to see from, beside the leak that audits really refute in four of five.

    python -m tests.benchmarks.sees_from [--nights 100] [--worlds 877 classes]

For each world and claim ten nights that leak 0.3 are imagined. The median [least, most] of what
they are said to see stands before the leak at which four of five nights are refuted, or of 400
sequences drawn from `--nights` nights of each leak: all are read by `read_evidence`, and joined by
`declarations_refuted`. Leaks are searched in steps of 0.05, linear between. CPU seconds are those
of one night's power (and of the rest of its evidence).
"""

import argparse
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from privcore.lower_bounds import (
    Claim,
    ClaimedNight,
    ImaginedNight,
    Secret,
    declarations_refuted,
    nights_until_conclusive,
    sees_from_together,
)
from tests.leaking_worlds import (
    World,
    binary,
    claimed,
    grouped,
    members,
    people,
    read,
    refutes,
    several,
    taught,
)

_DRAWS, _IMAGINED, _STEP = 400, 10, 0.05


class Cell(NamedTuple):
    """A world and what is declared of it."""

    told: str
    world: World
    claim: Claim


def cells() -> list[Cell]:
    sizes = [
        Cell(f"{size} rows", binary(size, size // 4), claimed(epsilon))
        for size in (300, 877, 3_000, 20_000)
        for epsilon in (0.5, 1.0, 2.0, 4.0)
    ]
    small, large = binary(877, 219), binary(3_000, 750)
    return [
        *sizes,
        Cell("877 rows, delta 1e-5", small, claimed(1.0, delta=1e-5)),
        Cell("3000 rows, delta 1e-5", large, claimed(1.0, delta=1e-5)),
        Cell("3000 rows, 3% positives", binary(3_000, 750, base=-4.2), claimed(1.0)),
        Cell("20000 rows, 3% positives", binary(20_000, 5_000, base=-4.2), claimed(1.0)),
        Cell("2000 rows, 4 classes", several(2_000, 500, 4), claimed(1.0)),
        Cell("2000 rows, 4 classes, stale", several(2_000, 500, 4, unknown=0.7), claimed(1.0)),
        Cell("2000 rows, 10 classes", several(2_000, 500, 10), claimed(1.0)),
        Cell("3000 rows, stale proxy", binary(3_000, 750, unknown=1.0), claimed(1.0)),
        Cell("3000 rows, very stale proxy", binary(3_000, 750, unknown=2.5), claimed(1.0)),
        Cell("3000 rows, stale proxy, student", taught(3_000, 750), claimed(1.0)),
        Cell("3000 rows, good proxy, student", taught(3_000, 750, unknown=0.0), claimed(1.0)),
        Cell("3000 rows, 100 trees", binary(3_000, 750, trees=100), claimed(1.0)),
        Cell("3000 sure rows, 100 trees", binary(3_000, 750, spread=3.0, trees=100), claimed(1.0)),
        Cell("2000 rows, 10 classes, 100 trees", several(2_000, 500, 10, trees=100), claimed(1.0)),
        Cell(
            "841 sure rows, 10 classes, 100 trees",
            several(841, 356, 10, spread=4.0, trees=100),
            claimed(1.0),
        ),
        Cell("800 persons of 4 rows", people(800, 200), claimed(1.0)),
        Cell("800 persons of 20 rows", people(800, 200, rows=20), claimed(1.0)),
        Cell("5 groups of 877 rows", grouped(small, 5), claimed(1.0)),
        Cell("membership of 1200", members(900, 300), claimed(0.5, secret=Secret.MEMBERSHIP)),
    ]


class Pool:
    """Real nights of one cell by their leak: drawn once."""

    def __init__(self, cell: Cell, nights: int) -> None:
        self._cell, self._nights = cell, nights
        self._made: dict[float, tuple[list[ClaimedNight], float]] = {}

    def at(self, leak: float) -> tuple[list[ClaimedNight], float]:
        if leak not in self._made:
            made, refuted = [], 0
            for seed in range(self._nights):
                tallies = self._cell.world(leak, np.random.default_rng((seed, int(1_000 * leak))))
                evidence = read(tallies, self._cell.claim, seed)
                made.append(evidence.claimed_night)
                refuted += refutes(evidence)
            self._made[leak] = made, refuted / self._nights
        return self._made[leak]

    def power(self, leak: float, together: int) -> float:
        """Return the share that is refuted, of nights alone (0) or of so many together."""
        made, alone = self.at(leak)
        if not together:
            return alone
        chosen = np.random.default_rng(7).integers(0, len(made), (_DRAWS, together))
        return float(np.mean([declarations_refuted([made[i] for i in row])[-1] for row in chosen]))

    def four_of_five(self, together: int, near: float) -> float:
        """Return the leak that four of five refute, searched on both sides of `near`."""
        claim = self._cell.claim.epsilon or 0.0
        steps = max(round((near - claim) / _STEP), 1)
        powers: dict[int, float] = {}

        def power(step: int) -> float:
            if step not in powers:
                powers[step] = self.power(round(claim + step * _STEP, 2), together)
            return powers[step]

        while power(steps) < 0.8:
            steps += 1
            if claim + steps * _STEP > claim + 5.0:
                return float("nan")
        while steps > 0 and power(steps - 1) >= 0.8:
            steps -= 1
        if steps == 0:
            return claim
        low, high = power(steps - 1), power(steps)
        return claim + _STEP * (steps - 1 + (0.8 - low) / (high - low))


def together(nights: Sequence[ImaginedNight], number: int) -> list[float]:
    """Return what several draws of so many of the imagined nights see; infinite where nothing."""
    random = np.random.default_rng(3)
    drawn = (random.integers(0, len(nights), number) for _ in range(9))
    found = (sees_from_together([nights[i] for i in row]) for row in drawn)
    return [float("inf") if one is None else one for one in found]


def row_of(cell: Cell, nights: int) -> list[str]:
    """Return a cell's row: what nights alone and together are said to see from, and really do."""
    imagined, seconds = [], []
    read(cell.world(0.3, np.random.default_rng(0)), cell.claim, 0, with_power=True)  # compiles
    for seed in range(10_000, 10_000 + _IMAGINED):
        tallies = cell.world(0.3, np.random.default_rng(seed))
        times = [time.process_time()]
        for with_power in (False, True):
            evidence = read(tallies, cell.claim, seed, with_power=with_power)
            times.append(time.process_time())
        imagined.append(evidence.power)
        seconds.append((times[1] - times[0], times[2] - times[1]))
    pool, row = Pool(cell, nights), [cell.told, f"{cell.claim.epsilon:g}"]
    alone = [float("inf") if one.sees_from is None else one.sees_from for one in imagined]
    stored = [one.imagined for one in imagined]
    for number in (0, 7, 28, 90):
        if number > 28 and stored[0].price:
            row.append("")
            continue
        said = together(stored, number) if number else alone
        near = float(np.median(said))
        real = pool.four_of_five(number, near) if np.isfinite(near) else np.nan
        row.append(f"{near:.2f} [{min(said):.2f}, {max(said):.2f}] / {real:.2f}")
    rest, both = np.median(seconds, axis=0)
    return [*row, str(nights_until_conclusive(stored)), f"{both - rest:.3f} ({rest:.3f})"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nights", type=int, default=100)
    parser.add_argument("--worlds", nargs="*", default=[""], help="words of their names")
    given = parser.parse_args()
    heads = ("world", "declared", "alone", "7 nights", "28", "90", "conclusive from", "CPU s")
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")  # noqa: T201
    for cell in cells():
        if any(word in cell.told for word in given.worlds):
            print(f"| {' | '.join(row_of(cell, given.nights))} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
