"""How labels or answers are privatised: exact distributions, seeded samplers, guarantees."""

from privcore.mechanisms.randomized_response import RandomizedResponse

__all__ = ["RandomizedResponse"]
