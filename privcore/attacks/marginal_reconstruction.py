"""Reconstructing secret columns of all records from noisy marginals.

"Beyond the Worst Case" (2025), section 6.1: the multi-attribute inference that it builds on Relaxed
Adaptive Projection (Aydore et al. 2021, arXiv:2103.06641). Each secret cell is a distribution over
its column's values; these are moved by gradients until the marginals that they imply are those that
were published, and are rounded to the most probable value. Known columns stay as they are.

*The attacker's knowledge before publication* is a Bayesian network over the table's columns. The
paper samples its tables from such a network, so that the prior of every secret is known exactly. It
is fitted as PrivBayes does without its noise (Zhang et al. 2017, "PrivBayes", Algorithm 2): columns
one after the other, each with the parents that say most about it.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked
from privcore.mechanisms.marginals import Columns, checked_cells, marginal
from privcore.mechanisms.parameter_checks import check_prior

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Factor:
    """A function of some columns, for each record: shape (records, sizes of the columns)."""

    columns: tuple[int, ...]
    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class BayesianNetwork:
    """A distribution over records: each column given its parents.

    Attributes:
        order: columns in the order in which they were taken up; parents come before.
        parents: of each column of the table.
        tables: of each column, shape (sizes of its parents, its own size): probabilities.
    """

    order: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...]
    tables: tuple[Floats, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each column."""
        return tuple(table.shape[-1] for table in self.tables)

    def sample(self, records: int, generator: np.random.Generator) -> Integers:
        """Return independent records, shape (records, columns)."""
        cells = np.zeros((records, len(self.tables)), dtype=np.int64)
        for column in self.order:
            rows = self.tables[column][tuple(cells[:, parent] for parent in self.parents[column])]
            rows = np.broadcast_to(rows, (records, rows.shape[-1]))
            drawn = generator.random(records)[:, np.newaxis] * rows.sum(axis=1, keepdims=True)
            cells[:, column] = np.argmax(np.cumsum(rows, axis=1) > drawn, axis=1)
        return cells

    def posterior(self, known: Mapping[int, ArrayLike], column: int) -> Floats:
        """Return each record's probabilities of a column's values, given its known columns.

        Exact: all other columns are summed out.

        Args:
            known: column -> its value in each record, shape (records,); at least one column.
            column: that is asked for, not a known one.

        Returns:
            Shape (records, values of the column).

        Raises:
            InvalidInputError: a value out of its range, or known values that never occur together.
        """
        found = self._summed_out(self._given(known), known, column)
        return np.asarray(found / _possible(found.sum(axis=1, keepdims=True), known))

    def most_probable(self, known: Mapping[int, ArrayLike]) -> tuple[Integers, Floats]:
        """Return each record's most probable unknown columns together, and how probable they are.

        The best blind guess, and its prior, given the known columns: exact, by taking the maximum
        over one column after the other.

        Args:
            known: as in `posterior`.

        Returns:
            Shape (records, columns), known columns as given; and shape (records,).
        """
        factors, steps = self._given(known), []
        total = _possible(self._summed_out(factors, known, None), known)
        for column in self._to_remove(known, None):
            factors, joined = _joined(factors, column)
            steps.append((column, joined))
            factors.append(_without_column(joined, column, np.max))
        best = _product(factors).values
        records = np.arange(best.size)
        cells = np.zeros((best.size, len(self.tables)), dtype=np.int64)
        for column, values in known.items():
            cells[:, column] = values
        for column, joined in reversed(steps):
            at = [cells[:, other] for other in joined.columns if other != column]
            moved = np.moveaxis(joined.values, 1 + joined.columns.index(column), -1)
            rows = records if len(moved) > 1 else np.zeros_like(records)
            cells[:, column] = np.argmax(moved[(rows, *at)], axis=1)
        return cells, np.asarray(np.minimum(best / total, 1.0))

    def _summed_out(
        self, factors: list[_Factor], known: Mapping[int, ArrayLike], kept: int | None
    ) -> Floats:
        """The product of factors, in which all unknown columns but one are summed out."""
        for column in self._to_remove(known, kept):
            factors, joined = _joined(factors, column)
            factors.append(_without_column(joined, column, np.sum))
        return _product(factors).values

    def _given(self, known: Mapping[int, ArrayLike]) -> list[_Factor]:
        """Each column's table at the records' known values."""
        if not known:
            raise InvalidInputError("known", {}, "at least one column is known")
        values = {column: np.asarray(given, dtype=np.int64) for column, given in known.items()}
        for column, given in values.items():
            last = self.sizes[column] - 1
            checked(f"column {column}", given, 0, last, f"its values are 0 to {last}")
        factors = []
        for column, table in enumerate(self.tables):
            family = (*self.parents[column], column)
            unknown = tuple(other for other in family if other not in values)
            moved = np.moveaxis(
                table,
                [family.index(other) for other in unknown],
                range(len(family) - len(unknown), len(family)),
            )
            at = tuple(values[other] for other in family if other in values)
            sliced = moved[at] if at else moved[np.newaxis]
            factors.append(_Factor(unknown, sliced))
        return factors

    def _to_remove(self, known: Mapping[int, ArrayLike], kept: int | None) -> list[int]:
        """Unknown columns, leaves of the network first: their factors stay small."""
        return [column for column in reversed(self.order) if column not in known and column != kept]


