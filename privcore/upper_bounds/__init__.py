"""From what is declared to "no attacker can do better than ..."."""

from privcore.upper_bounds.attack_success import (
    bits_leaked,
    epsilon_protect,
    generalised_advantage,
    success_bound,
)
from privcore.upper_bounds.comparisons import (
    narcissus_bound,
    reconstruction_robustness,
    tradeoff_success_bound,
)
from privcore.upper_bounds.encodings import (
    attribute_prior,
    attributes_prior,
    membership_prior,
    reconstruction_prior,
)
from privcore.upper_bounds.figures import (
    LeakageCurve,
    NoiseNeeded,
    SuccessCurve,
    leakage_curves,
    noise_needed,
    success_curves,
)
from privcore.upper_bounds.poisson_binomial import binomial_tail, poisson_binomial_tail
from privcore.upper_bounds.priors import empirical_prior, uniform_prior, zipf_prior
from privcore.upper_bounds.promised import Promised
from privcore.upper_bounds.published import (
    Published,
    published_leakage,
    published_noise,
    published_protection,
)
from privcore.upper_bounds.reidentification import (
    least_noise_scale,
    rip_epsilon,
    rip_eta,
    rip_noise_scale,
)
from privcore.upper_bounds.reidentification_noise import (
    PrivateOutput,
    anisotropic_noise,
    isotropic_noise,
    laplace_radius_noise,
    reidentification_private,
)
from privcore.upper_bounds.renyi import (
    curve_leakage,
    direct_leakage,
    improved_conversion_leakage,
    renyi_leakage,
    renyi_success_bound,
)
from privcore.upper_bounds.success_counts import Runs, SuccessCount, success_count

__all__ = [
    "LeakageCurve",
    "NoiseNeeded",
    "PrivateOutput",
    "Promised",
    "Published",
    "Runs",
    "SuccessCount",
    "SuccessCurve",
    "anisotropic_noise",
    "attribute_prior",
    "attributes_prior",
    "binomial_tail",
    "bits_leaked",
    "curve_leakage",
    "direct_leakage",
    "empirical_prior",
    "epsilon_protect",
    "generalised_advantage",
    "improved_conversion_leakage",
    "isotropic_noise",
    "laplace_radius_noise",
    "leakage_curves",
    "least_noise_scale",
    "membership_prior",
    "narcissus_bound",
    "noise_needed",
    "poisson_binomial_tail",
    "published_leakage",
    "published_noise",
    "published_protection",
    "reconstruction_prior",
    "reconstruction_robustness",
    "reidentification_private",
    "renyi_leakage",
    "renyi_success_bound",
    "rip_epsilon",
    "rip_eta",
    "rip_noise_scale",
    "success_bound",
    "success_count",
    "success_curves",
    "tradeoff_success_bound",
    "uniform_prior",
    "zipf_prior",
]
