import itertools
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from privcore.attacks.query_adversary import (
    NOISY,
    ONE,
    QUIET,
    ZERO,
    Adversary,
    Disagreement,
    EveryCell,
    NotZeroOrOne,
    VarianceAbove,
    variance_statistic,
)
from privcore.attacks.query_reconstruction import (
    Bisection,
    PublishedSearch,
    find_bounds,
    one_range,
    reconstruct_column,
    reconstruct_table,
    sorted_counts,
    table_match,
)
from privcore.exceptions import NoBoundsError
from privcore.mechanisms import Groups
from privcore.mechanisms.local_sensitivity import (
    KLaplace,
    NoisyCountThreshold,
    Rounded,
    Unprotected,
)
from privcore.mechanisms.threshold_queries import Column, RestrictedInterface
from tests.support.queries import as_multiset, attack, bank, domain, multiset, protect
from tests.support.refusals import refused
from tests.support.tiers import rest_slow, tiered

SMALL = [
    (records, k, rows)
    for records, k in itertools.product(range(2, 7), (1, 2, 3))
    if records >= 2 * k
    for rows in itertools.combinations_with_replacement(range(3), records)
]


def column_counts(found):
    return dict(zip(found.cell.tolist(), found.count.tolist(), strict=True))


@pytest.mark.parametrize("search", tiered([Bisection(), PublishedSearch()], always=1, slow=1))
def test_every_small_table_is_reconstructed(search):
    assert len(SMALL) == 6 + 10 + 15 + 21 + 28 + 15 + 21 + 28 + 28
    for records, k, rows in SMALL:
        if k > 1 and isinstance(search, PublishedSearch):
            continue
        cells = np.array(rows).reshape(records, 1)
        adversary = attack(cells, domain(3), k=k)
        found = reconstruct_column(adversary, 0, search)
        assert column_counts(found) == {c: n for (c,), n in multiset(cells).items()}


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2])
def test_every_small_table_of_two_columns_is_reconstructed(k):
    """All tables of 2k to 4 records over 2 x 3 cells."""
    pairs = list(itertools.product(range(2), range(3)))
    for records in range(2 * k, 5):
        for rows in itertools.combinations_with_replacement(pairs, records):
            result = reconstruct_table(attack(np.array(rows), domain(2, 3), k=k))
            assert result.stopped is None
            assert as_multiset(result) == multiset(rows)


@pytest.mark.slow
def test_a_border_is_missing_exactly_where_2k_records_have_k_that_satisfy_phi():
    for records, k, rows in SMALL:
        adversary = attack(np.array(rows).reshape(records, 1), domain(3), k=k)
        for low, high in ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3)):
            count = sum(low <= cell < high for cell in rows)
            predicate = one_range(0, low, high)
            noisy = [
                adversary.signs(predicate, np.array([threshold]))[0] == NOISY
                for threshold in range(records)
            ]
            missing = all(noisy) or not any(noisy)
            assert missing == (records == 2 * k and count == k)
            assert adversary.counts(predicate, np.array([records])).tolist() == [count]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_tables_are_reconstructed_and_everything_asked_is_counted(data):
    """Ties, negative numbers, cells that never occur, one distinct value, n = 2k."""
    k = data.draw(st.sampled_from([0, 1, 2, 3]))
    records = data.draw(st.integers(max(2 * k, 1), 14))
    columns = data.draw(st.integers(1, 3))
    spread = data.draw(st.sampled_from([0, 1, 40]))
    rows = data.draw(
        st.lists(
            st.tuples(*[st.integers(-spread, spread)] * columns), min_size=records, max_size=records
        )
    )
    bounds = tuple(Column(f"c{i}", -spread - 3, spread + 5) for i in range(columns))
    mechanism = KLaplace(k) if k else Unprotected()
    interface = RestrictedInterface(protect(rows, bounds, mechanism, seed=records))
    adversary = Adversary(interface, NotZeroOrOne(), k=k, epsilon=1e-9)
    result = reconstruct_table(adversary)
    assert as_multiset(result) == multiset(rows)
    assert adversary.queries == interface.answered
    assert adversary.claimed_budget == pytest.approx(interface.spent, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-500, 500), min_size=2, max_size=10), st.sampled_from([0.01, 0.5, 3.0]))
