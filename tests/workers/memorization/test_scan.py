"""A planted secret is found by its row, however rows are divided; a clean table lists none."""

import itertools
import os
import tracemalloc

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from privcore.attacks import PLAIN, Sampling
from tests.support.lake import Shuffled
from tests.support.refusals import refused
from workers.exceptions import NotEvaluableError
from workers.executors import InProcess
from workers.memorization.language_models import ModelFile, NgramCounts, read_model
from workers.memorization.scan import (
    HOLDOUT_ARM,
    TRAIN_ARM,
    MemorizationPass,
    count_ngrams,
    scan_sequences,
    tokens_of,
)

IN_PROCESS = InProcess()
PLANTED = "zoe keeps 739120586 under q"


def sentences(random, count):
    words = ["the", "code", "is", "here", "cat", "sat", "on", "mat", "and", "was"]
    return [
        " ".join(random.choice(words, 3)) + f" {random.integers(1000, 10000)}" for _ in range(count)
    ]


def mails(seed=0, *, planted=1, rows=150):
    """Return training text, some of it the secret, and as much holdout and calibration text."""
    random = np.random.default_rng(seed)
    train = sentences(random, rows) + [PLANTED] * planted
    parts = {"train": train, "holdout": sentences(random, rows), "other": sentences(random, rows)}
    return pl.DataFrame(
        {
            "text": list(itertools.chain(*parts.values())),
            "split": [split for split, texts in parts.items() for _ in texts],
        }
    )


def ask(rows, *, sampling=PLAIN, reach=9.0, executor=IN_PROCESS):
    models = [
        ModelFile(f"{split}.json", count_ngrams(rows, "text", order=6, split=split).to_json())
        for split in ("train", "other")
    ]
    return scan_sequences(rows, MemorizationPass("text", *models, sampling, reach), executor)


def as_numbers(tally):
    return tally.sequences.tolist(), tally.counts.tolist(), tally.at_risk, tally.within_reach


@pytest.mark.slow
def test_a_planted_secret_leads_the_list():
    rows = mails(planted=5)
    tally = ask(rows)
    first = tally.at_risk[0]
    assert rows["text"][first.row] == PLANTED
    assert tally.sequences.tolist() == [155, 150]
    assert first.calibrated_loss < -8.0
    assert first.log10_probability == pytest.approx(-first.secrecy_bits * np.log10(2.0))
    assert first.reference_bits - first.secrecy_bits == pytest.approx(
        -first.calibrated_loss / np.log(2.0)
    )
    assert tally.p_value(first.calibrated_loss) == pytest.approx(1 / 151)
    # Training sentences are known better than holdout ones, by a model of their own text.
    middle = [np.cumsum(tally.losses(arm)).searchsorted(75) for arm in (TRAIN_ARM, HOLDOUT_ARM)]
    assert middle[0] < middle[1]


@pytest.mark.slow
def test_any_division_gives_the_same(monkeypatch):
    rows = mails(planted=2)
    whole = as_numbers(ask(rows))
    monkeypatch.setattr("workers.memorization.scan._PART_ROWS", 7)
    assert as_numbers(ask(rows, executor=Shuffled(3))) == whole


def test_without_memory_no_sequence_stands_out():
    # Both models saw neither arm: p-values of training sequences are uniform or larger.
    fresh = [
        ModelFile("m.json", NgramCounts.of([_tokens(text) for text in texts], 4).to_json())
        for texts in (sentences(np.random.default_rng(seed), 300) for seed in (8, 9))
    ]
    shared = MemorizationPass("text", *fresh, reach=60.0)
    tally = scan_sequences(mails(planted=0), shared, InProcess())
    assert tally.within_reach == 150
    low = [one for one in tally.at_risk if tally.p_value(one.calibrated_loss) <= 0.05]
    assert len(low) <= 20  # 7.5 expected; P(more than 20) < 1e-4 by the binomial distribution


def _tokens(text):
    return np.append(np.frombuffer(text.encode(), dtype=np.uint8), 256).astype(np.int64)