def fit_network(cells: ArrayLike, sizes: Sequence[int], *, degree: int = 2) -> BayesianNetwork:
    """Return the network whose columns each have at most `degree` parents, fitted greedily.

    The first column is that of the largest entropy; then the column and parents with the largest
    mutual information are taken up next. Conditionals are relative frequencies; for parents' values
    that never occur they are uniform, which no sampled record ever meets.

    Args:
        cells: shape (records, columns), whole numbers from 0 to each column's size - 1.
        sizes: shape (columns,).
        degree: at least 1.

    Raises:
        InvalidInputError: no records or columns, or a value out of its range.
    """
    table = checked_cells(cells, sizes)
    checked("degree", degree, 1, np.inf, "a column has at least one parent")
    if not table.size:
        raise InvalidInputError("shape of cells", table.shape, "there is a record and a column")
    columns = range(len(sizes))
    alone = [_entropy(marginal(table, sizes, (column,))) for column in columns]
    order = [int(np.argmax(alone))]
    parents: dict[int, tuple[int, ...]] = {order[0]: ()}
    known: dict[tuple[int, tuple[int, ...]], float] = {}
    while len(order) < len(sizes):
        candidates = [
            (column, chosen)
            for column in columns
            if column not in parents
            for chosen in itertools.combinations(sorted(order), min(degree, len(order)))
        ]
        for column, chosen in candidates:
            if (column, chosen) not in known:
                joint = marginal(table, sizes, (*chosen, column))
                rest = _entropy(joint.sum(axis=-1))
                known[column, chosen] = alone[column] + rest - _entropy(joint)
        best = max(candidates, key=known.__getitem__)
        order.append(best[0])
        parents[best[0]] = best[1]
    tables = [
        _conditional(marginal(table, sizes, (*parents[column], column))) for column in columns
    ]
    return BayesianNetwork(
        tuple(order), tuple(parents[column] for column in columns), tuple(tables)
    )


def _entropy(counts: Floats) -> float:
    """Entropy of relative frequencies, in nats."""
    shares = counts[counts > 0.0] / counts.sum()
    return float(-np.sum(shares * np.log(shares)))


def _conditional(counts: Floats) -> Floats:
    total = counts.sum(axis=-1, keepdims=True)
    shares = counts / np.maximum(total, 1.0)
    return np.asarray(np.where(total > 0.0, shares, 1.0 / counts.shape[-1]))


def _joined(factors: list[_Factor], column: int) -> tuple[list[_Factor], _Factor]:
    """The factors without those of a column, and the product of these."""
    own = [factor for factor in factors if column in factor.columns]
    return [factor for factor in factors if column not in factor.columns], _product(own)


def _product(factors: list[_Factor]) -> _Factor:
    """The product of factors over all of their columns."""
    columns = tuple(sorted({column for factor in factors for column in factor.columns}))
    given: list[Any] = []
    for factor in factors:
        given += [factor.values, [0, *(1 + column for column in factor.columns)]]
    values = np.einsum(*given, [0, *(1 + column for column in columns)])
    return _Factor(columns, values)


