"""What an audit sees, alone and with other nights, compared with audits of targets that leak."""

from dataclasses import replace

import numpy as np
import pytest

from privcore.exceptions import InvalidInputError
from privcore.guarantees import Gaussian, Relation
from privcore.lower_bounds import (
    ClaimedNight,
    declarations_refuted,
    leak_to_be_seen,
    nights_until_conclusive,
    sees_from_together,
)
from privcore.lower_bounds.matched import NIGHT_STRATEGIES
from privcore.lower_bounds.power import OFFSETS, ImaginedNight
from tests.leaking_worlds import binary, claimed, grouped, people, read, refutes, several, taught


@pytest.fixture(autouse=True)
def _no_night_is_read_for_windows(monkeypatch):
    """A night has a hundred points for windows, and no test here reads one of them."""
    monkeypatch.setattr("privcore.lower_bounds.evidence.WINDOW_EPSILONS", np.zeros(1))


def power_at(world, claim, seed=0, leak=0.3, **options):
    tallies = world(leak, np.random.default_rng(seed))
    return read(tallies, claim, seed, with_power=True, **options).power


def night(epsilon=1.0, *, slope=4.0, variance=1.0, price=0.0):
    """A night whose strategies all win `slope` times what the leak lies above 0.25."""
    mean = np.tile(slope * (np.array(OFFSETS) - 0.25), (NIGHT_STRATEGIES, 1))
    return ImaginedNight(epsilon, mean, np.full_like(mean, variance), price)


def test_ten_holdout_rows_do_not_see_what_they_have_to():
    """An owner who holds out next to nothing arranges no acquittal."""
    for seed in range(3):
        power = power_at(binary(5_000, 10), claimed(2.0), seed)
        assert power.sees_from is None or power.sees_from > leak_to_be_seen(2.0)
        assert nights_until_conclusive([power.imagined]) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("records", "epsilon"), [(300, 1.0), (877, 0.5), (877, 2.0), (3_000, 1.0), (20_000, 2.0)]
)
def test_a_night_refutes_what_it_sees_in_four_of_five_audits(records, epsilon):
    """Of 120 nights (seeds 0 to 119): 78 to 113, which a chance of 4/5 leaves in 1 of 10,000."""
    world, claim = binary(records, records // 4), claimed(epsilon)
    seen = np.mean([power_at(world, claim, 1_000 + seed).sees_from for seed in range(5)])
    made = (world(seen, np.random.default_rng(seed)) for seed in range(120))
    refuted = sum(refutes(read(one, claim, seed)) for seed, one in enumerate(made))
    assert 78 <= refuted <= 113


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "claim"),
    [
        (binary(877, 219), claimed(0.5)),
        (binary(877, 219), claimed(2.0)),
        (binary(877, 219), claimed(1.0, delta=1e-5)),
        (binary(3_000, 750, base=-4.2), claimed(1.0)),
    ],
)
@pytest.mark.parametrize("nights", [7, 28])
def test_nights_together_refute_what_they_see_and_seldom_less(world, claim, nights):
    """Within 0.15 of the leak that four of five refute: 400 draws from 60 nights of each leak.

    At 0.15 above the predicted leak at least 60% are refuted, at 0.2 below it at most 70%.
    """
    said = [power_at(world, claim, 1_000 + seed).imagined for seed in range(nights)]
    seen, random = sees_from_together(said), np.random.default_rng(1)
    found = []
    for leak in (seen + 0.15, seen - 0.2):
        made = [
            read(world(leak, np.random.default_rng(seed)), claim, seed).claimed_night
            for seed in range(60)
        ]
        chosen = random.integers(0, 60, (400, nights))
        found.append(np.mean([declarations_refuted([made[i] for i in row])[-1] for row in chosen]))
    assert found[0] >= 0.6
    assert found[1] <= 0.7


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [
        binary(3_000, 750, unknown=1.0),
        several(2_000, 500, 4, unknown=0.7),
        several(2_000, 500, 10),
        several(841, 356, 10, spread=4.0, trees=100),
        binary(3_000, 750, spread=3.0, trees=100),
        taught(2_000, 500),
        people(800, 200),
        grouped(binary(877, 219), 3),
    ],
)
def test_what_a_night_is_said_to_see_is_seldom_too_small(world):
    """Of 60 nights (seeds 0 to 59) at 0.15 more than is said, 60% or more are refuted."""
    claim = claimed(1.0)
    said = [power_at(world, claim, 1_000 + seed, leak=0.5).sees_from for seed in range(5)]
    leak, refuted = np.mean(said) + 0.15, 0
    for seed in range(60):
        refuted += refutes(read(world(leak, np.random.default_rng(seed)), claim, seed))
    assert refuted >= 36


