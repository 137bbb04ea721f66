"""One question over many nights, "is the declaration refuted?", paid once: when the answer is yes.

A statement a night costs a recurring label its privacy loss every night. Here each night is
compared with a noisy threshold, and the answer is "not refuted", without a figure, until the first
alarm. All silent nights and the alarm cost epsilon together, whatever their number.

    NoisyWealth (secret) -> ThresholdTest.alarms -> bool (public)
"""

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.publication.keyed_noise import KeyedBits, discrete_laplace, discrete_laplace_tail
from privcore.publication.noisy_wealth import SENSITIVITY, UNITS, NoisyWealth

_OF_THRESHOLD = Fraction(2, 5)
"""Share of epsilon for the threshold's noise. Lyu, Su, Li: best at 1 : 2^(2/3) for one alarm."""
_LOW_THRESHOLD = 0.1
"""Share of the significance for a threshold whose noise is very negative."""
_ROUNDING = 1e-9
_NEGLIGIBLE = 40.0
"""Nats: noise above this many scales is counted as if it were there."""
_BLOCK = 0.01
"""Nats: noise within a block of this length counts as if at the block's lower end."""
_HIGHEST = 1 << 40


@dataclass(frozen=True, slots=True)
class ThresholdTest:
    """A test that runs over nights until its first alarm; AboveThreshold of one alarm.

    Night t has the exact figure D_t = floor(64 log W_t/gap_t), which one label moves by at most 65
    (`exact_statement`), and a threshold T_t that no label changes. Let rho be the noise of the
    threshold, drawn once, and nu_t that of the night, drawn anew each night. Night t alarms if
    D_t + nu_t >= T_t + rho, and then the test is over. P(rho = j) is proportional to
    exp(-e1 |j|/65), P(nu_t = j) to exp(-e2 |j|/130), and e1 + e2 = `epsilon_public`.

    **Privacy.** All answers together are (e1 + e2, 0)-differentially private for labels, given the
    models, also for a label that takes part in every night (Dwork, Roth 2014, Theorem 3.23, with
    the noise of Lyu, Su, Li 2017, Theorem 2). *Proof.* Let D and D' be the figures for two values
    of one label, so |D_t - D'_t| <= 65. At rho = z night t is silent with
    P(nu_t < T_t + z - D_t) <= P(nu_t < T_t + z + 65 - D'_t), that is at most as probably as for D'
    at rho = z + 65. The alarm, nu_t >= T_t + z - D_t, is at most e^e2 times as probable as
    nu_t >= T_t + z - D_t + 130, which implies the alarm for D' at rho = z + 65. And rho = z is at
    most e^e1 times as probable as rho = z + 65. Sum over z: silence costs e1, the alarm e2 more.
    Figures, thresholds and noise are integers, so the steps hold exactly. A night's model, plan and
    threshold may depend on earlier answers.

    **Size.** The probability that a model whose claim is true ever alarms is at most the
    significance. *Proof*, by the union bound over at most `nights` nights. Each W_t needs
    E[W_t] <= 1 and may depend on other nights in any way, as it does where labels recur (Ville's
    inequality would need E[W_t] <= 1 given the earlier nights). Let P(rho < -B) be at most a tenth
    of the significance. Given the noise, D_t >= T_t + rho - nu_t has a probability of at most
    min(1, exp(-gap_t (T_t + rho - nu_t)/64)) by Markov's inequality. T_t is the least for which the
    mean of that over the noise, where rho >= -B, is at most the rest of the significance divided by
    `nights`, less delta's price.

    The answer "no alarm" does *not* say that the declaration is true. No p-value, e-value or size
    of a leak follows from the answers. A figure that is published after the alarm needs noise of
    its own and costs its own epsilon: the noise of this test must not be used again.

    Attributes:
        epsilon_public: privacy loss of all answers together for one label, positive.
        significance: allowed probability that a true claim is ever refuted.
        nights: the largest number of nights, fixed before the first; more cost power.
    """

    epsilon_public: Fraction
    significance: float
    nights: int

    def __post_init__(self) -> None:
        """Refuse what has no answer."""
        if self.epsilon_public <= 0:
            raise InvalidInputError("epsilon_public", str(self.epsilon_public), "it is positive")
        if not 0.0 < self.significance < 1.0:
            raise InvalidInputError("significance", self.significance, "it is between 0 and 1")
        if self.nights < 1:
            raise InvalidInputError("nights", self.nights, "it is at least 1")

    @property
    def threshold_rate(self) -> Fraction:
        """Rate of the threshold's noise, e1/65."""
        return self.epsilon_public * _OF_THRESHOLD / SENSITIVITY

    @property
    def night_rate(self) -> Fraction:
        """Rate of each night's noise, e2/130."""
        return self.epsilon_public * (1 - _OF_THRESHOLD) / (2 * SENSITIVITY)

    @property
    def epsilon_alike(self) -> Fraction:
        """The loss at which one figure has noise of the same scale as both noises here together."""
        return SENSITIVITY / (1 / self.threshold_rate + 1 / self.night_rate)

    def threshold(self, gap: float, price: float = 0.0) -> int | None:
        """Return T_t, in units of gap/64; None if no evidence may alarm, since delta costs it all.

        Args:
            gap: the night's gap in nats, positive.
            price: the share of the significance that delta costs on that night.
        """
        return _threshold(self, gap, price)

    def alarms(
        self, exact: NoisyWealth, *, key: bytes, test: str, night: tuple[str | int, ...]
    ) -> bool:
        """Return whether a night alarms. After the first alarm it must not be asked again.

        The threshold's noise is drawn for the test alone: it has to be the same on all nights,
        whatever their labels are. It must be drawn once, so no two tests may have one name. The
        night's noise is drawn for the night, for what it read and for the exact figure, because
        noise that labels do not enter would cancel between two versions of them
        (`publish_statement`). An answer is kept and served again; a night that is asked about anew
        with other labels is another night of the test.

        Args:
            exact: the night's evidence, from `exact_night`.
            key: secret, of 32 bytes or more.
            test: name of the test, random, for this test alone.
            night: what the night's noise is drawn for: the night, and digests of models and labels.
        """
        bar = self.threshold(exact.gap, exact.price)
        level = discrete_laplace(self.threshold_rate, KeyedBits(key, "threshold", test))
        drawn = KeyedBits(key, "above threshold", test, *night, exact.figure)
        noise = discrete_laplace(self.night_rate, drawn)
        return bar is not None and exact.figure + noise >= bar + level


