"""Rows that belong together: no test is moved by chance, and sums keep whole values."""

import numpy as np
import pytest

from privcore.attacks import ValueSketch, leading_digits, row_sums, separation
from tests.simulate import assert_rate_at_most
from tests.support.tiers import rest_slow


def sketch_of(random, values, rows):
    """Return a sketch of independent rows with a right proxy."""
    chance = random.uniform(0.1, 0.9, rows)
    odd = (random.random(rows) < chance).astype(np.int64)
    unit = 1 << 20
    residual = np.rint((odd - chance) * unit).astype(np.int64)
    variance = np.rint(chance * (1 - chance) * unit).astype(np.int64)
    train = random.random(rows) < 0.6
    sums = np.stack(
        [train, ~train, odd, residual, residual**2 // unit, variance, variance**2 // unit], axis=1
    )
    hashes = random.integers(0, values, rows).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ValueSketch.of(hashes, sums.astype(np.int64))


@pytest.mark.slow
def test_neither_test_is_moved_by_chance():
    """2,000 sketches of independent rows, seed 333: standard errors are such, twins are none."""
    random = np.random.default_rng(333)
    agreements, twins, together, crossing, near = [], 0, 0, 0, 0
    for _ in range(2_000):
        sketch = sketch_of(random, 400, 700)
        agreements.append(sketch.agreement())
        twins += sketch.repeated() > 0.0
        together += sketch.held_together()
        near += sketch.near_held_together() is not None
        crossing += sketch.too_many_crossings() is not None
    assert abs(np.mean(agreements)) < 0.1
    assert 0.9 < np.std(agreements) < 1.1
    assert max(agreements) < 5.0
    assert_rate_at_most(twins, 2_000, 1e-5)
    assert (together, crossing, near) == (0, 0, 0)


def test_sketches_add_to_the_same_whatever_the_order_and_keep_whole_values():
    """Against a dictionary of all values, seed 334; more values than are kept."""
    random = np.random.default_rng(334)
    hashes = random.integers(0, 2**63, 9_000).astype(np.uint64)[random.integers(0, 9_000, 20_000)]
    rows = random.integers(0, 50, (20_000, 7))
    whole = ValueSketch.of(hashes, rows)
    assert whole.hashes.size == 4_096
    totals = {}
    for word, row in zip(hashes.tolist(), rows, strict=True):
        totals[word] = totals.get(word, 0) + row
    for word, sums in zip(whole.hashes.tolist(), whole.sums, strict=True):
        np.testing.assert_array_equal(sums, totals[word])
    assert whole.hashes.tolist() == sorted(totals)[:4_096]
    for seed in range(5):
        cuts = np.sort(np.random.default_rng(seed).integers(0, 20_000, 6))
        parts = [
            ValueSketch.of(one, two)
            for one, two in zip(np.split(hashes, cuts), np.split(rows, cuts), strict=True)
        ]
        order = np.random.default_rng(seed).permutation(len(parts))
        assert sum((parts[place] for place in order), start=ValueSketch.zero()) == whole


def test_what_rows_add_is_their_arm_label_and_what_the_proxy_leaves():
    """Against one row after the other; a label that cannot be read counts with its arm alone."""
    proxy = np.array([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]])
    found = row_sums(np.array([1, 0, -1]), np.array([True, False, True]), proxy)
    unit = 1 << 20
    first = [1, 0, 1, 3 * unit // 4, 9 * unit // 16, 3 * unit // 16, 9 * unit // 256]
    second = [0, 1, 0, -unit // 2, unit // 4, unit // 4, unit // 16]
    assert found.tolist() == [first, second, [1, 0, 0, 0, 0, 0, 0]]
    several = row_sums(np.array([1, 2, 3]), np.ones(3, dtype=bool), np.full((3, 4), 0.25))
    assert several[:, 2].tolist() == [1, 0, 1]


def sketch_with(values):
    """A sketch of values with these sums; what is left out is 0."""
    sums = np.array([(*value, *(0,) * (7 - len(value))) for value in values])
    return ValueSketch(np.arange(len(values), dtype=np.uint64), sums)


def test_crossings_are_expected_by_the_holdouts_share():
    """Three of eight rows are held out: 1 - (5/8)^n - (3/8)^n of a value of n rows."""
    sketch = sketch_with([(2, 1), (3, 0), (0, 2)])
    expected = 2 * (1 - (5 / 8) ** 3 - (3 / 8) ** 3) + (1 - (5 / 8) ** 2 - (3 / 8) ** 2)
    assert sketch.crossings() == (1, pytest.approx(expected))
    assert ValueSketch.zero().crossings() == (0, 0.0)


@pytest.mark.parametrize(("pairs", "told"), [(18, False), (19, False), (20, True)])
def test_pairs_that_always_cross_are_too_many_where_chance_could_not(pairs, told):
    """A quarter is held out, so a pair crosses with chance 3/8; (3/8)^n < 1e-8 from 19 pairs on.

    Pairs move the share of the holdout to 0.26, and the chance to 0.38. Large values count nothing.
    """
    beside = [(1, 0)] * 900 + [(0, 1)] * 300 + [(9, 3)] * 10
    found = sketch_with([(1, 1)] * pairs + beside).too_many_crossings()
    assert (found is not None) == told
    if found is not None:
        assert found[:2] == (pairs, pairs)
        assert found[2] == pytest.approx(pairs * 0.38, abs=0.2)


def test_pairs_that_never_cross_are_not_too_many():
    assert sketch_with([(2, 0)] * 300 + [(0, 2)] * 100).too_many_crossings() is None
    assert sketch_with([(5, 0), (0, 3)]).too_many_crossings() is None
    assert ValueSketch.zero().too_many_crossings() is None


def test_crossings_by_chance_are_as_rare_as_the_bound_says(monkeypatch):
    """At 0.3 in place of 1e-8: 1,000 divisions of 200 pairs and 600 single rows, seed 335."""
    monkeypatch.setattr("privcore.attacks.related_rows._BY_CHANCE", 0.3)
    random, told = np.random.default_rng(335), 0
    for _ in range(1_000):
        held = random.random(1_000) < random.uniform(0.1, 0.5)
        of_pairs = held[:400].reshape(200, 2).sum(axis=1)
        values = [(2 - held_out, held_out) for held_out in of_pairs.tolist()]
        values += [(1 - one, one) for one in held[400:].astype(int).tolist()]
        told += sketch_with(values).too_many_crossings() is not None
    assert_rate_at_most(told, 1_000, 0.3)
    assert told > 20


@pytest.mark.parametrize(
    ("values", "together"),
    [
        ([(2, 0)] * 30 + [(0, 2)] * 30, True),  # 30 crossings are expected
        ([(2, 0)] * 29 + [(0, 2)] * 29, False),
        ([(2, 0)] * 100 + [(0, 2)] * 100 + [(1, 1)], True),  # 1 of 100.5
        ([(2, 0)] * 98 + [(0, 2)] * 98 + [(1, 1)], False),  # 1 of 98.5
        ([(4, 0)] * 200 + [(0, 80)] * 10, True),
        ([(4, 0)] * 200 + [(0, 88)] * 9 + [(0, 1)] * 8, False),  # nine values in an arm
        ([(4, 0)] * 200 + [(0, 88)] * 9 + [(0, 8)], True),
        ([(80, 0)] * 10 + [(0, 4)] * 200, True),
        ([(80, 0)] * 9 + [(1, 0)] * 80 + [(0, 4)] * 200, False),
    ],
)
def test_values_are_held_together_where_chance_would_have_divided_many(values, together):
    assert sketch_with(values).held_together() is together


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([(2, 0)] * 48 + [(0, 2)] * 48 + [(1, 1)] * 5, (5, 50.5)),
        ([(2, 0)] * 47 + [(0, 2)] * 47 + [(1, 1)] * 6, None),  # 6 of 50
    ],
)
def test_strangers_may_be_near_copies_of_each_other(values, found):
    assert sketch_with(values).near_held_together() == found
    assert not sketch_with(values).held_together()


