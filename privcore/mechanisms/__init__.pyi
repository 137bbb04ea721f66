from .laplace_labels import LaplaceOneHot
from .local_sensitivity import (
    BootstrapLaplace,
    KLaplace,
    NoisyCountThreshold,
    QueryMechanism,
    Rounded,
    Unprotected,
    bootstrap_sensitivity,
    local_sensitivity,
)
from .marginals import marginal, marginals_deviation, marginals_touching, noisy_marginals
from .noisy_max import NoisyMax, count_votes
from .noisy_sgd import NoisySgd, train_secrets
from .protected_table import ProtectedTable
from .randomized_response import (
    RandomizedResponse,
    RandomizedResponseWithPrior,
    correct_probabilities,
    disjoint_parts,
    measure_prior,
)
from .threshold_queries import Column, Groups, Predicates, QueryInterface, RestrictedInterface

__all__ = [
    "BootstrapLaplace",
    "Column",
    "Groups",
    "KLaplace",
    "LaplaceOneHot",
    "NoisyCountThreshold",
    "NoisyMax",
    "NoisySgd",
    "Predicates",
    "ProtectedTable",
    "QueryInterface",
    "QueryMechanism",
    "RandomizedResponse",
    "RandomizedResponseWithPrior",
    "RestrictedInterface",
    "Rounded",
    "Unprotected",
    "bootstrap_sensitivity",
    "correct_probabilities",
    "count_votes",
    "disjoint_parts",
    "local_sensitivity",
    "marginal",
    "marginals_deviation",
    "marginals_touching",
    "measure_prior",
    "noisy_marginals",
    "train_secrets",
]
