"""Evidence: all that an audit says about the privacy loss, as one object, from tallies."""

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import Matched, OddsTally, Tallies, holdout_sides, match, pair
from privcore.attacks.arms import REMEDY_OF_HELD_BACK
from privcore.guarantees import ApproxDP, PureDP
from privcore.lower_bounds.betting import Stakes, bets_epsilon_lower, stakes_for
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.game_evidence import GameEvidence, game_evidence
from privcore.lower_bounds.imagined import imagine
from privcore.lower_bounds.matched import MatchedRecords, PairedRecords, log_mean, tables_log_wealth
from privcore.lower_bounds.power import Power, power_of
from privcore.lower_bounds.question import Grid, Secret
from privcore.lower_bounds.windows import WINDOW_EPSILONS, WINDOW_NIGHTS, ClaimedNight, Night


@dataclass(frozen=True, slots=True)
class Evidence:
    """Results of one audit, each with its assumption.

    Attributes:
        claim: what was tested.
        method: of the headline, its ceiling and its p-value: `matched`, or `paired` for membership
            (`privcore.lower_bounds.matched`).
        records: training records that played.
        control_records: holdout records that could be matched with them.
        epsilon_lower: the headline; valid at the claim's significance, `matched` under assumption
            E (`privcore.lower_bounds.matched`), which needs no good proxy.
        epsilon_if_proxy_right: bets that take the proxy at its word; valid at the claim's
            significance if it is right about labels that it has not seen, and no accusation. None
            for membership, of which a proxy says nothing.
        epsilon_ceiling: the headline's value if every prediction had been correct, given this
            holdout.
        epsilon_lower_without_delta: the bound on the same records at delta 0. It is valid for no
            claim with a delta, and no accusation: it says whether a declaration stands by its delta
            alone. None where the claim has no delta, or is a Gaussian one.
        control_epsilon_if_proxy_right: the same bets on holdout records, where nothing is
            memorised: above 0, the proxy is not right. None for membership.
        claim_pvalue: of the declared guarantee, by the headline's method; None without one.
        claim_evalue: an e-value against it, for `false_discovery_qvalues`; None without one.
        window_night: what the night adds to windows of up to `WINDOW_NIGHTS` nights.
        window_ceiling: what it could have added at most, of shape (points of the grid,): at each
            epsilon the largest log e-value of any strategy if every prediction had been correct.
        standing_night: what it adds to the standing; the same where delta has no price.
        claimed_night: what it says of the declared epsilon itself, at the standing's stakes; None
            where nothing is declared.
        misled_pvalue: probability that a target that is at worst useless on the holdout looks as
            bad there (`misled_pvalue`): at 0.001 or less bets against the proxy did not win. None
            for membership, which compares with no holdout.
        power: how large a leak the audit could have seen; None where it was not asked for.
        game: the label-inference game on training records, with the paper's figure.
        control_game: the same game on control records.
    """

    claim: Claim
    method: str
    records: int
    control_records: int
    epsilon_lower: float
    epsilon_if_proxy_right: float | None
    epsilon_ceiling: float
    epsilon_lower_without_delta: float | None
    control_epsilon_if_proxy_right: float | None
    claim_pvalue: float | None
    claim_evalue: float | None
    window_night: Night
    window_ceiling: NDArray[np.float64]
    standing_night: Night
    claimed_night: ClaimedNight | None
    misled_pvalue: float | None
    power: Power | None
    game: GameEvidence
    control_game: GameEvidence

    @property
    def misled(self) -> bool:
        """True if bets against the proxy could not win, since the target misleads."""
        return self.misled_pvalue is not None and self.misled_pvalue <= MISLED

    @property
    def misled_sentence(self) -> str:
        """Say that bets against the proxy could not win; empty where they could."""
        if not self.misled:
            return ""
        return (
            "Bets against the earlier model could not win, as it may know labels of the holdout: "
            f"there the model moves away from the truth (p = {self.misled_pvalue:.1g}), and "
            f"training records look remembered without being so. {REMEDY_OF_HELD_BACK}"
        )


