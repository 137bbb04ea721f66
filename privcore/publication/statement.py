"""The public statement: says whether a declaration is refuted, and is private for labels itself.

The exact figures of an audit are functions of its labels. A reader who knows all labels but one can
try both values and compare. A statement holds two noisy numbers instead, and all its other parts
are known without labels. It is differentially private for labels, and its verdict is valid.

    tallies -> exact_statement -> ExactStatement (secret) -> publish_statement -> PublicStatement
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from privcore.attacks import Matched, Tallies, match_everyone
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.secret import Secret
from privcore.lower_bounds.stakes import Stakes, stakes_for
from privcore.publication.noisy_wealth import (
    SENSITIVITY,
    UNITS,
    NoisyWealth,
    gap_for,
    in_units,
    log_wealth,
    with_noise,
)
from privcore.publication.premises import premise_bets, premises_log_wealth
from privcore.publication.reach import (
    PublicTest,
    chance_right,
    largest_refuted,
    least_leak_seen,
)

DOUBTFUL = 0.1
"""P-value up to which a statement refutes nothing. A mistake costs silence, so it is large."""
_PARTS = 2
"""The two figures of a statement: against the claim, and against what its test assumes."""


@dataclass(frozen=True, slots=True)
class ExactStatement:
    """Content of a statement before noise. It is as secret as the labels.

    Attributes:
        significance: allowed probability that a refutation of the tested claim is wrong.
        records: number of training records in the tables.
        control: number of holdout records in the tables.
        epsilon_ceiling: the largest declared epsilon that as many records could refute, if every
            prediction on training records were right and half of those on holdout records.
        epsilon_detectable: about the least leak of every training label that would have refuted the
            claim in five of six statements (`least_leak_seen`); None where a leak of 12 would not.
        evidence: the exact figure against the claim.
        premises: the exact figure against what that figure assumes.
    """

    significance: float
    records: int
    control: int
    epsilon_ceiling: float
    epsilon_detectable: float | None
    evidence: NoisyWealth
    premises: NoisyWealth


@dataclass(frozen=True, slots=True)
class PublicStatement:
    """The statement about one audit. Of it, two figures depend on labels.

    Attributes:
        significance: allowed probability that a refutation of the tested claim is wrong.
        records: number of training records in the tables.
        control: number of holdout records in the tables.
        epsilon_ceiling: as in `ExactStatement`.
        evidence: against the claim, with noise.
        premises: against what the test of the claim assumes, with noise.
    """

    significance: float
    records: int
    control: int
    epsilon_ceiling: float
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
        InvalidInputError: nothing was declared; a loss that is not positive; decoys or membership,
            of which labels decide more than whether a prediction was right; so many tables that
            rounding could move a figure by a unit.

    *Assumes* what `matched_epsilon_lower` assumes. The second figure tests a part of that; it sees
    less than the exact test does, most with few records. The answer does *not* say that a
    declaration that is not refuted is true, nor anything of a slice, or of another epsilon.
    """
    if epsilon_public <= 0:
        raise InvalidInputError("epsilon_public", str(epsilon_public), "it is positive")
    each = Fraction(epsilon_public) / _PARTS
    epsilon, tables, stakes = tested(tallies, claim, nights=1)
    test = PublicTest(
        lambda filled, declared: evidence_of(filled, declared, stakes, each),
        lambda wealth: wealth.pvalue(claim.significance) <= claim.significance,
        deviation=math.sqrt(2.0) * SENSITIVITY / float(each),
    )
    return ExactStatement(
        significance=claim.significance,
        records=int(tables.records.sum()),
        control=int(tables.control.sum()),
        epsilon_ceiling=largest_refuted(tables, test),
        epsilon_detectable=least_leak_seen(
            tables, test, epsilon=epsilon, stakes=stakes, right=chance_right(tallies)
        ),
        evidence=evidence_of(tables, epsilon, stakes, each),
        premises=premises_of(
            premise_bets(tallies), each, unread=tallies.unread_records - unread_allowed
        ),
    )


def tested(tallies: Tallies, claim: Claim, *, nights: int) -> tuple[float, Matched, Stakes]:
    """Return the declared epsilon, the tables and the stakes of the bet against a claim.

    Args:
        tallies: of the whole audit.
        claim: what was declared, with the significance of the test.
        nights: how many nights share the significance, and so what delta may take of it.

    Raises:
        InvalidInputError: nothing was declared; decoys or membership, of which labels decide more
            than whether a prediction was right.
    """
    if claim.epsilon is None:
        raise InvalidInputError("claim", claim.epsilon, "a statement tests a declared epsilon")
    if tallies.decoys is not None or claim.secret is not Secret.LABEL:
        design = "decoys" if tallies.decoys is not None else str(claim.secret)
        raise InvalidInputError("design", design, "a statement is about labels, without decoys")
    bets = tallies.bet_on
    tables = match_everyone(
        bets.odds,
        bets.control_odds,
        classes=tallies.classes,
        ordered=tallies.ordered,
        unread=(bets.unread, bets.control_unread),
    )
    held = int(tables.control.sum())
    stakes = stakes_for(
        claim,
        records=tallies.game.records,
        choices=tallies.choices,
        classes=tallies.classes,
        control=held,
        nights=nights,
    )
    return claim.epsilon, tables, stakes


def publish_statement(
    exact: ExactStatement, *, key: bytes, named: tuple[str | int, ...]
) -> PublicStatement:
    """Return a statement with its noise.

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
    return PublicStatement(
        significance=exact.significance,
        records=exact.records,
        control=exact.control,
        epsilon_ceiling=exact.epsilon_ceiling,
        evidence=with_noise(exact.evidence, key, "evidence", *named),
        premises=with_noise(exact.premises, key, "premises", *named),
    )


def evidence_of(
    tables: Matched, epsilon: float, stakes: Stakes, epsilon_public: Fraction
) -> NoisyWealth:
    """Return the exact figure against a declared epsilon."""
    replaced = stakes.replacement(epsilon)
    gap = min(gap_for(tables, epsilon_public), stakes.log_cap(replaced) * UNITS / SENSITIVITY)
    wealth = log_wealth(tables, epsilon=replaced, gap=gap)
    figure = in_units(wealth, gap=gap, tables=tables.records.size)
    return NoisyWealth(epsilon_public, gap, figure, stakes.price(replaced))


def premises_of(
    bets: tuple[Matched, ...], epsilon_public: Fraction, *, unread: int = 0
) -> NoisyWealth:
    """Return the exact figure against what the other one assumes (`premises_log_wealth`)."""
    gap = gap_for(bets[0], epsilon_public)
    wealth = premises_log_wealth(bets, gap, unread=unread)
    tables = max(bet.records.size for bet in bets)
    return NoisyWealth(epsilon_public, gap, in_units(wealth, gap=gap, tables=tables))
