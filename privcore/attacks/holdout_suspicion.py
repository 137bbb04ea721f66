"""Signs that the target knows labels of holdout records better than a stranger to them could.

If the target was trained on the holdout, the audit finds nothing: both arms are remembered alike. A
good model that remembers nothing can look the same, so the result is a remark, not a verdict.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from privcore.attacks.logistic_regression import fit_logistic

SUSPICIOUS = 10.0
"""Standard errors above which the holdout is called suspect. Learners that never saw it reached
5.4 in simulations and 8.1 on flights. A target that is better than its student by half a
unit of log-odds, for a reason other than memory, reaches 10 to 13 with 5,000 records."""

MOST_RECORDS = 5_000
"""The most records that are looked at, the first ones: a good target's lead on its student, however
little it is, would be seen of any number of records."""

_FEWER_ERRORS = 0.75
_CERTAIN = 3.0
"""Standard errors of a difference of two counts, as if these were independent. Two models err on
the same records, so it is more."""

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


def misranked(probabilities: NDArray[np.float64], labels: NDArray[np.integer]) -> int:
    """Return how many labels a model ranks wrongly, whatever its odds are shifted or scaled by.

    Of two classes as many records are called the second as have it, those that are likeliest to,
    and the others among these count. Of more classes, records whose likeliest is not the label do.

    Args:
        probabilities: shape (records, classes).
        labels: shape (records,), class indices from 0.

    >>> misranked(np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]), np.array([0, 1, 0]))
    1
    """
    if probabilities.shape[1] != 2:
        return int(np.count_nonzero(probabilities.argmax(axis=1) != labels))
    likeliest = np.argsort(-probabilities[:, 1], kind="stable")[: np.count_nonzero(labels)]
    return int(np.count_nonzero(labels[likeliest] == 0))


def ranks_too_well(target: int, proxy: int) -> bool:
    """Return whether a target misranks so few holdout labels that it may have been trained on them.

    It misranks fewer than three quarters of those that the proxy does, beyond chance. This is all
    that can be asked where there is no student: two models of one pipeline err alike on rows that
    neither saw. *Does not say* that the holdout is clean where it is false: of boosted trees that
    saw 75% of it it is mostly true, of such that saw 20% seldom.

    Args:
        target: what the target misranks of some holdout records (`misranked`).
        proxy: what the proxy does of the same records.

    >>> ranks_too_well(125, 190), ranks_too_well(170, 190), ranks_too_well(6, 10)
    (True, False, False)
    """
    fewer = proxy - target
    return target < _FEWER_ERRORS * proxy and fewer > _CERTAIN * math.sqrt(proxy + target)


def suspect_sentence(suspicion: float) -> str:
    """Return that the holdout may have been trained on, where it looks so; else ""."""
    if suspicion <= SUSPICIOUS:
        return ""
    return (
        "holdout_suspect: the target knows labels of holdout records that neither the earlier "
        f"model nor a student of the target knows ({suspicion:.1f} standard errors). Training may "
        "have seen the holdout. Then the model remembers both sides alike, and a small bound "
        "concludes nothing: see that training leaves out exactly the rows that are called holdout "
        "here."
    )
