"""One record per person: candidates that merge, and size and power; rates are judged at 1e-6."""

import functools
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from privcore.attacks import (
    PaperScore,
    ScoredRecords,
    UnitChoices,
    UnitRecords,
    generator,
    label_counts,
    label_inference,
    match,
    odds_tally,
    stream_key,
    unit_records,
    unit_tallies,
)
from privcore.attacks.unit_records import information_gain, unit_streams
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds import bets_epsilon_lower, matched_epsilon_lower, stakes_for
from tests.simulate import PURE, assert_rate_at_most, believed, evidence_of, two_columns
from tests.support.refusals import refused
from tests.support.tiers import rest_slow

RECORDS, EACH = 60, 100


def probabilities(seed):
    """Coarse, so that many records of a person are equally sure."""
    values = np.random.default_rng(seed).integers(1, 4, (RECORDS, 3)).astype(np.float64)
    return values / values.sum(axis=1, keepdims=True)


def part(rows=range(RECORDS), *, key=11):
    """Candidates among some rows of an example of 60 records of 12 people."""
    rows, random = np.array(rows, dtype=np.int64), np.random.default_rng(2)
    labels, people = random.integers(0, 3, RECORDS), random.integers(0, 12, RECORDS)
    records = ScoredRecords(probabilities(0), probabilities(1), labels, key)
    return unit_records(records.of(rows), people[rows], unit_key=7)


@given(st.lists(st.integers(0, 2), min_size=RECORDS, max_size=RECORDS))
@settings(max_examples=25, deadline=None)
def test_any_sharding_gives_the_same_records_in_any_grouping(shards):
    a, b, c = (part(np.flatnonzero(np.array(shards) == shard)) for shard in range(3))
    assert (a + b) + c == a + (b + c) == c + (b + a) == part()
    assert part().doubted.rows.sum() == part().moved.rows.sum() == RECORDS
    assert a + UnitChoices.zero(3) == a == UnitChoices.zero(3) + a


def information(target, proxy):
    """Kullback-Leibler divergence of one class's chances, the one that the target raised most."""
    raised = int(np.argmax(target - proxy))
    now, before = (np.array([one[raised], 1.0 - one[raised]]) for one in (target, proxy))
    return float(np.sum(now * np.log(now / before)))


@pytest.mark.parametrize("rule", ["doubted", "moved"])
def test_each_person_plays_two_records(rule):
    """Which the proxy is least sure of, and of which the target says most beyond the proxy."""
    random, target, proxy = np.random.default_rng(2), probabilities(0), probabilities(1)
    labels, people = random.integers(0, 3, RECORDS), random.integers(0, 12, RECORDS)
    worth = {
        "doubted": -proxy.max(axis=1),
        "moved": np.array([information(*pair) for pair in zip(target, proxy, strict=True)]),
    }[rule]
    chosen = getattr(part(), rule)
    assert chosen.streams.tolist() == sorted(stream_key(7, int(p)) for p in set(people.tolist()))
    for person in set(people.tolist()):
        row = chosen.streams.tolist().index(stream_key(7, person))
        mine = np.flatnonzero(people == person)
        equals = [i for i in mine if worth[i] > worth[mine].max() - 1e-9]
        found = [
            i
            for i in equals
            if np.array_equal(proxy[i], chosen.proxy[row])
            and np.array_equal(target[i], chosen.target[row])
            and labels[i] == chosen.labels[row]
        ]
        assert found


@pytest.mark.parametrize("chooses", [True, False])
def test_what_a_student_expects_is_no_news(chooses):
    """One row moved far from the proxy, as a student expects; another by less, which it did not."""
    target, proxy = two_columns(np.array([0.9, 0.3])), two_columns(np.array([0.1, 0.6]))
    expected = np.stack([two_columns(np.array([0.88, 0.6])), proxy], axis=1)
    records, persons = ScoredRecords(target, proxy, np.array([0, 1]), 1), np.array(["a", "a"])

    def student(streams):
        assert streams.tolist() == [stream_key(3, "a")] * 2
        return expected

    found = unit_records(
        records, persons, unit_key=3, student=student, student_chooses=chooses
    ).moved
    assert found.target[0, 1] == (0.3 if chooses else 0.9)
    np.testing.assert_array_equal(found.student[0], expected[1 if chooses else 0])
    assert unit_records(records, persons, unit_key=3).moved.target[0, 1] == 0.9


