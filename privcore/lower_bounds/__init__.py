"""From what an attack achieved to "the privacy loss is at least ..."."""

from privcore.lower_bounds.betting import (
    bets_claim_pvalue,
    bets_epsilon_ceiling,
    bets_epsilon_lower,
    log_wealth,
)
from privcore.lower_bounds.binomial import (
    epsilon_lower_at_prior,
    epsilon_lower_from_rates,
    success_rate_lower,
)
from privcore.lower_bounds.calibration import PriorFit, fit_prior
from privcore.lower_bounds.choices import Choice, Fixed, Grid, Previous
from privcore.lower_bounds.claims import Claim
from privcore.lower_bounds.evidence import Evidence, read_evidence
from privcore.lower_bounds.fdp import best_epsilon, claim_pvalue, epsilon_lower
from privcore.lower_bounds.game_evidence import (
    GameEvidence,
    choice_epsilon_lower,
    game_evidence,
)
from privcore.lower_bounds.steinke import Steinke
from privcore.lower_bounds.verdicts import Verdict, verdict
from privcore.lower_bounds.windows import (
    WINDOW_EPSILONS,
    Night,
    calibrate_pvalue,
    false_discovery_qvalues,
    game_night,
    window_epsilon_lower,
)

__all__ = [
    "WINDOW_EPSILONS",
    "Choice",
    "Claim",
    "Evidence",
    "Fixed",
    "GameEvidence",
    "Grid",
    "Night",
    "Previous",
    "PriorFit",
    "Steinke",
    "Verdict",
    "best_epsilon",
    "bets_claim_pvalue",
    "bets_epsilon_ceiling",
    "bets_epsilon_lower",
    "calibrate_pvalue",
    "choice_epsilon_lower",
    "claim_pvalue",
    "epsilon_lower",
    "epsilon_lower_at_prior",
    "epsilon_lower_from_rates",
    "false_discovery_qvalues",
    "fit_prior",
    "game_evidence",
    "game_night",
    "log_wealth",
    "read_evidence",
    "success_rate_lower",
    "verdict",
    "window_epsilon_lower",
]
