"""Probability that a language model generates a given sequence, computed without generating.

Stock et al. 2022 (arXiv:2202.07623), section 3.2. An attacker samples from a language model and
hopes for a training sequence. The probability that one sample is just this sequence is a product
over its tokens, for plain sampling, for a temperature, and for top-k sampling, so it is known for
every training sequence where sampling would have to be lucky. It says what *this* attack finds; a
sequence that it never generates may be found by another.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked

_LOG_2 = float(np.log(2.0))
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Sampling:
    """An attacker's way to sample the next token.

    Attributes:
        temperatures: of each step; the last holds for all further steps. 1 is the model's own
            distribution, below 1 favours what is probable.
        top: number of the most probable tokens that can come; None for all. Of equally probable
            tokens the first in the vocabulary's order counts as more probable.
    """

    temperatures: tuple[float, ...] = (1.0,)
    top: int | None = None

    def __post_init__(self) -> None:
        rule = "a temperature is finite and above 0"
        largest = np.finfo(np.float64).max
        found = checked("temperatures", self.temperatures, 1e-6, largest, rule)
        if found.ndim != 1 or not found.size:
            raise InvalidInputError("temperatures", self.temperatures, "there is at least one")
        if self.top is not None:
            checked("top", self.top, 1, np.inf, "at least one token can come")

    def log_probabilities(self, log_probabilities: ArrayLike) -> Floats:
        """Return the log-probabilities with which tokens are sampled, minus infinity for never.

        Args:
            log_probabilities: shape (steps, vocabulary), the model's, natural logarithms; minus
                infinity is a value.

        Raises:
            InvalidInputError: a row whose probabilities do not sum to 1 within 1e-6.
        """
        given = _checked_rows(log_probabilities)
        steps, vocabulary = given.shape
        held = np.asarray(self.temperatures, dtype=np.float64)
        each = held[np.minimum(np.arange(steps), held.size - 1)]
        scaled = given / each[:, np.newaxis]
        if self.top is not None and self.top < vocabulary:
            order = np.argsort(-given, axis=1, kind="stable")
            np.put_along_axis(scaled, order[:, self.top :], -np.inf, axis=1)
        return np.asarray(log_softmax(scaled, axis=1))


PLAIN = Sampling()


def sampling_log_probability(
    log_probabilities: ArrayLike, tokens: ArrayLike, *, sampling: Sampling = PLAIN
) -> float:
    """Return the log-probability that one sample from the model is this sequence.

    Args:
        log_probabilities: shape (tokens, vocabulary): row i is what the model says of token i,
            given the tokens before it.
        tokens: shape (tokens,), places in the vocabulary.
        sampling: how the attacker samples.

    Returns:
        Natural logarithm; minus infinity where a token falls out of the top k, 0 for no tokens.

    Raises:
        InvalidInputError: shapes that do not fit, a token outside the vocabulary, or a row that is
            no distribution.

    >>> import numpy as np
    >>> model = np.log([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]])
    >>> float(np.exp(sampling_log_probability(model, [1, 1])).round(6))
    0.24
    >>> sampling_log_probability(model, [2, 1], sampling=Sampling(top=2))
    -inf
    """
    tokens = np.asarray(tokens)
    if tokens.size == 0:
        return 0.0
    sampled = sampling.log_probabilities(log_probabilities)
    if tokens.shape != sampled.shape[:1]:
        rule = f"it is ({len(sampled)},), a token per row of log_probabilities"
        raise InvalidInputError("shape of tokens", tokens.shape, rule)
    places = checked(
        "tokens", tokens, 0, sampled.shape[1] - 1, f"they lie in 0 to {sampled.shape[1] - 1}"
    )
    return float(sampled[np.arange(len(sampled)), places.astype(np.int64)].sum())


def calibrated_loss(target: ArrayLike, reference: ArrayLike) -> Floats:
    """Return how much smaller the loss of the target model is than that of a reference model.

    Section 4.2: the target's loss minus that of a model that never saw the sequence, in nats of the
    whole sequence. Far below 0 the target knows the sequence better than its language explains.

    Args:
        target: log-probabilities of sequences under plain sampling, any shape.
        reference: the same sequences' under the reference model.

    Returns:
        The same shape; 0 where neither model can generate the sequence.
    """
    rule = "a log-probability is at most 0"
    ours = checked("target", target, -np.inf, _ROUNDING, rule)
    theirs = checked("reference", reference, -np.inf, _ROUNDING, rule)
    if ours.shape != theirs.shape:
        raise InvalidInputError("shape of reference", theirs.shape, f"it is {ours.shape}")
    neither = np.isneginf(ours) & np.isneginf(theirs)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(neither, 0.0, theirs - ours))[()]


def secrecy_bits(log_probability: ArrayLike) -> Floats:
    """Return how secret a sequence is: log2(1/p), of the samples that it takes on average.

    Section 1; the exposure of Carlini et al. 2019 (arXiv:1802.08232) is what training takes from
    it. `upper_bounds.renyi_leakage` of a reference model's secrecy is the most that DP training can
    take, if the reference model is distributed as training without the sequence would be.

    Args:
        log_probability: natural logarithm, any shape; minus infinity gives infinity.
    """
    rule = "a log-probability is at most 0"
    logs = checked("log_probability", log_probability, -np.inf, _ROUNDING, rule)
    return np.asarray(np.maximum(-logs, 0.0) / _LOG_2)[()]


def exposure_bits(secret: ArrayLike, candidates: ArrayLike) -> Floats:
    """Return the exposure of a secret: how few guesses a model leaves, log2(candidates / rank).

    Carlini et al. 2019 (arXiv:1802.08232), Definition 4. The rank counts the candidates that the
    model holds likelier, and the secret itself; ties count as guesses. Of N candidates at most
    1/p can be as probable as a secret of probability p, so the exposure is at least
    log2(N) - `secrecy_bits`.

    Args:
        secret: log-probabilities of the secrets, any shape.
        candidates: shape (candidates,), log-probabilities of every value that the secret may have,
            itself among them; or of values drawn at random, where at most the logarithm of their
            number can be stated.

    Returns:
        The secrets' shape, in bits; 0 where every candidate is at least as probable.

    Raises:
        InvalidInputError: a log-probability above 0, or no candidates.

    >>> float(exposure_bits(-1.0, [-1.0, -2.0, -3.0, -4.0]))
    2.0
    """
    rule = "a log-probability is at most 0"
    logs = checked("secret", secret, -np.inf, _ROUNDING, rule)
    others = np.sort(checked("candidates", candidates, -np.inf, _ROUNDING, rule).ravel())
    if not others.size:
        raise InvalidInputError("candidates", 0, "there is at least one")
    rank = np.maximum(others.size - np.searchsorted(others, logs, side="left"), 1)
    return np.asarray(np.log2(others.size / rank))[()]


def _checked_rows(log_probabilities: ArrayLike) -> Floats:
    rule = "a log-probability is at most 0"
    given = checked("log_probabilities", log_probabilities, -np.inf, _ROUNDING, rule)
    if given.ndim != 2 or not given.size:
        raise InvalidInputError(
            "shape of log_probabilities", given.shape, "it is (tokens, vocabulary)"
        )
    totals = np.exp(given).sum(axis=1)
    far = np.abs(totals - 1.0) > _ROUNDING
    if far.any():
        raise InvalidInputError(
            "sum of probabilities", float(totals[far][0]), "a distribution sums to 1"
        )
    return given