def _without_column(factor: _Factor, column: int, how: Callable[..., Floats]) -> _Factor:
    """The factor whose values are the sum, or the maximum, over a column."""
    rest = tuple(other for other in factor.columns if other != column)
    return _Factor(rest, how(factor.values, axis=1 + factor.columns.index(column)))


def _possible(total: Floats, known: Mapping[int, ArrayLike]) -> Floats:
    """The probability of each record's known values, if none is 0."""
    if np.any(total <= 0.0):
        raise InvalidInputError("known", sorted(known), "these values occur together")
    return total


_LEAST_PRIOR = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """All marginals of the same secret columns: their cells by secret values and by known ones."""

    secret: Columns
    known: Floats  # (records, kinds of known values), one-hot for each marginal
    published: Floats  # (secret values, kinds of known values)
    alike: Floats  # (records, records): in how many marginals two share all known values
    pull: Floats  # (records, secret values): published counts at each record's known values
    rest: float  # sum of the squared published counts

    @classmethod
    def of(cls, secret: Columns, known: Floats, published: Floats) -> "_Group":
        alike, pull = known @ known.T, known @ published.T
        return cls(secret, known, published, alike, pull, float(np.sum(published**2)))

    def error(self, together: Floats) -> tuple[float, Floats]:
        """Squared error of relaxed records, (records, secret values), and its gradient."""
        if self.known.shape[1] > len(together):
            # ||known' x - published||^2, multiplied out: the many known values need not be gone
            # through in every step.
            slope = self.alike @ together
            error = float(np.sum(together * (slope - 2.0 * self.pull))) + self.rest
            return max(error, 0.0), 2.0 * (slope - self.pull)
        residual = together.T @ self.known - self.published
        return float(np.sum(residual**2)), 2.0 * self.known @ residual.T


@dataclass(frozen=True, slots=True, eq=False)
class MarginalFit:
    """Distance between published marginals and those that some relaxed records imply.

    Made by `marginal_fit`.

    Attributes:
        secret: the secret columns.
        sizes: of each of them.
        records: how many there are.
    """

    secret: Columns
    sizes: tuple[int, ...]
    records: int
    _groups: tuple[_Group, ...]

    def error(self, relaxed: Sequence[Floats]) -> tuple[float, list[Floats]]:
        """Return the summed squared error of all counts, and its gradient.

        Counts of known values that no record has are left out: they do not depend on the secrets.

        Args:
            relaxed: for each secret column, shape (records, its values).

        Returns:
            The error, and for each secret column shape (records, its values).
        """
        place = {column: index for index, column in enumerate(self.secret)}
        gradient = [np.zeros((self.records, size)) for size in self.sizes]
        total = 0.0
        for group in self._groups:
            parts = [relaxed[place[column]] for column in group.secret]
            factors = [_Factor((index,), part) for index, part in enumerate(parts)]
            together = _product(factors).values
            error, slope = group.error(together.reshape(self.records, -1))
            total += error
            pulled = slope.reshape(together.shape)
            for index, column in enumerate(group.secret):
                gradient[place[column]] += _without(pulled, parts, index)
        return total, gradient


def marginal_fit(
    cells: ArrayLike,
    sizes: Sequence[int],
    *,
    secret: Sequence[int],
    chosen: Sequence[Columns],
    published: Sequence[ArrayLike],
) -> MarginalFit:
    """Return the attack's objective for published marginals.

    Args:
        cells: shape (records, columns); what stands in secret columns is not looked at.
        sizes: of all columns.
        secret: the secret columns.
        chosen: which columns each marginal counts, each at least one secret column.
        published: a marginal for each, as `noisy_marginals` returns them.
    """
    hidden = tuple(secret)
    table = checked_cells(cells, sizes).copy()
    table[:, list(hidden)] = 0
    gathered: dict[Columns, tuple[list[Floats], list[Floats]]] = {}
    for columns, counts in zip(chosen, published, strict=True):
        shape = tuple(sizes[column] for column in columns)
        given = np.asarray(counts, dtype=np.float64)
        if given.shape != shape:
            raise InvalidInputError("shape of a marginal", given.shape, f"it is {shape}")
        own = tuple(column for column in columns if column in hidden)
        if not own:
            raise InvalidInputError("chosen", columns, "each marginal counts a secret column")
        others = tuple(column for column in columns if column not in hidden)
        moved = given.transpose([columns.index(column) for column in (*own, *others)])
        flat = moved.reshape(math.prod(sizes[column] for column in own), -1)
        codes = np.zeros(len(table), dtype=np.int64)
        for column in others:
            codes = codes * sizes[column] + table[:, column]
        present, inverse = np.unique(codes, return_inverse=True)
        known, counted = gathered.setdefault(own, ([], []))
        known.append(np.eye(present.size)[inverse])
        counted.append(flat[:, present])
    groups = tuple(
        _Group.of(own, np.hstack(known), np.hstack(counted))
        for own, (known, counted) in gathered.items()
    )
    return MarginalFit(hidden, tuple(sizes[column] for column in hidden), len(table), groups)


