"""Columns that tell coins, and columns that a mechanism reads."""

import numpy as np
import pytest
from scipy.stats import binom

from privcore.lower_bounds.released_columns import BINS, SearchedRows, chosen_guesses, reads_more
from privcore.lower_bounds.released_labels import Declared
from privcore.mechanisms import RandomizedResponse

CLAIM = Declared(1.0)


def rows(random, true, released, *, orders=None, **columns):
    """Return rows in one stratum; columns are in `BINS` ranges."""
    stratum = np.zeros(len(true), dtype=np.int64)
    learning = random.random(len(true)) < 0.5
    return SearchedRows(stratum, true, released, columns, orders or {}, learning)


def pvalue(searched):
    """Return the column that was chosen, and its p-value against the claim."""
    column, guesses = chosen_guesses(searched, CLAIM)
    return column, float(guesses.pvalues(CLAIM, np.random.default_rng(1))[CLAIM.place])


def test_a_column_that_tells_kept_labels_is_chosen_and_refutes():
    random = np.random.default_rng(1)
    noise, tell = random.integers(0, BINS, (2, 4_000))
    true = random.integers(0, 2, 4_000)
    released = np.where(tell < BINS * 0.27, 1 - true, true)
    column, found = pvalue(rows(random, true, released, noise=noise, tell=tell))
    assert (column, found < 1e-20) == ("tell", True)
    # Of three classes it can be kept or not; the other one is not known.
    true = random.integers(0, 3, 4_000)
    released = np.where(tell < BINS * 0.4, (true + 1) % 3, true)
    assert pvalue(rows(random, true, released, noise=noise, tell=tell))[1] < 1e-20


def test_a_column_that_tells_the_label_refutes_no_constant_answer():
    """Both kinds of guesses are right of every row: each is a stratum of its own for the bound."""
    random = np.random.default_rng(2)
    true = random.integers(0, 2, 4_000)
    searched = rows(random, true, np.zeros(4_000, dtype=np.int64), label=true * (BINS - 1))
    assert pvalue(searched)[1] == 1.0


def test_no_column_gives_no_guess():
    random = np.random.default_rng(3)
    true = random.integers(0, 2, 100)
    assert pvalue(rows(random, true, true)) == ("", 1.0)


def test_neighbours_coins_are_those_of_other_rows_that_were_searched():
    random = np.random.default_rng(4)
    true = random.integers(0, 2, 200)
    order = random.permutation(200)
    searched = rows(random, true, random.integers(0, 2, 200), orders={"before": order})
    told, outcome = searched.searched()["before"], searched.outcome
    for place in range(200):
        before = [one for one in order[:place] if searched.learning[one]]
        after = [one for one in order[place + 1 :] if searched.learning[one]]
        first = outcome[before[-1]] if before else 2
        assert told[order[place]] == 3 * first + (outcome[after[0]] if after else 2)


def test_a_column_that_is_read_is_named_and_noise_is_not():
    random = np.random.default_rng(5)
    true = random.integers(0, 2, 8_000)
    noise, segment = random.integers(0, BINS, (2, 8_000))
    honest = RandomizedResponse(1.0, 2).sample(true, random)
    read = np.where(segment < 40, true, honest)  # 4% unflipped
    names = ["noise", "segment"]
    searched = rows(random, true, read, noise=noise, segment=segment)
    assert reads_more(searched, names, seed=1) == "segment"
    assert reads_more(searched, ["noise"], seed=1) is None
    assert (
        reads_more(rows(random, true, honest, noise=noise, segment=segment), names, seed=1) is None
    )


@pytest.mark.slow
def test_what_is_honest_reads_more_at_most_as_often_as_allowed():
    """N = 3,000 tables of 400 rows with ten columns, two of which tell the label, at 0.001."""
    named = 0
    for run in range(3_000):
        random = np.random.default_rng([run, 7])
        columns = {str(one): random.integers(0, BINS, 400) for one in range(10)}
        true = (columns["0"] + columns["1"] > BINS).astype(np.int64)
        released = RandomizedResponse(1.0, 2).sample(true, random)
        named += (
            reads_more(rows(random, true, released, **columns), list(columns), seed=run) is not None
        )
    assert named <= binom.isf(1e-3, 3_000, 0.001)
