"""Models on the same labels prove nothing together that is not so, however they share chance."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.declarations import ClaimedNight
from privcore.lower_bounds.joint_evidence import declarations_log_evalue, together_epsilon_lower
from privcore.lower_bounds.windows import WINDOW_EPSILONS, Night

AUDITS, RECORDS, MODELS = 2000, 200, 5


def wealth(right: NDArray[np.bool_], belief: float) -> NDArray[np.float64]:
    """Return log e-values of bets of `belief` that predictions are right, at each epsilon."""
    limit = 1.0 / (1.0 + np.exp(-WINDOW_EPSILONS))
    count = right.sum()
    bets = count * np.log(belief / limit) + (right.size - count) * np.log(
        (1.0 - belief) / (1.0 - limit)
    )
    return np.where(belief > limit, bets, 0.0)


def night(right: NDArray[np.bool_], *beliefs: float) -> Night:
    return Night(np.stack([wealth(right, belief) for belief in beliefs]), 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_size_of_models_that_all_lose_one(shared: bool) -> None:
    """2,000 audits of 5 models with a loss of exactly 1, seed 7, levels 0.05 and 0.4 at 1e-6."""
    random = np.random.default_rng(7)
    truth, above = 1.0 / (1.0 + math.exp(-1.0)), {0.05: 0, 0.4: 0}
    for _ in range(AUDITS):
        coins = random.random((1 if shared else MODELS, RECORDS)) < truth
        models = [night(coins[model % len(coins)], 0.76, 0.8, 0.9) for model in range(MODELS)]
        for level in above:
            above[level] += together_epsilon_lower(models, significance=level) > 1.0
    for level, wrong in above.items():
        assert binomtest(wrong, AUDITS, level, alternative="greater").pvalue > 1e-6
    if shared:  # else a mean that never rejects would pass, too
        assert above[0.4] > 0


def test_power_where_one_of_five_leaks() -> None:
    """200 audits, seed 8: one model of five loses 2, the others nothing."""
    random, found = np.random.default_rng(8), []
    leak = 1.0 / (1.0 + math.exp(-2.0))
    for _ in range(200):
        quiet = [night(random.random(RECORDS) < 0.5, 0.76, 0.9) for _ in range(MODELS - 1)]
        loud = night(random.random(RECORDS) < leak, 0.76, 0.9)
        found.append(together_epsilon_lower([loud, *quiet]))
    assert np.median(found) > 1.0


def test_one_model_alone_is_its_own_evidence_and_delta_halves_it() -> None:
    flat = np.full((2, WINDOW_EPSILONS.size), math.log(30.0))
    flat[:, 5:] = 0.0
    assert together_epsilon_lower([Night(flat, 0.0)]) == WINDOW_EPSILONS[4]
    assert together_epsilon_lower([Night(flat, 1e-3)]) == 0.0  # half of 30 is below 20
    assert together_epsilon_lower([Night(flat + 1.0, 1e-3)]) == WINDOW_EPSILONS[4]
    assert together_epsilon_lower([Night(flat + 9.0, 0.1)]) == 0.0  # no more than 10, halved


def test_declarations_are_tested_by_the_mean() -> None:
    claimed = [ClaimedNight(1.0, np.log([40.0, 20.0]), 0.0), ClaimedNight(2.0, np.zeros(2), 0.0)]
    assert declarations_log_evalue(claimed) == pytest.approx(math.log((30.0 + 1.0) / 2.0))


def test_what_is_no_evidence_is_refused() -> None:
    for nights in ([], [Night(np.zeros((1, 3)), 0.0)]):
        with pytest.raises(InvalidInputError):
            together_epsilon_lower(nights)
    with pytest.raises(InvalidInputError):
        together_epsilon_lower([night(np.ones(3, bool), 0.9)], significance=0.0)
    with pytest.raises(InvalidInputError):
        declarations_log_evalue([])
