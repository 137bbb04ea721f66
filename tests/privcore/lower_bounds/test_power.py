"""The smallest detectable leak, compared with audits of targets that leak that much."""

import math
from dataclasses import replace

import numpy as np
import pytest

from privcore.attacks import Decoys, decoy_tally, generator, match, odds_tally, pair
from privcore.guarantees import ApproxDP, Gaussian, PureDP, Relation
from privcore.lower_bounds import Claim, leak_to_be_seen, sensitive
from privcore.lower_bounds.designs import (
    DecoyRecords,
    MatchedRecords,
    PairedRecords,
    leaking_right,
    resized_tables,
    resized_tally,
)
from privcore.lower_bounds.power import Power, power_of
from privcore.lower_bounds.stakes import EPSILONS
from tests.simulate import PURE, gaussian_label, randomized_response, two_columns
from tests.worlds import Binary

NIGHTS = 40
PRIORS = (0.05, 0.2, 0.3, 0.5)


def claimed(epsilon, **changes):
    return Claim(**{"family": PureDP(), "delta": 0.0, "epsilon": epsilon} | changes)


def response_night(training, control, leak, random):
    """Both arms see randomized responses: training to its labels, the holdout to fresh ones."""
    target, proxy, _ = randomized_response(control, leak, random, priors=PRIORS)
    fresh = (random.random(control) < proxy[:, 1]).astype(np.int64)
    return randomized_response(training, leak, random, priors=PRIORS), (target, proxy, fresh)


def drifting_night(training, control, leak, random):
    family = Binary(noise=0.3, known=0.5, drifts=((1.0, 0.5),))
    return family.world("", leak, training, control).draw(random)


def design_of(night, seed=0):
    training, control = (odds_tally(*arm) for arm in night)
    tables = match((training,), (control,), random=generator(seed))
    return MatchedRecords(tables, records=training.records, control=control.records, classes=2)


def refutes(design, claim):
    stakes = design.stakes(claim)
    return stakes.in_claim(design.epsilon_lower(stakes)) > claim.epsilon


def power_at(night, claim, seed=0):
    design = design_of(night, seed)
    return power_of(design, claim, records=design.records + design.control)


def test_ten_holdout_rows_are_not_sensitive_though_their_ceiling_is_high():
    """An owner who holds out next to nothing arranges no acquittal."""
    claim = claimed(2.0)
    for seed in range(5):
        random = np.random.default_rng(seed)
        design = design_of(response_night(5_000, 10, 0.5, random), seed)
        stakes = design.stakes(claim)
        ceiling = stakes.in_claim(design.epsilon_ceiling(stakes))
        power = power_of(design, claim, records=5_010)
        assert not sensitive(
            epsilon=2.0, epsilon_ceiling=ceiling, epsilon_detectable=power.epsilon_detectable
        )
    assert ceiling > 2.0


@pytest.mark.parametrize(
    ("epsilon", "ceiling", "detectable", "expected"),
    [
        (2.0, 3.1, 3.0, True),
        (2.0, 3.1, 3.01, False),
        (2.0, 2.0, 2.5, False),
        (0.5, 3.0, 1.0, True),
        (0.5, 3.0, 1.1, False),
        (2.0, None, 2.5, False),
        (2.0, 3.1, None, False),
    ],
)
def test_both_a_perfect_attack_and_a_leak_just_beyond_must_be_seen(
    epsilon, ceiling, detectable, expected
):
    found = sensitive(epsilon=epsilon, epsilon_ceiling=ceiling, epsilon_detectable=detectable)
    assert found is expected


def test_a_claim_of_nothing_has_no_leak_just_beyond_it():
    assert leak_to_be_seen(0.0) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("night", "records", "held", "epsilon"),
    [(response_night, 3_000, 300, 0.5), (drifting_night, 3_000, 60, 2.0)],
)
def test_the_detectable_leak_is_seen_and_a_smaller_one_seldom(night, records, held, epsilon):
    """The leak is seen in at least 24 of 40 audits, and 40% of the way less in at most 24.

    Seeds 0 to 39. The power that is found before is computed on nights that leak 0.3.
    """
    claim, seen, smaller = claimed(epsilon), 0, 0
    for seed in range(NIGHTS):
        random = np.random.default_rng(seed)
        power = power_at(night(records - held, held, 0.3, random), claim, seed)
        assert power.epsilon_detectable is not None
        beyond = power.epsilon_detectable - epsilon
        for share in (1.0, 0.6):
            made = night(records - held, held, epsilon + share * beyond, random)
            found = refutes(design_of(made, seed), claim)
            seen += found and share == 1.0
            smaller += found and share < 1.0
    assert seen >= 24
    assert smaller <= 24
    assert seen > smaller + 8


