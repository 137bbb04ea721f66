"""TF-IDF: texts as weights of their terms, padded to one width."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError

_TERM = re.compile(r"\b\w\w+\b")
_IN_TEXTS = 2
"""A term of one text alone says nothing of any other."""


@dataclass(frozen=True, slots=True, eq=False)
class TermWeights:
    """The terms of texts, and each term's weight.

    Attributes:
        terms: shape (texts, width): each text's terms as numbers; 0 where it has no more.
        weights: shape (texts, width): 0 where it has no more.
        vocabulary: how many terms there are.
    """

    terms: NDArray[np.int32]
    weights: NDArray[np.float32]
    vocabulary: int

    def of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return terms and weights of some texts, as a network takes them."""
        return self.terms[rows], self.weights[rows]


def term_weights(texts: Sequence[str]) -> TermWeights:
    """Return the term frequencies of texts, each over its frequency in all of them.

    Terms are runs of two or more word characters in lower case, in two texts at least. A term's
    weight is its count in the text times 1 + ln((1 + texts)/(1 + texts that have it)), and the
    squares of a text's weights add up to 1, as scikit-learn's TfidfVectorizer computes it. It reads
    no label, and treats all texts alike: texts that a model is trained on and texts that it is not
    must be weighed together, or a term that is missing tells them apart.

    Raises:
        InvalidInputError: no term is in two texts.
    """
    counts = [Counter(_TERM.findall(text.lower())) for text in texts]
    having = Counter(term for count in counts for term in count)
    known = sorted(term for term, many in having.items() if many >= _IN_TEXTS)
    if not known:
        raise InvalidInputError("texts", len(counts), "no term is in two of them")
    numbers = {term: number for number, term in enumerate(known)}
    rarity = {term: 1.0 + np.log((1 + len(counts)) / (1 + having[term])) for term in known}
    width = max(sum(term in numbers for term in count) for count in counts)
    terms = np.zeros((len(counts), width), dtype=np.int32)
    weights = np.zeros((len(counts), width), dtype=np.float32)
    for row, count in enumerate(counts):
        kept = sorted(term for term in count if term in numbers)
        terms[row, : len(kept)] = [numbers[term] for term in kept]
        weights[row, : len(kept)] = [count[term] * rarity[term] for term in kept]
    norms = np.linalg.norm(weights, axis=1, keepdims=True)
    weights /= np.where(norms > 0.0, norms, 1.0)
    return TermWeights(terms, weights, len(known))
