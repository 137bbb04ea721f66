from .attack_success import (
    bits_leaked,
    epsilon_protect,
    generalised_advantage,
    success_bound,
)
from .comparisons import (
    narcissus_bound,
    reconstruction_robustness,
    tradeoff_success_bound,
)
from .encodings import (
    attempts_prior,
    attribute_prior,
    joint_prior,
    reconstruction_prior,
)
from .leakage_figures import (
    LeakageCurve,
    StepsCurve,
    leakage_curves,
    steps_curves,
)
from .poisson_binomial import binomial_tail, poisson_binomial_tail
from .priors import uniform_prior, zipf_prior
from .promised import Promised
from .published import (
    NAME_PRIOR,
    Published,
    published_leakage,
    published_noise,
    published_success,
)
from .reciprocal_sum import (
    NoiseNeeded,
    noise_needed,
    reciprocal_sum_deviation,
    reciprocal_sum_sensitivity,
)
from .reidentification_games import (
    optimal_accuracy,
    optimal_adversary,
    reidentification_eta,
    training_sets,
)
from .reidentification_noise import (
    PrivateOutput,
    anisotropic_noise,
    isotropic_noise,
    laplace_radius_noise,
    printed_reidentification_private,
    reidentification_private,
)
from .reidentification_privacy import (
    least_noise_scale,
    optimised_noise_scale,
    rip_epsilon,
    rip_eta,
    rip_noise_scale,
)
from .renyi import (
    curve_leakage,
    direct_leakage,
    improved_conversion_leakage,
    least_leakage,
    renyi_leakage,
    renyi_success_bound,
)
from .success_by_relation import bit_success, label_success
from .success_counts import (
    Runs,
    SuccessCount,
    success_count,
    success_count_over_runs,
)
from .success_figures import (
    AdvantageCurve,
    SuccessCurve,
    advantage_curves,
    secret_priors,
    success_curves,
)

__all__ = [
    "NAME_PRIOR",
    "AdvantageCurve",
    "LeakageCurve",
    "NoiseNeeded",
    "PrivateOutput",
    "Promised",
    "Published",
    "Runs",
    "StepsCurve",
    "SuccessCount",
    "SuccessCurve",
    "advantage_curves",
    "anisotropic_noise",
    "attempts_prior",
    "attribute_prior",
    "binomial_tail",
    "bit_success",
    "bits_leaked",
    "curve_leakage",
    "direct_leakage",
    "epsilon_protect",
    "generalised_advantage",
    "improved_conversion_leakage",
    "isotropic_noise",
    "joint_prior",
    "label_success",
    "laplace_radius_noise",
    "leakage_curves",
    "least_leakage",
    "least_noise_scale",
    "narcissus_bound",
    "noise_needed",
    "optimal_accuracy",
    "optimal_adversary",
    "optimised_noise_scale",
    "poisson_binomial_tail",
    "printed_reidentification_private",
    "published_leakage",
    "published_noise",
    "published_success",
    "reciprocal_sum_deviation",
    "reciprocal_sum_sensitivity",
    "reconstruction_prior",
    "reconstruction_robustness",
    "reidentification_eta",
    "reidentification_private",
    "renyi_leakage",
    "renyi_success_bound",
    "rip_epsilon",
    "rip_eta",
    "rip_noise_scale",
    "secret_priors",
    "steps_curves",
    "success_bound",
    "success_count",
    "success_count_over_runs",
    "success_curves",
    "tradeoff_success_bound",
    "training_sets",
    "uniform_prior",
    "zipf_prior",
]
