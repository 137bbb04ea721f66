"""Re-identification on small data, by going through all training sets and all adversaries."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcore.exceptions import InvalidInputError
from privcore.upper_bounds import (
    optimal_accuracy,
    optimal_adversary,
    reidentification_eta,
    rip_eta,
    training_sets,
)

HALVES_OF_FOUR = training_sets(4, size=2)


def stochastic(rows, columns, seed):
    """A random table whose rows are distributions, some entries 0."""
    generator = np.random.default_rng(seed)
    table = generator.random((rows, columns)) * (generator.random((rows, columns)) < 0.7)
    table[:, 0] += 1e-3
    return table / table.sum(axis=1, keepdims=True)


tables = st.builds(stochastic, st.just(6), st.integers(1, 4), st.integers(0, 10**6))


def test_training_sets_are_all_of_them_once():
    members = training_sets(6, size=2)
    assert members.shape == (15, 6)
    assert (members.sum(axis=1) == 2).all()
    assert len({row.tobytes() for row in members}) == 15


@pytest.mark.paper("reidentification", "Definition 1", "Proposition 2")
@settings(deadline=None, max_examples=50)
@given(tables)
def test_no_adversary_does_better_than_the_one_of_proposition_2(table):
    # Every deterministic adversary there is: 2^outputs, for each record.
    accuracy = optimal_accuracy(table, members=HALVES_OF_FOUR)
    says = optimal_adversary(table, members=HALVES_OF_FOUR)
    for record in range(4):
        takes_part = HALVES_OF_FOUR[:, record]
        reached = [
            np.mean(table[takes_part] @ guess) / 2 + np.mean(table[~takes_part] @ (1 - guess)) / 2
            for guess in map(np.array, itertools.product([0, 1], repeat=table.shape[1]))
        ]
        assert accuracy[record] == pytest.approx(max(reached), abs=1e-12)
        own = says[record].astype(int)
        mine = np.mean(table[takes_part] @ own) / 2 + np.mean(table[~takes_part] @ (1 - own)) / 2
        assert mine == pytest.approx(accuracy[record], abs=1e-12)


@pytest.mark.paper("reidentification", "Equation (1)")
@pytest.mark.parametrize("seed", range(10))
def test_equation_1_with_fresh_records_holds_at_the_eta_of_dp(seed):
    # All training sets of two records of three values, a mechanism of four outputs, and the best
    # adversary: shown is a record of the training set or a fresh one, as the coin says.
    random = np.random.default_rng([1, seed])
    population = random.dirichlet(np.ones(3))
    sets = list(itertools.product(range(3), repeat=2))
    runs = np.exp(random.uniform(0.0, 1.5, (9, 4)))
    runs /= runs.sum(axis=1, keepdims=True)
    near = [
        (one, other)
        for (one, a), (other, b) in itertools.product(enumerate(sets), repeat=2)
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1
    ]
    epsilon = max(float(np.abs(np.log(runs[one] / runs[other])).max()) for one, other in near)
    member, fresh = np.zeros((3, 4)), np.zeros((3, 4))
    for place, records in enumerate(sets):
        chance = float(np.prod(population[list(records)]))
        for record in records:
            member[record] += chance / 2.0 * runs[place]
        fresh += chance * np.outer(population, runs[place])
    accuracy = float(np.maximum(member, fresh).sum()) / 2.0
    assert 0.5 < accuracy <= 0.5 + float(rip_eta(epsilon)) + 1e-12


@pytest.mark.paper("reidentification", "Theorem 3")
@settings(deadline=None, max_examples=100)
@given(tables, st.integers(1, 5), st.integers(0, 10**6))
def test_no_function_of_the_output_raises_eta(table, outputs, seed):
    after = np.minimum(table @ stochastic(table.shape[1], outputs, seed), 1.0)
    before = reidentification_eta(table, members=HALVES_OF_FOUR)
    assert reidentification_eta(after, members=HALVES_OF_FOUR) <= before + 1e-12


@pytest.mark.paper("reidentification", "Theorem 4")
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
def test_theorem_4_is_tight_on_two_records(epsilon):
    kept = 1.0 / (1.0 + np.exp(-epsilon))
    table = [[kept, 1.0 - kept], [1.0 - kept, kept]]
    eta = reidentification_eta(table, members=training_sets(2, size=1))
    assert eta == pytest.approx(rip_eta(epsilon), rel=1e-12)


@pytest.mark.paper("reidentification", "Theorem 4", "Proposition 6")
@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**6), st.floats(0.01, 4.0))
def test_dp_implies_eta_and_bounds_the_odds_at_every_output(seed, epsilon):
    # Any table whose entries differ by at most e^epsilon between any two training sets is
    # epsilon-DP, whichever sets are neighbours.
    generator = np.random.default_rng(seed)
    table = np.exp(generator.uniform(0.0, epsilon / 2.0, (6, 5)))
    table /= table.sum(axis=1, keepdims=True)
    assert np.ptp(np.log(table), axis=0).max() <= epsilon
    assert reidentification_eta(table, members=HALVES_OF_FOUR) <= rip_eta(epsilon)
    taking = HALVES_OF_FOUR.T @ table
    without = (~HALVES_OF_FOUR).T @ table
    assert np.abs(np.log(taking / without)).max() <= epsilon


@pytest.mark.paper("reidentification", "Theorem 5")
@pytest.mark.parametrize("eta", [0.2, 0.01, 1e-4])
def test_eta_without_any_epsilon(eta):
    # The paper's example: each record of the training set is published with a small probability,
    # or nothing is. Its eta is as small as one likes, and no epsilon is finite.
    published = 2.0 * eta
    members = training_sets(6, size=3)
    table = np.column_stack([members * (published / 3.0), np.full(len(members), 1.0 - published)])
    found = reidentification_eta(table, members=members)
    assert 0.0 < found <= eta
    neighbours = [
        (one, other)
        for one, other in itertools.combinations(range(len(members)), 2)
        if (members[one] & members[other]).sum() == 2
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = [np.abs(np.log(table[one] / table[other])) for one, other in neighbours]
    assert np.nanmax(losses) == np.inf


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: training_sets(0, size=0), "records is 0"),
        (lambda: training_sets(3, size=4), "size is 4"),
        (lambda: reidentification_eta([[1.0]], members=[[1]]), "members is"),
        (lambda: reidentification_eta([[1.0]], members=HALVES_OF_FOUR), "shape of likelihoods"),
        (
            lambda: reidentification_eta(np.full((6, 2), 0.4), members=HALVES_OF_FOUR),
            "sum of probabilities is 0.8",
        ),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(InvalidInputError, match=name):
        call()
