"""Lazy sampling: exact probabilities, held against all sequences together and against luck."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privcore.attacks import exposure_bits
from privcore.attacks.lazy_sampling import (
    PLAIN,
    Sampling,
    calibrated_loss,
    sampling_log_probability,
    secrecy_bits,
)
from privcore.exceptions import InvalidInputError

VOCABULARY, LENGTH = 3, 4
WAYS = [
    PLAIN,
    Sampling(top=2),
    Sampling((0.5,)),
    Sampling((2.0, 1.0, 0.3), top=2),
    Sampling(top=1),
    Sampling(top=9),
]


def model(seed=0):
    """Return a language model: from a beginning to the next token's log-probabilities."""

    def say(beginning):
        random = np.random.default_rng([seed, len(beginning), *beginning])
        return np.log(random.dirichlet(np.ones(VOCABULARY)))

    return say


def rows(say, tokens):
    return np.array([say(tuple(tokens[:place])) for place in range(len(tokens))])


@pytest.mark.paper("renyi", "Section 3.2", "Figure 8")
@pytest.mark.parametrize("sampling", WAYS)
def test_probabilities_of_all_sequences_sum_to_one(sampling):
    say = model()
    logs = [
        sampling_log_probability(rows(say, tokens), tokens, sampling=sampling)
        for tokens in itertools.product(range(VOCABULARY), repeat=LENGTH)
    ]
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-12)
    reached = sum(np.isfinite(logs))
    assert reached == min(VOCABULARY, sampling.top or VOCABULARY) ** LENGTH


@pytest.mark.paper("renyi", "Section 3.2")
@pytest.mark.parametrize("sampling", WAYS[:4])
def test_it_is_the_chance_that_sampling_generates_the_sequence(sampling):
    say = model(1)
    for tokens in itertools.product(range(VOCABULARY), repeat=LENGTH):
        chance = 1.0
        for step, token in enumerate(tokens):
            temperature = sampling.temperatures[min(step, len(sampling.temperatures) - 1)]
            weight = np.exp(say(tokens[:step])) ** (1.0 / temperature)
            keep = np.argsort(-weight)[: sampling.top]
            chance *= weight[token] / weight[keep].sum() if token in keep else 0.0
        found = sampling_log_probability(rows(say, tokens), tokens, sampling=sampling)
        assert np.exp(found) == pytest.approx(chance, rel=1e-9)


def test_long_sequences_stay_in_log_space():
    uniform = np.full((5_000, 10), -np.log(10.0))
    found = sampling_log_probability(uniform, np.zeros(5_000, dtype=int))
    assert found == pytest.approx(-5_000 * np.log(10.0))
    assert secrecy_bits(found) == pytest.approx(5_000 * np.log2(10.0))


def test_ties_are_broken_by_the_vocabularys_order():
    even = np.log(np.full((1, 4), 0.25))
    chances = [
        np.exp(sampling_log_probability(even, [token], sampling=Sampling(top=2)))
        for token in range(4)
    ]
    assert chances == pytest.approx([0.5, 0.5, 0.0, 0.0])


@given(st.lists(st.floats(-50.0, 0.0), min_size=2, max_size=6), st.floats(0.2, 5.0))
def test_temperature_keeps_the_order(raw, temperature):
    logs = np.array([raw]) - np.log(np.exp(raw).sum())
    tempered = Sampling((temperature,)).log_probabilities(logs)[0]
    assert np.exp(tempered).sum() == pytest.approx(1.0)
    order = np.argsort(logs[0], kind="stable")
    assert np.all(np.diff(tempered[order]) >= -1e-12)


@pytest.mark.paper("renyi", "Figure 4")
def test_calibrated_loss_and_secrecy():
    assert calibrated_loss([-5.0, -1.0], [-16.3, -0.9]) == pytest.approx([-11.3, 0.1])
    assert calibrated_loss(-np.inf, -np.inf) == 0.0
    assert calibrated_loss(-1.0, -np.inf) == -np.inf
    assert calibrated_loss(-np.inf, -1.0) == np.inf
    assert secrecy_bits([0.0, -np.log(1024.0), -np.inf]) == pytest.approx([0.0, 10.0, np.inf])


def test_bad_input_is_refused():
    fair = np.log([[0.5, 0.5]])
    assert sampling_log_probability(np.zeros((0, 2)), []) == 0.0
    for rows_, tokens in (
        (fair, [2]),
        (fair, [-1]),
        (fair, [0, 1]),
        (np.log([[0.5, 0.4]]), [0]),
        ([[np.nan, 0.0]], [0]),
        ([[0.5, -1.0]], [0]),
        (fair[0], [0]),
    ):
        with pytest.raises(InvalidInputError):
            sampling_log_probability(rows_, tokens)
    for bad in ({"temperatures": (0.0,)}, {"temperatures": ()}, {"top": 0}):
        with pytest.raises(InvalidInputError):
            Sampling(**bad)
    with pytest.raises(InvalidInputError):
        calibrated_loss([0.5], [0.0])
    with pytest.raises(InvalidInputError):
        calibrated_loss([-0.5], [-0.5, -1.0])
    with pytest.raises(InvalidInputError):
        secrecy_bits(1.0)


@pytest.mark.paper("renyi", "Exposure")
def test_exposure_is_the_rank_among_all_candidates_and_never_less_than_what_leaked():
    """Of 10,000 candidates with random probabilities, seed 19."""
    random = np.random.default_rng(19)
    every = np.log(random.dirichlet(np.full(10_000, 0.1)) + 1e-300)
    found = exposure_bits(every, every)
    for place in random.integers(0, len(every), 50):
        rank = np.sum(every >= every[place])
        assert found[place] == pytest.approx(np.log2(10_000 / rank))
    assert found.max() == pytest.approx(np.log2(10_000))
    assert np.all(found >= np.log2(10_000) - secrecy_bits(np.minimum(every, 0.0)) - 1e-9)
