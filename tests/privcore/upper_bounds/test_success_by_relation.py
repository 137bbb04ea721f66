"""Replacement, adding or removing, simulation: by going through small mechanisms exactly."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcore.exceptions import InvalidInputError
from privcore.guarantees import Relation, implied, simulated_epsilon
from privcore.upper_bounds import bit_success, label_success, success_bound
from tests.support.published import printed
from workers.lake.manifest import Privacy


def some_mechanism(seed):
    """P_y for three labels and no label over four outputs, and the labels' distribution."""
    generator = np.random.default_rng(seed)
    spread = generator.uniform(0.0, 3.0)
    runs = np.exp(generator.uniform(0.0, spread, (4, 4)))
    runs /= runs.sum(axis=1, keepdims=True)
    return runs[:3], runs[3], generator.dirichlet(np.full(3, generator.choice([0.3, 1.0, 5.0])))


def loss(one, other):
    return float(np.abs(np.log(one / other)).max())


def hockey_stick(one, other, epsilon):
    """The least delta at epsilon, both ways."""
    ways = (one - np.exp(epsilon) * other, other - np.exp(epsilon) * one)
    return max(float(np.maximum(way, 0.0).sum()) for way in ways)


def exact(labels, without, chances):
    """The least pure epsilon under each relation."""
    mixture = chances @ labels
    return {
        Relation.REPLACE: max(loss(one, other) for one in labels for other in labels),
        Relation.ADD_REMOVE: max(loss(one, without) for one in labels),
        Relation.SIMULATE: max(loss(one, mixture) for one in labels),
    }


mechanisms = st.integers(0, 10**6).map(some_mechanism)


@pytest.mark.paper("observational", "Definition 1", "Definition 2", "Table 3")
@settings(deadline=None, max_examples=200)
@given(mechanisms)
def test_what_implies_what(mechanism):
    epsilons = exact(*mechanism)
    for known in Relation:
        for asked in Relation:
            bound, delta = implied(epsilons[known], given=known, asked=asked)
            assert delta == 0.0
            assert epsilons[asked] <= bound + 1e-9


@pytest.mark.paper("observational", "Definition 1", "Definition 2")
@settings(deadline=None, max_examples=100)
@given(mechanisms, st.floats(0.0, 2.0))
def test_what_implies_what_with_delta(mechanism, epsilon):
    labels, without, chances = mechanism
    mixture = chances @ labels
    pairs = {
        Relation.REPLACE: [(one, other) for one in labels for other in labels],
        Relation.ADD_REMOVE: [(one, without) for one in labels],
        Relation.SIMULATE: [(one, mixture) for one in labels],
    }
    for known in Relation:
        delta = max(hockey_stick(*pair, epsilon) for pair in pairs[known])
        if delta >= 1.0:
            continue
        for asked in (Relation.REPLACE, Relation.SIMULATE):
            bound, allowed = implied(epsilon, delta=delta, given=known, asked=asked)
            reached = max(hockey_stick(*pair, float(bound)) for pair in pairs[asked])
            assert reached <= allowed + 1e-9


def test_the_steps_that_need_twice_epsilon_do():
    # Two labels at e^-1 and e of an output's chance without a label: 2 apart from one another.
    rare = 1e-4
    labels = np.array([[rare * np.e, 1 - rare * np.e], [rare / np.e, 1 - rare / np.e]])
    without = np.array([rare, 1 - rare])
    nearly = exact(labels, without, np.array([1e-9, 1.0 - 1e-9]))
    assert nearly[Relation.ADD_REMOVE] == pytest.approx(1.0, abs=1e-3)
    assert nearly[Relation.REPLACE] == pytest.approx(2.0, abs=1e-3)
    assert nearly[Relation.SIMULATE] == pytest.approx(2.0, abs=1e-3)


