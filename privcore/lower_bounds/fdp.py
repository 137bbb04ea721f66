"""Lower bound on the privacy loss from a guessing adversary's success."""

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.guarantees import Family, Gaussian, Guarantee, check_delta
from privcore.lower_bounds.kernels import best_rejected, largest_rejected, rejects

_SMALLEST_SIGNIFICANCE = 1e-300


def epsilon_lower(
    records: int,
    guesses: int,
    correct: int,
    *,
    family: Family,
    delta: float,
    significance: float = 0.05,
    shift: float = 0.0,
) -> float:
    """Return epsilon(delta) of the strongest guarantee in `family` that is not rejected.

    If the mechanism's trade-off function lies in `family`, its epsilon at `delta` is less than the
    answer with probability at most `significance`.

    Args:
        records: records that took part in the game, m.
        guesses: records on which the adversary did not abstain, c'.
        correct: guesses that were right, c.
        family: which guarantees to test; it must fit the claim.
        delta: the delta at which epsilon is stated; also that of `ApproxDP()`.
        significance: allowed probability that the bound is wrong, in (0, 0.5).
        shift: bound on the total-variation distance between labels and proxy, tau.

    Returns:
        A value rounded towards zero, the rejected end of the search's bracket; 0 if nothing is
        rejected. Zero is silence, not safety: see the ceiling of an audit of this size.

    Raises:
        InvalidInputError: counts that contradict each other, or a value out of its range.

    Theorem: Mahloujifar, Melis and Chaudhuri 2024 (arXiv:2410.22235), Theorem 9 and Algorithm 3;
    with `shift`, "Observational Auditing of Label Privacy", Theorem 5. It assumes that the bits are
    fair and independent of training, and says nothing about families that were not tested.

    >>> from privcore.guarantees import PureDP
    >>> round(epsilon_lower(10_000, 1_000, 980, family=PureDP(), delta=0.0), 4)
    3.5006
    """
    check_counts(records, guesses, correct)
    check_claim(family, delta, significance, shift)
    if guesses == 0:
        return 0.0
    tradeoff = family.member(0.0, delta=delta).kernel()
    game = records, guesses, correct
    parameter = largest_rejected(game, (significance, shift), tradeoff, 0.0)
    return family.member(parameter, delta=delta).epsilon_at(delta=delta)


def best_epsilon(
    records: int,
    guesses: NDArray[np.int64],
    correct: NDArray[np.int64],
    *,
    family: Family,
    delta: float,
    significance: float = 0.05,
    shift: float = 0.0,
) -> NDArray[np.float64]:
    """Return per repetition the largest `epsilon_lower` over its fractions.

    Args:
        records: records in the game.
        guesses: shape (repetitions, fractions).
        correct: shape (repetitions, fractions).
        family: as for `epsilon_lower`, like all the rest; `significance` is spent on *each*
            fraction. Nothing is corrected here: a claim over all K fractions of one repetition
            holds at K times `significance`.
        delta: see `family`.
        significance: see `family`.
        shift: see `family`.

    Returns:
        Shape (repetitions,). The search is pruned: a fraction that does not reject the best
        parameter so far costs one test.

    Raises:
        InvalidInputError: as `epsilon_lower`, or shapes that differ.
    """
    if guesses.shape != correct.shape:
        rule = f"it has the shape of guesses, {guesses.shape}"
        raise InvalidInputError("correct", correct.shape, rule)
    check_counts(records, guesses, correct)
    check_claim(family, delta, significance, shift)
    tradeoff = family.member(0.0, delta=delta).kernel()
    # In one order: the kernel would be compiled anew for each layout.
    counts = np.ascontiguousarray(guesses), np.ascontiguousarray(correct)
    parameters = best_rejected(records, *counts, (significance, shift), tradeoff)
    values = [family.member(value, delta=delta).epsilon_at(delta=delta) for value in parameters]
    return np.array(values)


def claim_pvalue(
    records: int, guesses: int, correct: int, *, guarantee: Guarantee, shift: float = 0.0
) -> float:
    """Return the smallest significance at which `guarantee` is rejected.

    Small: what the adversary achieved is unlikely under the guarantee. Large says nothing in the
    guarantee's favour. Same theorem and assumptions as `epsilon_lower`; the answer is the rejected
    end of its bracket, so a little too large rather than too small, and at most 1.

    Raises:
        InvalidInputError: counts that contradict each other, or a shift outside [0, 1].

    >>> from privcore.guarantees import PureDP
    >>> claim_pvalue(1_000, 100, 90, guarantee=PureDP(1.0)) < 1e-4
    True
    """
    check_counts(records, guesses, correct)
    check_shift(shift)
    game, tradeoff = (records, guesses, correct), guarantee.kernel()
    if guesses == 0 or not rejects(game, (1.0, shift), tradeoff):
        return 1.0
    low, high = np.log(_SMALLEST_SIGNIFICANCE), 0.0
    if rejects(game, (_SMALLEST_SIGNIFICANCE, shift), tradeoff):
        return _SMALLEST_SIGNIFICANCE
    while high - low > 1e-12 * -low:
        middle = 0.5 * (low + high)
        if rejects(game, (float(np.exp(middle)), shift), tradeoff):
            high = middle
        else:
            low = middle
    return float(np.exp(high))


def check_counts(
    records: int, guesses: int | NDArray[np.int64], correct: int | NDArray[np.int64]
) -> None:
    """Raise `InvalidInputError` unless 0 <= correct <= guesses <= records and records >= 1."""
    if records < 1:
        raise InvalidInputError("records", records, "a game needs at least 1 record")
    if np.any(np.asarray(correct) < 0):
        raise InvalidInputError("correct", correct, "a count is not negative")
    if np.any(np.asarray(correct) > guesses):
        raise InvalidInputError(
            "correct", correct, f"it is at most the number of guesses, {guesses}"
        )
    if np.any(np.asarray(guesses) > records):
        raise InvalidInputError(
            "guesses", guesses, f"it is at most the number of records, {records}"
        )


def check_significance(significance: float) -> None:
    """Raise `InvalidInputError` unless `significance` lies in (0, 0.5)."""
    if not 0.0 < significance < 0.5:
        raise InvalidInputError("significance", significance, "significance lies in (0, 0.5)")


def check_shift(shift: float) -> None:
    """Raise `InvalidInputError` unless `shift` lies in [0, 1]."""
    if not 0.0 <= shift <= 1.0:
        raise InvalidInputError("shift", shift, "a total-variation distance lies in [0, 1]")


def check_claim(family: Family, delta: float, significance: float, shift: float) -> None:
    """Raise `InvalidInputError` unless the values can be those of one test."""
    check_delta(delta)
    check_significance(significance)
    check_shift(shift)
    if isinstance(family, Gaussian) and delta == 0.0:
        raise InvalidInputError(
            "delta", delta, "a Gaussian guarantee has a finite epsilon only at a delta above 0"
        )
