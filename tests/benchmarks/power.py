"""Miscoverage and power of every estimator: the tables of docs/evidence/statistics.md.

    python -m tests.benchmarks.power [--audits 100] [--games] [--records 1000 20000 1000000]
    python -m tests.benchmarks.power --silence [--audits 200]

Each cell is `mean bound as a share of the true epsilon / share of audits that exceed it`; audits
that are refused have no bound.
Mechanisms: randomized response whose records have label priors 0.01, 0.05, 0.3 and 0.5 in equal
parts, randomized response at prior 0.5, and Gaussian noise on labels (true epsilon at delta 1e-5).
The adversary is optimal: it knows priors and noisy labels. Seed 2026 for every cell. Of a million
records there are a fifth as many audits. `--games` adds the game's bounds and the paper's figure.

`--silence` counts the audits that prove anything where nothing leaks: 300 independent records, and
300 people with 20 identical labels each, taken as records or as people. Beliefs are off at random.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from rich.progress import track

from privcore.attacks import (
    LogRatioScore,
    PaperScore,
    Score,
    ScoredRecords,
    generator,
    unit_records,
)
from privcore.guarantees import ApproxDP, Family, Gaussian, PureDP
from privcore.lower_bounds import (
    Choice,
    Claim,
    Fixed,
    Grid,
    choice_epsilon_lower,
)
from privcore.lower_bounds.game_evidence import paper_epsilons
from tests.simulate import (
    audited,
    believed,
    gaussian_label,
    play,
    randomized_response,
    unrelated,
)

World = Callable[[int, np.random.Generator], tuple]
_REPETITIONS = 100
_CONTROL_SHARE = 0.25
_MANY = 1_000_000


def game(
    world: World, records: int, random, *, choice: Choice, family: Family, score: Score
) -> float:
    tally = play(*world(records, random), random, repetitions=_REPETITIONS, score=score)
    claim = Claim(family=family, delta=0.0 if isinstance(family, PureDP) else 1e-5)
    return choice_epsilon_lower(tally, claim=claim, choice=choice, random=generator(0))


def paper(world: World, records: int, random, *, score: Score) -> float:
    tally = play(*world(records, random), random, repetitions=_REPETITIONS, score=score)
    return float(paper_epsilons(tally, claim=Claim(), delta=1e-5, random=generator(0)).mean())


def bets(world: World, records: int, random, *, claim: Claim) -> float:
    return believed(world(records, random), claim=claim)


def beside_a_holdout(world: World, records: int, random, *, claim: Claim) -> float:
    training = world(records, random)
    target, proxy, _ = world(int(records * _CONTROL_SHARE), random)
    # What the target says of held-out records has nothing to do with their own labels.
    fresh = (random.random(len(proxy)) < proxy[:, 1]).astype(np.int64)
    return audited(training, (target, proxy, fresh), claim=claim)


def estimators(family: Family, *, games: bool) -> Iterator[tuple[str, Callable[..., float]]]:
    delta = 0.0 if isinstance(family, PureDP) else 1e-5
    scores = (PaperScore(), LogRatioScore()) if games else ()
    for score in scores:
        each = {"family": family, "score": score}
        yield f"game, grid, {score.name} score", partial(game, choice=Grid(), **each)
        yield f"game, fixed 10%, {score.name} score", partial(game, choice=Fixed(0.1), **each)
    claim = Claim(family=family, delta=delta)
    yield "bets, if the proxy is right", partial(bets, claim=claim)
    yield "**matched with a holdout**", partial(beside_a_holdout, claim=claim)
    for score in scores:
        name = f"the paper's figure (Gaussian, not corrected), {score.name} score"
        yield name, partial(paper, score=score)


def table(
    title: str,
    worlds: dict[float, World],
    family: Family,
    records: int,
    audits: int,
    *,
    games: bool,
) -> Iterator[str]:
    yield f"\n{title}, {records:,} records, {audits} audits\n"
    yield "| estimator | " + " | ".join(f"epsilon {epsilon:.3g}" for epsilon in worlds) + " |"
    yield "| --- |" + " --- |" * len(worlds)
    each = list(estimators(family, games=games))
    for name, estimate in track(each, description=f"{title[:40]} {records}"):
        row = []
        for epsilon, world in worlds.items():
            random = np.random.default_rng(2026)
            bounds = np.array([estimate(world, records, random) for _ in range(audits)])
            row.append(f"{np.nanmean(bounds) / epsilon:.2f} / {np.mean(bounds > epsilon):.2f}")
        yield f"| {name} | " + " | ".join(row) + " |"


def silence(audits: int) -> Iterator[str]:
    """Shares of audits with a bound above 0, by estimator, number of replays and dependence."""
    columns = (
        "records, 1 replay",
        "records, 100",
        "rows of people, 100",
        "people, 1",
        "people, 100",
    )
    yield f"\nNothing leaks, {audits} audits of 300 records or people\n"
    yield "| estimator | " + " | ".join(columns) + " |"
    yield "| --- |" + " --- |" * len(columns)
    shares = {}
    for column in track(columns, description="silence"):
        random = np.random.default_rng(2026)
        proved = [_proved(column, random, audit) for audit in range(audits)]
        shares[column] = np.mean(proved, axis=0)
    for row, name in enumerate(("game, grid", "game, fixed 10%", "bets, if the proxy is right")):
        yield f"| {name} | " + " | ".join(f"{shares[c][row]:.3f}" for c in columns) + " |"


def _proved(column: str, random, audit: int) -> list[bool]:
    repetitions = 100 if "100" in column else 1
    target, proxy, labels = unrelated(300, random)
    if "people" in column:
        world = [np.repeat(part, 20, axis=0) for part in (target, proxy, labels)]
        people = np.arange(6_000) // 20
        units = unit_records(ScoredRecords(*world, audit), people, unit_key=audit).moved
        chosen = units.target, units.proxy, units.labels
        target, proxy, labels = world if column.startswith("rows") else chosen
    tally = play(target, proxy, labels, random, repetitions=repetitions)
    claim = Claim(family=PureDP(), delta=0.0)
    games = [
        choice_epsilon_lower(tally, claim=claim, choice=choice, random=generator(audit))
        for choice in (Grid(), Fixed(0.1))
    ]
    return [b > 0.0 for b in (*games, believed((target, proxy, labels)))]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--audits", type=int, default=100)
    arguments.add_argument("--games", action="store_true", help="also what believes the proxy")
    arguments.add_argument("--silence", action="store_true", help="where nothing leaks")
    arguments.add_argument("--records", type=int, nargs="+", default=[1_000, 20_000, 1_000_000])
    given = arguments.parse_args()
    audits = given.audits
    if given.silence:
        print("\n".join(silence(audits)))  # noqa: T201
        return

    def response(epsilon: float, priors: tuple[float, ...]) -> World:
        return lambda records, random: randomized_response(records, epsilon, random, priors)

    def noisy(mu: float) -> World:
        return lambda records, random: gaussian_label(records, mu, random)

    mixed = {e: response(e, (0.01, 0.05, 0.3, 0.5)) for e in (0.5, 1.0, 2.0, 4.0)}
    even = {e: response(e, (0.5,)) for e in (0.5, 1.0, 2.0, 4.0)}
    gauss = {Gaussian(mu).epsilon_at(delta=1e-5): noisy(mu) for mu in (0.5, 1.0, 2.0)}
    tables: tuple[tuple[str, dict[float, World], Family], ...] = (
        ("Randomized response, mixed priors, pure", mixed, PureDP()),
        ("Randomized response, mixed priors, (epsilon, 1e-5)", mixed, ApproxDP()),
        ("Randomized response, prior 0.5, pure", even, PureDP()),
        ("Gaussian, as Gaussian DP", gauss, Gaussian()),
        ("Gaussian, as (epsilon, 1e-5)", gauss, ApproxDP()),
    )
    for records in given.records:
        number = audits if records < _MANY else max(2, audits // 5)
        for each in tables:
            lines = table(*each, records, number, games=given.games)
            print("\n".join(lines), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
