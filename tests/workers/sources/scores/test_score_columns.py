"""Test that two columns of probabilities are one model's."""

import numpy as np
import pytest
from scipy.special import expit

from workers.sources.scores.score_columns import clearly_apart, same_model


def both(second: np.ndarray) -> np.ndarray:
    return np.column_stack([1.0 - second, second])


def target(rows: int, seed: int = 0) -> np.ndarray:
    return expit(np.random.default_rng(seed).normal(0.0, 1.5, rows))


@pytest.mark.parametrize(
    ("written", "rows"),
    [
        (lambda p: p, 100),
        (lambda p: p.astype(np.float32).astype(float), 100),
        (lambda p: np.round(p, 4), 2_000),
        (lambda p: np.round(p, 3), 20_000),
        (lambda p: np.round(p, 2), 200_000),
        (lambda p: p.astype(np.float16).astype(float), 10_000),
    ],
)
def test_power_the_target_is_known_however_it_was_written(written, rows: int) -> None:
    p = target(rows)
    assert same_model(both(p), both(written(p)))
    assert not clearly_apart(both(p), both(written(p)))
    assert not same_model(both(p[:99]), both(written(p)[:99]))


@pytest.mark.slow
@pytest.mark.parametrize("digits", [None, 2, 3, 4, 16])
@pytest.mark.parametrize("moved", [1e-4, 3e-6])
def test_size_another_model_is_no_copy_however_little_it_moved(digits, moved: float) -> None:
    # 40 pairs of models whose log-odds differ by as little as 3 in a million, or one in 10,000.
    for seed in range(40):
        random = np.random.default_rng([seed, 7])
        rows = int(random.choice([100, 1_000, 20_000, 200_000]))
        p = target(rows, seed)
        other = expit(np.log(p / (1 - p)) + moved * random.choice([-1.0, 1.0], rows) * 10)
        if digits == 16:
            other = other.astype(np.float16).astype(float)
        elif digits is not None:
            other = np.round(other, digits)
        assert not same_model(both(p), both(other)), (seed, rows)


def test_models_that_are_clearly_apart_are_not_compared_further():
    p = target(2_000)
    assert clearly_apart(both(p), both(np.append(p[:1], p[1:] + 0.006)))
    assert not clearly_apart(both(p), both(np.append(p[:1_500], p[1_500:] + 0.4)))
