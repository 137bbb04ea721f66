"""A model's published nights: revisions that disagree, and what nights prove together."""

import dataclasses
import datetime as dt
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privcore.publication import NoisyWealth, discrete_laplace
from privcore.publication.keyed_noise import KeyedBits
from privcore.publication.noisy_wealth import SENSITIVITY, UNITS, with_noise
from tests.support.statements import statement
from workers.publication.erased import erased
from workers.publication.published_nights import STANDING_SHARE, nights_of

FIRST = dt.date(2026, 11, 1)


def night(number: int, log_evalue: float | None = 0.0, **changed: Any) -> Any:
    given = {"model": "ads", "day": FIRST + dt.timedelta(days=number), "log_evalue": log_evalue}
    return statement(number, **given | changed)


def standing(nights: list[Any]) -> list[bool]:
    return [one.standing for one in nights_of(nights, "ads")]


def test_nights_are_those_of_the_model_in_the_order_of_days() -> None:
    published = [night(2), night(0), night(1, model="other"), night(1), night(0, revision=2)]
    found = nights_of(published, "ads")
    assert [one.first.day.day for one in found] == [1, 2, 3]
    assert [len(one.statements) for one in found] == [2, 1, 1]
    assert found[0].first.revision == 1
    assert nights_of(published, "none") == []


def test_the_first_statement_of_a_day_counts() -> None:
    """Else anybody who may publish could ask again until noise acquits, or accuses."""
    bad, good = night(0, evidence=90_000), night(0, revision=2)
    assert [bad.verdict, good.verdict] == ["violated", "not_refuted"]
    assert nights_of([bad, good], "ads")[0].first == bad
    assert nights_of([good, bad], "ads")[0].first == good


def test_nights_that_refute_nothing_alone_refute_together() -> None:
    """Eight e-values of e^2; a night without an e-value, or a revision, counts for nothing."""
    assert standing([night(n, 2.0) for n in range(8)]) == [False] * 2 + [True] * 6
    assert not any(standing([night(n, 0.5) for n in range(3)]))
    silent = [night(n, None) for n in range(3)]
    assert standing([*silent, *(night(n, 2.0) for n in range(3, 11))])[-1]
    assert standing(silent) == [False] * 3
    rolled = [night(n, 0.0) for n in range(8)]
    rolled += [night(n, 20.0, revision=2) for n in range(8)]
    assert not any(standing(rolled))


def windows(nights: list[Any]) -> list[tuple[int, ...]]:
    return [one.windows for one in nights_of(nights, "ads")]


def test_the_last_days_refute_by_themselves() -> None:
    """Forty nights that lose, then four e-values of e^2: a week sees what the standing does not."""
    lost = [night(n, -0.5) for n in range(40)]
    loud = [night(40 + n, 2.0) for n in range(4)]
    assert windows([*lost, *loud])[39:] == [(), (), (), (7,), (7, 28)]
    assert not any(standing([*lost, *loud]))
    spread = [night(8 * n, 2.0) for n in range(4)]
    assert windows(spread)[-1] == (28,)
    assert windows([night(8 * n, 1.5, labels_recur=True) for n in range(4)]) == [()] * 4


def test_nights_beside_one_holdout_are_averaged_in_public_too() -> None:
    """Windows and standing, from the first night on whose holdout is an earlier one's."""
    fresh = [night(n, 2.0) for n in range(8)]
    golden = [night(n, 2.0, holdout_sketch=fresh[0].holdout_sketch) for n in range(8)]
    assert windows(fresh)[-1] == (7, 28)
    assert standing(fresh)[-1]
    assert windows(golden) == [()] * 8
    assert not any(standing(golden))
    late = [*fresh[:7], night(7, 2.0, holdout_sketch=fresh[0].holdout_sketch)]
    assert windows(late)[6:] == [(7, 28), (7,)]  # the last seven nights lack the first
    assert standing(late)[6:] == [True, True]  # what was proved stays proved
    gone = erased(golden[0], tombstone="{}", reason="r", time=golden[0].published_at)
    assert gone.holdout_sketch == golden[0].holdout_sketch
    told = [night(n, 2.0, holdout_sketch=None) for n in range(8)]
    assert windows(told) == windows(fresh)
    assert standing(told) == standing(fresh)


