"""Reconstruction from marginals, and the prior of a network: exact, and no more than the bound."""

import itertools

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.stats import binomtest, chisquare

from privcore.attacks.marginal_reconstruction import (
    BayesianNetwork,
    fit_network,
    marginal_fit,
    reconstruct_columns,
)
from privcore.exceptions import InvalidInputError
from privcore.mechanisms.marginals import (
    marginal,
    marginals_deviation,
    marginals_touching,
    noisy_marginals,
)
from privcore.upper_bounds import joint_prior, success_count
from tests.support.refusals import refused
from tests.support.tiers import rest_slow

SIZES = (4, 3, 2, 5, 3, 6)
DELTA, LEVEL = 1e-5, 1e-6


def table(records, seed=0):
    random = np.random.default_rng(seed)
    cells = np.column_stack([random.integers(0, size, records) for size in SIZES])
    cells[:, 1] = (cells[:, 0] + (random.random(records) < 0.3)) % SIZES[1]
    return cells


def published(cells, secret, *, deviation=0.0, seed=1, ways=3):
    chosen = marginals_touching(len(SIZES), ways=ways, secret=secret)
    random = np.random.default_rng(seed)
    counts = noisy_marginals(cells, SIZES, chosen, deviation=deviation, generator=random)
    return marginal_fit(cells, SIZES, secret=secret, chosen=chosen, published=counts)


def one_hot(cells, secret):
    return [np.eye(SIZES[column])[cells[:, column]] for column in secret]


@pytest.mark.parametrize("secret", [(0,), (3, 1), (5, 0, 2), (0, 1, 2, 3, 4)])
@pytest.mark.parametrize("records", [4, 30])
def test_the_gradient_is_that_of_finite_differences(secret, records):
    fit = published(table(records), secret, deviation=2.0)
    shapes = [(records, SIZES[column]) for column in secret]
    ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
    parts = lambda flat: [  # noqa: E731  # local, and twice
        part.reshape(shape) for part, shape in zip(np.split(flat, ends), shapes, strict=True)
    ]
    start = np.random.default_rng(2).random(int(sum(np.prod(shape) for shape in shapes)))
    far = check_grad(
        lambda flat: fit.error(parts(flat))[0],
        lambda flat: np.concatenate([slope.ravel() for slope in fit.error(parts(flat))[1]]),
        start,
    )
    size = np.linalg.norm(np.concatenate([slope.ravel() for slope in fit.error(parts(start))[1]]))
    assert far < 1e-4 * size


@pytest.mark.parametrize("secret", [(0,), (3, 1), (5, 0, 2)])
def test_the_error_is_that_of_the_marginals_themselves(secret):
    cells = table(25)
    fit = published(cells, secret)
    assert fit.error(one_hot(cells, secret))[0] == pytest.approx(0.0, abs=1e-9)
    other = cells.copy()
    other[:, secret[0]] = (other[:, secret[0]] + 1) % SIZES[secret[0]]
    # Where no record has the known values, both have counts of 0: nothing is lost by leaving out.
    expected = sum(
        np.sum((marginal(cells, SIZES, columns) - marginal(other, SIZES, columns)) ** 2)
        for columns in marginals_touching(len(SIZES), ways=3, secret=secret)
    )
    assert fit.error(one_hot(other, secret))[0] == pytest.approx(expected)


@pytest.mark.paper("worst_case", "Figure 5")
@pytest.mark.parametrize("column", [0, 3, 5])
def test_without_noise_the_column_is_recovered(column):
    # 40 records that differ in what is known of them.
    cells = table(400, seed=4)
    known = [other for other in range(len(SIZES)) if other != column]
    _, first = np.unique(cells[:, known], axis=0, return_index=True)
    cells = cells[np.sort(first)][:40]
    uniform = {column: np.full((len(cells), SIZES[column]), 1.0 / SIZES[column])}
    found = reconstruct_columns(published(cells, (column,)), priors=uniform, steps=500)
    assert np.array_equal(found[0].argmax(axis=1), cells[:, column])


def test_with_endless_noise_the_posterior_is_the_prior():
    cells = table(20)
    random = np.random.default_rng(0)
    prior = random.dirichlet(np.ones(SIZES[3]), 20)
    fit = published(cells, (3,), deviation=1e4)
    found = reconstruct_columns(fit, priors={3: prior}, deviation=1e4)
    assert np.array_equal(found[0].argmax(axis=1), prior.argmax(axis=1))


