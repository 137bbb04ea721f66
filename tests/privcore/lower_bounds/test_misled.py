"""A target that misleads about the holdout: an honest model is not accused for it."""

import math

import numpy as np
import pytest
from scipy.special import expit

from flows.study.exam_worlds import both
from privcore.attacks import holdout_sides, match
from privcore.guarantees import PureDP
from privcore.lower_bounds import MISLED, Arm, Claim, Verdict, audit_probabilities, misled_pvalue
from privcore.lower_bounds.betting import stakes_for
from privcore.lower_bounds.matched import matched_log_wealth
from tests.simulate import assert_rate_at_most, tallied
from tests.support.tiers import tiered


def arms(seed, *, knows, records=2_000, noise=0.3, leak=0.0):
    """Return a third of the records as holdout; the proxy knows its labels by `knows` in log-odds.

    The target knows training labels by `leak`.
    """
    random = np.random.default_rng([47, seed])
    log_odds = random.normal(0.0, 1.0, records)
    labels = (random.random(records) < expit(log_odds)).astype(int)
    held = np.arange(records) >= 2 * records // 3
    sign = 2 * labels - 1
    proxy = both(log_odds + np.where(held, knows, 0.0) * sign)
    seen = log_odds + random.normal(0.0, noise, records) + np.where(held, 0.0, leak) * sign
    target = both(seen)
    return [Arm(target[arm], proxy[arm], labels[arm]) for arm in (~held, held)]


def tallies(training, control):
    return tallied(training[:3], control[:3])


@pytest.mark.slow
@pytest.mark.parametrize("knows", tiered([0.2, 0.1, 0.5], always=1, slow=2))
def test_a_proxy_that_was_trained_on_the_holdout_accuses_nobody(knows):
    """12 of 12 honest models are spared; without the test 7 of 12 were accused at 0.1."""
    for seed in range(12):
        answer = audit_probabilities(*arms(seed, knows=knows), epsilon_declared=0.25)
        assert answer.verdict in {Verdict.NOT_REFUTED, Verdict.INCONCLUSIVE, Verdict.FAILED}
        assert answer.evidence.misled_pvalue is not None
        assert answer.evidence.misled_pvalue <= MISLED


@pytest.mark.slow
@pytest.mark.parametrize("noise", tiered([2.0, 0.3, 0.0], always=1, slow=2))
def test_honest_targets_seldom_look_misleading(noise):
    """At most 0.001, judged at 1e-4 on 400 audits; also of a target worse than the proxy."""
    found = sum(
        misled_pvalue(tallies(*arms(seed, knows=0.0, noise=noise, records=900))) <= MISLED
        for seed in range(400)
    )
    assert_rate_at_most(found, 400, MISLED)


def beside(seed, training, held, *, knows):
    """Return arms of a target that says the truth and reads no label; the proxy is off by 0.4."""
    random = np.random.default_rng([99, seed, training, held])
    log_odds = random.normal(-1.0, 1.0, training + held)
    labels = (random.random(log_odds.size) < expit(log_odds)).astype(int)
    seen = np.arange(log_odds.size) < training
    proxy = log_odds + 0.4 * random.normal(size=log_odds.size)
    proxy += np.where(seen, 0.0, knows * (2 * labels - 1))
    said = both(log_odds), both(proxy)
    return tuple(Arm(*(part[arm] for part in said), labels[arm]) for arm in (seen, ~seen))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "knows"), tiered([((2_000, 60), 0.3), ((5_000, 400), 0.1)], always=1, slow=1)
)
def test_a_proxy_that_knows_the_holdout_by_less_than_a_test_sees_proves_nothing(sizes, knows):
    """40 audits, at most 0.05 above 0, judged at 1e-6; 12 and 24 were before the control was raised
    to what the proxy alone explains, at most 0.72."""
    found = [
        audit_probabilities(*beside(seed, *sizes, knows=knows), epsilon_declared=0.1)
        for seed in range(40)
    ]
    assert sum(np.isnan(one.epsilon_lower) for one in found) < 4
    assert_rate_at_most(sum(one.epsilon_lower > 0.0 for one in found), 40, 0.05)


def test_raising_the_control_never_raises_an_e_value():
    """Twelve worlds are tried at every epsilon. In half of them the proxy knows the holdout."""
    lowered = 0
    for seed in range(12):
        given = tallies(*arms(seed, knows=0.2 * (seed % 2), leak=0.5, records=900))
        raw = match(given.odds, given.control_odds, random=np.random.default_rng(seed))
        raised = [one.no_worse_than_unaided() for one in raw]
        stakes = stakes_for(Claim(PureDP()), records=600, classes=2)
        for epsilon in (0.0, 0.5, 2.0):
            before, after = (
                matched_log_wealth(some, epsilon, stakes=stakes) for some in (raw, raised)
            )
            assert after <= before + 1e-12
            lowered += after < before
    assert lowered > 6


def test_a_leak_does_not_look_misleading_and_is_proved_as_before():
    for seed in range(6):
        answer = audit_probabilities(*arms(seed, knows=0.0, leak=1.5), epsilon_declared=0.25)
        assert answer.evidence.misled_pvalue is not None
        assert answer.evidence.misled_pvalue > MISLED
        assert answer.verdict is Verdict.VIOLATED


def test_no_holdout_and_one_side_alone_say_nothing():
    training, control = arms(0, knows=0.5)
    empty = Arm(*(part[:0] for part in control[:3]))
    assert misled_pvalue(tallies(training, empty)) == 1.0
    assert misled_pvalue(tallies(*(Arm(arm.proxy, arm.proxy, arm.labels)
                                   for arm in (training, control)))) == 1.0  # fmt: skip


def log_wealth(counts, offset, gap):
    """Return gap k - log E[exp(gap K)]; K is hypergeometric at odds e^offset."""
    records, right, control, control_right = counts
    both = right + control_right
    weights = [
        math.comb(records, k) * math.comb(control, both - k) * math.exp(offset * k)
        for k in range(max(0, both - control), min(records, both) + 1)
    ]
    raised = [
        weight * math.exp(gap * k) for k, weight in enumerate(weights, start=max(0, both - control))
    ]
    return gap * right - math.log(math.fsum(raised) / math.fsum(weights))


def test_it_is_one_over_the_mean_wealth_of_four_gaps():
    """Against sums as they are written; one where nothing is won."""
    found = []
    for seed, knows in ((1, 0.1), (2, 0.2), (3, 0.0), (4, 0.5)):
        given = tallies(*arms(seed, knows=knows, records=700))
        tables = holdout_sides(given.odds, given.control_odds)
        sizes = tables.records, tables.control
        effective = (sizes[0] * sizes[1] / (sizes[0] + sizes[1])).sum()
        counts = np.stack([sizes[0], tables.right, sizes[1], tables.control_right], axis=1)
        parts = list(zip(counts.tolist(), tables.offset.tolist(), strict=True))
        wealth = [
            math.exp(sum(log_wealth(*part, gap / math.sqrt(effective)) for part in parts))
            for gap in (4.0, 8.0, 16.0, 32.0)
        ]
        found.append(misled_pvalue(given))
        expected = min(0.0, math.log(4.0 / sum(wealth)))
        assert math.log(found[-1]) == pytest.approx(expected, rel=1e-6)
    assert found[0] < 1.0 > found[1]
    assert found[2] == 1.0
    assert MISLED == 1e-3