def test_leading_digits_are_of_numbers_that_differ_by_little():
    """Behind the first binary digit one more is asked for, or all 52; zero has no sign."""
    numbers = np.array([1.0, 1.4, 1.5, 2.0, -1.0, 0.0, -0.0, 1e-310, np.inf])
    assert leading_digits(numbers, 1).view(np.float64).tolist() == [
        1.0, 1.0, 1.5, 2.0, -1.0, 0.0, 0.0, 0.0, np.inf,
    ]  # fmt: skip
    assert leading_digits(numbers, 52).view(np.float64).tolist() == numbers.tolist()
    assert leading_digits(numbers[5:7], 52).tolist() == [0, 0]
    assert leading_digits(np.array([[1.9, 1.03]]).T, 0).view(np.float64).tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize(
    ("values", "crosses"),
    [
        ([(1, 1)] * 16 + [(2, 0)] * 22 + [(0, 2)] * 22, True),  # 16 of 30
        ([(1, 1)] * 8 + [(2, 0)] * 26 + [(0, 2)] * 26, True),  # 8 of 30 are more than a quarter
        ([(1, 1)] * 8 + [(2, 0)] * 28 + [(0, 2)] * 28, False),  # 8 of 32 are a quarter
        ([(1, 1)] * 58, False),  # 29 are expected
        ([(1, 1)] * 60, True),
    ],
)
def test_values_that_cross_a_quarter_as_often_as_by_chance_are_let_go(values, crosses):
    assert sketch_with(values).crosses() is crosses