@pytest.mark.slow
@pytest.mark.paper("worst_case", "Theorem 3.5", "Figure 4")
@pytest.mark.parametrize(
    ("secret", "epsilon"), rest_slow([((3,), 1.0), ((3,), 4.0), ((3, 1), 3.0)])
)
def test_no_attack_exceeds_theorem_3_5(secret, epsilon):
    # 60 runs of 50 records; each exceeds its limit with probability 5% at most, by an exact
    # binomial test at 1e-6.
    net = fit_network(table(4_000, seed=3), SIZES, degree=2)
    random = np.random.default_rng([11, int(epsilon), len(secret)])
    chosen = marginals_touching(len(SIZES), ways=3, secret=secret)
    deviation = marginals_deviation(epsilon, delta=DELTA, marginals=len(chosen))
    exceeded = np.zeros(2, dtype=int)
    total, runs = 0, 60
    for _ in range(runs):
        cells = net.sample(50, random)
        known = {column: cells[:, column] for column in range(6) if column not in secret}
        counts = noisy_marginals(cells, SIZES, chosen, deviation=deviation, generator=random)
        fit = marginal_fit(cells, SIZES, secret=secret, chosen=chosen, published=counts)
        priors = {column: net.posterior(known, column) for column in secret}
        limit = success_count(net.most_probable(known)[1], epsilon=epsilon, delta=DELTA).limit(
            significance=0.05
        )
        for place, noise in enumerate((None, deviation)):
            relaxed = reconstruct_columns(fit, priors=priors, deviation=noise, steps=30)
            guess = np.column_stack([part.argmax(axis=1) for part in relaxed])
            right = int(np.all(guess == cells[:, list(secret)], axis=1).sum())
            exceeded[place] += right > limit
            total += right
    assert total > 0
    for count in exceeded:
        assert binomtest(int(count), runs, 0.05, alternative="greater").pvalue > LEVEL


def test_bad_input_is_refused():
    cells = table(5)
    fit = published(cells, (0,))
    for priors in ({}, {0: np.ones((5, 4))}, {0: np.ones((4, 4)) / 4.0}):
        refused("prior", reconstruct_columns, fit, priors=priors)
    fair = {0: np.full((5, 4), 0.25)}
    refused("deviation", reconstruct_columns, fit, priors=fair, deviation=0.0)
    refused("steps", reconstruct_columns, fit, priors=fair, steps=0)
    with pytest.raises(InvalidInputError, match="shape of a marginal"):
        marginal_fit(cells, SIZES, secret=(0,), chosen=[(0, 1)], published=[np.zeros((4, 4))])
    with pytest.raises(InvalidInputError, match="secret column"):
        marginal_fit(cells, SIZES, secret=(0,), chosen=[(1, 2)], published=[np.zeros((3, 2))])


WIDTHS = (2, 3, 2, 3)


def network(seed=0):
    """Return a network in which two columns have two parents each."""
    random = np.random.default_rng(seed)
    parents = ((), (0,), (0, 1), (1, 2))
    tables = tuple(
        random.dirichlet(np.full(WIDTHS[column], 0.7), [WIDTHS[other] for other in family])
        for column, family in enumerate(parents)
    )
    return BayesianNetwork((0, 1, 2, 3), parents, tables)


def joint(net):
    """Multiply all tables out."""
    found = np.zeros(WIDTHS)
    for cells in itertools.product(*map(range, WIDTHS)):
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
    rows = np.array(list(itertools.product(*(range(WIDTHS[column]) for column in known))))
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
    codes = np.ravel_multi_index(cells.T, WIDTHS)
    counts = np.bincount(codes, minlength=36)
    expected = joint(net).ravel() * 40_000
    likely = expected > 5.0
    seen, rest = counts[likely], expected[likely]
    assert chisquare(seen, rest * seen.sum() / rest.sum()).pvalue > 1e-6
    # Degree 3 of 4 columns is any distribution: what is fitted is what was counted.
    fitted = joint(fit_network(cells, WIDTHS, degree=3))
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


def test_bad_input_of_bayesian_network_is_refused():
    net = network()
    refused("known", net.posterior, {}, 0)
    refused("column 1", net.posterior, {1: [3]}, 0)
    refused("cells", fit_network, np.zeros((0, 2), dtype=int), (2, 2))
    refused("degree", fit_network, np.zeros((2, 2), dtype=int), (2, 2), degree=0)
    never = BayesianNetwork((0, 1), ((), (0,)), (np.array([1.0, 0.0]), np.eye(2)))
    refused("occur together", never.posterior, {0: [1]}, 1)
    refused("occur together", never.most_probable, {0: [1]})
