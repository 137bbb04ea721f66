"""Claims that a public test could have refuted: no label decides it, and simulated audits agree."""

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from privcore.attacks import Matched, Tallies
from privcore.guarantees import ApproxDP
from privcore.lower_bounds.betting import Stakes, stakes_for
from privcore.publication import discrete_laplace, exact_statement
from privcore.publication.keyed_noise import KeyedBits
from privcore.publication.noisy_wealth import SENSITIVITY, NoisyWealth
from privcore.publication.statement import Bet, chance_right, largest_refuted, least_leak_seen
from tests.privcore.publication.test_statement import claim, tallies_of, world

EACH = Fraction(1, 4)
ALPHA = 0.05


def tables_of(records: int, held: int) -> Matched:
    columns = [np.array([n]) for n in (records, 0, held, 0)]
    return Matched(*columns, offset=np.zeros(1))


def bet_on(tables: Matched) -> Bet:
    records, held = int(tables.records.sum()), int(tables.control.sum())
    return Bet(stakes_for(claim(1.0), records=records, classes=2, control=held), EACH, ALPHA)


@pytest.mark.parametrize("held", [500, 4000])
def test_about_five_of_six_audits_of_the_least_leak_seen_refute(held: int) -> None:
    """400 audits of randomized response with their noise, seed 5: 0.7 to 0.95 of them."""
    tables = tables_of(12_000, held)
    test = bet_on(tables)
    leak = least_leak_seen(tables, test, epsilon=1.0, right=0.5)
    assert leak is not None
    assert 1.0 < leak < 3.0
    random = np.random.default_rng(5)
    refuted = 0
    for number in range(400):
        right = random.binomial(12_000, 1.0 / (1.0 + math.exp(-leak)))
        columns = [np.array([n]) for n in (12_000, right, held, random.binomial(held, 0.5))]
        exact = test.against(Matched(*columns, offset=np.zeros(1)), 1.0)
        noise = discrete_laplace(EACH / SENSITIVITY, KeyedBits(bytes(32), number))
        noisy = NoisyWealth(exact.epsilon_public, exact.gap, exact.figure + noise, exact.price)
        refuted += test.refutes(noisy)
    assert stats.binomtest(refuted, 400, 0.70, alternative="less").pvalue > 1e-6
    assert stats.binomtest(refuted, 400, 0.97, alternative="greater").pvalue > 1e-6


def test_few_records_see_no_leak_and_a_ceiling_far_above() -> None:
    """The ceiling is a perfect attack's; ten holdout records reach it without seeing a leak."""
    tables = tables_of(20_000, 60)
    test = bet_on(tables)
    assert largest_refuted(tables, test) > 1.0
    seen = least_leak_seen(tables, test, epsilon=1.0, right=0.5)
    assert seen is None or seen > 2.0
    none = tables_of(20_000, 1)
    assert largest_refuted(none, test) == 0.0
    assert least_leak_seen(none, test, epsilon=1.0, right=0.5) is None


def test_labels_that_are_known_anyway_hide_a_leak() -> None:
    tables = tables_of(12_000, 4_000)
    test = bet_on(tables)
    seen = [least_leak_seen(tables, test, epsilon=1.0, right=right) for right in (0.5, 0.8, 0.9)]
    assert None not in seen
    assert seen == sorted(seen)  # type: ignore[type-var]
    assert seen[0] < seen[2]  # type: ignore[operator]
    assert least_leak_seen(tables, test, epsilon=1.0, right=0.99) is None


def test_a_delta_that_hides_a_leak_raises_the_leak_that_would_be_seen() -> None:
    """An owner declares a delta of up to 1/n: the statement says so, and no label decides it.

    2,666 training records and 1,334 held out, declared 1, e' = 0.5: 1.59 becomes 1.79 at 0.99/n.
    """
    target, proxy, labels = world(1, 2, 4_000)
    made, seen = tallies_of(target, proxy, labels), []
    for share in (0.0, 0.1, 0.3, 0.99):
        delta = share / made.game.records
        tested = claim(1.0, family=ApproxDP(), delta=delta) if delta else claim(1.0)
        exact = exact_statement(made, claim=tested, epsilon_public=Fraction(1, 2))
        assert exact.sees_from is not None
        seen.append(exact.sees_from)
    assert seen == sorted(seen)
    assert seen[3] > seen[0] + 0.1


def test_no_label_changes_what_could_be_seen() -> None:
    """All labels are drawn anew, 5 times."""
    target, proxy, labels = world(1, 2, 400)
    random = np.random.default_rng(2)
    found = set()
    for _ in range(5):
        made = tallies_of(target, proxy, labels)
        exact = exact_statement(made, claim=claim(0.5), epsilon_public=Fraction(2))
        found.add((exact.epsilon_ceiling, exact.sees_from, chance_right(made)))
        labels = random.integers(0, 2, labels.size)
    assert len(found) == 1