def test_bounds_that_nobody_gave_are_found_by_doubling_and_floats_to_their_precision(
    values, precision
):
    column = Column.numeric("x", precision=precision)
    cells = column.encode(values).reshape(-1, 1)
    adversary = attack(cells, (column,))
    found = find_bounds(adversary, 0)
    widest = int(np.abs(np.where(cells < 0, -cells, cells + 1)).max())
    assert (found.lower, found.upper) == (-(found.upper + 1), found.upper)
    assert widest <= found.upper + 1 < max(2 * widest, 2)
    assert adversary.queries == (found.upper + 1).bit_length()
    reconstructed = reconstruct_column(adversary, 0)
    for cell, count in column_counts(reconstructed).items():
        low, high = column.decode(np.array([cell, cell + 1]))
        assert sum(low <= value < high for value in values) == count


def test_counts_come_in_the_order_of_groups_and_of_cells_within_them():
    found = sorted_counts(np.array([[1, 0, 0], [2, 5, 3], [7, 8, 9]]))
    assert found.group.tolist() == [0, 0, 1]
    assert found.cell.tolist() == [3, 5, 2]
    assert found.count.tolist() == [9, 8, 7]


def test_the_widest_bounds_that_are_looked_for_are_found_and_wider_ones_are_not():
    widest = EveryCell.WIDEST
    adversary = attack([[0], [widest - 1]], (Column("x"),))
    assert find_bounds(adversary, 0).upper == widest - 1
    with pytest.raises(NoBoundsError, match="x"):
        find_bounds(attack([[0], [widest]], (Column("x"),)), 0)


