"""Public statements: what one label can move, what is proved in spite of the noise, its cost."""

import itertools
import math
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privcore.attacks import Matched, Tallies, odds_tally, unread_odds
from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP, PureDP
from privcore.lower_bounds import Claim, Secret
from privcore.lower_bounds.betting import stakes_for
from privcore.publication import (
    ExactStatement,
    PublicStatement,
    discrete_laplace,
    exact_statement,
    noisy_wealth,
    publish_statement,
)
from privcore.publication.keyed_noise import KeyedBits
from privcore.publication.noisy_wealth import with_noise
from privcore.publication.statement import DOUBTFUL, Bet, premise_bets, premises_of
from tests.support.tiers import rest_slow, tiered

KEY = bytes(range(32))
TENTH = Fraction(1, 10)


def claim(epsilon: float | None, **more: Any) -> Claim:
    return Claim(**{"family": PureDP(1.0), "delta": 0.0, "epsilon": epsilon} | more)


def of_tables(
    tables: Matched, tested: Claim, *, epsilon_public: Fraction = TENTH
) -> ExactStatement:
    """Return the exact statement of these tables; its bets against premises are these, too."""
    records, held = int(tables.records.sum()), int(tables.control.sum())
    stakes = stakes_for(tested, records=records, classes=2, control=held)
    each = epsilon_public / 2
    return ExactStatement(
        significance=tested.significance,
        records=records,
        control=held,
        epsilon_ceiling=0.0,
        sees_from=None,
        evidence=Bet(stakes, each, tested.significance).against(tables, tested.epsilon or 0.0),
        premises=premises_of((tables,) * 5, each),
    )


def publish(
    tables: Matched, tested: Claim, name: int = 0, *, key: bytes = KEY, **more: Any
) -> PublicStatement:
    return publish_statement(of_tables(tables, tested, **more), key=key, named=("slot", name))


def refuted(made: PublicStatement) -> bool:
    """Return whether the claim is refuted by its own figure, whatever the arms are."""
    return made.pvalue <= made.significance


def responses(random: np.random.Generator, records: int, epsilon: float) -> Matched:
    """Draw what randomized response gives away at most, with a quarter of the records held out."""
    held = records // 4
    kept = records - held
    right = random.binomial(kept, 1.0 / (1.0 + math.exp(-epsilon)))
    columns = [np.array([n]) for n in (kept, right, held, random.binomial(held, 0.5))]
    return Matched(*columns, offset=np.zeros(1))


WORLDS = {"a few records": (3, 12), "two classes": (2, 160), "five classes": (5, 160)}


