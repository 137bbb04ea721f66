"""How labels or answers are privatised: exact distributions, seeded samplers, guarantees."""

from privcore.mechanisms.laplace_labels import LaplaceOneHot, WeightedCopies, weighted_copies
from privcore.mechanisms.noise_correction import (
    correct_probabilities,
    measure_prior,
    uncorrected_inverse,
)
from privcore.mechanisms.noisy_max import NoisyMax, count_votes
from privcore.mechanisms.noisy_max_data_dependent import (
    DataDependentEpsilon,
    data_dependent_epsilon,
)
from privcore.mechanisms.parts import disjoint_parts
from privcore.mechanisms.randomized_response import RandomizedResponse
from privcore.mechanisms.response_with_prior import RandomizedResponseWithPrior

__all__ = [
    "DataDependentEpsilon",
    "LaplaceOneHot",
    "NoisyMax",
    "RandomizedResponse",
    "RandomizedResponseWithPrior",
    "WeightedCopies",
    "correct_probabilities",
    "count_votes",
    "data_dependent_epsilon",
    "disjoint_parts",
    "measure_prior",
    "uncorrected_inverse",
    "weighted_copies",
]