def test_nothing_follows_for_a_run_without_the_label():
    # The mechanism ignores labels, and does something else where there is none.
    # Two of them: three thirds do not make one on every processor, two halves do.
    labels, without = np.array([[1 - 1e-9, 1e-9]] * 2), np.array([1e-9, 1 - 1e-9])
    epsilons = exact(labels, without, np.full(2, 1 / 2))
    assert epsilons[Relation.REPLACE] == epsilons[Relation.SIMULATE] == 0.0
    assert epsilons[Relation.ADD_REMOVE] > 20.0
    for known in (Relation.REPLACE, Relation.SIMULATE):
        assert implied(0.0, given=known, asked=Relation.ADD_REMOVE)[0] == np.inf


@settings(deadline=None, max_examples=200)
@given(mechanisms)
def test_a_label_stands_out_of_its_own_mixture_by_less(mechanism):
    labels, without, chances = mechanism
    epsilon = exact(labels, without, chances)[Relation.REPLACE]
    for prior, run in zip(chances, labels, strict=True):
        bound = simulated_epsilon(epsilon, prior=prior)
        assert loss(run, chances @ labels) <= bound + 1e-9
        assert bound <= epsilon + 1e-12


@pytest.mark.paper("observational", "Algorithm 2", "Definition 2")
@settings(deadline=None, max_examples=200)
@given(mechanisms)
def test_no_guess_at_the_bit_does_better(mechanism):
    # At every output and shown label: the bit is 0 with odds P_y to the mixture.
    labels, without, chances = mechanism
    epsilons, mixture = exact(labels, without, chances), chances @ labels
    for prior, run in zip(chances, labels, strict=True):
        right = np.maximum(run, mixture) / (run + mixture)
        for relation, epsilon in epsilons.items():
            assert right.max() <= bit_success(epsilon, relation=relation) + 1e-9
        own = bit_success(epsilons[Relation.REPLACE], relation=Relation.REPLACE, prior=prior)
        assert right.max() <= own + 1e-9


@pytest.mark.paper("observational", "Definition 1", "Definition 2")
@settings(deadline=None, max_examples=200)
@given(mechanisms, st.floats(0.0, 2.0))
def test_no_named_label_does_better(mechanism, epsilon):
    labels, without, chances = mechanism
    epsilons, mixture = exact(labels, without, chances), chances @ labels
    posterior = chances[:, None] * labels / mixture
    for relation, known in epsilons.items():
        bounds = label_success(chances, epsilon=known, relation=relation)
        if relation is Relation.ADD_REMOVE:
            # Averaged over outputs; at one output only the step over replacement holds.
            reached = float((chances[:, None] * labels).max(axis=0).sum())
            assert reached <= label_success(chances.max(), epsilon=known, relation=relation) + 1e-9
        else:
            assert np.all(posterior.max(axis=1) <= bounds + 1e-9)
    # With delta, averaged over outputs, the best label at each.
    reached = float((chances[:, None] * labels).max(axis=0).sum())
    against = {Relation.ADD_REMOVE: without, Relation.SIMULATE: mixture}
    for relation, other in against.items():
        delta = max(hockey_stick(run, other, epsilon) for run in labels)
        if delta < 1.0:
            bound = label_success(chances.max(), epsilon=epsilon, delta=delta, relation=relation)
            assert reached <= bound + 1e-9