def world(seed: int, classes: int, records: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return probabilities of target and proxy, and labels; the first two thirds are training."""
    random = np.random.default_rng([34, seed, classes])
    proxy = random.dirichlet(np.full(classes, 0.7), records)
    labels = np.array([random.choice(classes, p=row) for row in proxy])
    moved = proxy * np.exp(random.normal(0.0, 0.7, proxy.shape))
    moved[np.arange(records), labels] *= np.where(np.arange(records) < 2 * records // 3, 3.0, 1.0)
    return moved / moved.sum(axis=1, keepdims=True), proxy, labels


UNREAD = -1


def tallies_of(target: Any, proxy: Any, labels: Any) -> Tallies:
    """Return tallies of the first two thirds and of the rest; some labels may be `UNREAD`."""
    none = Tallies.zero(repetitions=1, classes=proxy.shape[1])
    cut = 2 * labels.size // 3
    arms = []
    for arm in (np.arange(cut), np.arange(cut, labels.size)):
        read, unread = arm[labels[arm] != UNREAD], arm[labels[arm] == UNREAD]
        arms.append((
            (odds_tally(target[read], proxy[read], labels[read]),),
            (unread_odds(target[unread], proxy[unread]),) if unread.size else (),
        ))  # fmt: skip
    (odds, unread_training), (control, unread_control) = arms
    return replace(
        none,
        game=replace(none.game, records=cut),
        odds=odds,
        control_odds=control,
        unread=unread_training,
        control_unread=unread_control,
    )


@pytest.mark.parametrize("kind", rest_slow(WORLDS))
@pytest.mark.parametrize("seed", tiered(range(2), always=1, slow=1))
@pytest.mark.parametrize("share", [0.0, pytest.param(0.2, marks=pytest.mark.slow)])
def test_one_label_moves_each_figure_by_no_more_than_the_noise_allows(
    kind: str, seed: int, share: float
) -> None:
    """By brute force: every record, every other label, and none; all else stays as it is.

    In half of the worlds a fifth of the labels cannot be read in the first place.
    """
    classes, records = WORLDS[kind]
    target, proxy, labels = world(seed, classes, records)
    labels[np.random.default_rng([48, seed]).random(records) < share] = UNREAD
    given: Any = {"claim": claim(0.5), "epsilon_public": TENTH, "unread_allowed": records // 10}
    first = exact_statement(tallies_of(target, proxy, labels), **given)
    largest = [0, 0]
    for record, label in itertools.product(range(records), range(UNREAD, classes)):
        changed = labels.copy()
        changed[record] = label
        other = exact_statement(tallies_of(target, proxy, changed), **given)
        for place, part in enumerate(("evidence", "premises")):
            was, now = getattr(first, part), getattr(other, part)
            assert replace(now, figure=0) == replace(was, figure=0)
            largest[place] = max(largest[place], abs(now.figure - was.figure))
        same = {"evidence": first.evidence, "premises": first.premises}
        assert replace(other, **same) == first
    assert all(0 < most <= noisy_wealth.SENSITIVITY for most in largest)


@pytest.mark.parametrize("arm", ["training", "holdout"])
def test_an_unreadable_label_counts_against_a_refutation(arm: str) -> None:
    """Wrong in training and right in the holdout: the figure never rises, whatever the label was.

    One label in two is hidden one after the other; a leak that is refuted at first no longer is.
    """
    target, proxy, labels = world(1, 2, 1_600)
    cut = 2 * labels.size // 3
    hidden = range(0, cut, 2) if arm == "training" else range(cut, labels.size, 2)
    given: Any = {"claim": claim(0.1), "epsilon_public": Fraction(2)}
    whole = exact_statement(tallies_of(target, proxy, labels), **given)
    figures = [whole.evidence.figure]
    for many in (1, 10, len(hidden)):
        labels[list(hidden[:many])] = UNREAD
        made = exact_statement(tallies_of(target, proxy, labels), **given)
        figures.append(made.evidence.figure)
        completed = labels.copy()
        completed[list(hidden[:many])] = np.arange(many) % 2
        other = exact_statement(tallies_of(target, proxy, completed), **given)
        assert made.evidence.figure <= other.evidence.figure
        assert (made.records, made.control) == (whole.records, whole.control)
    assert figures == sorted(figures, reverse=True)
    assert replace(whole.evidence, figure=figures[0]).pvalue(0.05) < 0.01
    assert replace(whole.evidence, figure=figures[-1]).pvalue(0.05) > 0.5


@pytest.mark.slow
def test_many_unreadable_labels_cast_doubt_on_the_comparison() -> None:
    """Hiding labels of both arms alike hides a leak, but is no acquittal; what is allowed is none.

    6,000 records of an honest target. 40 audits of 300 hidden labels, 5% at an allowed 300: at most
    a tenth are doubtful, judged at 1e-4. Of 900, all are.
    """
    doubtful = {300: 0, 900: 0}
    for audit, hidden in itertools.product(range(40), doubtful):
        random = np.random.default_rng([49, audit])
        log_odds = random.normal(0.0, 1.0, 6_000)
        labels = (random.random(6_000) < 1.0 / (1.0 + np.exp(-log_odds))).astype(int)
        labels[random.choice(6_000, hidden, replace=False)] = UNREAD
        target, proxy = (
            np.stack([1.0 / (1.0 + np.exp(said)), 1.0 / (1.0 + np.exp(-said))], axis=1)
            for said in (log_odds + random.normal(0.0, 0.5, 6_000), log_odds)
        )
        given: Any = {"claim": claim(1.0), "epsilon_public": Fraction(1), "unread_allowed": 300}
        exact = exact_statement(tallies_of(target, proxy, labels), **given)
        doubtful[hidden] += publish_statement(exact, key=KEY, named=(audit,)).doubtful
    assert doubtful[300] <= stats.binom.isf(1e-4, 40, DOUBTFUL)
    assert doubtful[900] == 40


def test_the_figure_is_private_as_its_noise_says_and_wastes_little() -> None:
    """The best attack on two neighbours, 64 units apart: right 0.5000 + e/4, hardly less."""
    draws = 40_000
    rate = TENTH / noisy_wealth.SENSITIVITY
    noise = np.array(
        [discrete_laplace(rate, KeyedBits(KEY, "private", number)) for number in range(draws)]
    )
    guessed = noise > noisy_wealth.UNITS // 2  # of figures 0 and 64, alike often
    moved = noise + noisy_wealth.UNITS > noisy_wealth.UNITS // 2
    right = (np.mean(~guessed) + np.mean(moved)) / 2.0
    limit = math.exp(0.1) / (1.0 + math.exp(0.1))
    spread = 4.0 * math.sqrt(0.25 / (2.0 * draws))
    assert right <= limit + spread
    assert right >= 0.5 + (1.0 - math.exp(-0.1 * 32.0 / 65.0)) / 2.0 - spread


@pytest.mark.slow
@pytest.mark.parametrize(
    ("records", "epsilon_public", "epsilon"),
    [(400, TENTH, 0.0), (4_000, TENTH, 1.0), (400, 1, 1.0)],
)
def test_a_declaration_that_is_kept_is_seldom_refuted(
    records: int, epsilon_public: Fraction, epsilon: float
) -> None:
    """At most 0.05, judged at 1e-4 on 600 audits at the border of what was declared."""
    audits = 600
    found = 0
    for audit in range(audits):
        random = np.random.default_rng([37, audit, records])
        made = publish(
            responses(random, records, epsilon), claim(epsilon), audit,
            epsilon_public=Fraction(epsilon_public),
        )  # fmt: skip
        found += refuted(made)
    assert found <= stats.binom.isf(1e-4, audits, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-7])
def test_the_evalue_has_a_mean_of_one_at_most(delta: float) -> None:
    """On 2,000 audits at the border; the mean of what is cut at 1,000 is what is compared."""
    tested = claim(1.0, family=ApproxDP(), delta=delta)
    values = []
    for audit in range(2_000):
        random = np.random.default_rng([38, audit])
        made = publish(responses(random, 4_000, 1.0), tested, audit, epsilon_public=Fraction(1, 5))
        assert made.evidence.log_evalue is not None
        values.append(math.exp(min(made.evidence.log_evalue, math.log(1_000.0))))
    error = float(np.std(values)) / math.sqrt(len(values))
    assert np.mean(values) <= 1.0 + 4.0 * error


# Largest declared epsilon that half of the audits refute: of the exact figure, and of a statement.
POWER = [
    (20_000, TENTH, 1.0, 0.88, 0.85),
    (20_000, TENTH, 4.0, 3.80, 3.55),
    (1_000_000, TENTH, 2.0, 1.98, 1.95),
    (1_000, Fraction(1, 2), 2.0, 1.43, 1.20),
]


@pytest.mark.parametrize(("records", "epsilon_public", "truth", "exact", "claimed"), POWER)
def test_what_a_statement_costs(
    records: int, epsilon_public: Fraction, truth: float, exact: float, claimed: float
) -> None:
    """More than half of 40 audits refute `claimed`, within 5% of `exact` where records are many."""
    tested = claim(claimed)
    found = sum(
        refuted(publish(
            responses(np.random.default_rng([39, audit, records]), records, truth), tested, audit,
            epsilon_public=epsilon_public,
        ))
        for audit in range(40)
    )  # fmt: skip
    assert found > 20
    assert claimed < exact


def test_a_statement_is_the_same_again_and_another_for_other_labels_or_names() -> None:
    tables = responses(np.random.default_rng(40), 4_000, 2.0)
    first = publish(tables, claim(1.0))
    assert publish(tables, claim(1.0)) == first
    assert publish(tables, claim(1.0), 1).evidence != first.evidence
    assert publish(tables, claim(1.0), key=bytes(32)).evidence != first.evidence
    right = Matched(
        tables.records, tables.right + 1, tables.control, tables.control_right, tables.offset
    )
    exact = [of_tables(one, claim(1.0)).evidence.figure for one in (tables, right)]
    noise = [publish(one, claim(1.0)).evidence.figure for one in (tables, right)]
    assert noise[1] - noise[0] != exact[1] - exact[0]  # else a difference would tell the label


def test_delta_takes_its_price_and_holds_the_stakes_down() -> None:
    tables = responses(np.random.default_rng(41), 20_000, 2.0)
    pure, cheap, dear = (
        publish(tables, claim(1.0, family=ApproxDP(), delta=delta)) for delta in (0.0, 1e-8, 1e-3)
    )
    assert pure.evidence.price == 0.0 < cheap.evidence.price < 0.75 * 0.05 + 1e-12
    assert pure.evidence.gap == cheap.evidence.gap > dear.evidence.gap
    assert refuted(pure)
    assert refuted(cheap)
    assert dear.pvalue >= dear.evidence.price
    for made in (cheap, dear):
        assert made.evidence.log_evalue <= -math.log(2.0 * made.evidence.price) + 1e-12
    tested = claim(1.0, family=ApproxDP(), delta=1e-8)
    strong = publish(responses(np.random.default_rng(41), 20_000, 6.0), tested)
    assert strong.evidence.log_evalue == pytest.approx(-math.log(2.0 * strong.evidence.price))


def test_nothing_to_bet_on_says_nothing() -> None:
    none = Matched(*(np.zeros(0, dtype=np.int64) for _ in range(4)), offset=np.zeros(0))
    made = publish(none, claim(1.0))
    assert (made.records, made.control) == (0, 0)
    assert abs(made.evidence.figure) < 20_000  # noise alone
    found = [publish(none, claim(1.0), name).refuted for name in range(300)]
    assert sum(found) <= stats.binom.isf(1e-4, 300, 0.05)


def test_what_makes_no_statement_is_refused() -> None:
    tallies = tallies_of(*world(0, 2, 160))
    given: Any = {"claim": claim(1.0), "epsilon_public": TENTH}
    with pytest.raises(InvalidInputError, match="a statement tests a declared epsilon"):
        exact_statement(tallies, **given | {"claim": claim(None)})
    with pytest.raises(InvalidInputError, match="positive"):
        exact_statement(tallies, **given | {"epsilon_public": Fraction(0)})
    with pytest.raises(InvalidInputError, match="decoys"):
        exact_statement(replace(tallies, decoys=tallies.odds[0]), **given)
    with pytest.raises(InvalidInputError, match="membership"):
        exact_statement(tallies, **given | {"claim": claim(1.0, secret=Secret.MEMBERSHIP)})
    exact = exact_statement(tallies, **given)
    with pytest.raises(InvalidInputError, match="random bytes"):
        publish_statement(exact, key=b"short", named=())
    tables = responses(np.random.default_rng(43), 400, 1.0)
    many = replace(
        tables,
        **{each.name: np.tile(getattr(tables, each.name), 200_000) for each in fields(Matched)},
    )
    with pytest.raises(InvalidInputError, match="rounding could move the figure"):
        of_tables(many, claim(1.0))


def test_the_ceiling_is_what_so_many_records_could_refute_and_reads_no_label() -> None:
    """The attack is right on every training record and on half of the holdout's."""

    def made(records: int, epsilon_public: Fraction = Fraction(1, 2)) -> ExactStatement:
        labels = np.random.default_rng(44).integers(0, 2, records)
        target, proxy, _ = world(44, 2, records)
        given = {"claim": claim(1.0), "epsilon_public": epsilon_public}
        return exact_statement(tallies_of(target, proxy, labels), **given)

    ceilings = [made(n).epsilon_ceiling for n in (300, 900, 6_000)]
    assert ceilings[0] < ceilings[1] < ceilings[2] < 20.0
    assert made(900, Fraction(1)).epsilon_ceiling > ceilings[1]


def drifted(random: np.random.Generator, *, records: int, by: float, lean: bool) -> Tallies:
    """Return an honest model's tallies, of a holdout whose labels have other odds.

    The proxy is right about training labels. In the holdout the log-odds of the class are larger
    by `by`, or, with `lean`, nearer to 0: the proxy knows training labels better.
    """
    log_odds = random.normal(0.0, 1.0, records)
    held = np.arange(records) >= 2 * records // 3
    true = np.where(held, log_odds * (1.0 - by) if lean else log_odds + by, log_odds)
    labels = (random.random(records) < 1.0 / (1.0 + np.exp(-true))).astype(int)
    sees = log_odds + random.normal(0.0, 0.5, records)
    proxy, target = (
        np.stack([1.0 / (1.0 + np.exp(said)), 1.0 / (1.0 + np.exp(-said))], axis=1)
        for said in (log_odds, sees)
    )
    return tallies_of(target, proxy, labels)


@pytest.mark.slow
@pytest.mark.parametrize(("records", "epsilon_public"), [(600, Fraction(1)), (6_000, TENTH)])
def test_arms_that_chance_divided_are_seldom_called_doubtful(
    records: int, epsilon_public: Fraction
) -> None:
    """At most `DOUBTFUL`, judged at 1e-4 on 400 audits."""
    found = 0
    for audit in range(400):
        tallies = drifted(np.random.default_rng([45, audit]), records=records, by=0.0, lean=False)
        exact = premises_of(premise_bets(tallies), epsilon_public / 2)
        found += with_noise(exact, KEY, audit).pvalue(DOUBTFUL) <= DOUBTFUL
    assert found <= stats.binom.isf(1e-4, 400, DOUBTFUL)


@pytest.mark.parametrize(("by", "lean"), [(0.7, False), (-0.7, False), (0.9, True), (-2.0, True)])
def test_arms_that_differ_are_called_doubtful(by: float, lean: bool) -> None:
    """In 12 of 12 audits of 9,000 records, with e = 0.1 for the statement."""
    for audit in range(12):
        tallies = drifted(np.random.default_rng([46, audit]), records=9_000, by=by, lean=lean)
        exact = premises_of(premise_bets(tallies), TENTH / 2)
        assert with_noise(exact, KEY, audit).pvalue(DOUBTFUL) <= DOUBTFUL


@pytest.mark.slow
def test_a_true_leak_does_not_make_the_arms_doubtful() -> None:
    """Labels decide what the target says, and nothing of the arms: 40 audits, e = 1/2.

    At most `DOUBTFUL` of them are doubtful by chance and noise, judged at 1e-4.
    """
    doubtful = 0
    for audit in range(40):
        target, proxy, labels = world(audit, 2, 3_000)
        known = np.arange(3_000) < 2_000
        target[known] = np.where(np.arange(2) == labels[known][:, None], 0.999, 0.001)
        given: Any = {"claim": claim(1.0), "epsilon_public": Fraction(1, 2)}
        exact = exact_statement(tallies_of(target, proxy, labels), **given)
        made = publish_statement(exact, key=KEY, named=(audit,))
        assert refuted(made)
        doubtful += made.doubtful
    assert doubtful <= stats.binom.isf(1e-4, 40, DOUBTFUL)


@pytest.mark.slow
def test_a_proxy_that_knows_the_holdout_refutes_nothing() -> None:
    """A holdout on which an earlier model was trained: an honest model is spared in 20 audits."""
    called = 0
    for audit in range(20):
        random = np.random.default_rng([47, audit])
        log_odds = random.normal(0.0, 1.0, 9_000)
        labels = (random.random(9_000) < 1.0 / (1.0 + np.exp(-log_odds))).astype(int)
        knows = np.where(np.arange(9_000) < 6_000, 0.0, 0.3) * (2 * labels - 1)
        sees = log_odds + random.normal(0.0, 0.3, 9_000)
        target, proxy = (
            np.stack([1.0 / (1.0 + np.exp(said)), 1.0 / (1.0 + np.exp(-said))], axis=1)
            for said in (sees, log_odds + knows)
        )
        given: Any = {"claim": claim(0.5), "epsilon_public": TENTH}
        exact = exact_statement(tallies_of(target, proxy, labels), **given)
        made = publish_statement(exact, key=KEY, named=(audit,))
        called += refuted(made)
        assert not made.refuted
    assert called >= 10  # without the second figure it would be
