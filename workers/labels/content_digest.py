"""A digest of content that adds, as tallies do: in any order, over any number of workers.

LtHash: every entry is expanded to 1,024 numbers of 16 bits, and these are added (Bellare and
Micciancio 1997, "A New Paradigm for Collision-Free Hashing"; Lewi et al. 2019, "Securing Update
Propagation with Homomorphic Hashing", who put this size above 200 bits of security). A sum of
ordinary digests would be easy to forge.
"""

import hashlib
import hmac
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_LANES = 1024


def _nothing() -> NDArray[np.uint16]:
    return np.zeros(_LANES, dtype=np.uint16)


@dataclass(frozen=True, slots=True, eq=False)
class ContentDigest:
    """The digest of a set of entries; `ContentDigest()` is that of none."""

    lanes: NDArray[np.uint16] = field(default_factory=_nothing)

    @classmethod
    def of(cls, *parts: str | int | bytes) -> "ContentDigest":
        """Return the digest of one entry."""
        entry = hashlib.shake_256()
        for part in parts:
            plain = part if isinstance(part, bytes) else str(part).encode()
            word = type(part).__name__.encode() + b":" + plain
            entry.update(len(word).to_bytes(8, "little") + word)
        return cls(np.frombuffer(entry.digest(2 * _LANES), dtype="<u2").astype(np.uint16))

    def __add__(self, other: "ContentDigest") -> "ContentDigest":
        """Return the digest of both sets of entries."""
        return ContentDigest(self.lanes + other.lanes)

    def __eq__(self, other: object) -> bool:
        """Return whether it is the digest of the same entries."""
        return isinstance(other, ContentDigest) and np.array_equal(self.lanes, other.lanes)

    __hash__ = None  # type: ignore[assignment]

    def hexdigest(self, key: bytes = b"") -> str:
        """Return 64 hexadecimal digits: under a key, HMAC-SHA256.

        Without the key, a reader who knows all entries but one can try that one's values.
        """
        content = self.lanes.astype("<u2").tobytes()
        if key:
            return hmac.new(key, content, hashlib.sha256).hexdigest()
        return hashlib.sha256(content).hexdigest()
