import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from privcore.attacks import OddsTally, odds_tally
from privcore.attacks.odds import FLOOR, ODDS_CELLS, odds_cells
from tests.simulate import two_columns
from tests.support.refusals import refused

RECORDS = 60
PROXY_BINS, TARGET_BINS = 448, 224


def example(classes=3):
    random = np.random.default_rng(2)
    target, proxy = (random.dirichlet(np.ones(classes), RECORDS) for _ in range(2))
    return target, proxy, random.integers(0, classes, RECORDS)


def naive_cells(target, proxy, labels):
    cells = []
    for i, label in enumerate(labels):
        looked = 1 if len(target[i]) == 2 else int(np.argmax(target[i] - proxy[i]))
        held = np.clip([proxy[i, looked], target[i, looked]], FLOOR, 1.0 - FLOOR)
        row, column = np.floor((logit(held) + 14.0) * [16, 8]).astype(int)
        cells.append((row, column, int(label == looked)))
    return cells


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_cells_are_those_of_a_naive_twin(classes):
    target, proxy, labels = example(classes)
    expected = np.zeros((PROXY_BINS, TARGET_BINS, 2), dtype=np.int64)
    for cell in naive_cells(target, proxy, labels):
        expected[cell] += 1
    tally = odds_tally(target, proxy, labels)
    assert tally == OddsTally(RECORDS, expected)
    assert np.array_equal(odds_tally(target, proxy, labels.astype(np.uint8)).counts, expected)


def test_bins_are_those_of_the_logarithms():
    """100,000 pairs of probabilities, seed 8, from 1e-9 to 1 - 1e-9, and every edge."""
    random = np.random.default_rng(8)
    edges = expit(np.concatenate([np.arange(-14, 14, 1 / 16), np.arange(-14, 14, 1 / 8)]))
    drawn = expit(random.uniform(-20.0, 20.0, (2, 100_000)))
    target, proxy = np.concatenate([drawn, np.stack([edges, edges])], axis=1)
    cells = odds_cells(two_columns(target), two_columns(proxy), np.zeros(target.size, np.int64))
    row, column, right = np.unravel_index(cells, (PROXY_BINS, TARGET_BINS, 2))
    assert cells.max() < ODDS_CELLS
    assert not right.any()
    for value, place, steps in ((proxy, row, 16), (target, column, 8)):
        held = logit(np.clip(value, FLOOR, 1.0 - FLOOR))
        # A value may lie so near an edge that its logarithm is rounded to the other side.
        assert np.all(np.abs(held + 14.0 - (place + 0.5) / steps) <= 0.5 / steps + 1e-12)


@given(st.permutations(range(RECORDS)), st.integers(0, RECORDS), st.integers(2, 4))
@settings(max_examples=20, deadline=None)
def test_tallies_of_any_shards_add_to_the_whole(order, cut, classes):
    arrays = example(classes)

    def part(rows):
        rows = np.array(rows, dtype=np.int64)
        return odds_tally(*(array[rows] for array in arrays))

    whole = part(range(RECORDS))
    first, second = part(order[:cut]), part(order[cut:])
    assert first + second == second + first == whole
    assert whole + OddsTally.zero() == OddsTally.zero() + whole == whole
    assert (first + second).records == RECORDS


def test_predictions_are_the_label_that_the_target_raised_and_priors_round_towards_silence():
    target, proxy, labels = example(2)
    found = odds_tally(target, proxy, labels).predictions()
    assert np.all(found.right + found.wrong > 0)
    assert found.right.sum() + found.wrong.sum() == RECORDS
    lift = logit(target[:, 1]) - logit(proxy[:, 1])
    named, sure = (lift > 0.0).astype(int), np.abs(lift) > 0.15
    right = found.lift > 0.06
    assert found.right[right].sum() <= np.sum(named == labels) <= found.right.sum() + sum(~sure)
    for i in np.flatnonzero(sure):
        prior = logit(proxy[i, named[i]])
        above = (found.prior >= prior - 1e-12) & (found.prior <= prior + 1 / 16 + 1e-12)
        # The lift is taken from the raised prior, so that it errs towards silence, too.
        near = np.abs(found.lift - (abs(lift[i]) - 1 / 32)) <= 1 / 32 + 1 / 16 + 1e-12
        assert np.any(above & near)


def test_even_odds_begin_a_bin_and_a_floor_keeps_the_rest_apart():
    """Half is the commonest probability of all; 1e-6 is counted, what lies below is counted so."""
    one = np.array([1])

    def proxy_bin(probability):
        columns = two_columns(np.array([probability]))
        (row,) = np.nonzero(odds_tally(columns, columns, one).counts.sum(axis=(1, 2)))[0]
        return row

    assert proxy_bin(0.5) == PROXY_BINS // 2
    assert proxy_bin(0.5 - 1e-9) == PROXY_BINS // 2 - 1
    assert proxy_bin(FLOOR) == proxy_bin(1e-9) < proxy_bin(2.0 * FLOOR)
    assert proxy_bin(1.0 - FLOOR) == proxy_bin(1.0 - 1e-9) > proxy_bin(1.0 - 2.0 * FLOOR)


def test_of_classes_that_were_raised_alike_the_first_is_looked_at():
    same = np.full((1, 3), 1.0 / 3.0)
    assert [int(odds_cells(same, same, np.array([label]))[0] % 2) for label in range(3)] == [
        1,
        0,
        0,
    ]


def test_the_largest_shift_ends_below_certainty():
    found = odds_tally(*example(2)).predictions(shift=1.0)
    np.testing.assert_allclose(found.prior, logit(1.0 - FLOOR), rtol=1e-12)


def test_the_tally_of_nothing_is_one_array_that_nobody_may_write_to():
    zero = OddsTally.zero()
    assert zero.counts.shape == odds_tally(*example()).counts.shape
    with pytest.raises(ValueError, match="read-only"):
        zero.counts[0, 0, 0] = 1


def test_a_shift_raises_every_prior_by_as_much_and_lowers_lifts():
    tally = odds_tally(*example(2))
    plain, raised = tally.predictions(), tally.predictions(shift=0.1)
    np.testing.assert_allclose(
        expit(raised.prior), np.minimum(expit(plain.prior) + 0.1, 1.0 - FLOOR), rtol=1e-12
    )
    np.testing.assert_allclose(raised.prior + raised.lift, plain.prior + plain.lift, rtol=1e-12)
    assert np.array_equal(raised.right, plain.right)
    for shift in (-0.1, 1.1, np.nan):
        refused("shift is", tally.predictions, shift=shift)


@pytest.mark.parametrize("records", [0, 1, 877, ODDS_CELLS // 3])
def test_pickled_tallies_are_the_same(records):
    """None, some and many of the cells are occupied, the first and the last among them."""
    cells = np.random.default_rng(3).permutation(ODDS_CELLS)[:records]
    cells[:2] = [0, ODDS_CELLS - 1][: cells.size]
    tally = OddsTally.of_cells(cells) + OddsTally.of_cells(cells[::2])
    again = pickle.loads(pickle.dumps(tally))  # noqa: S301
    assert again == tally
    assert again.counts.dtype == tally.counts.dtype
    assert again + again == tally + tally


def test_of_few_records_the_occupied_cells_alone_are_pickled():
    """877 records: 12 bytes for each of at most as many cells, where all cells take 1.6 MB."""
    cells = np.random.default_rng(4).integers(0, ODDS_CELLS, 877)
    assert len(pickle.dumps(OddsTally.of_cells(cells))) < 12 * 877 + 1000
