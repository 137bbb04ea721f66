"""Signs that the target knows labels of holdout records better than a stranger to them could.

If the target was trained on the holdout, the audit finds nothing: both arms are remembered alike. A
good model that remembers nothing can look the same, so the result is a remark, not a verdict.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from privcore.attacks.odds import OddsTally

RIDGE = 1e-6
"""Weight of the squared coefficients: a fit exists where columns tell the labels."""
_STEPS = 60
_LONGEST_STEP = 5.0
_CONVERGED = 1e-8


def fit_logistic(
    design: NDArray[np.float64],
    sign: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    ridge: float = RIDGE,
) -> NDArray[np.float64]:
    """Return the coefficients, shape (columns,), by Newton's method.

    Args:
        design: shape (rows, columns).
        sign: shape (rows,), 1 for a label that is one, -1 for one that is not.
        weights: shape (rows,), how many records each row stands for.
        ridge: weight of half the squared coefficients.
    """
    found = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        margin = sign * (design @ found)
        gradient = design.T @ (weights * sign * expit(-margin)) - ridge * found
        curvature = (design.T * (weights * expit(margin) * expit(-margin))) @ design
        step = np.linalg.solve(curvature + ridge * np.eye(found.size), gradient)
        longest = float(np.abs(step).max())
        found = found + step * min(1.0, _LONGEST_STEP / max(longest, 1e-12))
        if longest < _CONVERGED:
            break
    return found


SUSPICIOUS = 10.0
"""Standard errors above which the holdout is called suspect. Learners that never saw it reached
5.4 in simulations and 8.1 on flights. A target that is better than its student by half a
unit of log-odds, for a reason other than memory, reaches 10 to 13 with 5,000 records."""

MOST_RECORDS = 5_000
"""The most records that are looked at, the first ones: a good target's lead on its student, however
little it is, would be seen of any number of records."""

SWAPPED = 5.0
"""Standard errors of `holdout_lead` from which on it is said."""

_LARGEST = 12.0


def holdout_suspicion(
    target: NDArray[np.float64],
    student: NDArray[np.float64],
    proxy: NDArray[np.float64],
    labels: NDArray[np.integer],
) -> float:
    """Return how surely the target's own part tells holdout labels, in standard errors.

    Labels are regressed by logistic regression on what the student says, what the proxy says, and
    what the target says beyond the student, with and without the last. The answer is the signed
    root of twice the difference in log-likelihood (Wald's ratio collapses where the target is
    nearly always right). A target that never saw the records says beyond its student only what the
    student is too simple for; one that was trained on them says their labels.

    Args:
        target: shape (records, outputs), what the target says (`privcore.attacks.learned`).
        student: shape (records, outputs), what a student says that never saw the record.
        proxy: shape (records, outputs), what the proxy says.
        labels: shape (records,), class indices from 0.

    *Does not say* that the holdout is clean where it is small: of a holdout of which 12% were
    trained on, about half are seen, of 25% most, if they are thousands.
    """
    target, student, proxy = (each[:MOST_RECORDS] for each in (target, student, proxy))
    labels = labels[:MOST_RECORDS]
    if not labels.size:
        return 0.0
    # With two classes the second is looked at, with more the most frequent one.
    place = 0 if target.shape[1] == 1 else int(np.bincount(labels).argmax())
    ones = labels == (1 if target.shape[1] == 1 else place)
    if ones.all() or not ones.any():
        return 0.0
    said = [np.clip(each[:, place], -_LARGEST, _LARGEST) for each in (target, student, proxy)]
    without = np.stack([np.ones(labels.size), said[1], said[2]], axis=1)
    whole = np.column_stack([without, said[0] - said[1]])
    sign = np.where(ones, 1.0, -1.0)
    before, after = (fit_logistic(design, sign, np.ones(sign.size)) for design in (without, whole))
    gained = 2.0 * float(
        log_expit(sign * (whole @ after)).sum() - log_expit(sign * (without @ before)).sum()
    )
    return math.copysign(math.sqrt(max(gained, 0.0)), float(after[-1]))


def suspect_sentence(suspicion: float) -> str:
    """Return that the holdout may have been trained on, where it looks so; else ""."""
    if suspicion <= SUSPICIOUS:
        return ""
    return (
        "holdout_suspect: the target knows labels of holdout records that neither the earlier "
        f"model nor a student of the target knows ({suspicion:.1f} standard errors), so training "
        "may have seen the holdout. See that training leaves out exactly the rows that are called "
        "holdout here, and that the two arms are not swapped."
    )


def holdout_lead(odds: Sequence[OddsTally], control: Sequence[OddsTally]) -> float:
    """Return by how many standard errors the target is right oftener about holdout labels.

    It predicts the class where it raised its odds above the proxy's. Of alike arms, which chance
    divides, the figure is above 5 once in three million audits. It is large where the arms are
    swapped or the holdout was trained on; but also where an honest target learned noisy labels by
    heart and knows the day better than the proxy. So it is never a doubt.

    Args:
        odds: tallies of the training records.
        control: tallies of the holdout records.
    """
    made = [[one.predictions() for one in arm] for arm in (odds, control)]
    right = [sum(float(each.right.sum()) for each in arm) for arm in made]
    records = [
        total + sum(float(each.wrong.sum()) for each in arm)
        for total, arm in zip(right, made, strict=True)
    ]
    if not all(records):
        return 0.0
    share = sum(right) / sum(records)
    error = math.sqrt(share * (1.0 - share) * sum(1.0 / each for each in records))
    return (right[1] / records[1] - right[0] / records[0]) / error if error > 0.0 else 0.0


def untested_sentence(
    odds: Sequence[OddsTally], control: Sequence[OddsTally], features: str
) -> str:
    """Return that a holdout that training saw would not be noticed, as there are no features.

    Args:
        odds: tallies of the training records.
        control: tallies of the holdout records.
        features: where features are given; "" where none can be.
    """
    lead = holdout_lead(odds, control)
    advice = f": give the features in {features}" if features else ""
    seen = (
        f"The target is right about holdout labels oftener than about training labels ({lead:.0f} "
        "standard errors). So it is if the two arms are swapped, and if it learned noisy labels by "
        "heart: see that training saw the training records alone. "
        if lead > SWAPPED
        else ""
    )
    return f"{seen}This audit would not notice if training saw a part of the holdout{advice}."
