"""The example of Izzo et al. in which re-identification privacy needs far less noise than DP.

Proposition 9: the statistic of a half is the reciprocal of its sum, and the n records are the
powers of two from 2^0 to 2^(n-2) and one number A = sqrt(p) - (2^0 + ... + 2^(n/2-2)), where
p = 1/comb(n, n/2). The half of A and the n/2 - 1 smallest powers sums to sqrt(p), so its statistic
is sqrt(comb(n, n/2)); every other half gives a number in (0, 1]. One half in comb(n, n/2) thus
makes the sensitivity grow like 2^(n/2), while the standard deviation over halves stays near 1.
"""

import math
from dataclasses import dataclass

import numpy as np

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import checked
from privcore.upper_bounds.reidentification_privacy import (
    optimised_noise_scale,
    rip_epsilon,
)

# Up to here all halves are gone through: 2^21 sums, in a tenth of a second.
_ENUMERATED = 22


@dataclass(frozen=True, slots=True)
class NoiseNeeded:
    """Laplace noise that the statistic needs, in its own units; made by `noise_needed`.

    Attributes:
        records: n.
        eta: what either noise guarantees.
        deviation: sigma, the statistic's standard deviation over random halves.
        sensitivity: its largest change when one record of a half is replaced.
        rip_scale: scale of the noise that gives eta-RIP by Corollary 8, (6.16/eta)^2 sigma.
        dp_scale: scale of the noise that gives epsilon-DP at epsilon = `rip_epsilon(eta)`, where
            DP implies the same eta: sensitivity/epsilon.
    """

    records: int
    eta: float
    deviation: float
    sensitivity: float
    rip_scale: float
    dp_scale: float


def reciprocal_sum_sensitivity(records: int) -> float:
    """Return the largest change of the statistic between two halves that differ in one record.

    `sqrt(comb(n, n/2)) - 1/(2^(n-2) + 2^(n/2-1) - 1)`, exactly: from the one half that sums to
    sqrt(p), to the one where the largest power stands in A's place.

    Args:
        records: n, even, from 4 to 1,000.
    """
    half = _checked_records(records) // 2
    replaced = (1 << (records - 2)) + (1 << (half - 1)) - 1
    return math.sqrt(math.comb(records, half)) - 1 / replaced


def reciprocal_sum_deviation(records: int) -> float:
    """Return the statistic's standard deviation over random halves, never below the true one.

    Up to 22 records by enumeration of all halves. Above, by bounds: E[X^2] = 1 + p R with
    R = sum of 1/s^2 over all other halves' sums s, and E[X] >= sqrt(p). The sums are distinct
    whole numbers (plus sqrt(p)) of at least m = 2^(n/2-2), with A or without, so that R is at most
    2/m^2 + 2/m. What is left open is below 1e-7 of the answer at 24 records and 1e-12 at 36.

    Args:
        records: n, even, from 4 to 1,000.
    """
    half = _checked_records(records) // 2
    rare = 1 / math.comb(records, half)
    if records > _ENUMERATED:
        least = math.ldexp(1.0, half - 2)
        # The rounding up outweighs the few rounding errors of one such sum.
        return math.sqrt(1.0 + 2.0 * rare * (1.0 / least**2 + 1.0 / least) - rare) * (1.0 + 1e-15)
    sums = np.arange(1, 1 << (records - 1))
    powers = np.bitwise_count(sums)
    with_odd_one = sums[powers == half - 1] - ((1 << (half - 1)) - 1) + math.sqrt(rare)
    statistics = 1.0 / np.concatenate([with_odd_one, sums[powers == half]])
    return float(np.std(statistics))


def noise_needed(records: int, *, eta: float = 0.1) -> NoiseNeeded:
    """Return a point of Figure 1 of Izzo et al.: noise for eta-RIP against noise for DP.

    Args:
        records: n, even, from 4 to 1,000; the figure has 36 to 48.
        eta: in (0, 1/2).

    >>> found = noise_needed(36, eta=0.01)
    >>> round(found.dp_scale / found.rip_scale, 1)
    6.3
    """
    deviation = reciprocal_sum_deviation(records)
    sensitivity = reciprocal_sum_sensitivity(records)
    return NoiseNeeded(
        records=records,
        eta=eta,
        deviation=deviation,
        sensitivity=sensitivity,
        rip_scale=float(optimised_noise_scale(eta)) * deviation,
        dp_scale=sensitivity / float(rip_epsilon(eta)),
    )


def _checked_records(records: int) -> int:
    checked("records", records, 4, 1_000, "a number from 4 to 1,000")
    if records % 2:
        raise InvalidInputError("records", records, "halves need an even number")
    return records
