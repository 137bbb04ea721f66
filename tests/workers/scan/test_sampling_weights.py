"""Weights of both arms say one share that training kept, or are said to contradict each other."""

import numpy as np

from workers.scan.sampling_weights import SamplingWeights


def test_counts_add_to_the_bit_in_any_order() -> None:
    weights = 1.0 / np.random.default_rng(2).uniform(1e-5, 1.0, 300)
    kept = weights[::100]
    parts = [
        SamplingWeights.of(some, held=3, kept=kept[place : place + 1])
        for place, some in enumerate(np.split(weights, 3))
    ]
    whole = SamplingWeights.of(weights, held=9, kept=kept)
    assert parts[0] + parts[1] + parts[2] == parts[2] + parts[0] + parts[1] == whole
    assert (SamplingWeights() + whole, SamplingWeights().sentence()) == (whole, "")


def test_size_honest_weights_are_not_said_to_contradict_each_other() -> None:
    """Rates of a wide range, and none of 400 audits is remarked on; a quarter left out is."""
    random, told = np.random.default_rng(1), [0, 0]
    for _ in range(400):
        weights = 1.0 / random.uniform(0.05, 1.0, 5_000)
        train = random.random(4_000) < 1.0 / weights[:4_000]
        kept = random.random(1_000) < 1.0 / weights[4_000:]
        for place, left_out in enumerate((0, 250)):
            seen = weights[4_000 + left_out :][kept[left_out:]]
            counts = SamplingWeights.of(weights[:4_000][train], held=1_000, kept=seen)
            told[place] += bool(counts.sentence())
    assert told[0] == 0
    assert told[1] > 300
