"""An attacker's knowledge before publication: a Bayesian network over a table's columns.

"Beyond the Worst Case" (2025), section 6.1, samples its tables from such a network, so that the
prior of every secret is known exactly. The network is fitted as PrivBayes does without its noise
(Zhang et al. 2017, "PrivBayes", Algorithm 2): columns one after the other, each with the parents
that say most about it.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked
from privcore.mechanisms.marginals import checked_cells, marginal

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
        factors = self._given(known)
        for other in self._to_remove(known, column):
            factors, joined = _joined(factors, other)
            factors.append(_summed(joined, other))
        found = _product(factors).values
        total = found.sum(axis=1, keepdims=True)
        if np.any(total <= 0.0):
            raise InvalidInputError("known", sorted(known), "these values occur together")
        return np.asarray(found / total)

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
        evidence = factors
        for column in self._to_remove(known, None):
            factors, joined = _joined(factors, column)
            steps.append((column, joined))
            place = 1 + joined.columns.index(column)
            rest = tuple(other for other in joined.columns if other != column)
            factors.append(_Factor(rest, joined.values.max(axis=place)))
        best = _product(factors).values
        for column in self._to_remove(known, None):
            evidence, joined = _joined(evidence, column)
            evidence.append(_summed(joined, column))
        total = _product(evidence).values
        if np.any(total <= 0.0):
            raise InvalidInputError("known", sorted(known), "these values occur together")
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
    values: Floats = np.ones((1,) * (1 + len(columns)))
    for factor in factors:
        order = sorted(range(len(factor.columns)), key=factor.columns.__getitem__)
        moved = factor.values.transpose(0, *(1 + place for place in order))
        shape = [moved.shape[0], *(1 for _ in columns)]
        for place, axis in enumerate(order):
            shape[1 + columns.index(factor.columns[axis])] = moved.shape[1 + place]
        values = values * moved.reshape(shape)
    return _Factor(columns, values)


def _summed(factor: _Factor, column: int) -> _Factor:
    rest = tuple(other for other in factor.columns if other != column)
    return _Factor(rest, factor.values.sum(axis=1 + factor.columns.index(column)))
