"""The attacker's prior: what a network says is what its joint distribution says, exactly."""

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from privcore.attacks.marginal_reconstruction import BayesianNetwork, fit_network
from privcore.exceptions import InvalidInputError
from privcore.upper_bounds import joint_prior

SIZES = (2, 3, 2, 3)


def network(seed=0):
    """Return a network in which two columns have two parents each."""
    random = np.random.default_rng(seed)
    parents = ((), (0,), (0, 1), (1, 2))
    tables = tuple(
        random.dirichlet(np.full(SIZES[column], 0.7), [SIZES[other] for other in family])
        for column, family in enumerate(parents)
    )
    return BayesianNetwork((0, 1, 2, 3), parents, tables)


def joint(net):
    """Multiply all tables out."""
    found = np.zeros(SIZES)
    for cells in itertools.product(*map(range, SIZES)):
        found[cells] = np.prod(
            [
                net.tables[column][(*(cells[other] for other in family), cells[column])]
                for column, family in enumerate(net.parents)
            ]
        )
    return found


KNOWN = [(3,), (0,), (0, 3), (1, 2), (0, 1, 2), (2,)]


@pytest.mark.parametrize("known", KNOWN)
def test_posteriors_and_best_guesses_are_those_of_the_joint_distribution(known):
    net = network()
    whole = joint(net)
    assert whole.sum() == pytest.approx(1.0)
    rows = np.array(list(itertools.product(*(range(SIZES[column]) for column in known))))
    given = {column: rows[:, place] for place, column in enumerate(known)}
    unknown = [column for column in range(4) if column not in known]
    best, chance = net.most_probable(given)
    for index, row in enumerate(rows):
        at = [slice(None)] * 4
        for column, value in zip(known, row, strict=True):
            at[column] = value
        rest = whole[tuple(at)] / whole[tuple(at)].sum()
        assert chance[index] == pytest.approx(rest.max())
        assert rest[tuple(best[index, unknown])] == pytest.approx(rest.max())
        values = {column: int(value) for column, value in zip(known, row, strict=True)}
        assert chance[index] == pytest.approx(float(joint_prior(whole, known=values)))
        for place, column in enumerate(unknown):
            others = tuple(axis for axis in range(len(unknown)) if axis != place)
            assert net.posterior(given, column)[index] == pytest.approx(rest.sum(axis=others))


def test_samples_follow_the_network_and_fitting_finds_it_again():
    net = network(3)
    cells = net.sample(40_000, np.random.default_rng(1))
    codes = np.ravel_multi_index(cells.T, SIZES)
    counts = np.bincount(codes, minlength=36)
    expected = joint(net).ravel() * 40_000
    likely = expected > 5.0
    seen, rest = counts[likely], expected[likely]
    assert chisquare(seen, rest * seen.sum() / rest.sum()).pvalue > 1e-6
    # Degree 3 of 4 columns is any distribution: what is fitted is what was counted.
    fitted = joint(fit_network(cells, SIZES, degree=3))
    assert fitted.ravel() == pytest.approx(counts / 40_000)


def test_fitting_takes_the_parents_that_say_most():
    random = np.random.default_rng(5)
    cause = random.integers(0, 4, 5_000)
    noise = random.integers(0, 4, 5_000)
    copy = np.where(random.random(5_000) < 0.95, cause, noise)
    net = fit_network(np.column_stack([noise, cause, copy]), (4, 4, 4), degree=1)
    assert {1, 2} in [{column, *net.parents[column]} for column in range(3)]
    assert all(set(net.parents[column]) <= set(net.order[:place])
               for place, column in enumerate(net.order))  # fmt: skip


def test_bad_input_is_refused():
    net = network()
    with pytest.raises(InvalidInputError, match="known"):
        net.posterior({}, 0)
    with pytest.raises(InvalidInputError, match="column 1"):
        net.posterior({1: [3]}, 0)
    with pytest.raises(InvalidInputError, match="cells"):
        fit_network(np.zeros((0, 2), dtype=int), (2, 2))
    with pytest.raises(InvalidInputError, match="degree"):
        fit_network(np.zeros((2, 2), dtype=int), (2, 2), degree=0)
    never = BayesianNetwork((0, 1), ((), (0,)), (np.array([1.0, 0.0]), np.eye(2)))
    with pytest.raises(InvalidInputError, match="occur together"):
        never.posterior({0: [1]}, 1)
    with pytest.raises(InvalidInputError, match="occur together"):
        never.most_probable({0: [1]})
