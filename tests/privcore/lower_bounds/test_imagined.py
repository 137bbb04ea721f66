"""Imagined nights, compared with real ones that show the same leak."""

import numpy as np
import pytest

from privcore.lower_bounds import Secret
from privcore.lower_bounds.power import OFFSETS
from tests.leaking_worlds import binary, claimed, decoyed, members, read, several


def moments(world, claim, *, offset, nights):
    """Return means and deviations of real nights' strategies, and the same as they are imagined.

    Imagined from nights that leak nothing. Seeds 0 to `nights` - 1, and from 1,000 on.
    """
    place, made, said = OFFSETS.index(offset), [], []
    for seed in range(nights):
        tallies = world(claim.epsilon + offset, np.random.default_rng(seed))
        made.append(read(tallies, claim, seed).claimed_night.log_wealth)
    for seed in range(1_000, 1_006):
        tallies = world(0.0, np.random.default_rng(seed))
        night = read(tallies, claim, seed, with_power=True).power.imagined
        said.append([night.mean[:, place], night.variance[:, place]])
    mean, variance = np.mean(said, axis=0)
    real = np.array(made)
    return real.mean(axis=0), real.std(axis=0, ddof=1), mean, np.sqrt(variance)


def alike(found, nights):
    """Assert means within five standard errors and a twentieth, deviations within 40%."""
    real, spread, mean, deviation = found
    error = 5.0 * spread / np.sqrt(nights) + 0.05 * np.abs(real) + 0.1
    assert np.all(np.abs(mean - real) < error)
    assert np.all(deviation < 1.4 * spread + 0.1)
    assert np.all(spread < 1.4 * deviation + 0.1)


def test_the_moments_are_those_of_real_nights():
    alike(moments(binary(400, 100), claimed(0.5), offset=1.0, nights=40), 40)


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 0.5, 3.0])
@pytest.mark.parametrize(
    ("world", "claim"),
    [
        (binary(3_000, 750), claimed(1.0)),
        (binary(3_000, 750), claimed(1.0, delta=1e-5)),
        (binary(3_000, 750, base=-4.2), claimed(1.0)),
        (several(2_000, 500, 4), claimed(1.0)),
        (decoyed(300), claimed(1.0)),
    ],
)
def test_the_moments_are_those_of_real_nights_of_all_kinds(world, claim, offset):
    alike(moments(world, claim, offset=offset, nights=80), 80)


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_the_moments_of_pairs_are_those_of_real_nights(offset):
    """A larger leak tells more pairs apart than tonight's, with which the night is imagined."""
    claim = claimed(0.5, secret=Secret.MEMBERSHIP)
    alike(moments(members(900, 300), claim, offset=offset, nights=80), 80)
