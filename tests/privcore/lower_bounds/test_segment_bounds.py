"""Segments in which a leak is proved: named by e-BH, each bounded at its share of the level."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binom

from privcore.attacks import (
    Context,
    PaperScore,
    draw_counterfactuals,
    fit_segments,
    learned,
    odds_cells,
    slice_tallies,
)
from privcore.guarantees import ApproxDP
from privcore.lower_bounds import (
    WINDOW_EPSILONS,
    Claim,
    Night,
    SegmentBound,
    false_discovery_qvalues,
    name_segments,
    segment_night,
)
from tests.simulate import PURE, assert_rate_at_most
from tests.support.refusals import refused


def night(log_evalue, *, up_to=0.0, price=0.0):
    """Return a night whose e-value is this at all epsilons up to one, and nothing beyond."""
    wealth = np.where(up_to >= WINDOW_EPSILONS, log_evalue, -10.0)
    return Night(np.tile(wealth, (2, 1)), price)


def test_segments_are_named_by_e_bh_and_bounded_at_named_of_all():
    """Four segments at 0.05: one e-value must be 80 to be named alone, two of them 40 each."""
    low, high = math.log(39.0), math.log(41.0)
    weak = night(-1.0)
    assert not any(one.named for one in name_segments([night(high, up_to=1.0), weak, weak, weak]))
    two = name_segments([night(high, up_to=1.0), night(high, up_to=0.5), weak, weak])
    assert [one.named for one in two] == [True, True, False, False]
    assert [one.epsilon_lower for one in two] == [1.0, 0.5, 0.0, 0.0]
    assert two[0].qvalue == pytest.approx(4 / (2 * 41.0))
    none = name_segments([night(low, up_to=1.0), night(low, up_to=1.0), weak, weak])
    assert not any(one.named for one in none)
    alone = name_segments([night(math.log(81.0), up_to=2.0), weak, weak, weak])
    assert (alone[0].named, alone[0].epsilon_lower) == (True, 2.0)


def test_a_bound_is_the_last_epsilon_before_the_first_that_is_not_rejected():
    """Two of four are named at 0.05, so 40 rejects; what comes after a gap does not count."""

    def stairs(second, third):
        places = (WINDOW_EPSILONS > 0.5).astype(int) + (WINDOW_EPSILONS > 1.0)
        return Night(np.tile(np.log([50.0, second, third])[places], (2, 1)), 0.0)

    for steps, bound in (((41.0, 39.0), 1.0), ((39.0, 41.0), 0.5), ((39.0, 39.0), 0.5)):
        found = name_segments([stairs(*steps), night(math.log(41.0)), night(-1.0), night(-1.0)])
        assert found[0].epsilon_lower == bound
        assert [one.named for one in found] == [True, True, False, False]
    alone = [stairs(79.0, 79.0), night(-1.0), night(-1.0), night(-1.0)]
    alone[0].log_wealth[:, 0] = math.log(81.0)  # named alone, 80 rejects
    found = name_segments(alone)
    assert (found[0].named, found[0].epsilon_lower) == (True, 0.0)


def test_a_segment_is_named_at_its_qvalue():
    nights = [night(math.log(30.0)), night(-1.0)]
    (first, _) = name_segments(nights)
    assert not first.named
    assert name_segments(nights, significance=first.qvalue)[0].named
    sure = name_segments([night(2_000.0), night(-1.0)])[0]
    assert sure.qvalue == pytest.approx(2.0 * math.exp(-700.0), rel=1e-12)


def test_half_of_what_delta_caps_is_the_e_value():
    assert name_segments([night(math.log(41.0), price=1e-4)])[0].named
    assert not name_segments([night(math.log(39.0), price=1e-4)])[0].named
    assert not name_segments([night(50.0, price=0.05)])[0].named  # the price caps it at 20


def test_what_is_not_named_has_no_bound_and_no_segments_are_fine():
    assert name_segments([]) == []
    (one,) = name_segments([night(1.0, up_to=3.0)])
    assert one == SegmentBound(one.qvalue, named=False, epsilon_lower=0.0)
    refused("nights", name_segments, [Night(np.zeros((2, 3)), 0.0)])


def audit(seed, *, leak, claim=PURE):
    """Return of each segment what share of its records leaks, and what is said of it.

    The world moved by `drift`, which the target knows and the proxy does not; training records of a
    tenth of the features' space also moved towards their labels.
    """
    random = np.random.default_rng(seed)
    many, training = 8_000, 6_000
    numbers, codes = random.normal(size=(many, 3)), random.integers(0, 5, (many, 1))
    truth = numbers[:, 0] - 0.5
    drift = 1.5 * (numbers[:, 1] > 0.8) + (codes[:, 0] == 3)
    labels = (random.random(many) < expit(truth + drift)).astype(np.int64)
    trained, leaking = np.arange(many) < training, numbers[:, 2] > 1.0
    moved = leak * (2 * labels - 1) * (trained & leaking)
    logits = (truth + drift + 0.5 * random.normal(size=many) + moved,
              truth + 0.2 * random.normal(size=many))  # fmt: skip
    target, proxy = (np.stack([expit(-one), expit(one)], axis=1) for one in logits)
    context = Context(numbers, codes)
    movement = np.abs(learned(target) - learned(proxy))[:, 0]
    tallies = []
    for tree in fit_segments(context, movement, share=0.1):
        groups, parts = tree.segments(context), []
        values = [f"{place:02d}" for place in range(len(tree.leaves))]
        for control, rows in ((False, np.flatnonzero(trained)), (True, np.flatnonzero(~trained))):
            arrays = target[rows], proxy[rows], labels[rows]
            dealt = draw_counterfactuals(*arrays, score=PaperScore(), key=1)
            parts.append(slice_tallies(dealt, [odds_cells(*arrays)], groups[rows], values=values,
                                       control=control, repetitions=1))  # fmt: skip
        both = parts[0] + parts[1]
        tallies += [
            (float(leaking[groups == place].mean()), both.tallies(value, classes=2))
            for place, value in enumerate(values)
            if np.any(groups == place)
        ]
    nights = [
        segment_night(one, claim=claim, segments=len(tallies), random=np.random.default_rng(0))
        for _, one in tallies
    ]
    return [share for share, _ in tallies], name_segments(nights, significance=claim.significance)


@pytest.mark.slow
def test_without_a_leak_no_segment_is_named():
    """40 audits of some 29 segments at level 0.05, each in a world that moved: judged at 1e-6."""
    named = sum(any(one.named for one in audit(seed, leak=0.0)[1]) for seed in range(40))
    assert binom.sf(named - 1, 40, 0.05) > 1e-6
    assert named <= 1  # seen: 0


@pytest.mark.slow
@pytest.mark.parametrize("claim", [PURE, Claim(ApproxDP(), 1e-6)])
def test_a_leak_of_a_sixth_of_the_records_is_named_where_it_is(claim):
    """8 audits; what is named holds more than its share of what leaks."""
    for seed in range(8):
        shares, found = audit(seed, leak=1.5, claim=claim)
        named = [(share, one.epsilon_lower) for share, one in zip(shares, found, strict=True)
                 if one.named]  # fmt: skip
        assert max(named)[0] > 0.6
        assert max(bound for _, bound in named) > 0.5
        assert min(share for share, _ in named) > 0.1


def rejected(evalues, level):
    """The e-BH procedure, as Wang and Ramdas (2022) state it: the most that can be rejected."""
    e = sorted(evalues, reverse=True)
    most = max((k for k in range(1, len(e) + 1) if e[k - 1] >= len(e) / (k * level)), default=0)
    return {i for i, value in enumerate(evalues) if most and value >= e[most - 1]}


@given(
    st.lists(
        st.one_of(st.floats(0.0, 1e4), st.sampled_from([0.0, 20.0, np.inf])), min_size=1, max_size=7
    )
)
@settings(max_examples=200, deadline=None)
def test_qvalues_say_what_the_procedure_rejects_at_every_level(evalues):
    q = false_discovery_qvalues(evalues)
    for level in (0.01, 0.05, 0.2, 0.5, 0.99):
        # A double may fall on the other side of a level that it equals.
        called = {i for i, value in enumerate(q) if value <= level * (1.0 - 1e-12)}
        nearly = {i for i, value in enumerate(q) if value <= level * (1.0 + 1e-12)}
        assert called <= rejected(evalues, level) <= nearly


def test_by_hand_and_in_any_order():
    expected = {100.0: 0.04, 40.0: 0.05, 2.0: 2.0 / 3.0, 0.0: 1.0}
    for order in itertools.permutations(expected):
        np.testing.assert_allclose(
            false_discovery_qvalues(order), [expected[e] for e in order], rtol=1e-12
        )
    assert false_discovery_qvalues([]).shape == (0,)
    assert false_discovery_qvalues([3.0])[0] == pytest.approx(1.0 / 3.0)


@pytest.mark.parametrize("shared", [True, False])
def test_calls_are_false_at_most_as_often_as_promised_however_models_depend(shared):
    """20 models of which 14 keep their claim; their e-values are one and the same, or independent.

    N = 4,000 nights, seed 31: calls at q <= 0.2. The expected share of false calls is at most
    0.2 * 14/20; the worst dependence for BH on p-values, one chance for all, does not break it.
    """
    random = np.random.default_rng(31)
    wrong, any_wrong = 0.0, 0
    for _ in range(4_000):
        drawn = random.random(1 if shared else 14)
        true = np.broadcast_to(0.5 / np.sqrt(drawn), 14)  # the mean of 1/(2 sqrt(p)) is 1
        q = false_discovery_qvalues(np.concatenate([true, np.full(6, 30.0)]))
        called = q <= 0.2
        wrong += called[:14].sum() / max(called.sum(), 1)
        any_wrong += called[:14].any()
        assert called[14:].all()
    assert wrong / 4_000 < 0.14
    if shared:
        assert any_wrong > 0
        assert_rate_at_most(any_wrong, 4_000, 0.2)


@pytest.mark.parametrize("evalues", [[1.0, -1e-9], [np.nan, 1.0], [-np.inf]])
def test_what_is_no_evalue_is_refused(evalues):
    refused("an e-value is at least 0", false_discovery_qvalues, evalues)
