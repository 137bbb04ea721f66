"""Truthful declarations, audited: the table of false accusations in docs/evidence/statistics.md.

    python -m tests.benchmarks.scenarios [--audits 100] [--delta 1e-5]

Each cell is `share of audits whose bound exceeds the truth / mean bound` of those that are not
refused (how many are, in parentheses), at significance 0.05 and for one true epsilon. Worlds are
those of `tests.worlds`, seed 71 for each, a quarter of the audits where more than 10,000 records
train. Beside them how often bets that believe the proxy exceed the truth: the least and the most
over the row's columns.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from rich.progress import track

from privcore.guarantees import ApproxDP, PureDP
from privcore.lower_bounds import Claim
from tests.simulate import audited, believed
from tests.worlds import FALSE_WORLDS, WORLDS, World

_EPSILONS = (0.0, 0.5, 1.0, 2.0)
_LARGE = 10_000


def cell(world: World, *, audits: int, claim: Claim) -> tuple[str, float]:
    """The world's cell, and how often the believing bets exceed the truth."""
    random = np.random.default_rng(71)
    number = max(audits // 4, 2) if world.training > _LARGE else audits
    found = []
    for audit in range(number):
        training, control = world.draw(random)
        bound = audited(training, control, claim=claim, seed=audit)
        found.append((bound, believed(training, claim=claim)))
    bounds = np.array(found)
    false, wrong = np.mean(bounds > world.epsilon, axis=0)
    evaluated = bounds[~np.isnan(bounds[:, 0]), 0]
    if not evaluated.size:
        return f"refused ({number})", float(wrong)
    refused = f" ({number - evaluated.size})" if evaluated.size < number else ""
    return f"{false:.2f} / {evaluated.mean():.2f}{refused}", float(wrong)


def table(worlds: dict[str, World], *, audits: int, claim: Claim) -> Iterator[str]:
    rows: dict[tuple[str, int, int], dict[float, World]] = {}
    for world in worlds.values():
        place = world.told, world.training, world.control
        rows.setdefault(place, {})[world.epsilon] = world
    columns = " | ".join(f"truly {epsilon:g}" for epsilon in _EPSILONS)
    yield f"| world | training / holdout | {columns} | proxy believed |"
    yield "| --- | --- |" + " --- |" * (len(_EPSILONS) + 1)
    for (told, training, control), row in track(rows.items(), description="worlds"):
        done = {e: cell(world, audits=audits, claim=claim) for e, world in row.items()}
        cells = " | ".join(done[e][0] if e in done else "" for e in _EPSILONS)
        wrong = [share for _, share in done.values()]
        span = f"{min(wrong):.2f} to {max(wrong):.2f}" if len(wrong) > 1 else f"{wrong[0]:.2f}"
        yield f"| {told} | {training:,} / {control:,} | {cells} | {span} |"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--audits", type=int, default=100)
    arguments.add_argument("--delta", type=float, default=0.0)
    given = arguments.parse_args()
    claim = Claim(family=ApproxDP() if given.delta else PureDP(), delta=given.delta)
    for title, worlds in (
        ("Worlds where assumption E holds, or fails towards silence", WORLDS),
        ("Worlds where assumption E is false", FALSE_WORLDS),
    ):
        print(f"\n{title}; delta {given.delta:g}, {given.audits} audits\n")  # noqa: T201
        for line in table(worlds, audits=given.audits, claim=claim):
            print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
