import numpy as np
import pytest

from privcore.attacks import FidelityTally, fidelity
from tests.support.refusals import refused

RECORDS = 500


def arrays(classes, seed=0):
    random = np.random.default_rng(seed)
    target, proxy = (random.dirichlet(np.ones(classes), RECORDS) for _ in range(2))
    return target, proxy, random.integers(0, classes, RECORDS)


def slow(model, labels):
    """Return log-loss and reliability, record by record."""
    loss, predicted, observed = 0.0, [[] for _ in range(10)], [[] for _ in range(10)]
    for row, label in zip(model, labels, strict=True):
        loss -= np.log(max(row[label], 1e-6))
        for place in range(1 if len(row) == 2 else 0, len(row)):
            tenth = min(int(row[place] * 10), 9)
            predicted[tenth].append(row[place])
            observed[tenth].append(place == label)
    return loss / len(labels), [np.mean(p) for p in predicted], [np.mean(o) for o in observed]


@pytest.mark.parametrize("classes", [2, 3])
def test_fidelity_is_what_counting_record_by_record_gives(classes):
    target, proxy, labels = arrays(classes)
    tally = fidelity(target, proxy, labels)
    means, shares = tally.reliability()
    for row, model in enumerate((target, proxy)):
        loss, predicted, observed = slow(model, labels)
        assert tally.mean_log_loss()[row] == pytest.approx(loss, abs=1e-7)
        assert means[row] == pytest.approx(predicted, abs=1e-7, nan_ok=True)
        assert shares[row] == pytest.approx(observed, abs=1e-12, nan_ok=True)
    assert tally.predictions.sum() == 2 * RECORDS * (1 if classes == 2 else 3)


def test_a_sure_and_wrong_prediction_costs_a_finite_loss_and_1_lies_in_the_last_tenth():
    sure = np.array([[1.0, 0.0], [0.0, 1.0]])
    tally = fidelity(sure, sure, np.array([1, 1]))
    assert tally.mean_log_loss() == pytest.approx([-np.log(1e-6) / 2] * 2, abs=1e-6)
    assert tally.predictions[0].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert tally.observed[0].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("cut", [0, 1, 250, RECORDS])
def test_tallies_add_to_the_bit(cut):
    target, proxy, labels = arrays(3)
    rows = np.arange(RECORDS)
    one, other = (
        fidelity(target[own], proxy[own], labels[own]) for own in (rows[:cut], rows[cut:])
    )
    assert one + other == fidelity(target, proxy, labels)
    assert FidelityTally.zero() + one == one


def test_no_records_have_no_mean():
    refused("at least one record", FidelityTally.zero().mean_log_loss)
