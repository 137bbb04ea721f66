"""From what an attack achieved to "the privacy loss is at least ..."."""

from privcore.lower_bounds.betting import bets_epsilon_ceiling, bets_epsilon_lower
from privcore.lower_bounds.binomial import epsilon_lower_at_prior, success_rate_lower
from privcore.lower_bounds.calibration import PriorFit, fit_prior
from privcore.lower_bounds.choices import Grid
from privcore.lower_bounds.evidence import Evidence, read_evidence
from privcore.lower_bounds.fdp import best_epsilon, claim_pvalue, epsilon_lower
from privcore.lower_bounds.game_evidence import Claim, GameEvidence, game_evidence
from privcore.lower_bounds.verdicts import Verdict, verdict

__all__ = [
    "Claim",
    "Evidence",
    "GameEvidence",
    "Grid",
    "PriorFit",
    "Verdict",
    "best_epsilon",
    "bets_epsilon_ceiling",
    "bets_epsilon_lower",
    "claim_pvalue",
    "epsilon_lower",
    "epsilon_lower_at_prior",
    "fit_prior",
    "game_evidence",
    "read_evidence",
    "success_rate_lower",
    "verdict",
]
