"""Texts with a sentiment: rated ones that a package carries, tweets, or a table of one's own.

The source distribution of `vaderSentiment` 3.3.2 (MIT licence) has the 23,703 tweets, film and
product reviews and newspaper sentences of Hutto and Gilbert 2014, each with the mean rating of some
20 people from -4 to 4, in an archive within the archive.
"""

import io
import pathlib
import tarfile
import zipfile
import zlib
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privcore.exceptions import InvalidInputError
from workers.lake import limits
from workers.lake.layout import read_named

RATED = "texts rated by people (vaderSentiment 3.3.2)"
TWEETS = "tweets of Awasthi 2023"
_TWEETS = "twitter-sentiment-dataset-3-million-labelled-rows.zip"
"""The archive of the paper's tweets, as Kaggle names it."""
_INNER = "additional_resources/hutto_ICWSM_2014.tar.gz"
_FILES = ("tweets", "movieReviewSnippets", "amazonReviewSnippets", "nytEditorialSnippets")
_READ_ERRORS = (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile,
                pl.exceptions.PolarsError)  # fmt: skip
_NEUTRAL_BELOW = 0.5
"""A mean rating below this, of either sign, rounds to the scale's neutral 0."""
_SENTIMENT140 = ("sentiment", "id", "date", "query", "user", "text")
_SENTIMENTS = {"0": -1, "1": 1, "2": 0, "4": 1, "negative": -1, "neutral": 0, "positive": 1}


@dataclass(frozen=True, slots=True, eq=False)
class RatedTexts:
    """Texts and their sentiments.

    Attributes:
        sentiments: shape (texts,): -1 negative, 0 neutral, 1 positive.
    """

    texts: pl.Series
    sentiments: NDArray[np.int64]
    source: str

    def balanced(
        self, random: np.random.Generator, share: float
    ) -> tuple[pl.Series, NDArray[np.int64]]:
        """Return texts and labels, shape (records,): 0 negative and 1 positive, as many of each.

        Neutral texts are left out, and so are drawn texts of the more frequent sentiment.
        """
        kinds = [np.flatnonzero(self.sentiments == sentiment) for sentiment in (-1, 1)]
        many = round(share * min(len(kind) for kind in kinds))
        drawn = random.permutation(np.concatenate([random.permutation(k)[:many] for k in kinds]))
        return self.texts[drawn], (self.sentiments[drawn] > 0).astype(np.int64)


def read_texts(
    path: pathlib.Path, *, text: str | None = None, label: str | None = None
) -> RatedTexts:
    """Return the texts of a file.

    It is the source distribution `vaderSentiment-3.3.2.tar.gz`, as published; Sentiment140's
    `trainingandtestdata.zip` or its CSV file of training, without names of columns; or a Parquet or
    CSV file, or a zip of the latter, with named columns: of texts (`text` by default), and of
    labels (`sentiment` or `label`), which are 0 and 1, or 0, 2 and 4 as in Sentiment140, or
    negative, neutral and positive.

    Raises:
        InvalidInputError: the file cannot be read, or lacks texts, or holds other sentiments.
    """
    try:
        if path.name.endswith(".tar.gz"):
            return _rated(path)
        frame = pl.read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
        frame = _chosen(frame, path, text or "text", label)
    except _READ_ERRORS as error:
        rule = f"it cannot be read as the archive of a package, Parquet or CSV: {error}"
        raise InvalidInputError("--input", str(path), rule) from None
    words = frame["sentiment"].str.to_lowercase()
    other = words.is_in(list(_SENTIMENTS)).not_().fill_null(value=True) | frame["text"].is_null()
    if words.is_in(["1"]).any():  # of two classes, where 2 and 4 have no meaning
        other |= words.is_in(["0", "1"]).not_()
    if other.any():
        place = int(other.arg_max() or 0)
        rule = (
            f"row {place + 1} has sentiment {words[place]!r} and text {frame['text'][place]!r}: "
            "each row needs a text, and a sentiment that is 0 or 1, or 0, 2 or 4, or one of the "
            "words negative, neutral and positive"
        )
        raise InvalidInputError("--input", str(path), rule)
    sentiments = words.replace_strict(_SENTIMENTS, return_dtype=pl.Int64).to_numpy()
    source = TWEETS if path.name == _TWEETS else f"texts of {path.name}"
    return _checked(RatedTexts(frame["text"], sentiments, source), path)


