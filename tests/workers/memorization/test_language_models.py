import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.refusals import refused
from workers.memorization import language_models
from workers.memorization.language_models import END, VOCABULARY, NgramCounts, NgramModel


def tokens(text):
    return np.append(np.frombuffer(text.encode(), dtype=np.uint8), END).astype(np.int64)


def naive(texts, order, beginning, token):
    """Witten and Bell, written down from the rule."""
    if order == 0:
        return 1.0 / VOCABULARY
    padded = [(-1,) * (order - 1) + tuple(tokens(text)) for text in texts]
    context = ((-1,) * (order - 1) + tuple(beginning))[len(beginning) :]
    followers = [
        run[at + order - 1]
        for run in padded
        for at in range(len(run) - order + 1)
        if run[at : at + order - 1] == context[len(context) - order + 1 :]
    ]
    shorter = naive(texts, order - 1, beginning, token)
    if not followers:
        return shorter
    kinds = len(set(followers))
    return (followers.count(token) + kinds * shorter) / (len(followers) + kinds)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_it_is_witten_and_bells_rule(order):
    texts = ["abab", "abba", "b"]
    model = NgramModel.of(NgramCounts.of([tokens(text) for text in texts], order))
    asked = tokens("abz")
    rows = np.exp(model.log_probabilities(asked))
    assert rows.shape == (4, VOCABULARY)
    assert rows.sum(axis=1) == pytest.approx(1.0)
    for place in range(len(asked)):
        for token in (ord("a"), ord("b"), ord("z"), END):
            expected = naive(texts, order, tuple(asked[:place]), token)
            assert rows[place, token] == pytest.approx(expected)


@given(st.lists(st.text("abé", max_size=6), min_size=1, max_size=6))
def test_counts_survive_the_file(texts):
    whole = NgramCounts.of([tokens(text) for text in texts], 3)
    assert NgramCounts.from_json(whole.to_json()) == whole


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format": "other", "order": 1, "counts": {"a": 1}}',
        b'{"format": "privaudit-ngram-1", "order": 1, "counts": {"ab": 1}}',
        b'{"format": "privaudit-ngram-1", "order": 1, "counts": {"a": -1}}',
        b'{"format": "privaudit-ngram-1", "order": 1, "counts": {"\xc8\x80": 1}}',
        b'{"format": "privaudit-ngram-1", "order": 1, "counts": {}}',
        b'{"format": "privaudit-ngram-1", "order": 99, "counts": {"a": 1}}',
        b'{"format": "privaudit-ngram-1", "order": 2, "counts": ' + b"[" * 100_000,
        b'{"format": "privaudit-ngram-1", "order": 2, "counts": {"a": 1e999}}',
        b'{"format": "privaudit-ngram-1", "order": 2, "counts": {"a": 1%s}}' % (b"0" * 400),
    ],
)
def test_another_file_is_refused(content):
    refused(r"another file|order is 99", NgramCounts.from_json, content)


def test_no_model_is_counted_that_cannot_be_read():
    """Ids of other vocabularies were written into a file that no command reads."""
    assert NgramCounts.of([np.array([97, END])], 2).counts
    refused("lie in 0 to 256", NgramCounts.of, [np.array([97, END + 1])], 2)


def test_counts_of_text_are_bounded(monkeypatch):
    """4 MB of one sequence took 1.7 GB of `privaudit memorization fit`, and there was no bound."""
    tokens = np.random.default_rng(0).integers(0, 256, 3_000)
    monkeypatch.setattr(language_models, "_MOST_RUNS", 3_000)
    assert NgramCounts.of([tokens], 1).counts
    refused("holds at most 3,000", NgramCounts.of, [tokens], 3)
