from .betting import Stakes, bets_epsilon_lower, stakes_for
from .claims import Claim
from .evidence import MISLED, Evidence, misled_pvalue, read_evidence, segment_night
from .false_discovery import false_discovery_qvalues
from .fdp import best_epsilon, claim_pvalue, epsilon_lower
from .game_evidence import GameEvidence, choice_epsilon_lower, game_evidence
from .matched import matched_epsilon_lower, matched_log_wealth
from .notebook import AuditAnswer, audit_models, audit_probabilities
from .notebook_input import Arm
from .power import OFFSETS, ImaginedNight, Power, nights_until_conclusive, sees_from_together
from .question import (
    MINIMUM_CONTROL_RECORDS,
    MINIMUM_RECORDS,
    Grid,
    Secret,
    conclusive,
    leak_to_be_seen,
    refutes,
)
from .segment_bounds import SegmentBound, name_segments
from .verdicts import (
    Doubt,
    Judged,
    ReasonCode,
    Verdict,
    judge,
    not_a_guarantee,
    privatised,
    says_nothing,
)
from .windows import (
    STANDING_NIGHTS,
    WINDOW_EPSILONS,
    WINDOW_NIGHTS,
    ClaimedNight,
    Night,
    declarations_refuted,
    standing_epsilons,
    standing_length,
    window_epsilon_lower,
)

__all__ = [
    "MINIMUM_CONTROL_RECORDS",
    "MINIMUM_RECORDS",
    "MISLED",
    "OFFSETS",
    "STANDING_NIGHTS",
    "WINDOW_EPSILONS",
    "WINDOW_NIGHTS",
    "Arm",
    "AuditAnswer",
    "Claim",
    "ClaimedNight",
    "Doubt",
    "Evidence",
    "GameEvidence",
    "Grid",
    "ImaginedNight",
    "Judged",
    "Night",
    "Power",
    "ReasonCode",
    "Secret",
    "SegmentBound",
    "Stakes",
    "Verdict",
    "audit_models",
    "audit_probabilities",
    "best_epsilon",
    "bets_epsilon_lower",
    "choice_epsilon_lower",
    "claim_pvalue",
    "conclusive",
    "declarations_refuted",
    "epsilon_lower",
    "false_discovery_qvalues",
    "game_evidence",
    "judge",
    "leak_to_be_seen",
    "matched_epsilon_lower",
    "matched_log_wealth",
    "misled_pvalue",
    "name_segments",
    "nights_until_conclusive",
    "not_a_guarantee",
    "privatised",
    "read_evidence",
    "refutes",
    "says_nothing",
    "sees_from_together",
    "segment_night",
    "stakes_for",
    "standing_epsilons",
    "standing_length",
    "window_epsilon_lower",
]
