"""Weights of terms, held against scikit-learn's."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from privcore.exceptions import InvalidInputError
from workers.training.term_weights import term_weights


def test_weights_are_those_of_scikit_learn():
    random = np.random.default_rng(3)
    texts = [" ".join(f"Word{w}" for w in random.zipf(1.5, 12) if w < 500) for _ in range(200)]
    texts += ["", "a i", "alone", "Käse käse, don't"]
    found = term_weights(texts)
    dense = np.zeros((len(texts), found.vocabulary))
    for row in range(len(texts)):
        np.add.at(dense[row], found.terms[row], found.weights[row])
    expected = TfidfVectorizer(min_df=2).fit_transform(texts).toarray()
    assert dense == pytest.approx(expected, abs=1e-6)
    assert (dense[-4:-1] == 0.0).all()


def test_texts_without_a_common_term_are_refused():
    with pytest.raises(InvalidInputError, match="no term is in two of them"):
        term_weights(["one", "two"])