def test_what_is_certain_is_worth_as_much_as_odds_count():
    """Probabilities are held within a millionth of 0 and 1; a surer half gives log 2 at most."""
    held, half = 1e-6, np.full((4, 2), 0.5)
    target = two_columns(np.array([1.0, 0.0, 1.0 - held, 0.5]))
    most = np.log(2.0) + held * np.log(held) + (1.0 - held) * np.log1p(-held)
    gains = information_gain(target, half)
    np.testing.assert_allclose(gains, [most, most, most, 0.0], rtol=0.0, atol=1e-9)
    assert gains[0] == gains[1] == gains[2]
    doubted = information_gain(half[:2], target[:2])
    np.testing.assert_allclose(doubted, -0.5 * np.log(4.0 * held * (1.0 - held)), atol=1e-9)


def test_among_equals_a_hash_decides_and_not_the_order_of_the_rows():
    proxy, labels = np.full((1_000, 2), 0.5), np.arange(1_000) % 2
    people = np.arange(1_000) // 4
    chosen = unit_records(ScoredRecords(proxy, proxy, labels, 1), people, unit_key=0)
    for one in (chosen.doubted, chosen.moved):
        assert one.labels.size == 250
        assert 80 < one.labels.sum() < 170
    assert chosen != unit_records(ScoredRecords(proxy, proxy, labels, 2), people, unit_key=0)


def test_tallies_play_units_and_keep_trained_ones_out_of_the_control():
    everyone = part()
    few = part(np.flatnonzero(np.random.default_rng(2).integers(0, 3, RECORDS) == 0))
    seen, unseen = few.doubted, everyone.doubted.without(few.doubted)
    assert 0 < seen.streams.size <= everyone.doubted.streams.size
    tallies = unit_tallies(few, everyone, score=PaperScore(), repetitions=4, key=9)
    assert tallies.game == label_inference(
        seen.target, seen.proxy, seen.labels, score=PaperScore(), repetitions=4, key=9,
        indices=seen.streams,
    )  # fmt: skip
    assert tallies.game.records == seen.streams.size
    assert sum(odds.records for odds in tallies.control_odds) == unseen.streams.size
    assert tallies.control_game.records == unseen.streams.size
    assert tallies.classes == 3
    # Of three classes the labels are counted by themselves; the odds hold those of two.
    alone, others = seen.without(everyone.doubted), unseen
    for found, units in ((tallies.labels, alone), (tallies.control_labels, others)):
        counts = label_counts(units.proxy, units.labels).counts
        np.testing.assert_array_equal(found.counts.sum(axis=0), counts[0])
    evidence = evidence_of(tallies)
    assert evidence.records == seen.streams.size
    assert evidence.control_records == unseen.streams.size
    assert seen.without(everyone.doubted) == UnitRecords.zero(3)
    # Each row is one of those among which the target chose.
    assert tallies.choices == seen.rows.sum() / seen.streams.size > 1.0
    assert tallies.control_choices == unseen.rows.sum() / unseen.streams.size


