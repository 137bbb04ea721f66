"""jax-privacy's auditor of canaries sits the exam: scores of own and of drawn labels."""

# ruff: noqa: ARG001  # an auditor is given what it may not need

import importlib.metadata

import numpy as np
from jax_privacy.auditing import CanaryScoreAuditor  # an optional peer

from flows.study.exam import label_game
from privcore import Arm

VERSION = f"jax-privacy {importlib.metadata.version('jax-privacy')}, of 2026-04"
_DELTA = 1e-5


def _auditor(training: Arm, random: np.random.Generator) -> CanaryScoreAuditor:
    scores, own = label_game(training, random)
    return CanaryScoreAuditor(scores[own], scores[~own])


def jax_privacy_from_gdp(
    training: Arm, holdout: Arm, *, significance: float, random: np.random.Generator
) -> float:
    """`epsilon_from_gdp` at delta 1e-5. It claims an estimate of epsilon, of Gaussian mechanisms,
    with an allowed probability of failure. It assumes that yesterday's model is right. Its
    developers mended it on 2026-07-27, after this version.
    """
    return float(_auditor(training, random).epsilon_from_gdp(significance, _DELTA))


def jax_privacy_one_run(
    training: Arm, holdout: Arm, *, significance: float, random: np.random.Generator
) -> float:
    """`epsilon_one_run` at delta 1e-5, corrected for all thresholds. It claims a lower bound on
    epsilon from one run of training. It assumes that yesterday's model is right.
    """
    return float(_auditor(training, random).epsilon_one_run(significance, _DELTA))