@pytest.mark.slow
def test_sampling_decides_what_is_within_reach():
    rows = mails(planted=5)
    plain = ask(rows)
    sharp = ask(rows, sampling=Sampling((0.5,)))
    greedy = ask(rows, sampling=Sampling(top=1), reach=60.0)
    few = ask(rows, sampling=Sampling(top=20))
    # Fewer tokens to choose from: each that is left is more probable. A low temperature makes the
    # rare first letter rarer.
    assert few.at_risk[0].log10_probability > plain.at_risk[0].log10_probability
    assert sharp.at_risk[0].log10_probability < plain.at_risk[0].log10_probability
    assert greedy.within_reach <= 1
    # What the target knows does not depend on how it is sampled.
    assert sharp.losses(TRAIN_ARM).tolist() == plain.losses(TRAIN_ARM).tolist()


@pytest.mark.slow
def test_token_lists_are_sequences_too():
    rows = mails(planted=3).with_columns(
        text=pl.col("text").map_elements(lambda text: _tokens(text).tolist(), pl.List(pl.Int64))
    )
    assert as_numbers(ask(rows)) == as_numbers(ask(mails(planted=3)))


@pytest.mark.slow
def test_what_cannot_be_read_is_counted_and_named():
    rows = mails(planted=0).with_columns(
        text=pl.when(pl.int_range(pl.len()) == 3).then(None).otherwise("text")
    )
    tally = ask(rows)
    assert tally.bad.total == 1
    assert tally.sequences.tolist() == [149, 150]
    with pytest.raises(NotEvaluableError, match="missing or empty"):
        tally.bad.check(0)
    tally.bad.check(1)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (pl.DataFrame({"text": [1.5], "split": ["train"]}), "text, or lists of token ids"),
        (pl.DataFrame({"words": ["a"], "split": ["train"]}), "columns are words, split"),
        (pl.DataFrame({"text": ["a"], "splits": ["train"]}), "columns are text, splits"),
    ],
)
def test_other_columns_are_refused(rows, sentence):
    model = ModelFile("m.json", NgramCounts.of([_tokens("a")], 2).to_json())
    refused(sentence, scan_sequences, rows, MemorizationPass("text", model, model), InProcess())
    refused(sentence, count_ngrams, rows, "text", order=2, split="train")


def test_a_model_is_read_from_a_file(tmp_path):
    (tmp_path / "m.json").write_bytes(NgramCounts.of([_tokens("a")], 2).to_json())
    assert read_model(str(tmp_path / "m.json")).log_probabilities(_tokens("a")).shape[0] == 2
    for name, content in (("broken.json", b"{"), ("m.bin", b"1"), ("m.onnx", b"no")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="model"):
            read_model(str(tmp_path / name))
    with pytest.raises(ValueError, match="cannot be read"):
        read_model(str(tmp_path / "none.json"))


def test_sequences_become_tokens_one_after_the_other():
    """A file of 188 kB took 9 GB."""
    rows = pl.Series(["x" * 100_000] * 200)
    tracemalloc.start()
    found = sum(len(one) for one in tokens_of(rows) if one is not None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found, peak < 20_000_000) == (200 * 100_001, True)


@pytest.mark.parametrize(
    ("values", "tokens"),
    [
        (pa.array([[-1], [1, 2]]), [None, [1, 2]]),
        (pa.array([[2**62], [1, 2]]), [None, [1, 2]]),
        (pa.array([[2**64 - 1], [1, 2]], pa.list_(pa.uint64())), [None, [1, 2]]),
    ],
    ids=["negative", "huge", "unsigned"],
)
def test_sequences_that_are_none_are_bad_records(values, tokens):
    """They ended `privaudit memorization` with unexpected errors."""
    found = tokens_of(pl.Series(values))
    assert [None if one is None else one.tolist() for one in found] == tokens


def test_fit_says_which_ids_are_none():
    rows = pl.DataFrame({"text": [[-1, 2]] * 9, "split": ["train"] * 9})
    refused("token ids of 0 to 1,114,111", count_ngrams, rows, "text", order=2, split="train")


def test_a_language_model_that_is_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "model.json")
    refused("no plain file", read_model, str(tmp_path / "model.json"))
