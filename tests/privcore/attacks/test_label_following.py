"""Predictions that follow no label are called so, and those that do are not."""

import numpy as np
import pytest

from privcore.attacks.fidelity import predictions_miss_labels

SEEDS, RECORDS = 400, 2000


def counted(random: np.random.Generator, *, following: float) -> tuple[np.ndarray, ...]:
    said = random.random(RECORDS)
    chance = following * said + (1.0 - following) * 0.5
    labels = random.random(RECORDS) < chance
    tenth = np.minimum((said * 10).astype(int), 9)
    n = np.bincount(tenth, minlength=10)
    return n, np.bincount(tenth, said, 10) / n, np.bincount(tenth, labels, 10) / n


def share(following: float) -> float:
    """Return the share of 400 audits (2,000 records, seeds 0 to 399) that say labels are missed."""
    found = [
        predictions_miss_labels(*counted(np.random.default_rng(seed), following=following))
        for seed in range(SEEDS)
    ]
    return float(np.mean(found))


def test_labels_of_noise_are_missed_and_calibrated_or_weak_predictions_are_not() -> None:
    # By the normal law 0.13% of noise follows by 3 errors; at a quarter of calibration, 6.5 errors
    # are expected and 3 seen in all but 0.02%.
    assert share(0.0) >= 0.98
    assert share(1.0) == 0.0
    assert share(0.25) <= 0.01


@pytest.mark.parametrize(
    "tenths",
    [([], [], []), ([0], [0.0], [0.0]), ([900], [0.03], [0.0]), ([9, 9], [0.1, 0.9], [0, 1])],
)
def test_where_predictions_hardly_differ_nothing_is_said(
    tenths: tuple[list[float], list[float], list[float]],
) -> None:
    assert not predictions_miss_labels(*tenths)