def _chosen(frame: pl.DataFrame, path: pathlib.Path, text: str, label: str | None) -> pl.DataFrame:
    """Return the columns of texts and of labels, as `text` and `sentiment`."""
    usual = (name for name in ("sentiment", "label") if name in frame.columns)
    label = label or next(usual, "sentiment")
    missing = [name for name in (text, label) if name not in frame.columns]
    if missing:
        rule = (
            f"it lacks a column {missing[0]!r}: name the columns of texts and labels by "
            f"--text-column and --label-column; it has {', '.join(frame.columns)}"
        )
        raise InvalidInputError("--input", str(path), rule)
    return frame.select(text=pl.col(text).cast(pl.String), sentiment=pl.col(label).cast(pl.String))


def _read_csv(path: pathlib.Path) -> pl.DataFrame:
    """Return the columns of a CSV file; Sentiment140's has no names and is in Latin-1."""
    content = read_named(str(path), at_most=limits.CSV_BYTES)
    if path.suffix == ".zip":
        content = _training_file(content)
    if not content.startswith((b'"0",', b'"2",', b'"4",')):
        return pl.read_csv(content, infer_schema=False)
    text = content.decode("latin-1").encode()
    return pl.read_csv(text, has_header=False, new_columns=list(_SENTIMENT140), infer_schema=False)


def _training_file(content: bytes) -> bytes:
    """Return Sentiment140's file of training from its archive, or the archive's only file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [one for one in archive.infolist() if one.filename.endswith(".csv")]
        members = [one for one in members if "training" in one.filename] or members
        if len(members) != 1 or members[0].file_size > limits.CSV_BYTES:
            raise zipfile.BadZipFile("it holds no CSV file of training that can be read")
        return archive.read(members[0])


def _rated(path: pathlib.Path) -> RatedTexts:
    inner = _member(path.read_bytes(), _INNER, path)
    texts, ratings = [], []
    for name in _FILES:
        content = _member(inner, f"{name}_GroundTruth.txt", path).decode("utf-8", "replace")
        for line in content.replace("\r", "").strip("\n").split("\n"):
            parts = line.split("\t")
            try:
                _, rating, text = parts
                ratings.append(float(rating))
            except ValueError:
                rule = f"{name}_GroundTruth.txt has a line that is no id, rating and text: {line!r}"
                raise InvalidInputError("--input", str(path), rule) from None
            texts.append(text)
    found = np.array(ratings)
    if not (np.abs(found) <= 4.0).all():  # nor what is no number
        rule = "it has a rating outside of -4 to 4"
        raise InvalidInputError("--input", str(path), rule)
    sentiments = np.where(np.abs(found) < _NEUTRAL_BELOW, 0, np.sign(found)).astype(np.int64)
    return _checked(RatedTexts(pl.Series(texts), sentiments, RATED), path)


def _member(archive: bytes, name: str, path: pathlib.Path) -> bytes:
    """Return a file of an archive, by the end of its path."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            if member.name.endswith(f"/{name}") and (content := opened.extractfile(member)):
                return content.read()
    rule = f"it holds no {name}: get it with pip download --no-deps --no-binary :all: "
    raise InvalidInputError("--input", str(path), f"{rule}vaderSentiment==3.3.2")


def _checked(texts: RatedTexts, path: pathlib.Path) -> RatedTexts:
    for sentiment, word in ((-1, "negative"), (1, "positive")):
        if not (texts.sentiments == sentiment).any():
            raise InvalidInputError("--input", str(path), f"it holds no {word} text")
    return texts
