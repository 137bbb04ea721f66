"""Privacy units: whose record each is, under a hash in which no identity is left to read."""

import math

import numpy as np
from numpy.typing import NDArray

from privcore.attacks.streams import stream_key
from privcore.exceptions import InvalidInputError


def unit_streams(
    units: NDArray[np.generic], records: int, *, key: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the streams of the units, ascending, and which of them each record belongs to.

    Raises:
        InvalidInputError: not one unit per record, or one that is missing, empty, or neither
            integer nor word.
    """
    if units.shape != (records,):
        rule = f"there is one per label, so their shape is {(records,)}"
        raise InvalidInputError("units", units.shape, rule)
    values, rows = np.unique(_known(units), return_inverse=True)
    hashes = np.array([stream_key(key, value) for value in values.tolist()], dtype=np.uint64)
    streams, ranks = np.unique(hashes, return_inverse=True)
    return streams, ranks[rows].astype(np.int64)


def _known(units: NDArray[np.generic]) -> NDArray[np.generic]:
    """The units as an array of integers or of words, none of them missing."""
    if units.dtype.kind in "iu":
        return units
    people = units.tolist()
    for unit in people:
        if unit is None or unit == "" or (isinstance(unit, float) and math.isnan(unit)):
            raise InvalidInputError("units", unit, "every record belongs to a known unit")
    kind = int if people and type(people[0]) is int else str
    for unit in people:
        if type(unit) is not kind:
            rule = "units are integers or words, and all are of one kind"
            raise InvalidInputError("units", unit, rule)
    return np.array(people, dtype=kind)
