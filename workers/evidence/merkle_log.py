"""A Merkle tree over a log: one hash that fixes every entry, and short proofs about it.

RFC 6962, section 2.1: https://www.rfc-editor.org/rfc/rfc6962#section-2.1. A leaf's hash is
SHA-256(0x00 || entry), a node's is SHA-256(0x01 || left || right), and a tree of n > 1 leaves is
split at the largest power of two below n. The two prefixes keep a node from being taken for a leaf.
"""

import hashlib
from collections.abc import Sequence
from itertools import zip_longest

from privcore.exceptions import InvalidInputError

EMPTY_ROOT = hashlib.sha256().digest()
"""Root of a log without entries."""


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of an entry."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node above two others."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class MerkleTree:
    """The tree over the hashes of a log's entries, in their order.

    All its nodes are kept: 64 bytes an entry. Level k holds at place i the hash of the entries from
    i 2^k up to (i + 1) 2^k, or up to the last one. A node without a right neighbour rises
    unchanged, which is the same as the split at the largest power of two.
    """

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self._levels = [list(leaves)]
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            pairs = zip_longest(below[::2], below[1::2])
            self._levels.append(
                [left if right is None else node_hash(left, right) for left, right in pairs]
            )

    @property
    def size(self) -> int:
        """Number of entries."""
        return len(self._levels[0])

    @property
    def leaves(self) -> Sequence[bytes]:
        """The hashes of the entries."""
        return self._levels[0]

    @property
    def root(self) -> bytes:
        """The hash of the whole log."""
        return self._levels[-1][0] if self.size else EMPTY_ROOT

    def inclusion_proof(self, index: int) -> list[bytes]:
        """Return the hashes that lead from an entry to the root (RFC 6962, 2.1.1).

        Raises:
            InvalidInputError: no entry has this index.
        """
        if not 0 <= index < self.size:
            raise InvalidInputError("index", index, f"the log has {self.size} entries, from 0 on")
        path = []
        for level in self._levels[:-1]:
            if index ^ 1 < len(level):
                path.append(level[index ^ 1])
            index >>= 1
        return path

    def consistency_proof(self, size: int) -> list[bytes]:
        """Return the hashes that show that the first `size` entries are unchanged (2.1.2).

        Raises:
            InvalidInputError: a size of 0, or above the log's.
        """
        if not 0 < size <= self.size:
            raise InvalidInputError("size", size, f"it is from 1 to {self.size}")
        return self._changes_since(size, 0, self.size, complete=True)

    def _changes_since(self, size: int, start: int, end: int, *, complete: bool) -> list[bytes]:
        """Return SUBPROOF of RFC 6962 for the entries from start to end, as their first `size`."""
        if size == end - start:
            return [] if complete else [self._root_of(start, end)]
        split = 1 << (end - start - 1).bit_length() - 1
        if size <= split:
            left = self._changes_since(size, start, start + split, complete=complete)
            return [*left, self._root_of(start + split, end)]
        right = self._changes_since(size - split, start + split, end, complete=False)
        return [*right, self._root_of(start, start + split)]

    def _root_of(self, start: int, end: int) -> bytes:
        """Return the hash over a subtree of this tree."""
        level = (end - start - 1).bit_length()
        return self._levels[level][start >> level]


def is_included(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Return whether a proof shows that a log with this size and root has an entry at this index.

    The algorithm of RFC 9162, section 2.1.3.2.
    """
    if not 0 <= index < size:
        return False
    place, last, found = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if place & 1 or place == last:
            found = node_hash(sibling, found)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and found == root


def is_consistent(
    size: int, root: bytes, later_size: int, later_root: bytes, path: Sequence[bytes]
) -> bool:
    """Return whether a proof shows that a later log begins with all entries of an earlier one.

    The algorithm of RFC 9162, section 2.1.4.2. A log of no entries is the beginning of every log;
    of equal sizes the roots are equal. Both take an empty proof.
    """
    if size in {0, later_size}:
        known = EMPTY_ROOT if size == 0 else later_root
        return not path and root == known and size <= later_size
    if not 0 < size < later_size:
        return False
    hashes = [root, *path] if size & (size - 1) == 0 else [*path]
    place, last = size - 1, later_size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    if not hashes:
        return False
    before = after = hashes[0]
    for each in hashes[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            before, after = node_hash(each, before), node_hash(each, after)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            after = node_hash(after, each)
        place, last = place >> 1, last >> 1
    return last == 0 and before == root and after == later_root