def read_evidence(
    tallies: Tallies,
    *,
    claim: Claim,
    choice: Grid,
    paper_delta: float,
    random: np.random.Generator,
    proxy_doubtful: bool = False,
    with_power: bool = False,
) -> Evidence:
    """Read the tallies as evidence against `claim`.

    Args:
        tallies: of one audit, or of any part of it.
        claim: family, delta, significances, shift, neighbouring relation.
        choice: guess fractions of the game.
        paper_delta: delta of the paper's figure.
        random: the audit's stream, for border bins of the game and border cells of the match.
        proxy_doubtful: whether the arms' labels, given what the proxy says, are divided as chance
            divides them in fewer than one of 100 audits (`ArmsComparison.doubtful`). Bets against
            the proxy may then lose and never win (`matched_epsilon_lower`).
        with_power: whether to compute how large a leak could have been seen.
    """
    game, control_game = (
        game_evidence(tally, claim=claim, choice=choice, paper_delta=paper_delta, random=random)
        for tally in (tallies.game, tallies.control_game)
    )
    members, bets = claim.secret is Secret.MEMBERSHIP, tallies.bet_on
    records = sum(tallies.odds, OddsTally.zero()).records if members else tallies.game.records
    held = sum(odds.records for odds in tallies.control_odds)
    misled = None if members else misled_pvalue(bets)
    doubtful = proxy_doubtful or (misled is not None and misled <= MISLED)
    design = _design(tallies, members=members, held=held, random=random, proxy_doubtful=doubtful)
    stakes = design.stakes(claim)

    def if_proxy_right(odds: tuple[OddsTally, ...], records: int, choices: float) -> float | None:
        if members:
            return None
        predictions = sum(odds, OddsTally.zero()).predictions(shift=claim.shift)
        paid = stakes_for(claim, records=records, choices=choices, classes=tallies.classes)
        return paid.in_claim(bets_epsilon_lower(predictions, stakes=paid))

    pvalue, evalue = _claim_tested(design, stakes)
    of_windows = design.stakes(claim, nights=WINDOW_NIGHTS)
    window = _night(design, of_windows)
    of_standing = dataclasses.replace(claim, significance=claim.standing_significance)
    lasting = design.stakes(of_standing, nights=WINDOW_NIGHTS)
    standing = window if window.price == 0.0 else _night(design, lasting)
    return Evidence(
        claim=claim,
        method=design.method,
        records=records,
        control_records=held,
        epsilon_lower=stakes.in_claim(design.epsilon_lower(stakes)),
        epsilon_if_proxy_right=if_proxy_right(bets.odds, records, tallies.choices),
        epsilon_ceiling=stakes.in_claim(design.epsilon_ceiling(stakes)),
        epsilon_lower_without_delta=_without_delta(design, claim),
        control_epsilon_if_proxy_right=if_proxy_right(
            bets.control_odds, tallies.control_game.records, tallies.control_choices
        ),
        claim_pvalue=pvalue,
        claim_evalue=evalue,
        window_night=window,
        window_ceiling=_night(design.all_right(), of_windows).log_wealth.max(axis=0),
        standing_night=standing,
        claimed_night=_claimed_night(design, lasting),
        misled_pvalue=misled,
        power=_power(design, tallies, claim, random) if with_power else None,
        game=game,
        control_game=control_game,
    )


def segment_night(
    tallies: Tallies,
    *,
    claim: Claim,
    segments: int,
    random: np.random.Generator,
    proxy_doubtful: bool = False,
) -> Night:
    """Return the e-values of one of several segments of an audit's records: see `name_segments`.

    Half of the significance that a single segment can have is staked, so that delta's price leaves
    an e-value at which one segment alone may be named.

    Args:
        tallies: of the segment's records, of both arms.
        claim: as of `read_evidence`; its significance is that of all segments together.
        segments: how many there are.
        random: for border cells of the match.
        proxy_doubtful: as of `read_evidence`.
    """
    held = sum(odds.records for odds in tallies.control_odds)
    doubtful = proxy_doubtful or misled_pvalue(tallies.bet_on) <= MISLED
    design = _design(tallies, members=False, held=held, random=random, proxy_doubtful=doubtful)
    each = dataclasses.replace(claim, significance=claim.significance / (2 * segments))
    return _night(design, design.stakes(each))


def _night(design: MatchedRecords, stakes: Stakes) -> Night:
    """Return the evidence that a test leaves for windows, at every point of their grid."""
    grid = np.array([stakes.replacement(float(epsilon)) for epsilon in WINDOW_EPSILONS])
    return Night(design.night_log_wealth(grid, stakes), float(stakes.prices.max()))


