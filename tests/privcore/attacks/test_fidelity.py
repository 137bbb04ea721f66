import numpy as np
import pytest

from privcore.attacks import (
    FidelityTally,
    PaperScore,
    ScoreTally,
    draw_counterfactuals,
    fidelity,
    label_inference,
    score_distribution,
)
from privcore.attacks.game import BINS
from privcore.exceptions import InvalidInputError

RECORDS = 500


def arrays(classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    target, proxy = (random.dirichlet(np.ones(classes), RECORDS) for _ in range(2))
    return target, proxy, random.integers(0, classes, RECORDS)


def slow(model: np.ndarray, labels: np.ndarray) -> tuple[float, list, list]:
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
def test_fidelity_is_what_counting_record_by_record_gives(classes: int) -> None:
    target, proxy, labels = arrays(classes)
    tally = fidelity(target, proxy, labels)
    means, shares = tally.reliability()
    for row, model in enumerate((target, proxy)):
        loss, predicted, observed = slow(model, labels)
        assert tally.mean_log_loss()[row] == pytest.approx(loss, abs=1e-7)
        assert means[row] == pytest.approx(predicted, abs=1e-7, nan_ok=True)
        assert shares[row] == pytest.approx(observed, abs=1e-12, nan_ok=True)
    assert tally.predictions.sum() == 2 * RECORDS * (1 if classes == 2 else 3)


def test_a_sure_and_wrong_prediction_costs_a_finite_loss_and_1_lies_in_the_last_tenth() -> None:
    sure = np.array([[1.0, 0.0], [0.0, 1.0]])
    tally = fidelity(sure, sure, np.array([1, 1]))
    assert tally.mean_log_loss() == pytest.approx([-np.log(1e-6) / 2] * 2, abs=1e-6)
    assert tally.predictions[0].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert tally.observed[0].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("cut", [0, 1, 250, RECORDS])
def test_both_tallies_add_to_the_bit(cut: int) -> None:
    target, proxy, labels = arrays(3)
    rows = np.arange(RECORDS)
    options = {"score": PaperScore(), "key": 3}
    parts = [
        (
            fidelity(target[own], proxy[own], labels[own]),
            score_distribution(
                draw_counterfactuals(target[own], proxy[own], labels[own], indices=own, **options)
            ),
        )
        for own in (rows[:cut], rows[cut:])
    ]
    assert parts[0][0] + parts[1][0] == fidelity(target, proxy, labels)
    assert parts[1][1] + parts[0][1] == score_distribution(
        draw_counterfactuals(target, proxy, labels, **options)
    )
    assert FidelityTally.zero() + parts[0][0] == parts[0][0]
    assert ScoreTally.zero() + parts[0][1] == parts[0][1]


def test_no_records_have_no_mean() -> None:
    with pytest.raises(InvalidInputError, match="at least one record"):
        FidelityTally.zero().mean_log_loss()
    assert ScoreTally.zero().bars() == ()


def test_scores_of_shown_labels_lie_above_those_of_counterfactuals_where_labels_leak() -> None:
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, 4000)
    proxy = np.full((4000, 2), 0.5)
    target = np.where(np.arange(2) == labels[:, None], 0.7, 0.3)
    bars = score_distribution(
        draw_counterfactuals(target, proxy, labels, score=PaperScore(), key=1)
    ).bars()
    shown = [(bar.lower, bar.upper, bar.records) for bar in bars if bar.bit == 1]
    # (0.7 - 0.5) * 0.25 = 0.05: all labels that were shown score that.
    assert len(shown) == 1
    assert shown[0][0] <= 0.05 < shown[0][1]
    assert shown[0][2] == pytest.approx(2000, abs=150)
    counterfactual = [bar for bar in bars if bar.bit == 0]
    assert [bar.lower < 0.0 for bar in counterfactual] == [True, False]


def test_bars_have_one_width_and_lose_no_record_but_those_of_thin_bars() -> None:
    target, proxy, labels = arrays(3)
    tally = score_distribution(
        draw_counterfactuals(target, proxy, labels, score=PaperScore(), key=1)
    )
    bars = tally.bars(minimum=1)
    assert sum(bar.records for bar in bars) == RECORDS
    assert len({bar.upper - bar.lower for bar in bars}) == 1
    kept = tally.bars()
    assert min(bar.records for bar in kept) >= 10
    assert sum(bar.records for bar in kept) < RECORDS


@pytest.mark.parametrize("classes", [2, 3])
def test_the_scores_by_bit_are_those_of_the_first_repetition(classes: int) -> None:
    """Count guesses by the sign, and ties, in each bin: the same counts as the game's."""
    target, proxy, labels = arrays(classes)
    target[::5] = proxy[::5]
    options = {"score": PaperScore(), "key": 5}
    game = label_inference(target, proxy, labels, repetitions=1, **options)
    counts = score_distribution(draw_counterfactuals(target, proxy, labels, **options)).counts
    below, above = counts[:, BINS - 2 :: -1], counts[:, BINS:]
    assert np.array_equal((below + above).sum(axis=0), game.guesses[0, 1:])
    assert np.array_equal(below[0] + above[1], game.correct[0, 1:])
    assert counts[:, BINS - 1].sum() == game.guesses[0, 0]