def test_fewer_than_2k_records_are_refused_with_the_reason():
    for k in (1, 2, 3):
        cells = np.zeros((2 * k - 1, 1), dtype=np.int64)
        refused(f"at least 2k = {2 * k} records are needed", attack, cells, domain(2), k=k)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "rule", "k"),
    rest_slow(
        [
            (Rounded(KLaplace(1)), NotZeroOrOne(), 1),
            (Rounded(KLaplace(2), to_bits=True), Disagreement(45), 2),
            (KLaplace(1, added_sensitivity=1.0), VarianceAbove(1000), 1),
            (KLaplace(2, added_sensitivity=1.0), VarianceAbove(1000), 2),
        ],
        always=3,
    ),
)
def test_variants_are_reconstructed_at_the_same_claimed_budget_for_each_decision(
    mechanism, rule, k
):
    """A rule errs with probability 2^-44, or at 1000 answers below 1e-9, per decision."""
    cells = np.random.default_rng(8).integers(0, 5, (12, 2))
    adversary = attack(cells, domain(5, 5), k=k, rule=rule, mechanism=mechanism)
    result = reconstruct_table(adversary)
    assert result.stopped is None
    assert as_multiset(result) == multiset(cells)
    assert adversary.queries == adversary.decisions * rule.repetitions
    assert adversary.claimed_budget == pytest.approx(adversary.decisions * 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("k", rest_slow([1, 2, 3], always=2))
def test_counts_are_found_without_knowing_sides_on_every_small_table(k):
    """The variance rule at 300 answers; every count of 0 to n, n = 2k to 2k + 3."""
    for records in range(2 * k, 2 * k + 4):
        for count in range(records + 1):
            cells = np.arange(records).reshape(-1, 1) >= count
            adversary = attack(
                cells.astype(np.int64),
                domain(2),
                k=k,
                rule=VarianceAbove(300),
                mechanism=KLaplace(k, added_sensitivity=1.0),
                seed=count,
            )
            found = adversary.counts(one_range(0, 0, 1), np.array([records]))
            assert found.tolist() == [count]


def test_a_rule_without_sides_says_what_it_cannot_do():
    mechanism = KLaplace(1, added_sensitivity=1.0)
    adversary = attack([[0], [1]], (Column("x"),), rule=VarianceAbove(10), mechanism=mechanism)
    refused("needs bounds", find_bounds, adversary, 0)
    bounded = attack([[0], [1]], domain(2), rule=VarianceAbove(10), mechanism=mechanism)
    refused("rule is", reconstruct_column, bounded, 0, PublishedSearch())
    plain = attack([[0], [1]], domain(2), k=0, rule=VarianceAbove(10))
    refused("needs k >= 1", plain.counts, one_range(0, 0, 1), np.array([2]))


def test_the_published_search_is_not_for_larger_groups():
    refused("k is 2", reconstruct_column, attack([[0]] * 4, domain(2), k=2), 0, PublishedSearch())


@pytest.mark.parametrize(("queries", "learned"), [(14, (0,)), (1, ())])
def test_a_refusal_ends_the_attack_with_what_was_learned(queries, learned):
    adversary = attack([(0, 1), (1, 1), (1, 2), (2, 0)], domain(3, 3))
    adversary.interface = RestrictedInterface(adversary.interface, queries=queries)
    partly = reconstruct_table(adversary)
    assert "refuses to answer" in partly.stopped
    assert partly.groups.columns == learned


@dataclass
class Coin:
    """Answers 0, a half or 1, whatever is asked."""

    columns: tuple[Column, ...]
    records: int
    random: np.random.Generator

    def answer(self, predicates, thresholds, *, epsilon):  # noqa: ARG002
        return self.random.integers(0, 3, thresholds.shape) / 2


@pytest.mark.parametrize("seeds", rest_slow([range(1), range(1, 20)]))
def test_contradicting_answers_end_in_some_table_and_not_in_a_loop(seeds):
    """A fair coin for every answer, 20 seeds, both searches."""
    for seed in seeds:
        coin = np.random.default_rng(seed)
        interface = Coin(domain(9, 5), 12, coin)
        for search in (Bisection(), PublishedSearch()):
            for k in (0, 1):
                adversary = Adversary(interface, NotZeroOrOne(), k=k, epsilon=1.0)
                result = reconstruct_table(adversary, search=search)
                assert result.stopped is None
                assert result.counts.sum() == 12


@pytest.mark.slow
def test_the_honest_mechanism_resists_where_local_sensitivity_gives_everything():
    """50 tables of 40 records over 16 cells, seeds 0 to 49, epsilon 1e-4 per decision.

    A record is right by chance where both tables agree; the same attack's answer for *another*
    random table is what chance alone gives. The two differ by no more than 5 standard errors.
    """
    honest, chance, broken = [], [], []
    for seed in range(50):
        random = np.random.default_rng(seed)
        cells, other = random.integers(0, 4, (2, 40, 2))
        adversary = attack(
            cells,
            domain(4, 4),
            rule=Disagreement(15),
            mechanism=NoisyCountThreshold(),
            epsilon=1e-4,
            seed=seed,
        )
        result = as_multiset(reconstruct_table(adversary))
        honest.append((result & multiset(cells)).total())
        chance.append((result & multiset(other)).total())
        whole = as_multiset(reconstruct_table(attack(cells, domain(4, 4), epsilon=1e-4)))
        broken.append((whole & multiset(cells)).total())
    difference = np.array(honest) - np.array(chance)
    assert abs(difference.mean()) < 5 * difference.std(ddof=1) / math.sqrt(50)
    assert np.mean(honest) < 20
    assert broken == [40] * 50


@pytest.mark.slow
def test_the_bank_table_is_reconstructed_as_published():
    """Table 4: the totals to the last query; and a search of our own with a third of them."""
    cells, columns = bank()
    names = [column.name for column in columns]
    learned = (
        "y default housing loan marital contact poutcome education job month day previous campaign "
        "age pdays duration balance"
    )
    order = [names.index(name) for name in learned.split()]
    unbounded = tuple(Column(name) for name in names)
    truth = multiset(cells)
    for k, queries in ((1, 5_418_936), (0, 5_200_591)):
        adversary = attack(cells, unbounded, k=k)
        search = PublishedSearch()
        result = reconstruct_table(adversary, order=order, bounds=columns, search=search)
        assert adversary.queries == queries
        assert as_multiset(result) == truth
    adversary = attack(cells, columns, k=1)
    assert as_multiset(reconstruct_table(adversary)) == truth
    assert adversary.queries < 5_418_936 / 3
    assert adversary.claimed_budget == pytest.approx(adversary.queries * 1e-10)


def test_answers_other_than_0_or_1_are_noisy_and_those_that_disagree():
    answers = np.array([[0.0, 1.0, 2.0, 0.5, -1e10, 1e-12]])
    signs = NotZeroOrOne().decide(answers, 1e-10)
    assert signs.tolist() == [ZERO, ONE, NOISY, NOISY, NOISY, NOISY]
    answers = np.array([[0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]])
    assert Disagreement(3).decide(answers, 1.0).tolist() == [ZERO, ONE, NOISY, NOISY]


def test_fifteen_repetitions_fail_as_often_as_two_in_two_to_the_fifteenth():
    """N = 2,000,000 noisy queries, seed 11, judged at level 1e-6: 6.1e-5, not 1e-10."""
    missed, queries = 0, 2_000_000
    random = np.random.default_rng(11)
    for _ in range(20):
        coins = random.integers(0, 2, (15, queries // 20)).astype(np.float64)
        missed += int(np.sum(Disagreement(15).decide(coins, 1e-10) != NOISY))
    assert binomtest(missed, queries, 2.0**-14).pvalue > 1e-6
    assert binomtest(missed, queries, 1.3 * 2.0**-14).pvalue < 1e-2
    assert missed > 0


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("epsilon", [1e-10, 3.0])
def test_lemma_5_1_the_statistic_has_mean_twice_alpha_squared_at_any_epsilon(scale, epsilon):
    """N = 200,000 statistics of 10 answers, seed 12; within 5 standard errors."""
    answers = 7.0 + np.random.default_rng(12).laplace(0.0, scale / epsilon, (10, 200_000))
    statistics = variance_statistic(answers, epsilon)
    error = statistics.std() / math.sqrt(statistics.size)
    # At epsilon 1e-10 the private value 7 is lost in the noise; at 3 it must cancel.
    assert statistics.mean() == pytest.approx(2.0 * scale**2, abs=5 * error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "published"), tiered([(10, 0.8030245), (100, 0.9882165), (1000, 1.0)], always=2, slow=1)
)
def test_table_1_accuracy_of_the_variance_rule(m, published):
    """N = 100,000 (half of each), seed 13, against the published 2,000,000: 5 standard errors."""
    half = 50_000
    random = np.random.default_rng(13)
    right = 0
    for scale, sign in ((1.0, QUIET), (2.0, NOISY)):
        for _ in range(10):
            answers = random.laplace(0.0, scale * m / 1e-3, (m, half // 10))
            right += int(np.sum(VarianceAbove(m).decide(answers, 1e-3 / m) == sign))
    error = math.sqrt(max(published * (1 - published), 1e-5) / (2 * half))
    assert right / (2 * half) == pytest.approx(published, abs=5 * error)


def test_bad_rules_are_named():
    for rule in (Disagreement, VarianceAbove):
        refused("repetitions is 1", rule, 1)


ROWS = st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=9)


def reconstruction(rows, order, known=3):
    found = Counter(tuple(row[c] for c in order[:known]) for row in rows)
    cells = np.array(list(found), dtype=np.int64).reshape(-1, known)
    counts = np.array(list(found.values()), dtype=np.int64)
    return Groups(tuple(order[:known]), cells), counts


@given(ROWS, ROWS, st.permutations([0, 1, 2]), st.integers(1, 3))
def test_the_match_is_the_intersection_of_multisets_of_prefixes(table, found, order, known):
    match = table_match(np.array(table), *reconstruction(found, order, known))
    common = [
        (
            Counter(tuple(row[c] for c in order[:width]) for row in table)
            & Counter(tuple(row[c] for c in order[:width]) for row in found)
        ).total()
        for width in range(1, known + 1)
    ]
    assert match.by_column == tuple(common)
    assert match.cells == sum(common)
    assert match.records == (common[-1] if known == 3 else 0)
    assert match.share_of_cells == match.cells / (3 * len(table))


def test_a_whole_reconstruction_matches_wholly_and_nothing_matches_nothing():
    rows = [(0, 1, 2), (0, 1, 2), (2, 2, 2)]
    match = table_match(np.array(rows), *reconstruction(rows, [2, 0, 1]))
    assert match.share_of_cells == 1.0
    nothing = (Groups.everyone(), np.array([3]))
    assert table_match(np.array(rows), *nothing).cells == 0
    refused("records and columns", table_match, np.zeros((0, 3), dtype=np.int64), *nothing)