def _design(
    tallies: Tallies, *, members: bool, held: int, random: np.random.Generator, proxy_doubtful: bool
) -> MatchedRecords:
    """Return what is bet on: pairs for membership, else matched records."""
    if members:
        training, control = (
            sum(arm, OddsTally.zero()) for arm in (tallies.odds, tallies.control_odds)
        )
        # A pair pays for delta once, and there are no more than records of the smaller arm.
        paying = min(training.records, held)
        return PairedRecords(pair(training, control, random=random), records=paying)

    def how(arm: tuple[OddsTally, ...], other: tuple[OddsTally, ...]) -> tuple[Matched, ...]:
        found = match(arm, other, random=random, classes=tallies.classes)
        return tuple(one.no_worse_than_unaided() for one in found)

    bets = tallies.bet_on
    tables = how(bets.odds, bets.control_odds)
    if bets.student is not None and bets.control_student is not None:
        tables += how(bets.student.odds, bets.control_student.odds)
    return MatchedRecords(
        tables,
        records=tallies.game.records,
        control=held,
        classes=tallies.classes,
        proxy_doubtful=proxy_doubtful,
        choices=tallies.choices,
    )


def _power(
    design: MatchedRecords, tallies: Tallies, claim: Claim, random: np.random.Generator
) -> Power:
    """Return what the audit could have seen; nothing where its records cannot be imagined."""
    nights = imagine(design, tallies)
    return (
        Power(None, None, None) if nights is None else power_of(nights, claim, random.spawn(1)[0])
    )


def _without_delta(design: MatchedRecords, claim: Claim) -> float | None:
    """Return the bound at delta 0; None where that is the claim's, or the claim's is of a curve."""
    if claim.delta == 0.0 or not isinstance(claim.family, ApproxDP):
        return None
    stakes = design.stakes(dataclasses.replace(claim, family=PureDP(), delta=0.0))
    return stakes.in_claim(design.epsilon_lower(stakes))


def _claim_tested(design: MatchedRecords, stakes: Stakes) -> tuple[float | None, float | None]:
    """Return p-value and e-value of what was declared; nothing where nothing was."""
    if stakes.claim.epsilon is None:
        return None, None
    replaced = stakes.replacement(stakes.claim.epsilon)
    return _tested(design.log_wealth(replaced, stakes), stakes.price(replaced))


def _claimed_night(design: MatchedRecords, lasting: Stakes) -> ClaimedNight | None:
    """Return the night's e-values against what was declared, exactly: the grid may not hold it."""
    epsilon = lasting.claim.epsilon
    if epsilon is None:
        return None
    wealth = design.night_log_wealth(np.array([lasting.replacement(epsilon)]), lasting)[:, 0]
    return ClaimedNight(epsilon, wealth, float(lasting.prices.max()))


def _tested(log_wealth: float, price: float) -> tuple[float, float]:
    """Return p-value and e-value of the claim.

    Where delta costs the price s, E[min(W, 1/s)] <= 1 + s/s, so that half of it is an e-value.
    """
    pvalue = min(1.0, math.exp(-max(log_wealth, 0.0)) + price)
    evalue = math.exp(min(log_wealth, 700.0))
    return pvalue, min(evalue, 1.0 / price) / 2.0 if price else evalue


MISLED = 1e-3
"""P-value up to which bets against the proxy may not win: one of 1,000 honest audits."""
_GAPS = (4.0, 8.0, 16.0, 32.0)


def misled_pvalue(tallies: Tallies) -> float:
    """Return the p-value of a target that is at worst useless on the holdout.

    A target that moves *away* from the truth on the holdout makes training records look remembered.
    It does so where an earlier model was trained on the holdout: the proxy knows labels there,
    which the target seems to unlearn.

    Of `holdout_sides` the tables say, for each stratum of the proxy, how many holdout records have
    the class among those predicted to lack it, and among those predicted to have it. The bets are
    that the odds of the first are larger, beyond the offset that the proxy itself explains.

    *Theorem.* Let the labels of holdout records be independent given all models, each with odds
    that do not fall, beyond the offset, from the first kind to the second. Given its margins, each
    table has odds of at most e^offset, so the product of the tables' wealth has a mean of at most
    1 for each gap, as has the mean over gaps (`matched_epsilon_lower`); Markov's inequality.

    No label of a training record is read, so a leak does not make it small. In 54 audits of real
    learners, leaking and not, the largest e-value was 1.3 (`docs/evidence/statistics.md`).

    Args:
        tallies: of one audit, or of any part of it; its student is not used.

    *Does not say* why: a proxy that was trained on the holdout, a holdout of another population, or
    a target that unlearned what holds for unseen records.
    """
    tables = holdout_sides(tallies.odds, tallies.control_odds)
    if not tables.records.size:
        return 1.0
    gaps = np.array(_GAPS) / math.sqrt(tables.effective)
    wealth = tables_log_wealth(tables, np.zeros(1), gaps)[0]
    return math.exp(-max(0.0, float(log_mean(wealth, np.ones_like(gaps)))))
