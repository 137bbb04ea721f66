"""From tallies to everything that an audit says about the privacy loss, as one object."""

from dataclasses import dataclass

import numpy as np

from privcore.attacks import LiftCells, Tallies
from privcore.guarantees import ApproxDP, Neighbors, PureDP
from privcore.lower_bounds.betting import (
    bets_claim_pvalue,
    bets_epsilon_ceiling,
    bets_epsilon_lower,
    delta_is_affordable,
    log_wealth,
)
from privcore.lower_bounds.calibration import PriorFit, fit_prior
from privcore.lower_bounds.choices import Grid, Previous
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.game_evidence import (
    GameEvidence,
    choice_epsilon_lower,
    game_evidence,
)
from privcore.lower_bounds.windows import WINDOW_EPSILONS, Night, game_night

BETS, PREVIOUS, GRID = "bets", "previous", "grid"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one audit proves, and what it only suggests.

    Attributes:
        claim: what was tested.
        method: how the headline was had, chosen before the labels were seen: `bets` (betting on
            the labels with the larger of the proxy's prior and the control's) for a pure or an
            (epsilon, delta) claim that few enough records can test; for all others `previous` (the
            game at the fraction that was best on the previous audited day), or `grid` (the game,
            corrected over fractions) where no day was audited before.
        epsilon_lower: the headline; valid at the claim's significance if the proxy is right. By
            `bets` it is besides never more than what the control leaves unexplained.
        epsilon_ceiling: what the same method could have proved had every guess been right.
        epsilon_calibrated: the bets with the control's prior alone; an estimate.
        epsilon_unadjusted: the bets with the proxy taken at its word. Where the control's is high
            too, most of it is the proxy's ignorance.
        control_epsilon_unadjusted: the same on control records, where nothing is memorised.
        epsilon_previous: the game at the one fraction that was best on the previous audited day.
        claim_pvalue: of the declared guarantee, by the headline's method; None without one.
        night: what the night adds to windows: the wealth of the headline's bets, or where the
            game makes the headline its calibrated p-values at the one pre-registered fraction.
        game: the label-inference game on training records, with the paper's figure.
        control_game: the same game on control records.
        prior_fit: what the control says of the proxy; (0, 1, 0) is a proxy that is right.
    """

    claim: Claim
    method: str
    epsilon_lower: float
    epsilon_ceiling: float
    epsilon_calibrated: float
    epsilon_unadjusted: float
    control_epsilon_unadjusted: float
    epsilon_previous: float
    claim_pvalue: float | None
    night: Night
    game: GameEvidence
    control_game: GameEvidence
    prior_fit: PriorFit


def read_evidence(
    tallies: Tallies,
    *,
    claim: Claim,
    choice: Grid,
    previous: Previous = Previous(best=None),  # noqa: B008  # frozen
    paper_delta: float,
    random: np.random.Generator,
) -> Evidence:
    """Read the tallies as evidence against `claim`.

    Args:
        tallies: of one audit, or of any part of it.
        claim: family, delta, significance, shift, neighbouring relation.
        choice: guess fractions of the game.
        previous: the fraction that was best on the previous audited day.
        paper_delta: delta of the paper's figure.
        random: the audit's stream, for the border bins of the game.

    Raises:
        InvalidInputError: a claim that makes no sense.
    """
    game, control_game = (
        game_evidence(tally, claim=claim, choice=choice, paper_delta=paper_delta, random=random)
        for tally in (tallies.game, tallies.control_game)
    )
    fit = fit_prior(tallies.control_lifts)
    cells = tallies.lifts.cells()
    granted = fit.raise_prior(cells)
    records, classes = tallies.lifts.records, tallies.classes
    method = _method(tallies, claim, previous)
    epsilon_previous = choice_epsilon_lower(
        tallies.game, claim=claim, choice=previous, random=random
    )
    lower, ceiling, pvalue = game.epsilon_lower, game.epsilon_ceiling, game.claim_pvalue
    if method == PREVIOUS:
        lower = epsilon_previous
    if method == BETS:
        bound, most = (
            find(
                granted,
                records=records,
                classes=classes,
                delta=claim.delta,
                significance=claim.significance,
            )
            for find in (bets_epsilon_lower, bets_epsilon_ceiling)
        )
        lower, ceiling = _in_units(bound, claim), _in_units(most, claim)
        if claim.epsilon is not None:
            pvalue = bets_claim_pvalue(
                granted,
                records=records,
                classes=classes,
                epsilon=claim.epsilon * claim.neighbors.replacements,
                delta=claim.delta,
            )

    if method == BETS:
        night = Night(log_wealth(granted, epsilons=WINDOW_EPSILONS), records)
    else:
        night = game_night(tallies.game, claim=claim, choice=previous, random=random)

    def estimate(names: LiftCells) -> float:
        # Delta is left out of estimates: it costs a proof, and would silence them on many records.
        bound = bets_epsilon_lower(
            names, records=0, classes=classes, significance=claim.significance
        )
        return _in_units(bound, claim)

    return Evidence(
        claim=claim,
        method=method,
        epsilon_lower=lower,
        epsilon_ceiling=ceiling,
        epsilon_calibrated=estimate(fit.apply(cells)),
        epsilon_unadjusted=estimate(cells),
        control_epsilon_unadjusted=estimate(tallies.control_lifts.cells()),
        epsilon_previous=epsilon_previous,
        claim_pvalue=pvalue,
        night=night,
        game=game,
        control_game=control_game,
        prior_fit=fit,
    )


def _method(tallies: Tallies, claim: Claim, previous: Previous) -> str:
    affordable = delta_is_affordable(
        records=tallies.lifts.records,
        classes=tallies.classes,
        delta=claim.delta,
        significance=claim.significance,
    )
    # Adding or removing costs delta (1 + e^epsilon) per replacement: not worth a method of its own.
    related = claim.neighbors is Neighbors.REPLACE or claim.delta == 0.0
    fits = isinstance(claim.family, PureDP | ApproxDP)
    if fits and affordable and related:
        return BETS
    return GRID if previous.best is None else PREVIOUS


def _in_units(epsilon: float, claim: Claim) -> float:
    return epsilon / claim.neighbors.replacements
