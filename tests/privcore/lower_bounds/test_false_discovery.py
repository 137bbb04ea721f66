import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcore.exceptions import InvalidInputError
from privcore.lower_bounds import false_discovery_qvalues
from tests.simulate import assert_rate_at_most


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
    with pytest.raises(InvalidInputError, match="an e-value is at least 0"):
        false_discovery_qvalues(evalues)