@pytest.mark.slow
def test_the_holdout_that_is_asked_for_suffices_and_a_third_of_it_does_not():
    """Declared 2 and 60 held out: with the size that is named, a leak of 3 is refuted.

    Of 40 nights (seeds 0 to 39) in 26 or more; with a third of that size in at most 20.
    """
    claim, seen, third = claimed(2.0), 0, 0
    for seed in range(NIGHTS):
        random = np.random.default_rng(seed)
        power = power_at(drifting_night(2_940, 60, 0.3, random), claim, seed)
        assert power.holdout_needed is not None
        for size in (power.holdout_needed, power.holdout_needed // 3):
            made = drifting_night(3_000 - size, size, leak_to_be_seen(2.0), random)
            found = refutes(design_of(made, seed), claim)
            seen += found and size == power.holdout_needed
            third += found and size < power.holdout_needed
    assert seen >= 26
    assert third <= 20
    assert seen > third + 10


@pytest.mark.parametrize("claim", [claimed(1.0), claimed(1.0, delta=1e-4, family=ApproxDP())])
def test_whether_a_point_is_reached_agrees_with_the_bound(claim):
    """The designs are matched records, doubtful ones, pairs and decoys, each with both figures."""
    design = design_of(response_night(800, 200, 3.0, np.random.default_rng(6)))
    arms = (odds_tally(*gaussian_label(300, size, np.random.default_rng(7))) for size in (4.0, 0.1))
    pairs = PairedRecords(pair(*arms, random=generator(1)), records=300)
    doubtful, ceilings = replace(design, proxy_doubtful=True), []
    for each in (design, doubtful, pairs, decoys(500).leaking(2.0), decoys(500)):
        stakes = each.stakes(claim)
        lower, ceiling = each.epsilon_lower(stakes), each.epsilon_ceiling(stakes)
        for bound, reaches in ((lower, each.reaches), (ceiling, each.all_right().reaches)):
            last = int(np.flatnonzero(bound == EPSILONS)[0])
            asked = sorted({1, 49, 50, 51, last + 1, *range(max(1, last - 2), last + 120, 37)})
            reached = [point for point in asked if reaches(point, stakes)]
            assert reached == [point for point in asked if point <= last]
        grid = np.array([stakes.replacement(epsilon) for epsilon in (0.0, 0.5, 2.0, 5.0)])
        made, most = (one.night_log_wealth(grid, stakes) for one in (each, each.all_right()))
        assert (most.max(axis=0) >= made.max(axis=0)).all()
        ceilings.append(ceiling)
    assert [ceiling > 0.5 for ceiling in ceilings] == [True, False, True, True, True]


def test_the_first_point_beyond_a_claim_proves_more_than_it_and_the_one_before_does_not():
    for changes in (
        {},
        {"neighbors": Relation.ADD_REMOVE},
        {"family": Gaussian(1.0), "delta": 1e-5},
    ):
        claim = claimed(1.0, **changes)
        stakes = design_of(response_night(800, 200, 0.0, np.random.default_rng(8))).stakes(claim)
        for epsilon in (0.0, 0.01, 0.5, 1.0, 3.7):
            first = stakes.first_beyond(epsilon)
            assert stakes.in_claim(float(EPSILONS[first])) > epsilon
            assert stakes.in_claim(float(EPSILONS[first - 1])) <= epsilon


def test_a_sensitive_audit_needs_no_more_and_a_hopeless_one_names_no_size():
    random = np.random.default_rng(1)
    fine = power_at(response_night(20_000, 2_000, 0.3, random), claimed(2.0))
    assert fine.holdout_needed is None
    assert fine.epsilon_detectable is not None
    assert fine.epsilon_detectable < 3.0
    # A leak of 0.02 beside 0.01 is below what 300 records can ever show.
    hopeless = power_at(response_night(250, 50, 0.0, random), claimed(0.01))
    assert hopeless.holdout_needed is None
    assert hopeless.epsilon_detectable is not None
    assert hopeless.epsilon_detectable > leak_to_be_seen(0.01)


def test_without_a_declaration_it_says_from_where_on_any_loss_is_proved():
    random = np.random.default_rng(2)
    power = power_at(response_night(3_000, 800, 0.0, random), PURE)
    assert power.holdout_needed is None
    assert power.epsilon_detectable is not None
    assert 0.1 < power.epsilon_detectable < 1.0
    few = power_at(response_night(3_000, 80, 0.0, random), PURE)
    assert few.epsilon_detectable is not None
    assert few.epsilon_detectable > power.epsilon_detectable


def test_the_leak_is_in_the_terms_of_the_claim():
    """Adding and removing: a leak of e by one row is one of 2 e by replacing it."""
    night = response_night(3_000, 800, 0.0, np.random.default_rng(3))
    replacing = power_at(night, claimed(2.0)).epsilon_detectable
    adding = power_at(night, claimed(1.0, neighbors=Relation.ADD_REMOVE)).epsilon_detectable
    assert replacing is not None
    assert adding == pytest.approx(replacing / 2.0, abs=0.02)


def test_bets_that_may_not_win_see_no_leak_whatever_is_held_out():
    design = design_of(response_night(3_000, 800, 0.0, np.random.default_rng(4)))
    doubtful = MatchedRecords(
        design.tables, records=3_000, control=800, classes=2, proxy_doubtful=True
    )
    assert power_of(doubtful, claimed(2.0), records=3_800) == Power(None, None)


@pytest.mark.parametrize("epsilon", [28.0, 50.0, 1e300])
def test_above_the_last_point_of_the_grid_no_leak_is_seen(epsilon):
    """A declared epsilon of 50 ended an audit with an IndexError."""
    design = design_of(response_night(4_000, 1_000, 2.0, np.random.default_rng(4)))
    for one in (design, decoys(500)):
        assert power_of(one, claimed(epsilon), records=5_000) == Power(None, None)


def test_nothing_matched_sees_nothing():
    design = MatchedRecords(
        match((odds_tally(*gaussian_label(100, 1.0, np.random.default_rng(5))),),
              (odds_tally(two_columns(np.zeros(0)), two_columns(np.zeros(0)), np.zeros(0, int)),),
              random=generator(0)),
        records=100, control=0, classes=2,
    )  # fmt: skip
    assert power_of(design, claimed(1.0), records=100) == Power(None, None)


def decoys(number):
    """Return decoys of a target that knows nothing of their coins."""
    random = np.random.default_rng(number)
    labels = random.integers(0, 2, number)
    drawn = Decoys(labels=labels, others=1 - labels)
    chance = two_columns(np.full(number, 0.5))
    return DecoyRecords(decoy_tally(chance, chance, drawn.labels, drawn.others))


def test_decoys_are_asked_for_by_their_number():
    few, many = decoys(60), decoys(4_000)
    power = power_of(few, claimed(1.0), records=5_000)
    assert power.holdout_needed is not None
    assert 60 < power.holdout_needed < 4_000
    assert power_of(many, claimed(1.0), records=5_000).holdout_needed is None
    at_size = few.resized(power.holdout_needed).leaking(leak_to_be_seen(1.0))
    assert refutes(at_size, claimed(1.0))
    assert not refutes(few.leaking(leak_to_be_seen(1.0)), claimed(1.0))


def test_fair_pairs_are_told_as_often_as_the_leak_lets_them_less_two_standard_errors():
    chance = 1.0 / (1.0 + math.exp(-1.0))
    expected = 10_000 * chance - 2.0 * math.sqrt(10_000 * chance * (1.0 - chance))
    assert leaking_right(10_000, 1.0) == math.floor(expected)
    assert leaking_right(1, 0.0) == 0


def test_resizing_keeps_shares_and_counts_whole_records():
    design = design_of(response_night(3_000, 300, 0.5, np.random.default_rng(6)))
    tables = design.tables[0]
    (larger,) = resized_tables(design.tables[:1], records=0.9, held=2.0)
    assert larger.control.sum() == 2 * tables.control.sum()
    assert larger.control_right.sum() == 2 * tables.control_right.sum()
    assert abs(larger.records.sum() - 0.9 * tables.records.sum()) < 1.0 + tables.records.size
    assert np.all(larger.control_right <= larger.control)
    assert np.all(larger.right <= larger.records)


def test_a_tally_times_a_factor_has_that_many_records():
    tally = odds_tally(*gaussian_label(1_000, 1.0, np.random.default_rng(7)))
    assert resized_tally(tally, 2.5).records == 2_500
    assert resized_tally(tally, 1.0) == tally
