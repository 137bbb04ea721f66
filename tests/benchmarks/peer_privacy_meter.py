"""ml_privacy_meter's audit in one run sits the exam; its checkout is in PYTHONPATH.

What the index has as privacy-meter is of 2023, and has no such function.
"""

# ruff: noqa: ARG001  # an auditor is given what it may not need

import numpy as np
from audit import compute_abstain_attack_results  # an optional peer

from flows.study.exam import label_game
from privcore import Arm

VERSION = "ml_privacy_meter, commit e384af8 of 2025-04-26"


def privacy_meter_best_threshold(
    training: Arm, holdout: Arm, *, significance: float, random: np.random.Generator
) -> float:
    """`compute_abstain_attack_results`, delta 0: its log calls `eps_opt` a lower bound on epsilon.
    That is the best over all numbers of guesses, each at the whole p-value: it claims no
    correction for the choice. It assumes that yesterday's model is right.
    """
    found = compute_abstain_attack_results(
        *(part.astype(float) for part in label_game(training, random)), p_value=significance
    )
    return float(found["eps_opt"])
