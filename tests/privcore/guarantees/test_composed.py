"""Composed guarantees are never below the exact composition of the worst mechanisms."""

import itertools
import math

import numpy as np
import pytest

from privcore.exceptions import InvalidInputError
from privcore.guarantees.relations import composed_epsilon


def exact_delta(epsilons: list[float], epsilon: float) -> float:
    """Return delta of randomized responses at these epsilons, by all of their outcomes."""
    chances = [1.0 / (1.0 + math.exp(-each)) for each in epsilons]
    paid = 0.0
    for outcome in itertools.product((True, False), repeat=len(epsilons)):
        true = math.prod(p if right else 1 - p for p, right in zip(chances, outcome, strict=True))
        false = math.prod(1 - p if right else p for p, right in zip(chances, outcome, strict=True))
        paid += max(0.0, true - math.exp(epsilon) * false)
    return paid


@pytest.mark.slow
@pytest.mark.parametrize("epsilons", [[0.1] * 10, [0.5, 1.0, 0.25, 2.0], [1.0, 1.0]])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.05])
def test_it_is_the_exact_composition_rounded_up(epsilons, delta):
    found = composed_epsilon([(each, 0.0) for each in epsilons], delta=delta)
    assert exact_delta(epsilons, found) <= delta * (1.0 + 1e-9)
    assert found == pytest.approx(_least(epsilons, delta), abs=2e-3)
    assert found <= sum(epsilons)


def _least(epsilons: list[float], delta: float) -> float:
    grid = np.linspace(0.0, sum(epsilons), 4001)
    return float(next(each for each in grid if exact_delta(epsilons, each) <= delta))


def test_at_the_ends():
    assert composed_epsilon([], delta=0.0) == 0.0
    assert composed_epsilon([(2.0, 1e-6)], delta=1e-6) == 2.0
    assert composed_epsilon([(2.0, 1e-6)] * 3, delta=3e-6) <= 6.0
    assert composed_epsilon([(1.0, 1e-6)] * 2, delta=1e-6) == math.inf
    assert composed_epsilon([(1e5, 0.0)] * 2, delta=1e-6) == 2e5
    for guarantees, delta in (([(-1.0, 0.0)], 0.0), ([(math.inf, 0.0)], 0.0), ([(1.0, 1.0)], 0.0),
                              ([(1.0, 0.0)], math.nan)):  # fmt: skip
        with pytest.raises(InvalidInputError):
            composed_epsilon(guarantees, delta=delta)
