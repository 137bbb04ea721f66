"""The public statement: says whether a declaration is refuted, and is private for labels itself.

The exact figures of an audit are functions of its labels. A reader who knows all labels but one can
try both values and compare. A statement holds two noisy numbers instead, and all its other parts
are known without labels. It is differentially private for labels, and its verdict is valid.

    tallies -> exact_statement -> ExactStatement (secret) -> publish_statement -> StatementFigures
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from privcore.attacks import Matched, Tallies, holdout_sides, match_everyone
from privcore.attacks.arms import LabelCounts
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.betting import Stakes, stakes_for
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.question import Secret
from privcore.publication.noisy_wealth import (
    SENSITIVITY,
    UNITS,
    NoisyWealth,
    gap_for,
    in_units,
    log_wealth,
    with_noise,
)

DOUBTFUL = 0.1
"""P-value up to which a statement refutes nothing. A mistake costs silence, so it is large."""
_PARTS = 2
"""The two figures of a statement: against the claim, and against what its test assumes."""
_STEP = 0.01
_LARGEST_CEILING = 20.0
_LARGEST_LEAK = 12.0
_FAIR = 0.5


@dataclass(frozen=True, slots=True)
class StatementFigures:
    """The two figures of a statement, which alone depend on labels, and what follows from them.

    `publish_statement` adds their noise. Before, they are as secret as the labels.

    Attributes:
        significance: allowed probability that a refutation of the tested claim is wrong.
        evidence: against the claim.
        premises: against what the test of the claim assumes.
    """

    significance: float
    evidence: NoisyWealth
    premises: NoisyWealth

    @property
    def epsilon_public(self) -> Fraction:
        """Privacy loss of this statement for one label, in addition to the model's."""
        return self.evidence.epsilon_public + self.premises.epsilon_public

    @property
    def pvalue(self) -> float:
        """The p-value of the claim."""
        return self.evidence.pvalue(self.significance)

    @property
    def premises_pvalue(self) -> float:
        """The p-value of what the test of the claim assumes (`premise_bets`)."""
        return self.premises.pvalue(DOUBTFUL)

    @property
    def doubtful(self) -> bool:
        """True if the assumptions are doubtful: then nothing is concluded."""
        return self.premises_pvalue <= DOUBTFUL

    @property
    def refuted(self) -> bool:
        """True if the claim is refuted, and what that assumes is not doubtful."""
        return self.pvalue <= self.significance and not self.doubtful


@dataclass(frozen=True, slots=True)
class ExactStatement(StatementFigures):
    """Content of a statement before noise.

    Attributes:
        records: number of training records in the tables.
        control: number of holdout records in the tables.
        epsilon_ceiling: the largest declared epsilon that as many records could refute, if every
            prediction on training records were right and half of those on holdout records.
        sees_from: about the least leak of every training label that would have refuted the
            claim in five of six statements (`least_leak_seen`); None where a leak of 12 would not.
    """

    records: int
    control: int
    epsilon_ceiling: float
    sees_from: float | None


