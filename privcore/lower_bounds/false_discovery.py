"""Many models in one night: how many of the violations called are false, at most on average.

Apart from segments, since commands that only print what is stored need not wait for numba.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privcore.exceptions import InvalidInputError


def false_discovery_qvalues(evalues: ArrayLike) -> NDArray[np.float64]:
    """Return the q-values of one night's claim tests by e-BH; shape of `evalues`, 1-d.

    Calling every model with q at most x a violation makes, on average, at most a share x of the
    calls wrong, *however the tests depend on each other* (Wang and Ramdas 2022, "False discovery
    rate control with e-values"): models that share labels share their chance. With e-values sorted
    downwards, q of the k-th is the least of n/(j e_j) over j >= k, at most 1.

    Raises:
        InvalidInputError: an e-value that is negative or NaN.

    >>> false_discovery_qvalues([1_000.0, 2.0, 0.5]).tolist()
    [0.003, 0.75, 1.0]
    """
    e = np.asarray(evalues, dtype=np.float64)
    if not np.all(e >= 0.0):
        raise InvalidInputError("evalues", evalues, "an e-value is at least 0")
    order = np.argsort(-e, kind="stable")
    with np.errstate(divide="ignore"):
        ratio = e.size / (np.arange(1, e.size + 1) * e[order])
    qvalues = np.empty(e.size)
    qvalues[order] = np.minimum(np.minimum.accumulate(ratio[::-1])[::-1], 1.0)
    return qvalues
