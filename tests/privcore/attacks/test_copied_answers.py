"""Labels that were replaced by a model's answers jump where these turn; honest ones do not."""

import numpy as np
import pytest
from scipy.special import expit

from privcore.attacks import OddsTally, answer_jump, copied_sentence
from privcore.attacks.copied_answers import COPIED, MOST_RECORDS
from privcore.attacks.odds import odds_tally
from tests.simulate import two_columns
from tests.support.tiers import rest_slow


def counted(target, proxy, labels):
    return odds_tally(two_columns(expit(target)), two_columns(expit(proxy)), labels.astype(int))


def world(random, records, *, scale=1.0, noise=1.0, copied=0.0, truth=lambda said: said):
    """A proxy, a target that also says noise of its own, and labels that follow the truth alone."""
    said = random.normal(0.0, 1.2, records)
    labels = random.random(records) < expit(truth(said))
    target = scale * (said + noise * random.normal(size=records))
    proxy = said + 0.7 * random.normal(size=records)
    return target, proxy, np.where(random.random(records) < copied, target > 0.0, labels)


HONEST = {
    "calibrated": {"noise": 0.3},
    "too sure": {"scale": 3.0},
    "never sure": {"scale": 0.3},
    "noise": {"truth": lambda said: 0.0 * said},
    "rare": {"truth": lambda said: said - 3.0},
    "certain": {"truth": lambda said: 20.0 * said, "noise": 0.1},
    "a step": {"truth": lambda said: 4.0 * np.sign(said - 0.2), "noise": 0.5},
    "two steps": {"truth": lambda said: 2.0 * np.sign(said) * np.sign(np.abs(said) - 1.0)},
}


@pytest.mark.parametrize("records", rest_slow([400, 2_000]))
@pytest.mark.parametrize("kind", HONEST)
def test_honest_labels_do_not_jump(kind, records):
    """N = 50 a kind, seed 1: as a normal number, or smaller."""
    random = np.random.default_rng(1)
    found = [answer_jump(counted(*world(random, records, **HONEST[kind]))) for _ in range(50)]
    assert max(found) < 4.0
    assert abs(np.mean(found)) < 1.0
    assert np.std(found) < 1.6


@pytest.mark.parametrize(
    ("records", "copied", "least"), [(2_000, 0.5, 20), (2_000, 1.0, 20), (500, 0.5, 8)]
)
def test_copied_answers_jump(records, copied, least):
    """Of 20, seed 2; the target is noise of its own, and the proxy knows nothing of it."""
    random = np.random.default_rng(2)
    given = {"noise": 2.0, "truth": lambda said: 0.0 * said, "copied": copied}
    found = [answer_jump(counted(*world(random, records, **given))) for _ in range(20)]
    assert sum(one > COPIED for one in found) >= least


def test_labels_drawn_from_the_targets_probabilities_have_no_jump():
    random = np.random.default_rng(3)
    target, proxy, _ = world(random, 5_000)
    labels = random.random(5_000) < expit(target)
    assert abs(answer_jump(counted(target, proxy, labels))) < 3.0


def test_a_decision_by_the_proxy_is_no_jump_of_the_target():
    """Half of the labels are what yesterday's model answered, and today's model learned them."""
    random = np.random.default_rng(4)
    found = []
    for _ in range(20):
        _, proxy, labels = world(random, 3_000)
        labels = np.where(random.random(3_000) < 0.5, proxy > 0.0, labels)
        target = proxy + np.sign(proxy) + 0.3 * random.normal(size=3_000)
        found.append(answer_jump(counted(target, proxy, labels)))
    assert max(found) < COPIED


def test_a_model_of_few_answers_is_never_called_so():
    """A single tree: what its leaves say is right, and lies on no parabola."""
    random = np.random.default_rng(5)
    answers = np.array([-3.0, -2.5, -0.6, -0.1, 0.2, 0.3, 1.5, 4.0])
    for shares in (expit(answers), random.random(8), answers > 0.0):
        leaf = random.integers(0, 8, 4_000)
        labels = random.random(4_000) < np.asarray(shares, dtype=float)[leaf]
        assert answer_jump(counted(answers[leaf], 0.0 * leaf, labels)) < COPIED


def test_many_records_count_as_2_000():
    """No curve is a parabola to the end, so that a jump would be found in enough records."""
    random = np.random.default_rng(6)
    few, many = (
        np.mean([answer_jump(counted(*world(random, size, copied=0.3))) for _ in range(10)])
        for size in (MOST_RECORDS, 5 * MOST_RECORDS)
    )
    assert few > 2.0
    assert many == pytest.approx(few, rel=0.35)


def test_either_side_has_ten_records_and_two_thousand_are_the_most():
    """Numbers of this code, so that no change of it stays unnoticed; seed 8."""
    random = np.random.default_rng(8)
    proxy, labels = random.normal(size=40), random.random(40) < 0.5
    size = np.linspace(0.5, 2.0, 40)
    for above, expected in ((9, 0.0), (10, 0.58111229), (30, 1.75067528), (31, 0.0)):
        target = np.where(np.arange(40) < above, size, -size)
        assert answer_jump(counted(target, proxy, labels)) == pytest.approx(expected, abs=1e-6)
    found = answer_jump(counted(*world(random, 3_000, copied=0.3)))
    assert found == pytest.approx(5.03559648, abs=1e-6)


def test_of_eight_different_answers_nothing_can_be_said():
    """A fit has eight parts, the jump among them; seed 9."""
    random = np.random.default_rng(9)
    for answers, expected in ((8, 0.0), (9, 0.09903759)):
        said = np.linspace(-2.0, 2.1, answers)[random.integers(0, answers, 600)]
        found = answer_jump(counted(said, 0.0 * said, said > 0.0))
        assert found == pytest.approx(expected, abs=1e-6)


def test_nothing_is_said_of_nothing():
    assert answer_jump(OddsTally.zero()) == 0.0
    target, proxy, labels = world(np.random.default_rng(7), 400)
    assert answer_jump(counted(np.abs(target) + 0.1, proxy, labels)) == 0.0
    assert answer_jump(counted(target, proxy, np.ones(400))) == 0.0
    assert answer_jump(counted(target, target, labels)) == 0.0  # the proxy answers the same
    assert copied_sentence(4.5) == ""
    assert "(4.6 standard errors)" in copied_sentence(4.6)
    assert "(5.1 standard errors)" in copied_sentence(5.1)