def exact_statement(
    tallies: Tallies, *, claim: Claim, epsilon_public: Fraction, unread_allowed: int = 0
) -> ExactStatement:
    """Return what an audit's statement about its claim says, before noise.

    **Figures.** At the declared epsilon one bet is made on all records (`match_everyone`), with
    the gap 4/sqrt(N + 10/e^2), N the sum over tables of n1 n0/(n1 + n0), known without labels, e
    the half of `epsilon_public`. Let W be its wealth (`matched_epsilon_lower`); the figure is
    D = floor(64 log W/gap). Bets against what this assumes make the second figure
    (`premises_log_wealth`), with the other half of `epsilon_public`.

    **Sensitivity.** Let one label be replaced, models, features and presence being the same. By
    `match_everyone` that changes one table, and there k1 or k0 by 1, with it t = k1 + k0. With
    log W = gap k1 - log E[exp(gap K_t)], K_t the first arm's right ones given t at the claim's
    odds, K_t <= K_(t+1) <= K_t + 1 stochastically: its weights are log-concave in k, for t as for
    t + 1, and the ratio of neighbouring weights rises with t. So log E[exp(gap K_t)] rises by 0 to
    gap with t, and log W changes by at most gap: by 0 to gap for a training label that becomes
    right, by -gap to 0 for a holdout label. That moves D by at most 64 units and rounding by less
    than one, which is checked. A label that becomes unreadable is such a replacement
    (`match_everyone`).

    Args:
        tallies: of the whole audit, with `unread` labels; its student is not used, and of its game
            the number of records alone, since a student was taught holdout labels.
        claim: what was declared; its epsilon is tested.
        epsilon_public: privacy loss that the statement may add, positive and rational.
        unread_allowed: number of unreadable labels that casts no doubt on the comparison.

    Raises:
        InvalidInputError: nothing was declared; a loss that is not positive; membership, of which
            labels decide more than whether a prediction was right; so many tables that
            rounding could move a figure by a unit.

    *Assumes* what `matched_epsilon_lower` assumes. The second figure tests a part of that; it sees
    less than the exact test does, most with few records. The answer does *not* say that a
    declaration that is not refuted is true, nor anything of a slice, or of another epsilon.
    """
    if epsilon_public <= 0:
        raise InvalidInputError("epsilon_public", str(epsilon_public), "it is positive")
    each = Fraction(epsilon_public) / _PARTS
    epsilon, tables, stakes = _tested(tallies, claim)
    bet = Bet(stakes, each, claim.significance)
    return ExactStatement(
        significance=claim.significance,
        records=int(tables.records.sum()),
        control=int(tables.control.sum()),
        epsilon_ceiling=largest_refuted(tables, bet),
        sees_from=least_leak_seen(tables, bet, epsilon=epsilon, right=chance_right(tallies)),
        evidence=bet.against(tables, epsilon),
        premises=premises_of(
            premise_bets(tallies), each, unread=tallies.unread_records - unread_allowed
        ),
    )


def _tested(tallies: Tallies, claim: Claim) -> tuple[float, Matched, Stakes]:
    """Return the declared epsilon, the tables and the stakes of the bet against a claim.

    Raises:
        InvalidInputError: nothing was declared; membership, of which labels decide more than
            whether a prediction was right.
    """
    if claim.epsilon is None:
        raise InvalidInputError("claim", claim.epsilon, "a statement tests a declared epsilon")
    if claim.secret is not Secret.LABEL:
        raise InvalidInputError("secret", str(claim.secret), "a statement is about labels")
    bets = tallies.bet_on
    tables = match_everyone(
        bets.odds,
        bets.control_odds,
        classes=tallies.classes,
        unread=(bets.unread, bets.control_unread),
    )
    held = int(tables.control.sum())
    stakes = stakes_for(
        claim,
        records=tallies.game.records,
        choices=tallies.choices,
        classes=tallies.classes,
        control=held,
    )
    return claim.epsilon, tables, stakes


def publish_statement(
    exact: StatementFigures, *, key: bytes, named: tuple[str | int, ...]
) -> StatementFigures:
    """Return the figures of a statement with their noise.

    **Privacy.** Each figure moves by at most 65 units with one label (`exact_statement`,
    `premises_log_wealth`) and gets noise for half of e = `epsilon_public`. So both together are
    (e, 0)-differentially private for labels, and all that is computed from them: p-values,
    e-values, verdict. Training that is (eM, delta)-private for labels and its statement are
    (eM + e, delta)-private together; if the declaration is false, so is that sum.

    Args:
        exact: what is to be said.
        key: secret, of 32 bytes or more; without it noise could be drawn again.
        named: what the noise is drawn for: slot, revision, method, digests of models *and labels*.
            Noise that labels do not enter would cancel between two versions of them.
    """
    return StatementFigures(
        exact.significance,
        with_noise(exact.evidence, key, "evidence", *named),
        with_noise(exact.premises, key, "premises", *named),
    )


