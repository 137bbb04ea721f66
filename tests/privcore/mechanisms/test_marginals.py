"""Noisy marginals: counts as they are, and noise as it is accounted for."""

import itertools
import math

import numpy as np
import pytest

from privcore.exceptions import InvalidInputError
from privcore.guarantees import GaussianMechanism
from privcore.mechanisms.marginals import (
    marginal,
    marginals_deviation,
    marginals_touching,
    noisy_marginals,
)

SIZES = (2, 3, 4, 2)


def table(records=60, seed=0):
    random = np.random.default_rng(seed)
    return np.column_stack([random.integers(0, size, records) for size in SIZES])


@pytest.mark.paper("worst_case", "Definitions A.1 and A.2")
def test_a_marginal_counts_records():
    cells = table()
    found = marginal(cells, SIZES, (2, 0))
    assert found.shape == (4, 2)
    for four, two in itertools.product(range(4), range(2)):
        assert found[four, two] == np.sum((cells[:, 2] == four) & (cells[:, 0] == two))


@pytest.mark.parametrize(("ways", "secret"), [(3, (1,)), (2, (0, 3)), (1, (2,)), (4, (0,))])
def test_as_many_marginals_touch_a_secret_as_the_paper_counts(ways, secret):
    found = marginals_touching(4, ways=ways, secret=secret)
    assert len(found) == math.comb(4, ways) - math.comb(4 - len(secret), ways)
    assert len(set(found)) == len(found)
    assert all(set(secret) & set(columns) for columns in found)


def test_replacing_secret_cells_moves_the_marginals_by_the_sensitivity():
    # The worst replacement moves every marginal that touches the secret by exactly sqrt(2), and the
    # others not at all.
    cells = table()
    other = cells.copy()
    other[7, 1:3] = (cells[7, 1:3] + 1) % np.array(SIZES[1:3])
    touching = marginals_touching(4, ways=3, secret=(1, 2))
    moved = [
        np.sum((marginal(cells, SIZES, columns) - marginal(other, SIZES, columns)) ** 2)
        for columns in touching
    ]
    assert moved == [2.0] * len(touching)
    for columns in itertools.combinations(range(4), 3):
        if columns not in touching:
            assert np.array_equal(marginal(cells, SIZES, columns), marginal(other, SIZES, columns))
    deviation = marginals_deviation(1.0, delta=1e-5, marginals=len(touching))
    multiplier = deviation / math.sqrt(sum(moved))
    assert GaussianMechanism(multiplier).epsilon(1e-5) == pytest.approx(1.0)


def test_noise_has_the_stated_deviation_and_is_none_at_infinity():
    cells = table()
    chosen = marginals_touching(4, ways=2, secret=(2,))
    assert marginals_deviation(math.inf, delta=1e-5, marginals=3) == 0.0
    random = np.random.default_rng(0)
    exact = noisy_marginals(cells, SIZES, chosen, deviation=0.0, generator=random)
    noise = []
    for _ in range(400):
        noisy = noisy_marginals(cells, SIZES, chosen, deviation=3.0, generator=random)
        noise += [np.subtract(one, two).ravel() for one, two in zip(noisy, exact, strict=True)]
    drawn = np.concatenate(noise)
    assert drawn.std() == pytest.approx(3.0, rel=0.03)
    assert abs(drawn.mean()) < 4 * 3.0 / math.sqrt(drawn.size)


def test_bad_input_is_refused():
    random = np.random.default_rng(0)
    for call in (
        lambda: marginal([[2, 0, 0, 0]], SIZES, (0,)),
        lambda: marginal([[-1, 0, 0, 0]], SIZES, (0,)),
        lambda: marginal([[0.5, 0, 0, 0]], SIZES, (0,)),
        lambda: marginal([[0, 0]], SIZES, (0,)),
        lambda: marginals_touching(4, ways=5, secret=(0,)),
        lambda: marginals_touching(4, ways=2, secret=()),
        lambda: marginals_touching(4, ways=2, secret=(4,)),
        lambda: marginals_deviation(1.0, delta=1e-5, marginals=0),
        lambda: noisy_marginals(table(), SIZES, [(0,)], deviation=-1.0, generator=random),
    ):
        with pytest.raises(InvalidInputError):
            call()
