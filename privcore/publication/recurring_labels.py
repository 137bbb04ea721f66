"""The public test of labels that recur: one question a night, paid once until the first alarm.

tallies -> exact_night -> ExactNight (secret) -> RecurringTest.answer -> NightAnswer (public)
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from privcore.attacks import Tallies
from privcore.lower_bounds.claims import Claim
from privcore.publication.above_threshold import ThresholdTest
from privcore.publication.noisy_wealth import NoisyWealth, with_noise
from privcore.publication.premises import premise_bets
from privcore.publication.reach import (
    PublicTest,
    chance_right,
    largest_refuted,
    least_leak_seen,
)
from privcore.publication.statement import DOUBTFUL, evidence_of, premises_of, tested

_PARTS = 2
"""Alarms and the figure against what an alarm assumes share the privacy loss evenly."""


@dataclass(frozen=True, slots=True)
class ExactNight:
    """Input of the test for one night. It is as secret as the labels.

    Attributes:
        records: number of training records in the tables.
        control: number of holdout records in the tables.
        epsilon_ceiling: the largest declared epsilon for which as many records could alarm, if
            every prediction on training records were right and half of those on holdout records.
        epsilon_detectable: about the least leak of every training label that would alarm on this
            night in five of six tests (`least_leak_seen`); None where a leak of 12 would not.
        threshold: what the figure is compared with, before noise; None if delta allows no alarm.
        evidence: the exact figure against the claim.
        premises: the exact figure against what that figure assumes.
    """

    records: int
    control: int
    epsilon_ceiling: float
    epsilon_detectable: float | None
    threshold: int | None
    evidence: NoisyWealth
    premises: NoisyWealth


@dataclass(frozen=True, slots=True)
class NightAnswer:
    """Public answer about a night.

    Attributes:
        alarm: whether the night refutes its declaration; then the test is over.
        premises: on an alarm, the figure against what the alarm assumes, with noise.
    """

    alarm: bool
    premises: NoisyWealth | None

    @property
    def premises_pvalue(self) -> float | None:
        """The p-value of what an alarm assumes; None without an alarm."""
        return None if self.premises is None else self.premises.pvalue(DOUBTFUL)

    @property
    def doubtful(self) -> bool:
        """True if there is an alarm and what it assumes is doubtful: then nothing is concluded."""
        pvalue = self.premises_pvalue
        return pvalue is not None and pvalue <= DOUBTFUL


@dataclass(frozen=True, slots=True)
class RecurringTest:
    """A `ThresholdTest` at half of the privacy loss, and one figure against its assumptions.

    **Privacy.** All answers together are (`epsilon_public`, 0)-differentially private for labels.
    The alarms cost a half (`ThresholdTest`). The figure that an alarm comes with moves by at most
    65 units with one label (`premises_log_wealth`), is published at most once, and has noise for
    the other half. The two add up, also though the second is only asked for because of the first.

    **Size.** A true claim is refuted with at most the probability of any alarm, the significance:
    the second figure can only take a refutation back.

    Attributes:
        epsilon_public: privacy loss of all answers together for one label, positive.
        significance: allowed probability that true claims are ever refuted.
        nights: the largest number of nights, fixed before the first.
    """

    epsilon_public: Fraction
    significance: float
    nights: int

    def __post_init__(self) -> None:
        """Refuse what has no answer."""
        _ = self.alarms

    @property
    def each(self) -> Fraction:
        """Privacy loss of the alarms together, and of the figure against their assumptions."""
        return Fraction(self.epsilon_public) / _PARTS

    @property
    def alarms(self) -> ThresholdTest:
        """The test whose alarms are published."""
        return ThresholdTest(self.each, self.significance, self.nights)

    def answer(
        self,
        evidence: NoisyWealth,
        premises: NoisyWealth,
        *,
        key: bytes,
        test: str,
        night: tuple[str | int, ...],
    ) -> NightAnswer:
        """Return the answer for a night. After the first alarm the test must not be asked again."""
        if not self.alarms.alarms(evidence, key=key, test=test, night=night):
            return NightAnswer(alarm=False, premises=None)
        asked = NoisyWealth(self.each, premises.gap, premises.figure)
        return NightAnswer(alarm=True, premises=with_noise(asked, key, "premises", test, *night))


def exact_night(
    tallies: Tallies, *, claim: Claim, test: RecurringTest, unread_allowed: int = 0
) -> ExactNight:
    """Return what a recurring test is asked about one night.

    *Assumes* what `exact_statement` assumes.
    """
    claim = replace(claim, significance=test.significance)
    epsilon, tables, stakes = tested(tallies, claim, nights=test.nights)
    alarms = test.alarms
    rates = alarms.threshold_rate, alarms.night_rate

    def refutes(wealth: NoisyWealth) -> bool:
        bar = alarms.threshold(wealth.gap, wealth.price)
        return bar is not None and wealth.figure >= bar

    public = PublicTest(
        lambda filled, declared: evidence_of(filled, declared, stakes, alarms.epsilon_alike),
        refutes,
        deviation=math.sqrt(2.0) * math.hypot(*(1.0 / float(rate) for rate in rates)),
    )
    evidence = evidence_of(tables, epsilon, stakes, alarms.epsilon_alike)
    return ExactNight(
        records=int(tables.records.sum()),
        control=int(tables.control.sum()),
        epsilon_ceiling=largest_refuted(tables, public),
        epsilon_detectable=least_leak_seen(
            tables,
            public,
            epsilon=epsilon,
            stakes=stakes,
            right=chance_right(tallies),
        ),
        threshold=alarms.threshold(evidence.gap, evidence.price),
        evidence=evidence,
        premises=premises_of(
            premise_bets(tallies), test.each, unread=tallies.unread_records - unread_allowed
        ),
    )