def reconstruct_columns(
    fit: MarginalFit,
    *,
    priors: Mapping[int, ArrayLike],
    deviation: float | None = None,
    steps: int = 100,
) -> list[Floats]:
    """Return for each secret column the distributions over its values that fit best.

    Gradient descent (L-BFGS) on the logits of the relaxed records, from the prior. Without
    `deviation` the squared error alone is minimised, as in the paper, where the prior is only where
    the descent begins. With it the objective is squared error / (2 deviation^2) minus the
    log-probability that the prior gives the records, column by column: for one secret column, that
    is minus the log-posterior where the records are rounded. It is the attack that uses the prior
    to the end, which the paper leaves open.

    Args:
        fit: the objective.
        priors: secret column -> shape (records, its values), given the known columns.
        deviation: of the noise on each count, above 0; None leaves the prior out of the objective.
        steps: the most steps.

    Returns:
        For each secret column, shape (records, its values); the largest is the guess.
    """
    checked("steps", steps, 1, np.inf, "at least one step is taken")
    given = []
    for column, size in zip(fit.secret, fit.sizes, strict=True):
        if column not in priors:
            raise InvalidInputError("priors", sorted(priors), f"column {column} has one")
        prior = np.asarray(priors[column], dtype=np.float64)
        check_prior(prior, shape=(fit.records, size))
        given.append(np.log(np.maximum(prior, _LEAST_PRIOR)))
    if deviation is None:
        # A scale at which one step is about one unit of a logit.
        weight, pull = 1.0 / fit.records, 0.0
    else:
        checked("deviation", deviation, 1e-9, np.finfo(np.float64).max, "it is above 0")
        weight, pull = 0.5 / deviation**2, 1.0
    ends = [int(end) for end in np.cumsum([logits.size for logits in given])[:-1]]

    def objective(flat: Floats) -> tuple[float, Floats]:
        relaxed = _relaxed(flat, given, ends)
        error, gradient = fit.error(relaxed)
        total, moved = weight * error, []
        for shares, slope, prior in zip(relaxed, gradient, given, strict=True):
            slope = weight * slope - pull * prior  # noqa: PLW2901  # of the whole objective
            total -= pull * float(np.sum(shares * prior))
            inner = np.sum(shares * slope, axis=1, keepdims=True)
            moved.append((shares * (slope - inner)).ravel())
        return total, np.concatenate(moved)

    start = np.concatenate([logits.ravel() for logits in given])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": steps})
    return _relaxed(np.asarray(found.x), given, ends)


def _relaxed(flat: Floats, like: Sequence[Floats], ends: Sequence[int]) -> list[Floats]:
    """Distributions from logits that lie one after the other."""
    return [
        softmax(part.reshape(logits.shape), axis=1)
        for part, logits in zip(np.split(flat, ends), like, strict=True)
    ]


def _without(pulled: Floats, parts: Sequence[Floats], kept: int) -> Floats:
    """Sum over all columns but one, weighted with their probabilities."""
    for index in range(len(parts) - 1, -1, -1):
        if index == kept:
            continue
        weights = np.expand_dims(
            parts[index], [axis for axis in range(1, pulled.ndim) if axis != 1 + index]
        )
        pulled = np.sum(pulled * weights, axis=1 + index, keepdims=True)
    return np.asarray(pulled.reshape(len(pulled), -1))
