"""Texts with sentiments, from each kind of file; what is no such file is refused."""

import os
import zipfile

import numpy as np
import polars as pl
import pytest

from privcore.attacks import generator
from tests.support.rated_texts import FILES, made_up, packed, write_distribution
from tests.support.refusals import refused
from workers.datasets.rated_texts import RATED, TWEETS, read_texts

LINES = {name: [f"1\t{rating}\t{name} text"] for name, rating in zip(
    FILES, ("3.5", "-0.6", "0.49", "-0.49"), strict=True
)}  # fmt: skip


def test_the_distribution_of_the_package_is_read_from_the_archive_within_it(tmp_path):
    texts = read_texts(write_distribution(tmp_path / "v.tar.gz", LINES))
    assert texts.source == RATED
    assert texts.texts.to_list() == [f"{name} text" for name in FILES]
    assert texts.sentiments.tolist() == [1, -1, 0, 0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1\t2.0", "no id, rating and text"),
        ("1\tgood\ttext", "no id, rating and text"),
        ("1\t4.5\ttext", "outside of -4 to 4"),
        ("1\tnan\ttext", "outside of -4 to 4"),
    ],
)
def test_a_damaged_line_of_the_distribution_is_refused(tmp_path, line, words):
    path = write_distribution(tmp_path / "v.tar.gz", {**LINES, "tweets": [line]})
    refused(words, read_texts, path)


def test_another_archive_is_refused_with_the_command_that_gets_the_right_one(tmp_path):
    path = tmp_path / "other.tar.gz"
    path.write_bytes(packed({"other/README": b"no texts"}))
    refused(r"pip download .* vaderSentiment==3\.3\.2", read_texts, path)
    path.write_bytes(b"no archive")
    refused("cannot be read", read_texts, path)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("column", "given", "sentiments"),
    [
        ("sentiment", [0, 2, 4, 4], [-1, 0, 1, 1]),
        ("sentiment", ["negative", "Neutral", "positive", "4"], [-1, 0, 1, 1]),
        ("label", [0, 1, 1, 1], [-1, 1, 1, 1]),
    ],
)
def test_columns_of_text_and_sentiment_are_read(tmp_path, kind, column, given, sentiments):
    frame = pl.DataFrame({"text": ["a, b", "c", "ü", '"d"'], column: given})
    path = tmp_path / f"texts.{kind}"
    getattr(frame, f"write_{kind}")(path)
    texts = read_texts(path)
    assert texts.texts.to_list() == ["a, b", "c", "ü", '"d"']
    assert texts.sentiments.tolist() == sentiments
    assert texts.source == f"texts of texts.{kind}"


@pytest.mark.parametrize("kind", ["csv", "zip", "parquet"])
def test_a_table_of_one_s_own_is_read_by_the_names_of_its_columns(tmp_path, kind):
    """Its other columns, even a `text` and a `label`, are not read."""
    path = tmp_path / f"reviews.{kind}"
    frame = pl.DataFrame(
        {"label": [7, 7], "review": ['so-so, "ok"', "ü\ngood"], "helpful": [0, 1], "text": ["", ""]}
    )
    if kind == "parquet":
        frame.write_parquet(path)
    elif kind == "csv":
        frame.write_csv(path)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("data/reviews.csv", frame.write_csv())
    texts = read_texts(path, text="review", label="helpful")
    assert texts.texts.to_list() == ['so-so, "ok"', "ü\ngood"]
    assert texts.sentiments.tolist() == [-1, 1]
    for names, lacking in (({"text": "body", "label": "helpful"}, "body"),
                           ({"text": "review"}, "row 1 has sentiment '7'"),
                           ({"text": "review", "label": "rating"}, "rating")):  # fmt: skip
        refused(lacking, read_texts, path, **names)


def test_a_table_whose_columns_are_not_named_is_refused_with_what_it_has(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("review,helpful\ngood,1\nbad,0\n")
    refused("--label-column; it has review, helpful", read_texts, path)


def test_the_paper_s_tweets_are_known_by_their_archive(tmp_path):
    content = "id,tweet,target\n1,good,positive\n2,so,neutral\n3,bad,negative\n"
    for name, source in (
        ("twitter-sentiment-dataset-3-million-labelled-rows.zip", TWEETS),
        ("tweets.zip", "texts of tweets.zip"),
    ):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("twitter_dataset.csv", content)
        assert read_texts(tmp_path / name, text="tweet", label="target").source == source


@pytest.mark.parametrize("packed", [False, True])
def test_sentiment140_is_read_as_it_is_published(tmp_path, packed):
    path = tmp_path / "training.1600000.processed.noemoticon.csv"
    rows = ['"0","1","Mon","NO_QUERY","_ann_","no, caf\xe9"', '"4","2","Tue","NO_QUERY","bo","yes"']
    content = "\n".join(rows).encode("latin-1")
    if packed:
        with zipfile.ZipFile(tmp_path / "trainingandtestdata.zip", "w") as archive:
            archive.writestr("testdata.manual.2009.06.14.csv", b"of another kind")
            archive.writestr(path.name, content)
        path = tmp_path / "trainingandtestdata.zip"
    else:
        path.write_bytes(content)
    texts = read_texts(path)
    assert texts.texts.to_list() == ["no, caf\xe9", "yes"]
    assert texts.sentiments.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"text": ["a", "b", "c"], "sentiment": [0, 1, 2]}, "row 3 has sentiment '2'"),
        ({"text": ["a", None], "sentiment": [0, 4]}, "row 2 has sentiment '4' and text None"),
        ({"text": ["a", "b"], "sentiment": [0, None]}, "row 2 has sentiment None"),
        ({"text": ["a", "b"], "sentiment": [0, 2]}, "no positive text"),
        ({"text": ["a", "b"], "rating": [0, 4]}, "lacks a column 'sentiment'"),
    ],
)
def test_other_sentiments_and_missing_texts_are_refused(tmp_path, columns, words):
    path = tmp_path / "texts.parquet"
    pl.DataFrame(columns).write_parquet(path)
    refused(words, read_texts, path)


def test_balanced_texts_have_as_many_of_either_sentiment_and_keep_their_own(tmp_path):
    texts = read_texts(write_distribution(tmp_path / "v.tar.gz", made_up(401, 5)))
    words, labels = texts.balanced(generator(1), 1.0)
    few = min((texts.sentiments == sign).sum() for sign in (-1, 1))
    assert np.bincount(labels).tolist() == [few, few]
    assert words.n_unique() == len(words)
    own = dict(zip(texts.texts, texts.sentiments, strict=True))
    assert all((own[text] > 0) == label for text, label in zip(words, labels, strict=True))
    assert 0 not in {own[text] for text in words}
    assert len(set(labels[:20].tolist())) == 2  # in an order of their own
    assert len(texts.balanced(generator(1), 0.1)[1]) == 2 * round(0.1 * few)


@pytest.mark.parametrize("text", [[["a"], ["b"]], [b"\xff", b"b"]])
def test_texts_of_a_study_that_are_none_are_a_sentence(tmp_path, text):
    pl.DataFrame({"text": text, "sentiment": ["0", "4"]}).write_parquet(tmp_path / "x.parquet")
    os.mkfifo(tmp_path / "x.csv")
    for name in ("x.parquet", "x.csv"):
        refused("--input", read_texts, tmp_path / name)