def test_persons_with_rows_in_both_arms_are_matched_in_neither():
    """Persons 0 to 5 train, 3 to 8 are held out: 3, 4 and 5 stay out of both arms' odds."""
    arms = []
    for first in (0, 3):
        target, proxy = (np.random.default_rng(seed).dirichlet(np.ones(2), 12) for seed in (4, 5))
        people, labels = np.repeat(np.arange(first, first + 6), 2), np.arange(12) % 2
        arms.append(unit_records(ScoredRecords(target, proxy, labels, first), people, unit_key=7))
    tallies = unit_tallies(*arms, score=PaperScore(), repetitions=1, key=0)
    doubted, moved = ([getattr(arm, rule) for arm in arms] for rule in ("doubted", "moved"))
    for odds, arm, kept in (
        (tallies.odds, doubted[0], (0, 1, 2)),
        (tallies.control_odds, doubted[1], (6, 7, 8)),
        (tallies.bet_on.odds, moved[0], (0, 1, 2)),
        (tallies.bet_on.control_odds, moved[1], (6, 7, 8)),
    ):
        chosen = np.isin(arm.streams, [stream_key(7, person) for person in kept])
        alone = odds_tally(arm.target[chosen], arm.proxy[chosen], arm.labels[chosen])
        assert alone.records == 3
        # Each has two rows: the second group.
        assert [group.records for group in odds] == [0, 3, 0, 0, 0]
        assert odds[1] == alone
    assert (tallies.labels, tallies.control_labels) == (None, None)
    # The game and its price count everybody who was trained on.
    assert tallies.game.records == 6
    assert tallies.control_game.records == 3


def test_units_are_grouped_by_1_2_up_to_4_up_to_8_and_more_rows():
    """Rows are counted over shards; the groups hold everybody once."""
    sizes = (1, 2, 3, 4, 5, 8, 9, 40)
    people = np.repeat(np.arange(len(sizes)), sizes)
    half = np.full((people.size, 2), 0.5)
    labels = np.zeros(people.size, dtype=np.int64)
    shards = [
        unit_records(ScoredRecords(half, half, labels, 2).of(rows), people[rows], unit_key=1)
        for rows in np.array_split(np.random.default_rng(1).permutation(people.size), 3)
    ]
    whole = (shards[0] + shards[1] + shards[2]).moved
    named = {stream_key(1, person): size for person, size in enumerate(sizes)}
    assert {int(s): int(r) for s, r in zip(whole.streams, whole.rows, strict=True)} == named
    groups = [sorted(group.rows.tolist()) for group in whole.matched_within(1)]
    assert groups == [[1], [2], [3, 4], [5, 8], [9, 40]]


@pytest.mark.slow
@pytest.mark.parametrize(("prior", "pull"), rest_slow([(0.5, 0.0), (0.1, 1.0)]))
def test_bets_for_persons_are_silent_where_nothing_leaks_and_bets_on_records_are_not(prior, pull):
    """N = 200 audits of 100 people with 100 identical labels each, seed 60; records: 40 of them."""
    random, people = np.random.default_rng(60), np.repeat(np.arange(100), EACH)
    errors, ignored = 0, 0
    for audit in range(200):
        labels = (random.random(100) < prior).astype(np.int64)[people]
        # A target that knows nothing of these labels believes anything.
        belief = two_columns(expit(logit(prior) + random.normal(pull, 1.0, 100))[people])
        world = belief, two_columns(np.full(people.size, prior)), labels
        chosen = unit_records(ScoredRecords(*world, audit), people, unit_key=0).moved
        bound = believed((chosen.target, chosen.proxy, chosen.labels), choices=EACH)
        errors += bound > 0.0
        ignored += audit < 40 and believed(world) > 0.0
    assert_rate_at_most(errors, 200, PURE.significance)
    assert ignored > 6


def split_rows(people, random, *, by_person, memorised=0.0):
    """Persons of 1 to 9 rows, of different rates, which the proxy misjudges alike; two arms."""
    rows = random.integers(1, 10, people)
    truth = expit(random.normal(0.3 * (rows - 5.0), 1.0))
    person = np.repeat(np.arange(people), rows)
    labels = (random.random(people) < truth)[person].astype(np.int64)
    proxy = expit(logit(truth) - 1.0)[person]
    training = (random.random(people)[person] if by_person else random.random(person.size)) < 0.5
    known = np.where(training & (random.random(person.size) < memorised), 6.0, 0.0)
    target = expit(logit(truth[person]) + known * (2 * labels - 1))
    world = two_columns(target), two_columns(proxy), labels
    return (
        unit_records(
            ScoredRecords(*(part[chosen] for part in world), place), person[chosen], unit_key=0
        )
        for place, chosen in enumerate((training, ~training))
    )


