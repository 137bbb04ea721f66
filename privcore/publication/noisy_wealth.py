"""A wealth of bets, published with noise: an e-value and a p-value that pay for the noise."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privcore.attacks import Matched
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.matched import tables_log_wealth
from privcore.publication.keyed_noise import KeyedBits, discrete_laplace, discrete_laplace_tail

GAP = 4.0
UNITS = 64
SENSITIVITY = UNITS + 1
"""Units by which one label can move a figure: the last one is what rounding may add."""
_TOLERANCE = 2e-9
"""Tolerance of one table's wealth in nats (`log_wealth_of_tables`)."""
_LITTLE = 0.1
"""Nats of evidence."""
_BEYOND = 0.1
"""Share of the significance that noise beyond the bound may take, where noise is cut."""


@dataclass(frozen=True, slots=True)
class NoisyWealth:
    """A log-wealth with noise. Only `figure` depends on labels.

    Let W be the wealth of bets that one label moves by at most e^gap, with E[W] <= 1 under the
    tested claim. D = floor(64 log W/gap). The figure is D plus noise j with a probability
    proportional to exp(-e |j|/65), e = `epsilon_public`. So it is (e, 0)-differentially private
    for labels if one label moves D by at most 65.

    *Validity.* Let b be a bound on the noise, which may be infinite, beta = P(noise > b) and
    M = E[exp(gap noise/64); noise <= b]. The noise is independent of W, and D <= 64 log W/gap. So
    P(exp(gap figure/64)/M >= 1/(alpha - beta)) is at most beta + (alpha - beta) E[W] M/M = alpha.

    Attributes:
        epsilon_public: privacy loss of this figure for one label.
        gap: the most by which one label moves the log-wealth, in nats.
        figure: the log-wealth in units of gap/64, plus noise.
        price: the share of the significance that delta costs.
    """

    epsilon_public: Fraction
    gap: float
    figure: int
    price: float = 0.0

    @property
    def log_evalue(self) -> float | None:
        """The log of an e-value against the claim: exp(gap figure/64), divided by the noise's mean.

        It is None if that mean is infinite, which happens with few records. If delta costs the
        price s, E[min(W, 1/s)] <= 2, so the e-value is cut at 1/s and halved. E-values of several
        nights can be multiplied.
        """
        mean = _log_noise_mean(self._gain, self._rate, None)
        if mean == math.inf:
            return None
        log_wealth = self._gain * self.figure - mean
        if self.price:
            log_wealth = min(log_wealth, -math.log(self.price)) - math.log(2.0)
        return log_wealth

    def pvalue(self, significance: float) -> float:
        """Return the p-value of the claim, which accounts for the noise and for delta's price.

        The p-value is valid at every level; it is small most often where the noise's bound fits
        the level at which it is read, the `significance`.
        """
        bound = self._noise_bound(significance)
        lost = self.price + _chance_beyond(self._rate, bound)
        log_wealth = self._gain * self.figure - _log_noise_mean(self._gain, self._rate, bound)
        return min(1.0, math.exp(-max(log_wealth, 0.0)) + lost)

    @property
    def _rate(self) -> Fraction:
        return _rate(self.epsilon_public)

    @property
    def _gain(self) -> float:
        """Value of one unit of the figure, in nats."""
        return self.gap / UNITS

    def _noise_bound(self, significance: float) -> int | None:
        """Return the bound on the noise, or None for no bound: the choice that needs less evidence.

        No bound is chosen also if it needs only a little more, because then p-values can be as
        small as the evidence is strong. The choice depends on neither labels nor the figure.
        """
        level = significance - self.price
        if level <= 0.0:  # delta takes all of it: nothing can be refuted
            return None
        cut = math.ceil(-math.log(_BEYOND * level) / float(self._rate))

        def needed(bound: int | None) -> float:
            left = level - _chance_beyond(self._rate, bound)
            return _log_noise_mean(self._gain, self._rate, bound) - math.log(left)

        return None if needed(None) <= needed(cut) + _LITTLE else cut


def exactly(epsilon_public: float) -> Fraction:
    """Return a privacy loss as it is written: 0.1 is one tenth, and not the float beside it."""
    return Fraction(repr(epsilon_public))


def log_wealth(tables: Matched, *, epsilon: float, gap: float) -> float:
    """Return the log-wealth of one bet with this gap against odds of e^epsilon; 0 of no table."""
    return float(tables_log_wealth(tables, np.array([epsilon]), np.array([gap]))[0, 0])


def gap_for(tables: Matched, epsilon_public: Fraction) -> float:
    """Return the gap for tables of N records: 4/sqrt(N + 10/e^2), e = `epsilon_public`.

    N is the sum over tables of n1 n0/(n1 + n0). The first term is what bets win most with, the
    second keeps the noise, of gap/e nats, affordable.
    """
    return GAP / math.sqrt(tables.effective + 10.0 / float(epsilon_public) ** 2)


def in_units(log_wealth: float, *, gap: float, tables: int) -> int:
    """Return D = floor(64 log W/gap), the exact figure.

    Raises:
        InvalidInputError: so many tables that rounding could move D by a unit.
    """
    rounding = tables * _TOLERANCE * UNITS / gap
    if rounding > 0.5:
        rule = f"rounding could move the figure by {rounding:.2g} units, of which 0.5 are allowed"
        raise InvalidInputError("tables", tables, rule)
    return math.floor(UNITS * log_wealth / gap)


def with_noise(exact: NoisyWealth, key: bytes, *named: str | int) -> NoisyWealth:
    """Return a wealth whose figure is still exact, with its noise.

    Args:
        exact: whose figure has no noise yet.
        key: secret, of 32 bytes or more; without it noise could be drawn again.
        named: what the noise is drawn for; the exact figure is added to it.
    """
    random = KeyedBits(key, *named, exact.figure)
    noise = discrete_laplace(_rate(exact.epsilon_public), random)
    return NoisyWealth(exact.epsilon_public, exact.gap, exact.figure + noise, exact.price)


def _chance_beyond(rate: Fraction, bound: int | None) -> float:
    """Return the probability of noise beyond the bound."""
    return 0.0 if bound is None else discrete_laplace_tail(rate, bound)


def _log_noise_mean(gain: float, rate: Fraction, bound: int | None) -> float:
    """Return the log of E[exp(gain noise); noise <= bound]; infinite where there is no mean."""
    loss = float(rate)
    normal = math.log(math.tanh(loss / 2.0))  # the chance of no noise
    below = 1.0 / math.expm1(loss + gain)  # sum over j < 0
    if bound is None:
        if gain >= loss:
            return math.inf
        return normal + math.log(below - 1.0 / math.expm1(gain - loss))
    powers = (gain - loss) * np.arange(bound + 1)
    most = float(powers.max())
    above = float(np.exp(powers - most).sum())
    return normal + most + math.log(above + below * math.exp(-most))


def _rate(epsilon_public: Fraction) -> Fraction:
    return Fraction(epsilon_public) / SENSITIVITY