def test_the_chance_of_a_right_prediction_is_the_proxys() -> None:
    target, proxy, labels = world(1, 2, 400)
    flat = np.full_like(proxy, 0.5)
    assert chance_right(tallies_of(target, flat, labels)) == pytest.approx(0.5, abs=0.02)
    sure = np.stack([np.full(len(labels), 0.97), np.full(len(labels), 0.03)], axis=1)
    assert chance_right(tallies_of(target, sure, labels)) == pytest.approx(0.97, abs=0.005)
    of_both = np.where(np.arange(len(labels))[:, None] % 2, [[0.97, 0.03]], [[0.4, 0.6]])
    mixed = tallies_of(target, of_both, labels)
    (cells,) = (tally.cells() for tally in mixed.control_odds)
    spread = np.average(expit(cells.proxy) * expit(-cells.proxy), weights=cells.made)
    assert chance_right(mixed) == pytest.approx(0.5 + math.sqrt(0.25 - spread), rel=1e-12)
    assert chance_right(Tallies.zero(repetitions=1, classes=2)) == 0.5


def read_as(
    figure: Any, bar: float = 0.0, deviation: float = 0.0, stakes: Stakes | None = None
) -> Any:
    """Return a bet that refutes where a figure of tables and a declared epsilon reaches a bar."""
    return SimpleNamespace(
        against=lambda tables, epsilon: NoisyWealth(EACH, 1.0, figure(tables, epsilon)),
        refutes=lambda wealth: wealth.figure >= bar,
        deviation=deviation,
        stakes=stakes,
    )


@pytest.mark.parametrize("border", [-0.1, 0.0, 0.009, 0.0123, 0.5, 1.2375, 1.5, 19.987, 30.0])
def test_the_largest_refuted_is_halved_in_from_twenty(border: float) -> None:
    """Twelve times, so that less than half a hundredth is left; then it is rounded down."""
    asked = []

    def figure(tables: Matched, epsilon: float) -> int:
        asked.append(tables)
        return math.floor(1e6 * (border - epsilon))

    found = largest_refuted(tables_of(7, 5), read_as(figure))
    parts = min(math.floor(border * 4096 / 20), 4095)
    expected = math.floor(parts * 20 / 4096 * 100) / 100 if border > 0.0 else 0.0
    assert found == pytest.approx(expected, abs=1e-12)
    for tables in asked:
        assert (tables.right.tolist(), tables.control_right.tolist()) == ([7], [2])


@pytest.mark.parametrize("right", [0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize(("epsilon", "bar"), [(0.5, 40), (1.0, 130), (0.5, 10**6), (1.0, -60)])
def test_the_least_leak_is_what_these_records_show(right: float, epsilon: float, bar: int) -> None:
    """The figure is the sum of right predictions in training, less twice those in the holdout."""
    columns = [np.array(each) for each in ([100, 37, 90], [0, 0, 0], [30, 11, 33], [0, 0, 0])]
    tables = Matched(*columns, offset=np.array([0.0, 0.3, -0.2]))
    stakes = stakes_for(claim(1.0), records=227, classes=2, control=74)

    def figure(filled: Matched, declared: float) -> int:
        assert declared == epsilon
        return int(filled.right.sum() - 2 * filled.control_right.sum())

    held = math.floor(sum(np.array([30, 11, 33]) * right) + 1e-9)
    log_odds = math.log(max(right, 0.5) / max(1.0 - max(right, 0.5), 1e-6))
    error = 1.0 / math.sqrt(max(tables.effective * right * (1.0 - right), 1e-9))

    def seen(leak: float) -> bool:
        told = stakes.replacement(leak)
        usual, unlucky = (
            math.floor(sum(tables.records * expit(log_odds + tables.offset + told - less)))
            for less in (0.0, error)
        )
        return math.floor(usual - 2 * held - math.hypot(usual - unlucky, 12.0)) >= bar

    found = least_leak_seen(
        tables, read_as(figure, bar, 12.0, stakes), epsilon=epsilon, right=right
    )
    if not seen(12.0):
        assert found is None
        return
    parts = 2 ** math.ceil(math.log2((12.0 - epsilon) / 0.01))
    grid = epsilon + (12.0 - epsilon) * np.arange(1, parts + 1) / parts
    assert found == pytest.approx(math.ceil(next(filter(seen, grid)) * 100) / 100, abs=1e-9)


def test_right_predictions_are_whole_and_add_up_to_what_is_expected() -> None:
    """Ten tables of one record each at one half are five right ones, and not none."""
    columns = [np.full(10, n) for n in (1, 0, 1, 0)]
    asked = []

    def figure(filled: Matched, _: float) -> int:
        asked.append((int(filled.right.sum()), int(filled.control_right.sum())))
        return 0

    stakes = stakes_for(claim(1.0), records=10, classes=2, control=10)
    tables = Matched(*columns, offset=np.full(10, -12.0))
    least_leak_seen(tables, read_as(figure, stakes=stakes), epsilon=11.999, right=0.5)
    assert set(asked[::2]) == {(5, 5)}
