"""Public statements: what one label can move, what is proved in spite of the noise, its cost."""

import itertools
import math
from dataclasses import fields, replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from privcore.attacks import (
    Matched,
    Tallies,
    holdout_sides,
    match_everyone,
    odds_tally,
    unread_odds,
)
from privcore.exceptions import InvalidInputError
from privcore.guarantees import ApproxDP, PureDP
from privcore.lower_bounds import Claim, Secret
from privcore.lower_bounds.betting import stakes_for
from privcore.publication import (
    ExactStatement,
    NoisyWealth,
    StatementFigures,
    discrete_laplace,
    exact_statement,
    noisy_wealth,
    publish_statement,
)
from privcore.publication.keyed_noise import KeyedBits
from privcore.publication.noisy_wealth import gap_for, log_wealth, with_noise
from privcore.publication.statement import (
    DOUBTFUL,
    Bet,
    chance_right,
    largest_refuted,
    least_leak_seen,
    premise_bets,
    premises_log_wealth,
    premises_of,
)
from tests.simulate import two_columns
from tests.support.refusals import refused
from tests.support.tiers import rest_slow, tiered

KEY = bytes(range(32))
TENTH = Fraction(1, 10)


def claim(epsilon, **more):
    return Claim(**{"family": PureDP(1.0), "delta": 0.0, "epsilon": epsilon} | more)


def of_tables(tables, tested, *, epsilon_public=TENTH):
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


def publish(tables, tested, name=0, *, key=KEY, **more):
    return publish_statement(of_tables(tables, tested, **more), key=key, named=("slot", name))


def refuted(made):
    """Return whether the claim is refuted by its own figure, whatever the arms are."""
    return made.pvalue <= made.significance


def responses(random, records, epsilon):
    """Draw what randomized response gives away at most, with a quarter of the records held out."""
    held = records // 4
    kept = records - held
    return one_table(kept, random.binomial(kept, expit(epsilon)), held, random.binomial(held, 0.5))


def one_table(*counts):
    return Matched(*(np.array([n]) for n in counts), offset=np.zeros(1))


WORLDS = {"a few records": (3, 12), "two classes": (2, 160), "five classes": (5, 60)}


