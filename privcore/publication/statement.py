"""The public statement: says whether a declaration is refuted, and is private for labels itself.

The exact figures of an audit are functions of its labels. A reader who knows all labels but one can
try both values and compare. A statement holds one noisy number instead, and all its other parts are
known without labels. The statement is differentially private for labels, and its verdict is valid.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privcore.attacks import Matched
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.noncentral import log_wealth_of_tables
from privcore.lower_bounds.stakes import stakes_for
from privcore.publication.keyed_noise import KeyedBits, discrete_laplace, discrete_laplace_tail

_GAP = 4.0
_UNITS = 64
_SENSITIVITY = _UNITS + 1
"""By how many units one label can move the figure: the last one is what rounding may add."""
_TOLERANCE = 2e-9
"""Of one table's wealth in nats (`log_normalizer_ratio`)."""
_LITTLE = 0.1
"""Nats of evidence."""
_BEYOND = 0.1
"""Share of the significance that noise beyond the bound may take, where noise is cut."""


@dataclass(frozen=True, slots=True)
class PublicStatement:
    """The statement about one audit. Only `figure` depends on labels.

    Attributes:
        claim: the tested claim: family, epsilon, delta, significance.
        epsilon_public: privacy loss of this statement for one label, in addition to the model's.
        records: number of training records in the tables.
        control: number of holdout records in the tables.
        gap: the gap of the bet, in log-odds.
        price: the share of the significance that delta costs.
        figure: the log-wealth in units of gap/64, plus noise.
    """

    claim: Claim
    epsilon_public: Fraction
    records: int
    control: int
    gap: float
    price: float
    figure: int

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

    @property
    def pvalue(self) -> float:
        """The p-value of the claim. It accounts for the noise and for delta's price."""
        bound = self._noise_bound
        lost = self.price + _chance_beyond(self._rate, bound)
        log_wealth = self._gain * self.figure - _log_noise_mean(self._gain, self._rate, bound)
        return min(1.0, math.exp(-max(log_wealth, 0.0)) + lost)

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted at its significance."""
        return self.pvalue <= self.claim.significance

    @property
    def _rate(self) -> Fraction:
        return _rate(self.epsilon_public)

    @property
    def _gain(self) -> float:
        """What one unit of the figure is worth, in nats."""
        return self.gap / _UNITS

    @property
    def _noise_bound(self) -> int | None:
        """The bound on the noise, or None for no bound: the choice that needs less evidence.

        No bound is chosen also if it needs only a little more, because then p-values can be as
        small as the evidence is strong. The choice depends on neither labels nor the figure.
        """
        level = self.claim.significance - self.price
        cut = math.ceil(-math.log(_BEYOND * level) / float(self._rate))

        def needed(bound: int | None) -> float:
            left = level - _chance_beyond(self._rate, bound)
            return _log_noise_mean(self._gain, self._rate, bound) - math.log(left)

        return None if needed(None) <= needed(cut) + _LITTLE else cut


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


def publish_statement(
    tables: Matched,
    *,
    claim: Claim,
    epsilon_public: Fraction,
    records: int,
    classes: int,
    key: bytes,
    named: Sequence[str | int],
) -> PublicStatement:
    """Return the statement of an audit about its claim.

    **Figure.** At the declared epsilon one bet is made on all records, with the gap
    4/sqrt(N + 10/e^2), e = `epsilon_public`, N the sum over tables of n1 n0/(n1 + n0), known
    without labels. Let W be its wealth (`matched_epsilon_lower`), D = floor(64 log W/gap). The
    figure is D plus noise j with a probability proportional to exp(-e |j|/65).

    **Privacy.** Let one label be replaced, models, features and presence being the same. By
    `match_everyone` that changes one table, and there k1 or k0 by 1, with it t = k1 + k0. With
    log W = gap k1 - log E[exp(gap K_t)], K_t the first arm's right ones given t at the claim's
    odds, K_t <= K_(t+1) <= K_t + 1 stochastically: its weights are log-concave in k, for t as for
    t + 1, and the ratio of neighbouring weights rises with t. So log E[exp(gap K_t)] rises by 0 to
    gap with t, and log W changes by at most gap: by 0 to gap for a training label that becomes
    right, by -gap to 0 for a holdout label. That moves D by at most 64 units and rounding by less
    than one, which is checked; so the figure is (e, 0)-differentially private for labels, and all
    that is computed from it: p-value, e-value, verdict. Training that is (eM, delta)-private for
    labels and its statement are (eM + e, delta)-private together; if the declaration is false, so
    is that sum.

    **Validity.** Let b be the bound on the noise, which may be infinite, beta = P(noise > b) and
    M = E[exp(gap noise/64); noise <= b]. The noise is independent of W, of which E[W] <= 1 under
    the claim, and D <= 64 log W/gap. So P(exp(gap figure/64)/M >= 1/(alpha - beta)) is at most
    beta + (alpha - beta) E[W] M/M = alpha. Delta costs its price, with a cap of 65/64 gap on right
    over wrong, as in `Stakes`.

    Args:
        tables: from `match_everyone`, of the proxy alone: a student was taught holdout labels.
        claim: what was declared; its epsilon is tested.
        epsilon_public: privacy loss that the statement may add, positive and rational.
        records: training records that played, which pay for delta.
        classes: labels that there are.
        key: secret, of 32 bytes or more; without it noise could be drawn again.
        named: what the noise is drawn for: slot, revision, method, digests of models *and labels*.
            Noise that labels do not enter would cancel between two versions of them.

    Raises:
        InvalidInputError: nothing was declared; a loss that is not positive; a key too short;
            so many tables that rounding could move the figure by a unit.

    *Assumes* what `matched_epsilon_lower` assumes, and does not test it: whether the arms look
    alike is a question about labels, which a statement does not answer. The answer does *not* say
    that a declaration that is not refuted is true, nor anything of a slice, or of another epsilon.
    """
    if claim.epsilon is None:
        raise InvalidInputError("claim", claim.epsilon, "a statement tests a declared epsilon")
    if epsilon_public <= 0:
        raise InvalidInputError("epsilon_public", str(epsilon_public), "it is positive")
    gap = _gap(tables, epsilon_public)
    held = int(tables.control.sum())
    stakes = stakes_for(claim, records=records, classes=classes, control=held)
    replaced = stakes.replacement(claim.epsilon)
    gap = min(gap, stakes.log_cap(replaced) * _UNITS / _SENSITIVITY)
    figure = _figure(tables, replaced, gap)
    rate = _rate(epsilon_public)
    noise = discrete_laplace(rate, KeyedBits(key, *named, figure))
    return PublicStatement(
        claim=claim,
        epsilon_public=epsilon_public,
        records=int(tables.records.sum()),
        control=held,
        gap=gap,
        price=stakes.price(replaced),
        figure=figure + noise,
    )


def _gap(tables: Matched, epsilon_public: Fraction) -> float:
    effective = float(np.sum(tables.records * tables.control / (tables.records + tables.control)))
    return _GAP / math.sqrt(effective + 10.0 / float(epsilon_public) ** 2)


def _figure(tables: Matched, epsilon: float, gap: float) -> int:
    """Return the exact figure, D."""
    rounding = tables.records.size * _TOLERANCE * _UNITS / gap
    if rounding > 0.5:
        rule = f"rounding could move the figure by {rounding:.2g} units, of which 0.5 are allowed"
        raise InvalidInputError("tables", tables.records.size, rule)
    if not tables.records.size:
        return 0
    wealth = log_wealth_of_tables(
        tables.records,
        tables.right,
        tables.control,
        tables.control_right,
        tables.offset,
        np.array([epsilon]),
        np.array([gap]),
    )
    return math.floor(_UNITS * float(wealth[0, 0]) / gap)


def _rate(epsilon_public: Fraction) -> Fraction:
    return Fraction(epsilon_public) / _SENSITIVITY