@pytest.mark.parametrize("prior", [0.02, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_bound_on_a_label_under_simulation_is_reached(prior, epsilon):
    # At one rare output the named label is as much more, or the others as much less, probable than
    # the mixture as epsilon allows: nothing tighter is true.
    named = min(np.exp(epsilon), (1.0 - (1.0 - prior) * np.exp(-epsilon)) / prior)
    others = (1.0 - prior * named) / (1.0 - prior)
    rare = 1e-6
    labels = np.array([[rare * named, 1 - rare * named], [rare * others, 1 - rare * others]])
    chances = np.array([prior, 1.0 - prior])
    mixture = chances @ labels
    assert max(loss(run, mixture) for run in labels) <= epsilon + 1e-5
    reached = prior * labels[0, 0] / mixture[0]
    bound = label_success(prior, epsilon=epsilon, relation=Relation.SIMULATE)
    assert reached == pytest.approx(bound, rel=1e-6)
    # More than replacement allows at epsilon, and not more than at twice that.
    assert bound > success_bound(prior, epsilon=epsilon)
    assert bound <= success_bound(prior, epsilon=2.0 * epsilon)


def steps_between(one, other, pairs):
    """How many steps lead from one record to another one, where each is one of the pairs."""
    reached, steps = {one}, 0
    while other not in reached:
        ways = {(a, b) for pair in pairs for a, b in (pair, pair[::-1])}
        reached |= {b for a, b in ways if a in reached}
        steps += 1
        assert steps < 5
    return steps


def pairs_of(difference):
    """The pairs of records that a row of Table 3 prints, over two records and two labels.

    A single record differs from its absence, None; "bottom" is a record without its label.
    """
    if "(" not in difference:
        records = tuple(difference.split(", "))
        return {records} if len(records) == 2 else {(*records, None), ("x'", None)}
    features, labels = zip(*re.findall(r"\((\w+'?), (\w+'?)\)", difference), strict=True)
    assert features == ("x", "x")
    pairs = {labels} if "bottom" not in labels else {("y", "bottom"), ("y'", "bottom")}
    return {tuple((features[0], label) for label in pair) for pair in pairs}


@pytest.mark.paper("observational", "Table 3")
@pytest.mark.parametrize(
    "row", printed("004_table3_neighbors"), ids=lambda row: row["dp_definition"]
)
def test_table_3_s_four_rows_are_what_a_manifest_declares(row):
    relation, _, protected = row["dp_definition"].partition(", ")
    neighbors = {"Replacement": "replace", "Add/remove": "add_remove"}[relation]
    definition = {"DP": "dp", "Label DP": "label_dp"}[protected]
    declared = Privacy(
        definition=definition,
        neighbors=neighbors,
        unit="record",
        epsilon=1.0,
        delta=0.0,
        mechanism=None,
        declared_by="owner",
        declared_at=None,
    )
    pairs = pairs_of(row["difference_between_D_and_D_prime"])
    whole = definition == "dp"
    one, other = ("x", "x'") if whole else (("x", "y"), ("x", "y'"))
    steps = steps_between(one, other, pairs)
    assert steps == Relation(declared.neighbors).replacements
    # Two steps through the run without: twice the epsilon.
    epsilon, _ = implied(1.0, given=Relation(declared.neighbors), asked=Relation.REPLACE)
    assert epsilon == steps


def test_limits():
    for relation in Relation:
        assert bit_success(0.0, relation=relation) == 0.5
        assert bit_success(np.inf, relation=relation) == 1.0
        assert label_success(0.3, epsilon=0.0, relation=relation) == pytest.approx(0.3)
        assert label_success(0.3, epsilon=np.inf, relation=relation) == 1.0
        assert label_success(0.0, epsilon=5.0, relation=relation) == 0.0
        assert label_success(1.0, epsilon=5.0, relation=relation) == 1.0
    assert simulated_epsilon(800.0, prior=0.5) == pytest.approx(800.0 - np.log(2.0))
    assert simulated_epsilon(3.0, prior=1.0) == 0.0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: implied(-1.0, given=Relation.REPLACE, asked=Relation.SIMULATE), "epsilon is -1"),
        (lambda: simulated_epsilon(1.0, prior=2.0), "prior is 2.0"),
        (lambda: bit_success(1.0, relation=Relation.SIMULATE, prior=0.5), "only REPLACE without"),
        (
            lambda: bit_success(1.0, delta=0.1, relation=Relation.REPLACE, prior=0.5),
            "only REPLACE without delta",
        ),
        (lambda: label_success(1.5, epsilon=1.0, relation=Relation.REPLACE), "prior is 1.5"),
        (
            lambda: label_success(0.5, epsilon=1.0, delta=1.0, relation=Relation.SIMULATE),
            "delta is 1.0",
        ),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(InvalidInputError, match=name):
        call()
