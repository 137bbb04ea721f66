"""Disjoint parts of the records: stages of LP-MST, teachers of PATE."""

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError


def disjoint_parts(
    records: int, parts: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], ...]:
    """Return `parts` disjoint sets of record indices, of sizes that differ by at most 1.

    Together they hold every record once. Which part a record falls into depends on chance alone,
    so each label is used in one part only and the parts' guarantees do not add up.

    Raises:
        InvalidInputError: fewer than one part, or more parts than records.
    """
    if parts < 1:
        raise InvalidInputError("parts", parts, "there is at least 1 part")
    if parts > records:
        rule = f"{records} records make at most as many disjoint parts (stages or teachers)"
        raise InvalidInputError("parts", parts, rule)
    return tuple(np.sort(part) for part in np.array_split(random.permutation(records), parts))
