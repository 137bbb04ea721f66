"""A night of a public test over nights, as it is stored and signed: an answer, and no figure."""

from fractions import Fraction

from pydantic import Field

from privcore.publication import RecurringTest, exactly
from workers.publication.statement_row import PublicVerdict, PublishedRow


class ThresholdNight(PublishedRow):
    """One answer of a test over nights (`RecurringTest`). The answer alone reads labels.

    `epsilon_public` is the loss of all answers of the test together, and `significance` is the
    chance that the test ever refutes declarations that are all true.
    """

    test_id: str = Field(description="Name of the test, 32 random hexadecimal digits.")
    test_nights: int = Field(description="Largest number of nights of the test.")
    test_night: int = Field(description="Which question of the test this is, from 1 on.")
    threshold: int | None = Field(
        description="What the evidence is compared with, before noise. Null if delta allows none."
    )
    alarm: bool = Field(description="Whether the noisy evidence reached the noisy threshold.")
    premises_figure: int | None = Field(
        description="On an alarm: log-wealth against its assumptions in units of gap/64, with "
        "noise. Null without an alarm."
    )
    verdict: PublicVerdict = Field(
        description="violated; not_refuted; doubtful (what the test assumes is), or vacuous."
    )
    premises_pvalue: float | None = Field(
        description="P-value of what an alarm assumes; at 0.1 or less nothing is concluded. Null "
        "without an alarm."
    )

    @property
    def charge(self) -> Fraction:
        """Privacy loss that this answer adds: the first one pays for all answers of the test."""
        return exactly(self.epsilon_public) if self.test_night == 1 else Fraction()

    @property
    def ends_test(self) -> bool:
        """True if no further night can be asked about."""
        return self.alarm or self.test_night == self.test_nights

    @property
    def test(self) -> RecurringTest:
        """The test that the night belongs to."""
        return RecurringTest(exactly(self.epsilon_public), self.significance, self.test_nights)


def night_verdict(*, alarm: bool, doubtful: bool, vacuous: bool) -> PublicVerdict:
    """Return what follows from an answer; of a vacuous claim nothing does."""
    if vacuous:
        return PublicVerdict.VACUOUS
    if not alarm:
        return PublicVerdict.NOT_REFUTED
    return PublicVerdict.DOUBTFUL if doubtful else PublicVerdict.VIOLATED
