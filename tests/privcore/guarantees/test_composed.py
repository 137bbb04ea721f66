"""Composed guarantees are never below the exact composition of the worst mechanisms."""

import bisect
import itertools
import math

import numpy as np
import pytest
from scipy.special import expit

from privcore.exceptions import InvalidInputError
from privcore.guarantees.relations import composed_epsilon


def exact_delta(epsilons, epsilon):
    """Return delta of randomized responses at these epsilons, by all of their outcomes."""
    right = np.array(list(itertools.product((True, False), repeat=len(epsilons))))
    chances = expit(epsilons)
    true, false = (
        np.where(sides, chances, 1.0 - chances).prod(axis=1) for sides in (right, ~right)
    )
    return np.maximum(true - math.exp(epsilon) * false, 0.0).sum()


@pytest.mark.slow
@pytest.mark.parametrize("epsilons", [[0.1] * 10, [0.5, 1.0, 0.25, 2.0], [1.0, 1.0]])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.05])
def test_it_is_the_exact_composition_rounded_up(epsilons, delta):
    found = composed_epsilon([(each, 0.0) for each in epsilons], delta=delta)
    assert exact_delta(epsilons, found) <= delta * (1.0 + 1e-9)
    grid = np.linspace(0.0, sum(epsilons), 4001)
    least = bisect.bisect_left(grid, True, key=lambda each: exact_delta(epsilons, each) <= delta)
    assert found == pytest.approx(grid[least], abs=2e-3)
    assert found <= sum(epsilons)


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