@pytest.mark.slow
@pytest.mark.parametrize("by_person", [True, False])
def test_other_people_as_control_turn_drift_into_silence(by_person):
    """The proxy misjudges everybody alike; 1,500 persons of 1 to 9 equal labels, N = 60, seed 64.

    Bets that believe the proxy accuse nearly always, the match at most at the significance; where
    labels are remembered it proves as much. Rows are split by person or at random.
    """
    random, errors, ignored, found = np.random.default_rng(64), 0, 0, []

    def bounds(memorised):
        arms = split_rows(1_500, random, by_person=by_person, memorised=memorised)
        tallies = unit_tallies(*arms, score=PaperScore(), repetitions=1, key=0)
        odds, control_odds = tallies.bet_on.odds, tallies.bet_on.control_odds
        tables = match(odds, control_odds, random=generator(0))
        stakes = stakes_for(PURE, records=tallies.game.records, classes=2)
        everyone = sum(odds[1:], odds[0])
        bets = bets_epsilon_lower(everyone.predictions(), stakes=stakes)
        return matched_epsilon_lower(tables, stakes=stakes), bets

    for _ in range(60):
        bound, bets = bounds(0.0)
        errors += bound > 0.0
        ignored += bets > 0.0
    assert_rate_at_most(errors, 60, PURE.significance)
    assert ignored > 30
    found = [bounds(0.9)[0] for _ in range(5)]
    assert np.mean(found) > 0.5


def test_bad_input_is_named():
    half, labels = np.full((3, 2), 0.5), np.array([0, 1, 1])
    records = ScoredRecords(half, half, labels, 0)
    refused("units", unit_records, records, np.array([1, 2]), unit_key=0)
    with pytest.raises(InvalidInputError, match="labels is 2, but a label is a class"):
        unit_records(ScoredRecords(half, half, labels + 1, 0), labels, unit_key=0)
    with pytest.raises(InvalidInputError, match="classes is 2, but records to add have the same"):
        part() + UnitChoices.zero(2)


def test_persons_are_counted_against_what_the_student_says_of_the_record_that_plays():
    """The target's student takes the proxy's place in the odds that are bet on.

    The proxy's stands beside its labels, of records that the proxy chose.

    Both arms have 60 records of 12 persons of their own. Each is asked about by its place and by
    its person's stream.
    """
    random, streams = np.random.default_rng(6), {}
    arms, expected = [], []
    for arm in range(2):
        target, proxy, first, second = (random.dirichlet((1.0, 1.0), RECORDS) for _ in range(4))
        labels, people = random.integers(0, 2, RECORDS), random.integers(0, 12, RECORDS) + 12 * arm

        def student(who, first=first, second=second, people=people):
            streams.update(zip(people.tolist(), who.tolist(), strict=True))
            return np.stack([first, second], axis=1)

        arms.append(
            unit_records(
                ScoredRecords(target, proxy, labels, 11 + arm), people, unit_key=7, student=student
            )
        )
        moved, doubted = (
            [target[:, 0].tolist().index(one) for one in units.target[:, 0]]
            for units in (arms[arm].moved, arms[arm].doubted)
        )
        counts = label_counts(proxy[doubted], labels[doubted], student=second[doubted])
        expected.append((odds_tally(target[moved], first[moved], labels[moved]), counts))
    assert streams == {person: stream_key(7, person) for person in range(24)}
    tallies = unit_tallies(*arms, score=PaperScore(), repetitions=1, key=2)
    bets = tallies.bet_on.student, tallies.bet_on.control_student
    found = tallies.student, tallies.control_student
    for bet, beside, (odds, counts) in zip(bets, found, expected, strict=True):
        assert functools.reduce(operator.add, bet.odds) == odds
        assert np.array_equal(beside.labels.counts.sum(axis=0), counts.counts[0])
    assert unit_tallies(part(), part(), score=PaperScore(), repetitions=1, key=2).student is None
    # In public, where unreadable labels play, there is no student.
    public = arms[0].with_unread(arms[1].unread())
    assert public.doubted.student.shape == public.moved.student.shape == (24, 0, 2)