@functools.lru_cache(maxsize=64)
def _threshold(test: ThresholdTest, gap: float, price: float) -> int | None:
    """Return the least bar at which a night's share of the significance is kept."""
    rate, gain = test.threshold_rate, gap / UNITS
    lowest = math.ceil(-math.log(_LOW_THRESHOLD * test.significance) / float(rate))  # B
    allowed = (test.significance - discrete_laplace_tail(rate, lowest)) / test.nights - price
    low, high = -1, 1  # rejected, and to be found
    if allowed <= 0.0:
        return None
    noise = _Noise.of(test, lowest, gain)
    while noise.false_alarm(high) > allowed:
        low, high = high, 2 * high
        if high > _HIGHEST:
            return None
    while high - low > 1:
        between = (low + high) // 2
        if noise.false_alarm(between) > allowed:
            low = between
        else:
            high = between
    return high


@dataclass(frozen=True, slots=True, eq=False)
class _Noise:
    """The noise of a threshold where rho >= -B, in blocks; each counts as if at its lower end.

    Attributes:
        values: lower ends of the blocks.
        chances: of each block.
        beyond: chance of noise above all blocks.
        gain: what one unit of a figure is worth, in nats.
        rate: of a night's noise.
    """

    values: NDArray[np.int64]
    chances: NDArray[np.float64]
    beyond: float
    gain: float
    rate: float

    @classmethod
    def of(cls, test: ThresholdTest, lowest: int, gain: float) -> "_Noise":
        rate, night_rate = float(test.threshold_rate), float(test.night_rate)
        step = max(int(_BLOCK / max(rate, gain, night_rate)), 1)
        below, above = -(-lowest // step), math.ceil((lowest + _NEGLIGIBLE / rate) / step)
        values = step * np.arange(-below, above)  # 0 is one of them
        nearest = np.where(values < 0, 1 - step - values, values)  # of a block's values to 0
        chances = np.exp(-rate * nearest) * -math.expm1(-rate * step) / (1.0 + math.exp(-rate))
        beyond = discrete_laplace_tail(test.threshold_rate, step * above - 1)
        return cls(values, chances, beyond, gain, night_rate)

    def false_alarm(self, bar: int) -> float:
        """Return a bound on P(D + nu >= bar + rho, rho >= -B) for E[W] <= 1."""
        reached = _reached(bar + self.values, self.gain, self.rate)
        return (float(self.chances @ reached) + self.beyond) * (1.0 + _ROUNDING)


def _reached(bar: NDArray[np.int64], gain: float, rate: float) -> NDArray[np.float64]:
    """Return E[min(1, exp(-gain (bar - nu)))] for integer bars and discrete Laplace noise nu.

    It is P(nu >= bar) + the sum over nu < bar of P(nu) exp(-gain (bar - nu)), in closed form: the
    terms of nu < 0 and of 0 <= nu < bar are geometric series.
    """
    place = np.abs(bar).astype(float)
    positive = bar > 0
    none = math.tanh(rate / 2.0)  # the chance of no noise
    far = np.exp(-rate * place) / (1.0 + math.exp(-rate))  # P(nu >= bar), for a positive one
    tail = np.where(positive, far, 1.0 - far * math.exp(-rate))
    below = none / math.expm1(rate + gain)  # of nu < min(bar, 0), at a distance of 0 from it
    least, apart = min(gain, rate), abs(gain - rate)
    steps = place if apart == 0.0 else -np.expm1(-apart * place) / _first_step(gain, rate)
    between = none * np.exp(-least * place) * steps
    return tail + np.where(
        positive, below * np.exp(-gain * place) + between, below * np.exp(-rate * place)
    )


def _first_step(gain: float, rate: float) -> float:
    """Return the ratio of the geometric series less 1, positive."""
    return math.expm1(gain - rate) if gain > rate else -math.expm1(gain - rate)
