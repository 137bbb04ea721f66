"""Public statements: what one label can move, what is proved in spite of the noise, its cost."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privcore.attacks import Matched, match, match_everyone, odds_tally
from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP, PureDP
from privcore.lower_bounds import Claim
from privcore.publication import PublicStatement, publish_statement, statement

KEY = bytes(range(32))
TENTH = Fraction(1, 10)


def claim(epsilon: float | None, **more: Any) -> Claim:
    return Claim(**{"family": PureDP(1.0), "delta": 0.0, "epsilon": epsilon} | more)


def publish(tables: Matched, tested: Claim, name: int = 0, **more: Any) -> PublicStatement:
    given = {"epsilon_public": TENTH, "classes": 2, "key": KEY, "named": ("slot", name)} | more
    return publish_statement(tables, claim=tested, records=int(tables.records.sum()), **given)


def responses(random: np.random.Generator, records: int, epsilon: float) -> Matched:
    """Draw what randomized response gives away at most, with a quarter of the records held out."""
    held = records // 4
    kept = records - held
    right = random.binomial(kept, 1.0 / (1.0 + math.exp(-epsilon)))
    columns = [np.array([n]) for n in (kept, right, held, random.binomial(held, 0.5))]
    return Matched(*columns, offset=np.zeros(1))


WORLDS = {"two classes": (2, 160), "five classes": (5, 160), "a few records": (3, 12)}


def world(seed: int, classes: int, records: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return probabilities of target and proxy, and labels; the first two thirds are training."""
    random = np.random.default_rng([34, seed, classes])
    proxy = random.dirichlet(np.full(classes, 0.7), records)
    labels = np.array([random.choice(classes, p=row) for row in proxy])
    moved = proxy * np.exp(random.normal(0.0, 0.7, proxy.shape))
    moved[np.arange(records), labels] *= np.where(np.arange(records) < 2 * records // 3, 3.0, 1.0)
    return moved / moved.sum(axis=1, keepdims=True), proxy, labels


def tallies(target: Any, proxy: Any, labels: Any) -> tuple[list[Any], list[Any]]:
    cut = 2 * labels.size // 3
    arms = slice(0, cut), slice(cut, None)
    training, control = ([odds_tally(target[one], proxy[one], labels[one])] for one in arms)
    return training, control


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("seed", range(2))
def test_one_label_moves_the_figure_by_no_more_than_the_noise_allows(kind: str, seed: int) -> None:
    """By brute force: every record, every other label; the tables stay, but for one number."""
    classes, records = WORLDS[kind]
    target, proxy, labels = world(seed, classes, records)
    tables = match_everyone(*tallies(target, proxy, labels))
    gap = statement._gap(tables, TENTH)
    figure = statement._figure(tables, 0.5, gap)
    largest = 0
    for record, label in itertools.product(range(records), range(classes)):
        changed = labels.copy()
        changed[record] = label
        other = match_everyone(*tallies(target, proxy, changed))
        for name in ("records", "control", "offset"):
            assert np.array_equal(getattr(other, name), getattr(tables, name))
        differ = np.abs(other.right - tables.right).sum()
        differ += np.abs(other.control_right - tables.control_right).sum()
        assert differ <= 1
        largest = max(largest, abs(statement._figure(other, 0.5, gap) - figure))
    assert 0 < largest <= statement._SENSITIVITY


def test_draws_at_a_border_would_let_one_label_move_much_more() -> None:
    """Why a statement is not made of `match`: a drawn cell depends on all its labels."""
    most = 0
    for seed in range(12):
        random = np.random.default_rng([35, seed])
        # Holdout records in one cell, more than their share: some are drawn.
        proxy = np.full((900, 2), 0.5)
        target = np.where(random.random((900, 1)) < 0.5, 0.8, 0.2) * np.array([1.0, 0.0])
        target[:, 1] = 1.0 - target[:, 0]
        target[600:] = [0.2, 0.8]
        labels = random.integers(0, 2, 900)
        changed = labels.copy()
        changed[-1] = 1 - changed[-1]
        drawn = [
            match(*tallies(target, proxy, some), random=np.random.default_rng(seed))[0]
            for some in (labels, changed)
        ]
        most = max(most, int(np.abs(drawn[0].control_right - drawn[1].control_right).sum()))
        whole = [match_everyone(*tallies(target, proxy, some)) for some in (labels, changed)]
        assert np.abs(whole[0].control_right - whole[1].control_right).sum() <= 1
    assert most > 1


@pytest.mark.parametrize("arm", ["right", "control_right"])
def test_each_arms_label_moves_the_wealth_one_way_and_by_one_gap_at_most(arm: str) -> None:
    random = np.random.default_rng(36)
    for _ in range(60):
        n1, n0 = (int(n) for n in random.integers(1, 60, 2))
        columns = {"right": int(random.integers(0, n1 + 1))}
        columns["control_right"] = int(random.integers(0, n0 + 1))
        top = {"right": n1, "control_right": n0}[arm]
        columns[arm] = min(columns[arm], top - 1)
        gap, epsilon = float(random.uniform(0.01, 2.0)), float(random.uniform(0.0, 4.0))
        wealth = []
        for more in (0, 1):
            made = columns | {arm: columns[arm] + more}
            wealth.append(
                statement.log_wealth_of_tables(
                    *(np.array([n]) for n in (n1, made["right"], n0, made["control_right"])),
                    np.zeros(1), np.array([epsilon]), np.array([gap]),
                )[0, 0]
            )  # fmt: skip
        change = wealth[1] - wealth[0]
        low, high = (0.0, gap) if arm == "right" else (-gap, 0.0)
        assert low - 1e-8 <= change <= high + 1e-8


def test_the_figure_is_private_as_its_noise_says_and_wastes_little() -> None:
    """The best attack on two neighbours, 64 units apart: right 0.5000 + e/4, hardly less."""
    draws = 40_000
    rate = TENTH / statement._SENSITIVITY
    noise = np.array(
        [
            statement.discrete_laplace(rate, statement.KeyedBits(KEY, "private", number))
            for number in range(draws)
        ]
    )
    guessed = noise > statement._UNITS // 2  # of figures 0 and 64, alike often
    moved = noise + statement._UNITS > statement._UNITS // 2
    right = (np.mean(~guessed) + np.mean(moved)) / 2.0
    limit = math.exp(0.1) / (1.0 + math.exp(0.1))
    spread = 4.0 * math.sqrt(0.25 / (2.0 * draws))
    assert right <= limit + spread
    assert right >= 0.5 + (1.0 - math.exp(-0.1 * 32.0 / 65.0)) / 2.0 - spread


@pytest.mark.parametrize(("records", "epsilon_public"), [(400, TENTH), (4_000, TENTH), (400, 1)])
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_a_declaration_that_is_kept_is_seldom_refuted(
    records: int, epsilon_public: Fraction, epsilon: float
) -> None:
    """At most 0.05, judged at 1e-4 on 1,500 audits at the border of what was declared."""
    audits = 1_500
    refuted = 0
    for audit in range(audits):
        random = np.random.default_rng([37, audit, records])
        made = publish(
            responses(random, records, epsilon), claim(epsilon), audit,
            epsilon_public=Fraction(epsilon_public),
        )  # fmt: skip
        refuted += made.refuted
    assert refuted <= stats.binom.isf(1e-4, audits, 0.05)


@pytest.mark.parametrize("delta", [0.0, 1e-7])
def test_the_evalue_has_a_mean_of_one_at_most(delta: float) -> None:
    """On 2,000 audits at the border; the mean of what is cut at 1,000 is what is compared."""
    tested = claim(1.0, family=ApproxDP(), delta=delta)
    values = []
    for audit in range(2_000):
        random = np.random.default_rng([38, audit])
        made = publish(responses(random, 4_000, 1.0), tested, audit)
        assert made.log_evalue is not None
        values.append(math.exp(min(made.log_evalue, math.log(1_000.0))))
    error = float(np.std(values)) / math.sqrt(len(values))
    assert np.mean(values) <= 1.0 + 4.0 * error


# Largest declared epsilon that half of the audits refute: of the exact figure, and of a statement.
POWER = [
    (20_000, TENTH, 1.0, 0.88, 0.85),
    (20_000, TENTH, 4.0, 3.80, 3.55),
    (1_000_000, TENTH, 2.0, 1.98, 1.95),
    (1_000, Fraction(1, 2), 2.0, 1.43, 1.20),
]


@pytest.mark.parametrize(("records", "epsilon_public", "truth", "exact", "refuted"), POWER)
def test_what_a_statement_costs(
    records: int, epsilon_public: Fraction, truth: float, exact: float, refuted: float
) -> None:
    """More than half of 40 audits refute `refuted`, within 5% of `exact` where records are many."""
    tested = claim(refuted)
    found = sum(
        publish(
            responses(np.random.default_rng([39, audit, records]), records, truth), tested, audit,
            epsilon_public=epsilon_public,
        ).refuted
        for audit in range(40)
    )  # fmt: skip
    assert found > 20
    assert refuted < exact


def test_a_statement_is_the_same_again_and_another_for_other_labels_or_names() -> None:
    tables = responses(np.random.default_rng(40), 4_000, 2.0)
    first = publish(tables, claim(1.0))
    assert publish(tables, claim(1.0)) == first
    assert publish(tables, claim(1.0), 1).figure != first.figure
    assert publish(tables, claim(1.0), key=bytes(32)).figure != first.figure
    right = Matched(
        tables.records, tables.right + 1, tables.control, tables.control_right, tables.offset
    )
    exact = [statement._figure(one, 1.0, first.gap) for one in (tables, right)]
    noise = [publish(one, claim(1.0)).figure for one in (tables, right)]
    assert noise[1] - noise[0] != exact[1] - exact[0]  # else a difference would tell the label


def test_delta_takes_its_price_and_holds_the_stakes_down() -> None:
    tables = responses(np.random.default_rng(41), 20_000, 2.0)
    pure, cheap, dear = (
        publish(tables, claim(1.0, family=ApproxDP(), delta=delta)) for delta in (0.0, 1e-8, 1e-3)
    )
    assert pure.price == 0.0 < cheap.price < 0.75 * 0.05 + 1e-12
    assert pure.gap == cheap.gap > dear.gap
    assert pure.refuted
    assert cheap.refuted
    assert dear.pvalue >= dear.price
    for made in (cheap, dear):
        assert made.log_evalue <= -math.log(2.0 * made.price) + 1e-12
    strong = publish(responses(np.random.default_rng(41), 20_000, 6.0), cheap.claim)
    assert strong.log_evalue == pytest.approx(-math.log(2.0 * strong.price))


def test_few_records_have_no_evalue_but_a_pvalue() -> None:
    small = publish(responses(np.random.default_rng(42), 200, 3.0), claim(0.1))
    assert small.log_evalue is None
    assert 0.0 < small.pvalue <= 1.0
    many = publish(responses(np.random.default_rng(42), 20_000, 3.0), claim(0.1))
    assert many.log_evalue is not None
    assert many.pvalue < 1e-6


def test_nothing_to_bet_on_says_nothing() -> None:
    none = Matched(*(np.zeros(0, dtype=np.int64) for _ in range(4)), offset=np.zeros(0))
    made = publish(none, claim(1.0))
    assert (made.records, made.control) == (0, 0)
    assert abs(made.figure) < 10_000  # noise alone
    refuted = [publish(none, claim(1.0), name).refuted for name in range(300)]
    assert sum(refuted) <= stats.binom.isf(1e-4, 300, 0.05)


def test_what_makes_no_statement_is_refused() -> None:
    tables = responses(np.random.default_rng(43), 400, 1.0)
    with pytest.raises(InvalidInputError, match="a statement tests a declared epsilon"):
        publish(tables, claim(None))
    with pytest.raises(InvalidInputError, match="positive"):
        publish(tables, claim(1.0), epsilon_public=Fraction(0))
    with pytest.raises(InvalidInputError, match="random bytes"):
        publish(tables, claim(1.0), key=b"short")
    many = Matched(*(np.tile(column, 200_000) for column in
                     (tables.records, tables.right, tables.control, tables.control_right)),
                   offset=np.zeros(200_000))  # fmt: skip
    with pytest.raises(InvalidInputError, match="rounding could move the figure"):
        publish(many, claim(1.0))