def remembered(random, owner):
    """4,000 training and 1,000 other persons of four rows, of which 30% are remembered, by 4.

    Never the row that the earlier model is least sure of. An owner who moves the surest row in
    place of that one pushes it away from 1/2 by 6; one who adds a row of a segment (`drift`) to
    each person lets the model learn what is true there, which a student knows from features.
    """
    arms = []
    for persons, memory in ((4_000, 4.0), (1_000, 0.0)):
        known = random.normal(0.0, 1.5, (persons, 4))
        now = known + random.normal(0.0, 0.5, known.shape)
        labels, known_rows = random.random(known.shape) < expit(now), random.random(known.shape)
        place = (np.abs(known).argmax if owner == "surer" else np.abs(known).argmin)(axis=1)
        spared = np.arange(4) == place[:, None]
        now += memory * ((known_rows < 0.3) & ~spared) * (2 * labels - 1)
        now += (6.0 if owner == "surer" else 0.0) * spared * np.sign(known)
        expected = known
        if owner == "drift":
            labels = np.column_stack([labels, random.random(persons) < expit(2.2)])
            known, now, expected = (
                np.column_stack([each, np.full(persons, at)])
                for each, at in ((known, -2.2), (now, 2.2), (known, 2.2))
            )
        said = [two_columns(expit(each.ravel())) for each in (now, known, expected)]
        records = ScoredRecords(*said[:2], labels.ravel().astype(np.int64), len(arms))
        people = np.repeat(np.arange(persons) + 10_000 * len(arms), labels.shape[1])
        taught = None if owner != "drift" else np.stack([said[2], said[1]], axis=1)
        student = None if taught is None else (lambda _, taught=taught: taught)
        arms.append(unit_records(records, people, unit_key=1, student=student))
    return unit_tallies(*arms, score=PaperScore(), repetitions=1, key=0)


@pytest.mark.parametrize("owner", ["forgets", "surer", "drift"])
def test_an_owner_who_knows_the_rule_hides_nothing(owner):
    """N = 4, seed 65: rules by the proxy, or by log-odds, prove nothing of one of the two.

    What is remembered is no difference of the arms; of the records that the target chose it is.
    """
    random, doubtful = np.random.default_rng(65), 0
    for audit in range(4):
        tallies = remembered(random, owner)
        assert evidence_of(tallies, seed=audit).epsilon_lower > 3.0
        assert not tallies.compare_arms(generator(audit)).doubtful
        doubtful += tallies.bet_on.compare_arms(generator(audit)).doubtful
    assert doubtful > 1 or owner == "drift"


PEOPLE = np.random.default_rng(2).integers(0, 12, 60)


def test_each_record_belongs_to_the_stream_of_its_unit():
    streams, rows = unit_streams(PEOPLE, 60, key=7)
    assert np.all(streams[1:] > streams[:-1])
    assert streams[rows].tolist() == [stream_key(7, person) for person in PEOPLE.tolist()]


def test_units_may_be_words_or_integers_of_any_width():
    words = np.array([f"person {person}" for person in PEOPLE])

    def known(units):
        return [part.tolist() for part in unit_streams(units, 60, key=7)]

    assert known(words) == known(words.astype(object))
    for kind in (np.int8, np.uint64, object):
        assert known(PEOPLE.astype(kind)) == known(PEOPLE)
    assert known(words) != known(PEOPLE)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        (np.array([1, 2]), r"units is \(2,\), but there is one per label"),
        (np.array([1.0, np.nan, 2.0]), "units is nan, but every record"),
        (np.array(["a", None, "b"]), "units is None, but every record"),
        (np.array([1.0, 2.0, 3.0]), r"units is 1\.0, but units are integers"),
        (np.array([None, 1, 2]), "units is None, but every record"),
        (np.array(["a", "", "b"]), "units is '', but every record"),
        (np.array(["a", 1, "b"], dtype=object), "units is 1, but .* of one kind"),
        (np.array([True, False, True]), "units is True, but units are"),
    ],
)
def test_bad_units_are_named(units, message):
    refused(message, unit_streams, units, 3, key=0)