def test_a_window_counts_what_the_standing_counts() -> None:
    """Doubtful nights at most 1, nights without an e-value nothing, erased ones end it."""
    loud = [night(n, 2.0) for n in range(3)]
    assert windows(loud)[-1] == (7, 28)
    assert windows([*loud[:2], night(2, 9.0, premises_pvalue=0.05)])[-1] == windows(loud[:2])[-1]
    assert windows([*loud, night(3, None)])[-1] == (7, 28)
    assert windows([night(0, None)]) == [()]
    other = night(2, 2.0, method_version="0")
    assert windows([*loud[:2], other])[-1] == ()
    gone = erased(loud[1], tombstone="{}", reason="r", time=loud[1].published_at)
    assert windows([loud[0], gone, loud[2]])[-1] == ()
    assert windows([night(0, 2.0, significance=1e-9), *loud[1:]])[-1] == ()


@pytest.mark.slow
def test_a_kept_declaration_is_seldom_refuted_by_a_window() -> None:
    """1,000 windows of 7 nights, seed 52, each e-value e^2 or e^-2 and 1 on the mean.

    At most 0.05 are refuted (binomial test at 1e-6), and some are: the test has power.
    """
    random = np.random.default_rng(52)
    found = 0
    for _ in range(1_000):
        won = random.random(7) < 1.0 / (1.0 + math.e**2)
        nights = [night(n, 2.0 if one else -2.0) for n, one in enumerate(won)]
        found += bool(windows(nights)[-1])
    assert 0 < found <= stats.binom.isf(1e-6, 1_000, 0.05)


def test_a_doubtful_night_only_weakens() -> None:
    doubtful = [night(n, 9.0, premises_pvalue=0.05) for n in range(8)]
    assert not any(standing(doubtful))
    weak = [night(0, 2.0), night(1, 9.0, premises_pvalue=0.1), night(2, 2.0)]
    assert standing(weak) == [False] * 3
    assert standing([night(0, 2.0), night(1, 9.0, premises_pvalue=0.11)])[-1]
    weaker = [night(0, 2.0), night(1, -9.0, premises_pvalue=0.05), night(2, 2.0), night(3, 2.0)]
    assert not standing(weaker)[-1]
    assert standing([weaker[0], *weaker[2:]])[-1]


def test_the_strictest_significance_of_the_nights_counts() -> None:
    nights = [night(n, 2.0) for n in range(8)]
    nights[7] = night(7, 2.0, significance=1e-9)
    assert not any(standing(nights))


@pytest.mark.slow
def test_a_kept_declaration_is_seldom_refuted_by_its_nights_together() -> None:
    """400 models of 30 nights, seed 51, whose wealth is e or 1/e each night and 1 on the mean.

    Noise included, at most STANDING_SHARE of 0.05 are ever refuted (binomial test at 1e-6).
    """
    models, count, rate = 400, 30, Fraction(1, 20) / SENSITIVITY
    random = np.random.default_rng(51)
    gap, ever = 0.04, 0
    figures = np.where(random.random((models, count)) < 1.0 / (1.0 + math.e), 1.0, -1.0)
    for model in range(models):
        nights = []
        for number in range(count):
            figure = math.floor(UNITS * figures[model, number] / gap)
            exact = NoisyWealth(Fraction(1, 20), gap, figure)
            noisy = dataclasses.replace(
                exact,
                figure=exact.figure
                + discrete_laplace(rate, KeyedBits(bytes(32), "nights", model, number)),
            )
            nights.append(night(number, noisy.log_evalue))
        ever += standing(nights)[-1]
    limit = STANDING_SHARE * 0.05
    assert stats.binomtest(ever, models, limit, alternative="greater").pvalue > 1e-6


def test_the_noise_of_a_night_is_its_own() -> None:
    exact = NoisyWealth(Fraction(1, 20), 0.04, 100)
    one, other = (with_noise(exact, bytes(32), "evidence", name) for name in ("a", "b"))
    assert one.figure != other.figure


def gone(made: Any) -> Any:
    return erased(made, tombstone="{}", reason="asked for", time=made.published_at)


@pytest.mark.slow
def test_of_a_standing_with_an_erased_night_nothing_is_said() -> None:
    """Erasing nights for a model would accuse it, and erasing nights against it would acquit."""
    nights = [night(n, 2.0) for n in range(300)]
    whole = standing(nights)
    assert whole[2:128] == [True] * 126
    for place in (0, 5, 150):
        changed = [*nights]
        changed[place] = gone(nights[place])
        found = standing(changed)
        assert found[:place] == whole[:place]
        assert found[place : place + 128] == [None] * 128
        assert found[place + 128 :] == whole[place + 128 :]
    few = [*nights]
    few[5] = gone(night(5, None))  # it had no e-value, so it did not count before either
    assert None not in standing(few)


def test_a_revision_does_not_count_where_the_first_statement_was_erased() -> None:
    found = nights_of([gone(night(0)), night(0, 9.0, revision=2)], "ads")
    assert [one.standing for one in found] == [None]
    assert found[0].first == gone(night(0))
