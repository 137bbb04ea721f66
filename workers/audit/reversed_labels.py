"""A target that knows training labels the wrong way round, which the bound does not see.

A model whose classes are in another order, or that was trained on exchanged labels, gives away what
it remembers to an attacker who reverses its answers. Predictions are then wrong, and prove nothing.
"""

import math

import numpy as np
from scipy.special import expit

from privcore.attacks import Matched, OddsTally, Tallies, match

_CERTAIN = 6.0
"""Standard errors; by chance more is seen in one of 10^9 audits."""


def reversed_labels(tallies: Tallies, random: np.random.Generator) -> str:
    """Return that the target seems to know labels the wrong way round, or "": no accusation.

    Its predictions must be right less often on training records than on matched holdout records,
    and less often than the proxy alone expects. The first by itself says nothing: an honest model
    that remembers noise predicts training records by that noise, and is right half of the time,
    where holdout records are predicted by what holds for all records. Noise is not wrong more often
    than the proxy expects of the same predictions. So bets on the opposite cannot be made, either:
    they would accuse that model.
    """
    beside = match(
        tallies.odds,
        tallies.control_odds,
        random=random,
        classes=tallies.classes,
    )[0]
    right, expected, deviation = _against_proxy(tallies.odds)
    if right > expected - _CERTAIN * deviation or _lead(beside) > -_CERTAIN:
        return ""
    return (
        f"The target knows training labels the wrong way round: where the earlier model expects "
        f"{expected:,.0f} of its predictions to be right, {right:,.0f} are. What it remembers can "
        "be read by turning its answers round, and this bound does not see it. See that the "
        "classes are in the order of the model's probabilities, and that it was trained on the "
        "labels that are audited."
    )


def _against_proxy(odds: tuple[OddsTally, ...]) -> tuple[float, float, float]:
    """Return how many predictions are right, how many the proxy expects, and the deviation."""
    right = expected = variance = 0.0
    for one in odds:
        made = one.predictions()
        chance, records = expit(made.prior), made.right + made.wrong
        right += float(made.right.sum())
        expected += float(records @ chance)
        variance += float(records @ (chance * (1.0 - chance)))
    return right, expected, math.sqrt(variance)


def _lead(tables: Matched) -> float:
    """Return by how many standard errors training records are right more often than holdout's."""
    total = tables.records + tables.control
    share = (tables.right + tables.control_right) / np.maximum(total, 1)
    spread = tables.records * tables.control * share * (1.0 - share) / np.maximum(total - 1, 1)
    variance = float(spread.sum())
    more = float((tables.right - tables.records * share).sum())
    return more / math.sqrt(variance) if variance > 0.0 else 0.0
