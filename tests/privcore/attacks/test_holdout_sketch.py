"""A holdout's sketch: the same of any pieces, as alike as holdouts are, and of no row by itself."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privcore.attacks import HoldoutSketch, hashed_numbers, hashed_words, same_holdout
from privcore.attacks import holdout_sketch as module


def numbers(rows, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, 2))


def of(rows):
    columns = [hashed_numbers(column, f"x{place}") for place, column in enumerate(rows.T)]
    return HoldoutSketch.of(columns)


def hashed(words, column="x"):
    raw = [word.encode() for word in words]
    letters = np.frombuffer(b"".join(raw), dtype=np.uint8)
    borders = np.cumsum([0, *map(len, raw)]).astype(np.int64)
    return hashed_words(letters, borders, column)


def agreeing(one, other):
    """Return the share of two sketches' bytes that agree."""
    both = [
        np.frombuffer(bytes.fromhex(each.text() or ""), dtype=np.uint8) for each in (one, other)
    ]
    assert [each.size for each in both] == [32, 32]
    return float((both[0] == both[1]).mean())


@given(
    rows=st.integers(0, 3_000),
    cuts=st.lists(st.integers(0, 3_000), max_size=6),
    seed=st.integers(0, 9),
)
def test_any_pieces_in_any_order_have_one_sum(rows, cuts, seed):
    """Some rows come twice; the pieces are shuffled rows, cut anywhere."""
    whole = numbers(rows, seed)
    whole[rows // 2 :: 7] = whole[: len(whole[rows // 2 :: 7])]
    shuffled = np.random.default_rng(seed).permutation(whole)
    borders = [0, *sorted(min(cut, rows) for cut in cuts), rows]
    parts = [of(shuffled[first:stop]) for first, stop in itertools.pairwise(borders)]
    left, right = HoldoutSketch.zero(), HoldoutSketch.zero()
    for part in parts:
        left = left + part
    for part in reversed(parts):
        right = part + right
    assert left == right == of(whole)
    assert left.text() == of(whole).text()


def test_a_sketch_is_its_obvious_twin():
    """Each byte is that of the smallest hash of all rows, as these are fewer than are kept."""
    whole = of(numbers(200))

    def mixed(word):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            word = (word ^ (word >> shift)) * factor % 2**64
        return word ^ (word >> 31)

    said = [
        min(mixed(int(one) ^ int(salt)) for one in whole.hashes) & 0xFF for salt in module._SALTS
    ]
    assert whole.text() == bytes(said).hex()
    assert (whole.rows, whole.different) == (200, 200.0)


@pytest.mark.parametrize("rows", [300, 20_000])
def test_holdouts_agree_as_far_as_they_share_rows(rows):
    """Also those of more rows than are kept; order and rows that come twice are nothing."""
    whole = numbers(rows)
    assert agreeing(of(whole[::-1]), of(whole)) == 1.0
    assert agreeing(of(np.concatenate([whole, whole[: rows // 12]])), of(whole)) == 1.0
    columns = [hashed_numbers(whole[:, place], f"x{place}") for place in (1, 0)]
    assert HoldoutSketch.of(columns) == of(whole)
    assert agreeing(of(whole[:, ::-1]), of(whole)) <= 0.1
    assert agreeing(of(whole + 1e-9), of(whole)) <= 0.1
    for kept in (0.8, 0.5):  # so many rows are of both, which is kept / (2 - kept) of all
        moved = np.where(np.arange(rows) < rows * kept, 0.0, 1.0)[:, None]
        assert abs(agreeing(of(whole + moved), of(whole)) - kept / (2.0 - kept)) < 0.25


def test_holdouts_are_the_same_from_twelve_bytes_on():
    """The last night before is named; one without a sketch is nobody's."""
    one, new = bytes(range(32)), bytes(range(100, 132))
    nights = [(one[:count] + new[count:]).hex() for count in (32, 0, 11, 12)]
    assert same_holdout([nights[0], nights[1]]).tolist() == [-1, -1]
    assert same_holdout([nights[0], nights[2]]).tolist() == [-1, -1]
    assert same_holdout([nights[0], None, nights[3]]).tolist() == [-1, -1, 0]
    assert same_holdout([nights[0], nights[0], nights[1], None, nights[0]]).tolist() == [
        -1, 0, -1, -1, 1,
    ]  # fmt: skip
    assert same_holdout([]).tolist() == same_holdout([None])[1:].tolist() == []


def test_fresh_holdouts_agree_by_chance_alone():
    """None of 2,016 pairs of fresh holdouts shares a quarter of its bytes; 1 in 256 is shared."""
    texts = [of(numbers(100, seed)).text() for seed in range(64)]
    found = np.array([list(bytes.fromhex(text or "")) for text in texts])
    pairs = [(found[a] == found[b]).sum() for a, b in itertools.combinations(range(64), 2)]
    assert max(pairs) < 8
    assert 0.5 / 256 < np.mean(pairs) / 32 < 2.0 / 256


@pytest.mark.parametrize(("again", "least", "most"), [(0, 0, 2), (200, 20, 80), (1_000, 130, 197)])
def test_sketches_of_few_rows_that_come_again_are_the_same(again, least, most):
    """200 pairs of 2,000 rows; the same where one of 6 parts is that of a row of both."""
    found = 0
    for run in range(200):
        random = np.random.default_rng([run, 7])
        both = random.integers(0, 2**63, again, dtype=np.uint64)
        new = random.integers(0, 2**63, (2, 2_000 - again), dtype=np.uint64)
        sketches = [HoldoutSketch.of([np.append(both, one)]).text(few=True) for one in new]
        found += int(same_holdout(sketches)[1]) == 0
    assert least <= found <= most


def test_no_row_is_found_in_a_sketch():
    """About one row in 256 has the byte of its place, among these 300 rows and 300 others."""
    text = np.frombuffer(bytes.fromhex(of(numbers(300)).text() or ""), dtype=np.uint8)
    for seed in (0, 1):
        hashes = of(numbers(300, seed)).hashes
        bytes_ = np.array(
            [module._minima(hashes[[row]], module._SALTS) & 0xFF for row in range(300)]
        )
        assert 0.0 < (bytes_ == text).mean() < 0.02


@pytest.mark.parametrize(
    ("rows", "alike", "whole"),
    [(30, 3, True), (30, 4, False), (29, 0, False), (1_000, 100, True), (1_000, 101, False)],
)
def test_few_rows_and_rows_alike_have_a_digest(rows, alike, whole):
    """Nine in ten must differ; else one row more is another digest, and the same rows are one."""
    some = numbers(rows)
    some[: alike + 1] = some[0]
    assert of(some[::-1]).text() == of(some).text()
    more = np.concatenate([some, numbers(1, seed=1)])
    assert (agreeing(of(more), of(some)) > 0.5) == whole


def test_different_rows_of_many_are_counted_within_a_tenth():
    for rows in (1_023, 1_024, 30_000):
        assert abs(of(numbers(rows)).different / rows - 1.0) < 0.1
        twice = of(np.concatenate([numbers(rows)] * 2))
        assert abs(twice.different / rows - 1.0) < 0.1
        assert twice.rows == 2 * rows
    assert twice.different == 1_023 / (twice.hashes[-1] / 2**64)


def test_where_fewer_than_ten_rows_differ_there_is_no_sketch():
    assert of(numbers(9)).text() is None
    assert of(np.concatenate([numbers(9)] * 30)).text() is None
    assert of(numbers(10)).text() is not None
    assert HoldoutSketch.zero().text() is None
    assert HoldoutSketch.of([]) == HoldoutSketch.zero()


def test_numbers_that_mean_the_same_have_one_hash():
    other_nan = np.array([0xFFF8000000000001], dtype=np.uint64).view(np.float64)
    given_ = np.array([0.0, -0.0, np.nan, other_nan[0], 1.0, 2.0])
    hashes = hashed_numbers(given_, "x")
    assert hashes[0] == hashes[1]
    assert hashes[2] == hashes[3]
    assert np.unique(hashes).size == 4
    assert not np.intersect1d(hashes, hashed_numbers(given_, "y")).size


def test_sketches_that_were_recorded_stay_comparable():
    """Figures of 2026-11-25: if a hash changes, the next holdout of each model looks new."""
    numbers_ = np.arange(100) / 8.0
    numbers_[0] = np.nan
    columns = [hashed_numbers(numbers_, "x"), hashed([str(row % 40) for row in range(100)], "w")]
    assert HoldoutSketch.of(columns).text() == (
        "964548b29c5e7398e9be50a63ecc720eace54ca201a12b688d0df1baefe003c8"
    )
    assert HoldoutSketch.of([column[:20] for column in columns]).text() == (
        "3286e9b43a76fe978a679c9f41f957e2e8f03263323c0f12d1eab96f8897f5b4"
    )


def test_words_have_hashes_of_their_own():
    hashes = hashed(["", "a", "b", "ab", "ba", "é", "a"])
    assert hashes[1] == hashes[6]
    assert np.unique(hashes).size == 6
    assert hashed(["a"]) != hashed(["a"], "y")