def world(seed, classes, records):
    """Return probabilities of target and proxy, and labels; the first two thirds are training."""
    random = np.random.default_rng([34, seed, classes])
    proxy = random.dirichlet(np.full(classes, 0.7), records)
    labels = np.array([random.choice(classes, p=row) for row in proxy])
    moved = proxy * np.exp(random.normal(0.0, 0.7, proxy.shape))
    moved[np.arange(records), labels] *= np.where(np.arange(records) < 2 * records // 3, 3.0, 1.0)
    return moved / moved.sum(axis=1, keepdims=True), proxy, labels


UNREAD = -1


def tallies_of(target, proxy, labels):
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
def test_one_label_moves_each_figure_by_no_more_than_the_noise_allows(kind, seed, share):
    """By brute force: every record, every other label, and none; all else stays as it is.

    In half of the worlds a fifth of the labels cannot be read in the first place.
    """
    classes, records = WORLDS[kind]
    target, proxy, labels = world(seed, classes, records)
    labels[np.random.default_rng([48, seed]).random(records) < share] = UNREAD
    given = {"claim": claim(0.5), "epsilon_public": TENTH, "unread_allowed": records // 10}
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
def test_an_unreadable_label_counts_against_a_refutation(arm):
    """Wrong in training and right in the holdout: the figure never rises, whatever the label was.

    One label in two is hidden one after the other; a leak that is refuted at first no longer is.
    """
    target, proxy, labels = world(1, 2, 1_600)
    cut = 2 * labels.size // 3
    hidden = range(0, cut, 2) if arm == "training" else range(cut, labels.size, 2)
    given = {"claim": claim(0.1), "epsilon_public": Fraction(2)}
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


def test_the_figure_is_private_as_its_noise_says_and_wastes_little():
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
def test_a_declaration_that_is_kept_is_seldom_refuted(records, epsilon_public, epsilon):
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
def test_the_evalue_has_a_mean_of_one_at_most(delta):
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
def test_what_a_statement_costs(records, epsilon_public, truth, exact, claimed):
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


def test_delta_takes_its_price_and_holds_the_stakes_down():
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


def test_nothing_to_bet_on_says_nothing():
    none = Matched(*(np.zeros(0, dtype=np.int64) for _ in range(4)), offset=np.zeros(0))
    made = publish(none, claim(1.0))
    assert abs(made.evidence.figure) < 20_000  # noise alone
    found = [publish(none, claim(1.0), name).refuted for name in range(300)]
    assert sum(found) <= stats.binom.isf(1e-4, 300, 0.05)


def test_what_makes_no_statement_is_refused():
    tallies = tallies_of(*world(0, 2, 160))
    given = {"claim": claim(1.0), "epsilon_public": TENTH}
    with pytest.raises(InvalidInputError, match="a statement tests a declared epsilon"):
        exact_statement(tallies, **given | {"claim": claim(None)})
    refused("positive", exact_statement, tallies, **given | {"epsilon_public": Fraction(0)})
    with pytest.raises(InvalidInputError, match="membership"):
        exact_statement(tallies, **given | {"claim": claim(1.0, secret=Secret.MEMBERSHIP)})
    exact = exact_statement(tallies, **given)
    refused("random bytes", publish_statement, exact, key=b"short", named=())
    tables = responses(np.random.default_rng(43), 400, 1.0)
    many = replace(
        tables,
        **{each.name: np.tile(getattr(tables, each.name), 200_000) for each in fields(Matched)},
    )
    refused("rounding could move the figure", of_tables, many, claim(1.0))


def honest(random, records, *, noise=0.5, by=0.0, lean=False, knows=0.0):
    """Return what an honest model and its proxy say, and labels; the last third is held out.

    The proxy is right about training labels. In the holdout the log-odds of the class are larger
    by `by`, or, with `lean`, nearer to 0; there the proxy knows labels by `knows`.
    """
    log_odds = random.normal(0.0, 1.0, records)
    held = np.arange(records) >= 2 * records // 3
    true = np.where(held, log_odds * (1.0 - by) if lean else log_odds + by, log_odds)
    labels = (random.random(records) < expit(true)).astype(int)
    sees = log_odds + random.normal(0.0, noise, records)
    proxy = log_odds + np.where(held, knows, 0.0) * (2 * labels - 1)
    return two_columns(expit(sees)), two_columns(expit(proxy)), labels


def called_doubtful(audit, *, seed, records, epsilon_public, **drift):
    """Return whether the arms of an honest model look so different that nothing is refuted."""
    tallies = tallies_of(*honest(np.random.default_rng([seed, audit]), records, **drift))
    exact = premises_of(premise_bets(tallies), epsilon_public / 2)
    return with_noise(exact, KEY, audit).pvalue(DOUBTFUL) <= DOUBTFUL


@pytest.mark.slow
@pytest.mark.parametrize(("records", "epsilon_public"), [(600, Fraction(1)), (6_000, TENTH)])
def test_arms_that_chance_divided_are_seldom_called_doubtful(records, epsilon_public):
    """At most `DOUBTFUL`, judged at 1e-4 on 400 audits."""
    given = {"seed": 45, "records": records, "epsilon_public": epsilon_public}
    found = sum(called_doubtful(audit, **given) for audit in range(400))
    assert found <= stats.binom.isf(1e-4, 400, DOUBTFUL)


@pytest.mark.parametrize(("by", "lean"), [(0.7, False), (-0.7, False), (0.9, True), (-2.0, True)])
def test_arms_that_differ_are_called_doubtful(by, lean):
    """In 12 of 12 audits of 9,000 records, with e = 0.1 for the statement."""
    given = {"seed": 46, "records": 9_000, "epsilon_public": TENTH, "by": by, "lean": lean}
    assert all(called_doubtful(audit, **given) for audit in range(12))


@pytest.mark.slow
def test_many_unreadable_labels_cast_doubt_on_the_comparison():
    """Hiding labels of both arms alike hides a leak, but is no acquittal; what is allowed is none.

    6,000 records of an honest target. 40 audits of 300 hidden labels, 5% at an allowed 300: at most
    a tenth are doubtful, judged at 1e-4. Of 900, all are.
    """
    doubtful = {300: 0, 900: 0}
    for audit, hidden in itertools.product(range(40), doubtful):
        random = np.random.default_rng([49, audit])
        target, proxy, labels = honest(random, 6_000)
        labels[random.choice(6_000, hidden, replace=False)] = UNREAD
        given = {"claim": claim(1.0), "epsilon_public": Fraction(1), "unread_allowed": 300}
        exact = exact_statement(tallies_of(target, proxy, labels), **given)
        doubtful[hidden] += publish_statement(exact, key=KEY, named=(audit,)).doubtful
    assert doubtful[300] <= stats.binom.isf(1e-4, 40, DOUBTFUL)
    assert doubtful[900] == 40


@pytest.mark.slow
def test_a_proxy_that_knows_the_holdout_refutes_nothing():
    """A holdout on which an earlier model was trained: an honest model is spared in 20 audits."""
    called = 0
    for audit in range(20):
        world = honest(np.random.default_rng([47, audit]), 9_000, noise=0.3, knows=0.3)
        exact = exact_statement(tallies_of(*world), claim=claim(0.5), epsilon_public=TENTH)
        made = publish_statement(exact, key=KEY, named=(audit,))
        called += refuted(made)
        assert not made.refuted
    assert called >= 10  # without the second figure it would be


@pytest.mark.slow
def test_a_true_leak_does_not_make_the_arms_doubtful():
    """Labels decide what the target says, and nothing of the arms: 40 audits, e = 1/2.

    At most `DOUBTFUL` of them are doubtful by chance and noise, judged at 1e-4.
    """
    doubtful = 0
    for audit in range(40):
        target, proxy, labels = world(audit, 2, 3_000)
        known = np.arange(3_000) < 2_000
        target[known] = np.where(np.arange(2) == labels[known][:, None], 0.999, 0.001)
        given = {"claim": claim(1.0), "epsilon_public": Fraction(1, 2)}
        exact = exact_statement(tallies_of(target, proxy, labels), **given)
        made = publish_statement(exact, key=KEY, named=(audit,))
        assert refuted(made)
        doubtful += made.doubtful
    assert doubtful <= stats.binom.isf(1e-4, 40, DOUBTFUL)


@pytest.mark.parametrize("tested", [claim(0.5), claim(0.5, family=ApproxDP(), delta=1e-5)])
def test_figures_are_these(tested):
    """The gap is 4/sqrt(N + 10/e^2), or what the stake's cap leaves, and delta has its price."""
    tallies = tallies_of(*world(1, 2, 900))
    exact = exact_statement(tallies, claim=tested, epsilon_public=Fraction(4))
    tables = match_everyone(tallies.odds, tallies.control_odds)
    records, held = int(tables.records.sum()), int(tables.control.sum())
    assert (exact.records, exact.control, exact.significance) == (records, held, 0.05)
    stakes = stakes_for(tested, records=600, classes=2, control=held)

    def evidence(filled, epsilon):
        replaced = stakes.replacement(epsilon)
        n1, n0 = filled.records, filled.control
        effective = float((n1 * n0 / (n1 + n0)).sum())
        gap = min(4.0 / math.sqrt(effective + 10.0 / 4.0), 64 * stakes.log_cap(replaced) / 65)
        figure = math.floor(64 * log_wealth(filled, epsilon=replaced, gap=gap) / gap)
        return NoisyWealth(Fraction(2), gap, figure, stakes.price(replaced))

    assert exact.evidence == evidence(tables, 0.5)
    assert (exact.evidence.price > 0.0) == (tested.delta > 0.0)
    test = SimpleNamespace(
        against=evidence,
        refutes=lambda wealth: not wealth.pvalue(0.05) > 0.05,
        deviation=65 / math.sqrt(2.0),  # of a Laplace variable of the scale 65/2
        stakes=stakes,
    )
    assert exact.epsilon_ceiling == largest_refuted(tables, test) > 0.5
    right = chance_right(tallies)
    seen = least_leak_seen(tables, test, epsilon=0.5, right=right)
    assert exact.sees_from == seen is not None


def test_unreadable_labels_beyond_what_is_allowed_move_the_second_figure():
    target, proxy, labels = world(2, 2, 600)
    labels[[1, 590]] = UNREAD
    tallies = tallies_of(target, proxy, labels)
    bets = premise_bets(tallies)
    gap = gap_for(bets[0], Fraction(2))

    def made(**more):
        return exact_statement(
            tallies, claim=claim(0.5), epsilon_public=Fraction(4), **more
        ).premises

    assert made() == made(unread_allowed=0)
    figures = []
    for allowed in (0, 1, 2):
        figures.append(math.floor(64 * premises_log_wealth(bets, gap, unread=2 - allowed) / gap))
        assert made(unread_allowed=allowed) == NoisyWealth(Fraction(2), gap, figures[-1])
    assert len(set(figures)) > 1


class Read(NoisyWealth):
    """A figure whose p-value is its gap, where it is read at the level of its price."""

    def pvalue(self, significance):
        """Return it."""
        return self.gap if significance == self.price else math.nan


@pytest.mark.parametrize(("pvalue", "small"), [(0.05, True), (0.0501, False)])
@pytest.mark.parametrize(("premises", "doubtful"), [(0.1, True), (0.1001, False), (1.0, False)])
def test_a_claim_is_refuted_up_to_its_level_where_nothing_is_doubtful(
    pvalue, small, premises, doubtful
):
    evidence = Read(Fraction(1, 3), pvalue, 0, 0.05)
    made = StatementFigures(0.05, evidence, Read(Fraction(1, 2), premises, 0, 0.1))
    assert (made.pvalue, made.premises_pvalue) == (pvalue, premises)
    assert made.doubtful is doubtful
    assert made.refuted is (small and not doubtful)
    assert made.epsilon_public == Fraction(5, 6)


def test_each_figure_has_noise_under_its_own_name():
    exact = exact_statement(
        tallies_of(*world(1, 2, 300)), claim=claim(0.5), epsilon_public=Fraction(4)
    )
    made = publish_statement(exact, key=KEY, named=("slot", 7))
    assert made.evidence == with_noise(exact.evidence, KEY, "evidence", "slot", 7)
    assert made.premises == with_noise(exact.premises, KEY, "premises", "slot", 7)
    assert made.significance == exact.significance


EACH = Fraction(1, 4)
ALPHA = 0.05


def bet_on(tables):
    records, held = int(tables.records.sum()), int(tables.control.sum())
    return Bet(stakes_for(claim(1.0), records=records, classes=2, control=held), EACH, ALPHA)


@pytest.mark.parametrize("held", [500, 4000])
def test_about_five_of_six_audits_of_the_least_leak_seen_refute(held):
    """400 audits of randomized response with their noise, seed 5: 0.7 to 0.95 of them."""
    tables = one_table(12_000, 0, held, 0)
    test = bet_on(tables)
    leak = least_leak_seen(tables, test, epsilon=1.0, right=0.5)
    assert leak is not None
    assert 1.0 < leak < 3.0
    random = np.random.default_rng(5)
    refuted = 0
    for number in range(400):
        right = random.binomial(12_000, expit(leak)), random.binomial(held, 0.5)
        exact = test.against(one_table(12_000, right[0], held, right[1]), 1.0)
        refuted += test.refutes(with_noise(exact, KEY, number))
    assert stats.binomtest(refuted, 400, 0.70, alternative="less").pvalue > 1e-6
    assert stats.binomtest(refuted, 400, 0.97, alternative="greater").pvalue > 1e-6


def test_a_delta_that_hides_a_leak_raises_the_leak_that_would_be_seen():
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


def test_the_chance_of_a_right_prediction_is_the_proxys():
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


def read_as(figure, bar=0.0, deviation=0.0, stakes=None):
    """Return a bet that refutes where a figure of tables and a declared epsilon reaches a bar."""
    return SimpleNamespace(
        against=lambda tables, epsilon: NoisyWealth(EACH, 1.0, figure(tables, epsilon)),
        refutes=lambda wealth: wealth.figure >= bar,
        deviation=deviation,
        stakes=stakes,
    )


@pytest.mark.parametrize("border", [-0.1, 0.0, 0.009, 0.0123, 0.5, 1.2375, 1.5, 19.987, 30.0])
def test_the_largest_refuted_is_halved_in_from_twenty(border):
    """Twelve times, so that less than half a hundredth is left; then it is rounded down."""
    asked = []

    def figure(tables, epsilon):
        asked.append(tables)
        return math.floor(1e6 * (border - epsilon))

    found = largest_refuted(one_table(7, 0, 5, 0), read_as(figure))
    parts = min(math.floor(border * 4096 / 20), 4095)
    expected = math.floor(parts * 20 / 4096 * 100) / 100 if border > 0.0 else 0.0
    assert found == pytest.approx(expected, abs=1e-12)
    for tables in asked:
        assert (tables.right.tolist(), tables.control_right.tolist()) == ([7], [2])


@pytest.mark.parametrize("right", [0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize(("epsilon", "bar"), [(0.5, 40), (1.0, 130), (0.5, 10**6), (1.0, -60)])
def test_the_least_leak_is_what_these_records_show(right, epsilon, bar):
    """The figure is the sum of right predictions in training, less twice those in the holdout."""
    columns = [np.array(each) for each in ([100, 37, 90], [0, 0, 0], [30, 11, 33], [0, 0, 0])]
    tables = Matched(*columns, offset=np.array([0.0, 0.3, -0.2]))
    stakes = stakes_for(claim(1.0), records=227, classes=2, control=74)

    def figure(filled, declared):
        assert declared == epsilon
        return int(filled.right.sum() - 2 * filled.control_right.sum())

    held = math.floor(sum(np.array([30, 11, 33]) * right) + 1e-9)
    log_odds = math.log(max(right, 0.5) / max(1.0 - max(right, 0.5), 1e-6))
    error = 1.0 / math.sqrt(max(tables.effective * right * (1.0 - right), 1e-9))

    def seen(leak):
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


def two_groups(records=400):
    """Return tallies of two days, of which the second has twice as many records."""
    one, other = (tallies_of(*world(seed, 2, seed * records)) for seed in (1, 2))
    return replace(
        one,
        game=replace(one.game, records=one.game.records + other.game.records),
        odds=(*one.odds, *other.odds),
        control_odds=(*one.control_odds, *other.control_odds),
    )


def bins_of(tallies):
    """Return by group and quarter of log-odds: training and control, other labels and the class."""
    found = {}
    for arm, side in enumerate((tallies.odds, tallies.control_odds)):
        for group, tally in enumerate(side):
            cells = tally.cells()
            for said, zeros, ones in zip(cells.proxy, cells.zeros, cells.ones, strict=True):
                place = group, math.floor((said + 14.0) * 4.0)
                found.setdefault(place, np.zeros((2, 2), dtype=int))[arm] += (zeros, ones)
    return dict(sorted(found.items()))


def test_the_bets_against_premises_are_these_tables():
    """A bin is in the upper half if it, or one below it, holds the median record."""
    tallies = two_groups()
    sure = np.tile([0.0, 1.0], (300, 1))  # in the last bin
    last = tallies_of(sure, sure, np.arange(300) % 2)
    tallies = replace(
        tallies,
        odds=(*tallies.odds, *last.odds),
        control_odds=(*tallies.control_odds, *last.control_odds),
    )
    bins = bins_of(tallies)
    totals = np.zeros(112, dtype=int)
    for (_, place), table in bins.items():
        totals[place] += table.sum()
    assert totals[-1] == 300
    middle = next(p for p in range(112) if totals[: p + 1].sum() >= totals.sum() / 2.0)
    sides = (lambda _: 1, lambda _: 0, lambda p: int(p >= middle), lambda p: int(p < middle))
    bets = premise_bets(tallies)
    assert len(bets) == 5
    both = {place: table for place, table in bins.items() if table.sum(axis=1).all()}
    assert 20 < len(both) < len(bins)
    for bet, side in zip(bets, sides, strict=False):
        counts = [
            (one.sum(), one[side(place)], other.sum(), other[side(place)])
            for (_, place), (one, other) in both.items()
        ]
        made = np.stack([bet.records, bet.right, bet.control, bet.control_right], axis=1)
        assert made.tolist() == np.array(counts).tolist()
        assert not bet.offset.any()
    misled = holdout_sides(tallies.odds, tallies.control_odds)
    assert np.array_equal(bets[4].right, misled.right)
    assert np.array_equal(bets[4].offset, misled.offset)
    wealth = [math.exp(log_wealth(bet, epsilon=0.0, gap=0.3)) for bet in bets]
    for unread in (0, 7):  # the sixth bet: unreadable labels above what is allowed
        expected = math.log((sum(wealth) + math.exp(0.3 * unread)) / 6.0)
        found = premises_log_wealth(bets, 0.3, unread=unread)
        assert found == pytest.approx(expected, abs=1e-9)


def test_a_bet_of_so_many_tables_that_rounding_counts_is_refused():
    """At a loss of 4e-7 one table may move the figure by 0.25 units, three by 0.76."""
    one = Matched(*(np.array([number]) for number in (9, 5, 9, 4)), offset=np.zeros(1))
    three = Matched(*(np.full(3, number) for number in (9, 5, 9, 4)), offset=np.zeros(3))
    loss = Fraction(4, 10**7)
    assert premises_of((one,) * 5, loss).epsilon_public == loss
    refused("rounding could move", premises_of, (*(one,) * 4, three), loss)