@dataclass(frozen=True, slots=True)
class Bet:
    """The bet against a declared epsilon.

    Attributes:
        stakes: of the claim.
        epsilon_public: privacy loss of its figure.
        significance: at which it is read.
    """

    stakes: Stakes
    epsilon_public: Fraction
    significance: float

    @property
    def deviation(self) -> float:
        """Standard deviation of the figure's noise, in its units."""
        return math.sqrt(2.0) * SENSITIVITY / float(self.epsilon_public)

    def against(self, tables: Matched, epsilon: float) -> NoisyWealth:
        """Return the exact figure against a declared epsilon."""
        stakes, replaced = self.stakes, self.stakes.replacement(epsilon)
        most = stakes.log_cap(replaced) * UNITS / SENSITIVITY
        gap = min(gap_for(tables, self.epsilon_public), most)
        wealth = log_wealth(tables, epsilon=replaced, gap=gap)
        figure = in_units(wealth, gap=gap, tables=tables.records.size)
        return NoisyWealth(self.epsilon_public, gap, figure, stakes.price(replaced))

    def refutes(self, wealth: NoisyWealth) -> bool:
        """Return whether a figure refutes, read as if it held its noise."""
        return wealth.pvalue(self.significance) <= self.significance


def largest_refuted(tables: Matched, bet: Bet) -> float:
    """Return the largest declared epsilon that these numbers of records could refute.

    Every prediction on a training record is then right and half of those on holdout records are;
    the noise is 0. No label is read. The answer is a multiple of 0.01, rounded down, and at most
    20.
    """
    best = replace(tables, right=tables.records, control_right=tables.control // 2)
    low, high = 0.0, _LARGEST_CEILING
    while high - low > _STEP / 2.0:
        between = (low + high) / 2.0
        refuted = bet.refutes(bet.against(best, between))
        low, high = (between, high) if refuted else (low, between)
    return int(low / _STEP) * _STEP


def least_leak_seen(tables: Matched, bet: Bet, *, epsilon: float, right: float) -> float | None:
    """Return about the least leak of every label with which the statement refutes the declaration.

    A leak is what the target tells of each training label, in the declaration's terms: the odds
    that a prediction is right are e^leak times those on holdout records. The figure is lowered by
    one standard deviation, in which both the labels and the noise have a part. So about five of six
    statements of such a leak refute. None if a leak of 12 is not seen. It is an expectation, and no
    verdict rests on it.

    Args:
        tables: of the audit; of them, numbers of records and offsets are read, and no label.
        bet: of the claim.
        epsilon: what is declared.
        right: chance that a prediction on a holdout record is right (`chance_right`).

    *Assumes* a leak of all labels alike. A leak of few labels has to be larger to be seen.
    """

    def seen(leak: float) -> bool:
        figures = [
            bet.against(_leaking(tables, bet.stakes.replacement(leak), right, lucky), epsilon)
            for lucky in (0.0, -1.0)
        ]
        lowered = math.hypot(figures[0].figure - figures[1].figure, bet.deviation)
        return bet.refutes(replace(figures[0], figure=math.floor(figures[0].figure - lowered)))

    if not seen(_LARGEST_LEAK):
        return None
    low, high = epsilon, _LARGEST_LEAK
    while high - low > _STEP:
        middle = (low + high) / 2.0
        low, high = (low, middle) if seen(middle) else (middle, high)
    return math.ceil(high / _STEP) * _STEP


def chance_right(tallies: Tallies) -> float:
    """Return the chance of a right prediction on holdout records as the proxy expects it.

    It is the chance r of at least one half for which r(1 - r), what a comparison gains of a
    record, is the mean of p(1 - p), with p the proxy's probability of the looked-at class.
    No label is read.
    """
    cells = [tally.cells() for tally in tallies.bet_on.with_unread().control_odds]
    weights = np.concatenate([one.made for one in cells])
    if not weights.sum():
        return _FAIR
    chances = expit(np.concatenate([one.proxy for one in cells]))
    spread = float(weights @ (chances * (1.0 - chances))) / float(weights.sum())
    return _FAIR + math.sqrt(max(_FAIR**2 - spread, 0.0))


def _leaking(tables: Matched, leak: float, right: float, lucky: float) -> Matched:
    """Return tables as a leaking target leaves them, luckier by a number of standard deviations."""
    odds = float(logit(np.clip(right, _FAIR, 1.0 - 1e-6)))
    error = lucky / math.sqrt(max(tables.effective * right * (1.0 - right), 1e-9))
    chance = expit(odds + tables.offset + leak + error)
    return replace(
        tables, right=_whole(tables.records * chance), control_right=_whole(tables.control * right)
    )


def _whole(expected: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return integers with the same sum, rounded down, each within one of what is expected."""
    return np.diff(np.floor(np.cumsum(expected)), prepend=0.0).astype(np.int64)


def premises_of(
    bets: tuple[Matched, ...], epsilon_public: Fraction, *, unread: int = 0
) -> NoisyWealth:
    """Return the exact figure against what the other one assumes (`premises_log_wealth`)."""
    gap = gap_for(bets[0], epsilon_public)
    wealth = premises_log_wealth(bets, gap, unread=unread)
    tables = max(bet.records.size for bet in bets)
    return NoisyWealth(epsilon_public, gap, in_units(wealth, gap=gap, tables=tables))


def premise_bets(tallies: Tallies) -> tuple[Matched, ...]:
    """Return the tables of five bets against what a bound assumes, which noise can make private.

    `privcore.attacks.arms` tests more sharply whether the arms are alike; its p-value is a function
    of the labels. Here is a wealth that one label moves by no more than a gap.

    The first four are against arms that chance divided (E1). A table is a group and a bin of the
    proxy's log-odds: of the training records in it and of the holdout records in it, how many have
    the looked-at class. The bets are that training has more of the class in every bin, or less;
    that it has more where the proxy expects more, and less where it expects less (the proxy knows
    training records better); or the reverse. No output of a target on training records is read, so
    a leak is not taken for a difference of the arms.

    The fifth is against a target that what it learned misleads about unseen labels, as it seems to
    where the proxy was trained on the holdout (`holdout_sides`). Then training records look
    remembered because the holdout's are wrong.

    An unreadable label counts as another class than the one that is looked at.
    """
    bets, tallies = tallies.bet_on.with_unread(), tallies.with_unread()
    one, other = (
        LabelCounts.of_odds(arm).counts[:, 0] for arm in (tallies.odds, tallies.control_odds)
    )
    totals, held = one.sum(axis=2), other.sum(axis=2)
    played = (totals > 0) & (held > 0)
    reached = np.cumsum((totals + held).sum(axis=0))
    middle = int(np.searchsorted(reached, reached[-1] / 2.0))
    upper = np.broadcast_to(np.arange(totals.shape[1]) >= middle, totals.shape)
    of_arms = (
        Matched(
            totals[played],
            np.where(ones, one[..., 1], one[..., 0])[played],
            held[played],
            np.where(ones, other[..., 1], other[..., 0])[played],
            np.zeros(int(played.sum())),
        )
        for ones in (np.ones_like(upper), np.zeros_like(upper), upper, ~upper)
    )
    misled = holdout_sides(bets.odds, bets.control_odds)
    return (*of_arms, misled)


def premises_log_wealth(bets: tuple[Matched, ...], gap: float, *, unread: int = 0) -> float:
    """Return the log of the mean wealth of the bets, each with this gap.

    One bet more is against labels that somebody made unreadable, which would hide a leak: e^gap for
    each of them above the number that is allowed. It loses where no more are unreadable than that.

    Args:
        bets: of `premise_bets`.
        gap: in nats.
        unread: unreadable labels, less the number that is allowed; it may be negative.

    *Theorem.* If chance alone divided the records of each table into arms, it is hypergeometric
    given its margins, at an odds ratio of 1; of the fifth bet at 1 or less, beyond its offset. So
    each bet's wealth has a mean of at most 1, as has their mean. Replacing one label changes one
    table of each bet, in it one number by one, and the number of unreadable labels by at most one.
    By the argument of `exact_statement` each bet's log-wealth changes by at most the gap, and so
    does the logarithm of their mean.
    """
    wealth = np.array([*(log_wealth(bet, epsilon=0.0, gap=gap) for bet in bets), gap * unread])
    return float(np.logaddexp.reduce(wealth)) - math.log(wealth.size)
