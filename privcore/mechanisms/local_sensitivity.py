"""Noise by local sensitivity: what individual and bootstrap differential privacy recommend.

"Reconstruction Attacks on Aggressive Relaxations of Differential Privacy" (Protivash, Durrell,
Kifer, Ding and Zhang), sections 3 to 5. Individual differential privacy (IDP) and its group form
(Soria-Comas et al. 2017) compare the actual table only with tables in which up to k records are
replaced; bootstrap differential privacy (BDP, O'Keefe and Charest 2019) only tables made of the
actual table's own records. So a query whose answer none of *those* can change is answered without
any noise, and that it has none tells more than the answer. **None of these is a guarantee**: all
records can be read at any claimed epsilon (`privcore.attacks.query_reconstruction`).

Every definition here adds up the epsilons of the queries that it answers (sequential composition:
Soria-Comas et al. 2017 for IDP, O'Keefe and Charest 2019 for BDP), so what a system believes to
have spent is the number of queries times the epsilon of each.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from privcore.mechanisms.parameter_checks import check_parameter


@dataclass(frozen=True, slots=True, eq=False)
class TrueAnswers:
    """Input of a mechanism for a batch of queries q(phi, b).

    Args:
        counts: shape (queries,), how many records satisfy phi.
        thresholds: shape (queries,), b.
        constant: shape (queries,), whether phi holds for every possible record, or for none.
        records: number of records n.
    """

    counts: NDArray[np.int64]
    thresholds: NDArray[np.int64]
    constant: NDArray[np.bool_]
    records: int

    @property
    def exceeded(self) -> NDArray[np.float64]:
        """The true answers: 1.0 where more than b records satisfy phi, else 0.0."""
        return (self.counts > self.thresholds).astype(np.float64)


def local_sensitivity(true: TrueAnswers, k: int) -> NDArray[np.int64]:
    """Return the k-local sensitivity of each query, 0 or 1; shape (queries,).

    Lemma 3.3: by replacing up to k records the answer cannot change where b < 0, b >= n, phi is
    constant, the count is above b + k or at most b - k; otherwise it can.

    Raises:
        InvalidInputError: k below 1, or fewer than k records (the lemma assumes that many).
    """
    check_group_size(k)
    if true.records < k:
        raise InvalidInputError("records", true.records, f"replacing k = {k} records needs {k}")
    fixed = (true.counts > true.thresholds + k) | (true.counts <= true.thresholds - k)
    return np.where(fixed | _decided(true), 0, 1)


def bootstrap_sensitivity(true: TrueAnswers) -> NDArray[np.int64]:
    """Return the bootstrap sensitivity of each query, 0 or 1; shape (queries,).

    Lemma 4.5: tables made of the actual table's records all give the same answer where all of its
    records satisfy phi, or none. (The lemma is about b = 0, "does such a record exist"; it holds
    for every b in 0 to n - 1, since a table of n records may then hold b + 1 that satisfy phi, and
    a neighbor of it b.)
    """
    same = (true.counts == 0) | (true.counts == true.records)
    return np.where(same | _decided(true), 0, 1)


@dataclass(frozen=True, slots=True)
class KLaplace:
    """The k-Laplace mechanism: Laplace noise of scale (k-local sensitivity) / epsilon.

    Definition 3.2 (its printed density has a stray 2: the scale is Lambda / epsilon, the variance
    2 Lambda^2 / epsilon^2). It satisfies (epsilon, k)-group IDP; k = 1 is IDP. Where the
    sensitivity is 0, the true answer goes out as it is.

    `added_sensitivity` 1 is the variant of section 5.1 that always adds noise, of scale
    (1 + sensitivity) / epsilon.

    Raises:
        InvalidInputError: k below 1, or an added sensitivity below 0.
    """

    k: int = 1
    added_sensitivity: float = 0.0

    def __post_init__(self) -> None:
        check_group_size(self.k)
        if not self.added_sensitivity >= 0.0:
            rule = "it is at least 0"
            raise InvalidInputError("added_sensitivity", self.added_sensitivity, rule)

    def release(
        self, true: TrueAnswers, *, epsilon: float, random: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return the released answers, shape (queries,), at privacy budget `epsilon` each."""
        sensitivity = self.added_sensitivity + local_sensitivity(true, self.k)
        return _add_laplace(true.exceeded, sensitivity, epsilon, random)


@dataclass(frozen=True, slots=True)
class BootstrapLaplace:
    """The bootstrap Laplace mechanism: scale (bootstrap sensitivity) / epsilon; Definition 4.4."""

    def release(
        self, true: TrueAnswers, *, epsilon: float, random: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return the noisy answers, shape (queries,)."""
        return _add_laplace(true.exceeded, 1.0 * bootstrap_sensitivity(true), epsilon, random)


@dataclass(frozen=True, slots=True)
class Rounded:
    """Another mechanism's answers, rounded to integers, or to 0 or 1 (section 3.2.1).

    What is done to an answer afterwards costs nothing.
    """

    mechanism: "QueryMechanism"
    to_bits: bool = False

    def release(
        self, true: TrueAnswers, *, epsilon: float, random: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return the nearest integers, or whichever of 0 and 1 is nearer, shape (queries,)."""
        rounded = np.rint(self.mechanism.release(true, epsilon=epsilon, random=random))
        return np.clip(rounded, 0.0, 1.0) if self.to_bits else rounded


@dataclass(frozen=True, slots=True)
class NoisyCountThreshold:
    """The honest counterpart: Laplace noise on the count, then the threshold (section 3.6).

    Replacing one record changes a count by at most 1 in *any* table, so noise of scale 1 / epsilon
    makes every answer epsilon-differentially private, and what it spends is what it leaks.
    """

    def release(
        self, true: TrueAnswers, *, epsilon: float, random: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return answers of 0.0 or 1.0, shape (queries,)."""
        check_parameter("epsilon", epsilon)
        noise = random.laplace(0.0, 1.0 / epsilon, true.counts.shape)
        return (true.counts + noise > true.thresholds).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Unprotected:
    """True answers: what the protection costs an attacker is counted against this."""

    def release(
        self,
        true: TrueAnswers,
        *,
        epsilon: float,  # noqa: ARG002  # nothing is spent
        random: np.random.Generator,  # noqa: ARG002  # nothing is drawn
    ) -> NDArray[np.float64]:
        """Return the true answers, shape (queries,)."""
        return true.exceeded


QueryMechanism = KLaplace | BootstrapLaplace | Rounded | NoisyCountThreshold | Unprotected
"""Protection of a system's answers."""


def check_group_size(k: int) -> None:
    """Raise `InvalidInputError` unless at least one record may change."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InvalidInputError("k", k, "a definition lets a whole number of records change, >= 1")


def _decided(true: TrueAnswers) -> NDArray[np.bool_]:
    """Tell where no table of n records at all would answer otherwise."""
    outside = (true.thresholds < 0) | (true.thresholds >= true.records)
    return np.asarray(outside | true.constant)


def _add_laplace(
    values: NDArray[np.float64],
    sensitivity: NDArray[np.floating],
    epsilon: float,
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """Add Laplace noise of scale sensitivity / epsilon; exactly none where that is 0."""
    check_parameter("epsilon", epsilon)
    noisy = np.flatnonzero(sensitivity)
    scales = np.asarray(sensitivity[noisy] / epsilon, dtype=np.float64)
    values[noisy] += random.laplace(0.0, scales)
    return values