def test_agreement_is_of_pairs_of_rows_of_one_value():
    """Against every pair, less what all rows are above the proxy by; seed 337."""
    random = np.random.default_rng(337)
    value = np.repeat(np.arange(40), random.integers(1, 5, 40))
    chance = random.uniform(0.2, 0.8, value.size)
    odd = (random.random(value.size) < chance).astype(int)
    rows = row_sums(odd, random.random(value.size) < 0.5, np.stack([1 - chance, chance], axis=1))
    residual, variance = odd - chance, chance * (1.0 - chance)
    residual = residual - residual.mean()
    product = weight = 0.0
    for one in range(value.size):
        for other in range(one):
            if value[one] == value[other]:
                product += residual[one] * residual[other]
                weight += variance[one] * variance[other]
    found = ValueSketch.of(value.astype(np.uint64), rows)
    assert found.agreement() == pytest.approx(product / np.sqrt(weight), rel=1e-3)
    assert ValueSketch.zero().agreement() == 0.0


@pytest.mark.parametrize(("agreeing", "alike"), [(122, False), (124, True)])
def test_labels_of_one_value_are_alike_from_five_standard_errors_on(agreeing, alike):
    """178 pairs at chance 1/2: one that agrees counts 1, one that does not -1, over the root."""
    unit = 1 << 20
    of_two = (unit // 2, unit // 2, unit // 8)  # squares, variances, and squares of these
    values = [(2, 0, 2, unit, *of_two), (0, 2, 0, -unit, *of_two), (0, 2, 1, 0, *of_two)]
    half, others = agreeing // 2, 178 - agreeing
    sketch = sketch_with([values[0]] * half + [values[1]] * half + [values[2]] * others)
    assert sketch.agreement() == pytest.approx((agreeing - others) / np.sqrt(178))
    assert sketch.held_together()
    assert sketch.divided_alike() is alike


@pytest.mark.parametrize(
    ("values", "share"),
    [
        ([(2, 0, 0)] * 40 + [(1, 0, 0)] * 20, 0.8),  # 20 disagreements are expected
        ([(2, 0, 0)] * 39 + [(1, 0, 0)] * 22, 0.0),
        ([(2, 0, 1)] * 2 + [(2, 0, 2)] * 38, 1.0),  # 2 of 20
        ([(2, 0, 1)] * 3 + [(2, 0, 2)] * 37, 0.0),
        ([(1, 1, 2)] * 80, 1.0),
        ([(2, 2, 4)] * 40, 1.0),
        ([(3, 2, 5)] * 40, 0.0),  # five alike are no copies
        ([(2, 0, 0)] * 80 + [(1, 0, 0)] * 15_840, 0.01),
        ([(2, 0, 0)] * 80 + [(1, 0, 0)] * 15_900, 0.0),
    ],
)
def test_rows_are_repeated_where_labels_disagree_a_tenth_as_often_as_expected(values, share):
    """Each row's variance is 1/4, so a value of two rows disagrees by chance once in two."""
    unit = 1 << 20
    given = [(*value, 0, 0, (value[0] + value[1]) * unit // 4) for value in values]
    assert sketch_with(given).repeated() == pytest.approx(share)


_CROSSING = 1.0 - 0.4**5 - 0.6**5
_THREE_OF_FIVE = (10 * 0.4**3 * 0.6**2 + 5 * 0.4**4 * 0.6) / _CROSSING
_FOUR_OF_FIVE = 5 * 0.6**4 * 0.4 / _CROSSING


@pytest.mark.parametrize(
    ("values", "of_value", "classes", "found"),
    [
        # One arm has two rows of each value and the other three, so a row is the one's by 2/5.
        (90, (2, 3), 2, 90 * _THREE_OF_FIVE),
        (90, (3, 2), 2, 90 * _THREE_OF_FIVE),
        (89, (2, 3), 2, None),  # chance expects 29.98 values of three rows
        (106, (2, 3), 3, 106 * _FOUR_OF_FIVE),
        (105, (2, 3), 3, None),
        (500, (2, 3), 4, None),
        (500, (3, 3), 2, None),  # both arms have values of three rows
        (500, (1, 1), 1, None),  # what crosses has one row in either arm
        (500, (0, 5), 2, None),  # copies in one arm are no distinct rows of the other
    ],
)
def test_an_arm_without_equal_rows_is_told_from_chance(values, of_value, classes, found):
    sums = np.zeros((values, 7), dtype=np.int64)
    sums[:, :2] = of_value
    sketch = ValueSketch(np.arange(values, dtype=np.uint64), sums)
    assert sketch.made_distinct(classes) == (found and pytest.approx(found, rel=1e-12))


def test_one_value_in_a_hundred_may_come_more_often():
    sums = np.zeros((1_000, 7), dtype=np.int64)
    sums[:, :2] = (2, 3)
    for more, told in ((3, True), (4, False)):  # of 336 or so that chance expects
        sums[:more, 0] = 3
        sketch = ValueSketch(np.arange(1_000, dtype=np.uint64), sums)
        assert (sketch.made_distinct(2) is not None) is told


@pytest.mark.parametrize("sketches", rest_slow([400, 4_000]))
def test_an_arm_drawn_by_chance_has_equal_rows(sketches):
    """Sketches of few and many rows a value, seed 345; none of the arms looks distinct."""
    random = np.random.default_rng(345)
    found = 0
    for number in range(sketches):
        sketch = sketch_of(random, (20, 100, 400, 2_000)[number % 4], 1_000)
        found += any(sketch.made_distinct(classes) is not None for classes in (1, 2, 3, 5))
    assert found == 0


@pytest.mark.parametrize(("of_value", "found"), [((2, 2), (300, 300, 262.5)), ((2, 3), None)])
def test_values_of_two_to_four_rows_alone_may_cross_too_often(of_value, found):
    sums = np.zeros((300, 7), dtype=np.int64)
    sums[:, :2] = of_value
    assert ValueSketch(np.arange(300, dtype=np.uint64), sums).too_many_crossings() == found


@pytest.mark.parametrize("values", [2, 5, 1_000])
def test_the_share_is_that_of_all_pairs(values):
    """60 records, some numbers missing or infinite; a pair of equal numbers counts half; seed 6."""
    random = np.random.default_rng(6)
    numbers = random.integers(0, values, 60).astype(float)
    numbers[:3], numbers[3], numbers[4] = np.nan, np.inf, -np.inf
    kinds = random.random(60) < 0.4
    held = np.where(np.isnan(numbers), -np.inf, np.clip(numbers, -1e300, 1e300))
    pairs = [(a > b) + 0.5 * (a == b) for a in held[kinds] for b in held[~kinds]]
    share = float(np.mean(pairs))
    assert separation(numbers, kinds) == pytest.approx(max(share, 1.0 - share))
    assert separation(-numbers[5:], kinds[5:]) == pytest.approx(separation(numbers[5:], kinds[5:]))


def test_numbers_that_tell_both_kinds_order_all_pairs():
    kinds = np.arange(10) < 4
    assert separation(np.arange(10.0), kinds) == 1.0
    assert separation(np.zeros(10), kinds) == 0.5
