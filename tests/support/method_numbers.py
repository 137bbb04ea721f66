"""The numbers that a method version stands for: evidence of worlds that never change.

    python -m tests.support.method_numbers

writes `tests/golden/method_numbers.json` anew. Do that only with a new METHOD_VERSION: a record
says by which version it was made, and the same version must give the same numbers for ever.
"""

import dataclasses
import functools
import json
import pathlib
from typing import Any

import numpy as np

from flows.study.exam_worlds import RARE, Binary, some_drift
from flows.study.exam_worlds import Drawn as Arm
from privcore.attacks import (
    PaperScore,
    ScoredRecords,
    Tallies,
    generator,
    label_inference,
    odds_tally,
    unit_records,
    unit_tallies,
)
from privcore.guarantees import ApproxDP, Gaussian, PureDP, Relation
from privcore.lower_bounds import (
    STANDING_NIGHTS,
    WINDOW_NIGHTS,
    Claim,
    Grid,
    read_evidence,
    standing_length,
)
from tests.simulate import gaussian_label, randomized_response, unread
from workers.versions import METHOD_VERSION

PERSONS = "persons of three rows, delta"
PATH = pathlib.Path(__file__).parents[1] / "golden" / "method_numbers.json"
LENGTHS = (WINDOW_NIGHTS, STANDING_NIGHTS, standing_length(0.0), standing_length(1e-3))
"""How many nights windows and standings hold."""
_PURE = Claim(family=PureDP(), delta=0.0, epsilon=0.7)
_APPROXIMATE = Claim(family=ApproxDP(), delta=1e-5, epsilon=0.7)
_SHOWN = (0, 7, 20, 45, 60, 80, 112)  # points of the windows' grid


def _response(training: int, control: int, epsilon: float, *, seed: int) -> tuple[Arm, Arm]:
    random = np.random.default_rng(seed)
    unseen = unread(randomized_response(control, epsilon, random), random)
    return randomized_response(training, epsilon, random), unseen


def _noise(training: int, control: int, mu: float, *, seed: int) -> tuple[Arm, Arm]:
    random = np.random.default_rng(seed)
    unseen = unread(gaussian_label(control, mu, random), random)
    return gaussian_label(training, mu, random), unseen


def _classes(training: int, control: int, *, seed: int) -> tuple[Arm, Arm]:
    """Five classes, of which training's are kept or drawn anew, shown to the target."""
    random = np.random.default_rng(seed)
    arms = []
    for records, known in ((training, 0.7), (control, 0.0)):
        proxy = random.dirichlet(np.ones(5), records)
        labels = np.array([random.choice(5, p=row) for row in proxy])
        shown = np.where(random.random(records) < known, labels, random.integers(0, 5, records))
        target = proxy * np.where(np.arange(5) == shown[:, None], 6.0, 1.0)
        arms.append((target / target.sum(axis=1, keepdims=True), proxy, labels))
    return arms[0], arms[1]


@functools.cache
def worlds() -> dict[str, tuple[tuple[Arm, Arm], Claim]]:
    """Return both arms and a claim, by name."""
    drifts = Binary(**RARE, drifts=some_drift(3.0), noise=0.5).world("", 1.0, 4_000, 900)
    adding = dataclasses.replace(_APPROXIMATE, neighbors=Relation.ADD_REMOVE)
    return {
        "pure, 60 records": (_response(60, 25, 2.0, seed=1), _PURE),
        "pure, 3,000 records": (_response(3_000, 800, 2.0, seed=2), _PURE),
        "pure, 30,000 records": (_response(30_000, 9_000, 1.0, seed=3), _PURE),
        "pure, refuted beyond what a double holds": (
            _response(8_000, 2_000, 6.0, seed=14),
            dataclasses.replace(_PURE, epsilon=0.01),
        ),
        "pure, adding": (
            _response(3_000, 800, 4.0, seed=4),
            dataclasses.replace(_PURE, neighbors=Relation.ADD_REMOVE),
        ),
        "pure, shifted": (
            _response(3_000, 800, 2.0, seed=5),
            dataclasses.replace(_PURE, shift=0.02, significance=0.1),
        ),
        "delta, 3,000 records": (_response(3_000, 800, 2.0, seed=6), _APPROXIMATE),
        "delta, 30,000 records": (_response(30_000, 9_000, 1.0, seed=7), _APPROXIMATE),
        "delta, large": (
            _response(3_000, 800, 4.0, seed=8),
            dataclasses.replace(_APPROXIMATE, delta=1e-3),
        ),
        "delta, adding": (_response(3_000, 800, 6.0, seed=9), adding),
        "delta, rare and drifting": (drifts.draw(np.random.default_rng(10)), _APPROXIMATE),
        "Gaussian": (
            _noise(3_000, 800, 2.0, seed=11),
            Claim(family=Gaussian(), delta=1e-5, epsilon=3.0),
        ),
        "five classes": (_classes(2_000, 500, seed=12), _APPROXIMATE),
        "one held out": (_response(500, 1, 2.0, seed=13), _PURE),
        PERSONS: (_response(6_000, 1_500, 2.0, seed=15), _APPROXIMATE),
    }


def _by_record(arms: tuple[Arm, Arm]) -> Tallies:
    games = [
        label_inference(*arm, score=PaperScore(), repetitions=3, key=7 + place)
        for place, arm in enumerate(arms)
    ]
    odds = [(odds_tally(*arm),) for arm in arms]
    return Tallies(*games, *odds, classes=arms[0][0].shape[1])


def _by_person(arms: tuple[Arm, Arm]) -> Tallies:
    """Persons of three rows each; those of training come first."""
    units = [
        unit_records(ScoredRecords(*arm, 7 + place), np.arange(len(arm[2])) // 3 - place * 10**6,
                     unit_key=9)
        for place, arm in enumerate(arms)
    ]  # fmt: skip
    return unit_tallies(*units, score=PaperScore(), repetitions=3, key=7)


def numbers(name: str, arms: tuple[Arm, Arm], claim: Claim) -> dict[str, Any]:
    """Return what the method says of one world, as numbers and lists of numbers."""
    tallies = _by_person(arms) if name == PERSONS else _by_record(arms)
    evidence = read_evidence(
        tallies, claim=claim, choice=Grid((0.01, 0.1, 1.0)), paper_delta=1e-5, random=generator(3)
    )
    told: dict[str, Any] = {}
    for field in dataclasses.fields(evidence):
        value = getattr(evidence, field.name)
        if isinstance(value, int | float):
            told[field.name] = value
    for lasting in ("window_night", "standing_night"):
        night = getattr(evidence, lasting)
        told[lasting] = [night.price, *night.log_wealth[:, _SHOWN].ravel().tolist()]
    for played in ("game", "control_game"):
        game = getattr(evidence, played)
        told[played] = [game.epsilon_lower, game.epsilon_paper, game.epsilon_paper_deviation]
        told[played] += [
            game.best_fraction or 0.0,
            game.epsilon_ceiling,
            *[bound.epsilon_lower for bound in game.bounds],
        ]
    return told


def main() -> None:
    """Write the numbers of this version."""
    every = {name: numbers(name, *world) for name, world in worlds().items()}
    content = {"method_version": METHOD_VERSION, "lengths": list(LENGTHS), "worlds": every}
    PATH.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
