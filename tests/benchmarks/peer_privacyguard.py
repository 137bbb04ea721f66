"""PrivacyGuard's label-inference attack and analysis sit the exam, with their defaults."""

# ruff: noqa: ARG001  # an auditor is given what it may not need

import contextlib
import importlib.metadata
import io
from typing import Any

import numpy as np
import pandas as pd
from privacy_guard.analysis.lia.lia_analysis_node import LIAAnalysisNode  # an optional peer
from privacy_guard.analysis.mia.aggregate_analysis_input import AggregationType
from privacy_guard.attacks.lia_attack import LIAAttack, LIAAttackInput

from privcore import Arm

VERSION = f"privacyguard-platform {importlib.metadata.version('privacyguard-platform')}, of 2026-03"
_DELTA = 1e-5


def label_inference(training: Arm, random: np.random.Generator) -> Any:
    """Play and analyse its label-inference game on the training records."""
    np.random.seed(int(random.integers(2**31)))  # noqa: NPY002  # the generator that it uses
    frames = [
        pd.DataFrame(
            {
                "user_id": np.arange(len(training.labels)),
                "label": training.labels,
                "predictions": said[:, 1],
            }
        )
        for said in (training.target, training.proxy)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        prepared = LIAAttackInput(*frames, AggregationType.NONE).prepare_attack_input()
        played = LIAAttack(prepared, AggregationType.NONE).run_attack()
    return LIAAnalysisNode(played, delta=_DELTA).run_analysis()


def privacyguard_eps(
    training: Arm, holdout: Arm, *, significance: float, random: np.random.Generator
) -> float:
    """`eps` of `LIAAnalysisNode` at delta 1e-5, its first figure. It claims the upper end of a 95%
    interval, the largest over all error thresholds: an estimate of the attack, and no lower
    bound. It assumes that yesterday's model is right.
    """
    return max(float(label_inference(training, random).eps), 0.0)


def privacyguard_eps_lb(
    training: Arm, holdout: Arm, *, significance: float, random: np.random.Generator
) -> float:
    """`eps_lb` of `LIAAnalysisNode` at delta 1e-5: the lower end of that interval at the threshold
    at which `eps` is largest. It claims no more. It assumes that yesterday's model is right.
    """
    return max(float(label_inference(training, random).eps_lb), 0.0)
