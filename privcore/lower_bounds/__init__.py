"""From what an attack achieved to "the privacy loss is at least ..."."""

from privcore.lower_bounds.fdp import best_epsilon, claim_pvalue, epsilon_lower

__all__ = ["best_epsilon", "claim_pvalue", "epsilon_lower"]
