"""How labels or answers are privatised: exact distributions, seeded samplers, guarantees."""

from privcore.mechanisms.columns import Column
from privcore.mechanisms.laplace_labels import LaplaceOneHot, WeightedCopies, weighted_copies
from privcore.mechanisms.local_sensitivity import (
    BootstrapLaplace,
    KLaplace,
    NoisyCountThreshold,
    QueryMechanism,
    RoundedToBit,
    RoundedToInteger,
    Unprotected,
    bootstrap_sensitivity,
    local_sensitivity,
)
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
from privcore.mechanisms.noisy_sgd import NoisySgd, train_secrets
from privcore.mechanisms.parts import disjoint_parts
from privcore.mechanisms.protected_table import ProtectedTable
from privcore.mechanisms.query_restrictions import RestrictedInterface
from privcore.mechanisms.randomized_response import RandomizedResponse
from privcore.mechanisms.response_with_prior import RandomizedResponseWithPrior
from privcore.mechanisms.threshold_queries import (
    Between,
    CallableInterface,
    Groups,
    OneOf,
    Predicates,
    QueryInterface,
)

__all__ = [
    "Between",
    "BootstrapLaplace",
    "CallableInterface",
    "Column",
    "DataDependentEpsilon",
    "Groups",
    "KLaplace",
    "LaplaceOneHot",
    "NoisyCountThreshold",
    "NoisyMax",
    "NoisySgd",
    "OneOf",
    "Predicates",
    "ProtectedTable",
    "QueryInterface",
    "QueryMechanism",
    "RandomizedResponse",
    "RandomizedResponseWithPrior",
    "RestrictedInterface",
    "RoundedToBit",
    "RoundedToInteger",
    "Unprotected",
    "WeightedCopies",
    "bootstrap_sensitivity",
    "correct_probabilities",
    "count_votes",
    "data_dependent_epsilon",
    "disjoint_parts",
    "local_sensitivity",
    "measure_prior",
    "train_secrets",
    "uncorrected_inverse",
    "weighted_copies",
]
