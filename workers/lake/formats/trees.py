"""Trees as arrays of children: that they are trees, before C++ follows them without looking."""

import numpy as np
from numpy.typing import NDArray

from workers.lake.formats.contract import ModelRefusedError


def check_children(children: NDArray[np.int64], nodes: int) -> None:
    """Refuse children that are no nodes, and nodes with several parents.

    Raises:
        ModelRefusedError: the nodes are no tree: a reader might never end, or read what
            is not there.
    """
    if children.size and (children.min() < 0 or children.max() >= nodes):
        raise ModelRefusedError("has a tree whose nodes have children that are not there")
    if np.bincount(children, minlength=1)[0] or np.unique(children).size < children.size:
        raise ModelRefusedError("has a tree that runs in a circle")


def check_places(what: str, places: NDArray[np.int64], count: int) -> None:
    """Refuse places outside of `count`.

    Raises:
        ModelRefusedError: naming `what` is not there.
    """
    if places.size and (places.min() < 0 or places.max() >= count):
        raise ModelRefusedError(f"has a tree that asks for {what} that is not there")


def check_lengths(lengths: set[int], expected: int) -> None:
    """Refuse arrays of other lengths.

    Raises:
        ModelRefusedError: they are not all of the expected length.
    """
    if lengths != {expected}:
        raise ModelRefusedError("has a tree whose arrays are of different lengths")
