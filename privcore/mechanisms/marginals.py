"""Noisy k-way marginals: counts of records by the values of k columns, with Gaussian noise.

"Beyond the Worst Case" (2025), appendix A and section 6.1. All marginals of some sets of columns
are published. Replacing a record moves two counts of each by one, so each is sqrt(2)-sensitive;
noise is counted for those alone that touch the columns which are secret.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import Floats, checked, gaussian_mu

Columns = tuple[int, ...]


def marginals_touching(columns: int, *, ways: int, secret: Sequence[int]) -> list[Columns]:
    """Return every set of `ways` columns that holds a secret one.

    There are comb(columns, ways) - comb(columns - secret, ways) of them.

    Args:
        columns: how many the table has.
        ways: k, from 1 to `columns`.
        secret: the secret columns, at least one.
    """
    checked("ways", ways, 1, columns, f"a marginal counts 1 to {columns} columns")
    checked("secret", secret, 0, columns - 1, f"columns are 0 to {columns - 1}")
    if not len(secret):
        raise InvalidInputError("secret", list(secret), "at least one column is secret")
    hidden = set(secret)
    return [
        chosen for chosen in itertools.combinations(range(columns), ways) if hidden & set(chosen)
    ]


def marginals_deviation(epsilon: float, *, delta: float, marginals: int) -> float:
    """Return the standard deviation of each count's noise that gives (epsilon, delta)-DP.

    All marginals together are a Gaussian mechanism of sensitivity sqrt(2 marginals) under
    replacement of one record's secret columns (Dong, Roth and Su 2022, Corollary 3.3).

    Args:
        epsilon: above 0; infinity gives 0, no noise.
        delta: in (0, 1).
        marginals: how many are published that touch a secret column.

    Raises:
        InvalidInputError: a value out of its range, or no finite noise suffices.

    >>> round(marginals_deviation(1.0, delta=1e-5, marginals=105), 1)
    54.1
    """
    checked("marginals", marginals, 1, np.inf, "at least one marginal is published")
    if math.isinf(epsilon):
        return 0.0
    mu = float(gaussian_mu(epsilon, delta=delta))
    if mu == 0.0:
        raise InvalidInputError("epsilon", epsilon, "no finite noise gives it at this delta")
    return math.sqrt(2.0 * marginals) / mu


def marginal(cells: ArrayLike, sizes: Sequence[int], chosen: Columns) -> Floats:
    """Return the counts of records by the values of the chosen columns.

    Args:
        cells: shape (records, columns), whole numbers from 0 to each column's size - 1.
        sizes: shape (columns,), how many values each column has.
        chosen: the columns.

    Returns:
        Shape (size of the first chosen column, size of the second, ...).
    """
    table = checked_cells(cells, sizes)
    shape = tuple(sizes[column] for column in chosen)
    flat = np.ravel_multi_index(tuple(table[:, column] for column in chosen), shape)
    return np.bincount(flat, minlength=math.prod(shape)).astype(np.float64).reshape(shape)


def noisy_marginals(
    cells: ArrayLike,
    sizes: Sequence[int],
    chosen: Sequence[Columns],
    *,
    deviation: float,
    generator: np.random.Generator,
) -> list[Floats]:
    """Return each chosen marginal, with independent Gaussian noise on every count.

    Counts may be negative, and say so what the noise was. Arguments are those of `marginal`.
    """
    checked("deviation", deviation, 0.0, np.finfo(np.float64).max, "it is finite, at least 0")
    return [
        counts + (deviation * generator.standard_normal(counts.shape) if deviation else 0.0)
        for counts in (marginal(cells, sizes, columns) for columns in chosen)
    ]


def checked_cells(cells: ArrayLike, sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return `cells` as whole numbers, each within its column's size."""
    table = np.asarray(cells)
    if (
        table.ndim != 2
        or table.shape[1] != len(sizes)
        or not np.issubdtype(table.dtype, np.integer)
    ):
        rule = f"it holds whole numbers in the shape (records, {len(sizes)})"
        raise InvalidInputError("cells", (str(table.dtype), table.shape), rule)
    if table.size and (table.min() < 0 or np.any(table.max(axis=0) >= np.asarray(sizes))):
        raise InvalidInputError("cells", int(table.max()), "a cell lies in 0 to its size - 1")
    return table.astype(np.int64, copy=False)