@pytest.mark.slow
def test_the_holdout_that_is_asked_for_suffices_and_a_third_of_it_does_not():
    """Declared 2 and 60 held out: with the size that is named, a leak of 3 is refuted.

    Of 60 nights (seeds 0 to 59) in 36 or more; with a third of that size in at most 30.
    """
    claim, seen, third = claimed(2.0), 0, 0
    power = power_at(binary(2_940, 60), claim, 1_000)
    assert power.holdout_needed is not None
    for seed in range(60):
        for size in (power.holdout_needed, power.holdout_needed // 3):
            made = binary(3_000 - size, size)(leak_to_be_seen(2.0), np.random.default_rng(seed))
            found = refutes(read(made, claim, seed))
            seen += found and size == power.holdout_needed
            third += found and size < power.holdout_needed
    assert seen >= 36
    assert third <= 30


def test_a_night_that_sees_enough_needs_no_more_and_a_hopeless_one_names_no_size():
    fine = power_at(binary(20_000, 2_000), claimed(2.0))
    assert fine.holdout_needed is None
    assert fine.sees_from < 3.0
    # A leak of 0.51 beside 0.01 is below what 100 records can ever show.
    hopeless = power_at(binary(80, 20), claimed(0.01))
    assert hopeless.holdout_needed is None
    assert hopeless.sees_from is None or hopeless.sees_from > leak_to_be_seen(0.01)


def test_without_a_declaration_it_says_from_where_on_any_loss_is_proved():
    power = power_at(binary(3_000, 800), claimed(None))
    assert power.holdout_needed is None
    assert power.imagined.epsilon == 0.0
    assert 0.1 < power.sees_from < 1.0
    few = power_at(binary(3_000, 80), claimed(None))
    assert few.sees_from > power.sees_from


def test_votes_for_no_class_are_no_knowledge_of_labels():
    """Of 2,000 rows and 10 classes four of five nights really refute a leak of 1.75 (seeds 0-99).

    Where a forest's trees agree it says 0 or 1, far beside a proxy whose trees nearly do.
    """
    world = several(2_000, 500, 10, trees=100)
    seen = [power_at(world, claimed(1.0), seed).sees_from for seed in range(10)]
    assert np.mean(seen) == pytest.approx(1.75, abs=0.15)


def test_the_leak_is_in_the_terms_of_the_claim():
    """Adding and removing: a leak of e by one row is one of 2 e by replacing it."""
    world = binary(3_000, 800)
    replacing = power_at(world, claimed(2.0)).sees_from
    adding = power_at(world, claimed(1.0, neighbors=Relation.ADD_REMOVE)).sees_from
    assert adding == pytest.approx(replacing / 2.0, abs=0.1)
    gaussian = power_at(world, claimed(2.0, delta=1e-5, family=Gaussian(1.0)))
    assert 2.0 < gaussian.sees_from < 6.0


def test_what_is_imagined_disturbs_no_other_draw_and_is_the_same_again():
    tallies, claim = binary(300, 100)(0.5, np.random.default_rng(5)), claimed(1.0)
    once, again = (read(tallies, claim, 3, with_power=True) for _ in range(2))
    assert once.power.sees_from == again.power.sees_from
    assert np.array_equal(once.power.imagined.mean, again.power.imagined.mean)
    without = read(tallies, claim, 3)
    assert np.array_equal(once.claimed_night.log_wealth, without.claimed_night.log_wealth)


def test_bets_that_may_not_win_see_no_leak_whatever_is_held_out():
    power = power_at(binary(3_000, 800), claimed(2.0), proxy_doubtful=True)
    assert (power.sees_from, power.holdout_needed) == (None, None)
    assert power.imagined.mean.max() <= 0.0
    assert sees_from_together([power.imagined] * 90) is None


@pytest.mark.parametrize("epsilon", [28.0, 50.0, 1e300])
def test_above_the_last_point_of_the_grid_no_leak_is_seen(epsilon):
    """A declared epsilon of 50 ended an audit with an IndexError."""
    power = power_at(binary(400, 100), claimed(epsilon))
    assert (power.sees_from, power.holdout_needed) == (None, None)
    assert sees_from_together([power.imagined]) is None


def test_nothing_held_out_sees_nothing():
    power = power_at(binary(100, 0), claimed(1.0))
    assert (power.sees_from, power.holdout_needed) == (None, None)
    assert not power.imagined.mean.any()


def test_nights_together_see_less_with_each_night_down_to_where_bets_break_even():
    seen = [sees_from_together([night()] * number) for number in (1, 7, 28, 128)]
    assert seen == sorted(seen, reverse=True)
    assert 1.25 < seen[-1] < 1.3


def test_what_nights_see_is_what_their_sums_refute():
    """At the leak that is named, 80% of 2,000 sums of five nights are refuted (seed 2)."""
    nights, random = (
        [night(2.5, slope=3.0, variance=2.0) for _ in range(5)],
        np.random.default_rng(2),
    )
    offset = sees_from_together(nights) - 2.5
    refuted = 0
    for draws in random.normal(size=(2_000, 5)):
        wealth = 3.0 * (offset - 0.25) + np.sqrt(2.0) * draws
        made = [ClaimedNight(2.5, np.full(NIGHT_STRATEGIES, one), 0.0) for one in wealth]
        refuted += declarations_refuted(made)[-1]
    assert 1_560 < refuted < 1_700


def test_nights_that_declare_much_leave_the_bets_on_the_others():
    """Offsets add when a declaration changes; the leak is told in the last night's terms."""
    tight = [night(1.0)] * 7
    mixed = [each for one in tight for each in (one, night(50.0, slope=0.0, variance=0.0))][:-1]
    lost = [replace(one, mean=one.mean - 5.0 * (one.epsilon > 8.0)) for one in mixed]
    assert sees_from_together(lost) < sees_from_together(tight) + 0.2
    changed = [night(1.0)] * 3 + [night(2.0)] * 4
    assert sees_from_together(changed) - 2.0 == pytest.approx(sees_from_together(tight) - 1.0)


def test_recurring_nights_are_no_sums():
    one, many = (sees_from_together([night()] * number, recurring=True) for number in (1, 20))
    assert one == many > sees_from_together([night()] * 20)
    strong = night(slope=40.0)
    assert nights_until_conclusive([strong], recurring=True) == 1
    assert nights_until_conclusive([night(slope=2.0)], recurring=True) is None


def test_delta_takes_its_part_of_the_significance_and_of_the_nights():
    price = 0.0075 / 28
    priced = [night(price=price)] * 7
    assert sees_from_together(priced) > sees_from_together([night()] * 7)
    assert sees_from_together([night(price=0.005)] * 2) is None
    with pytest.raises(InvalidInputError):
        sees_from_together([night(), night(price=price)])
    with pytest.raises(InvalidInputError):
        sees_from_together([night(price=price)] * 29)
    with pytest.raises(InvalidInputError):
        sees_from_together([])


@pytest.mark.parametrize("price", [0.0, 0.0075 / 28])
def test_the_nights_that_are_named_are_the_first_that_suffice(price):
    one = night(slope=1.5, price=price)
    number = nights_until_conclusive([one] * 3)
    assert number > 1
    assert sees_from_together([one] * number) <= leak_to_be_seen(1.0)
    assert not sees_from_together([one] * (number - 1)) <= leak_to_be_seen(1.0)
    assert nights_until_conclusive([night(slope=0.05, price=price)]) is None
