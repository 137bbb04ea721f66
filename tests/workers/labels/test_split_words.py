"""Words that stand for splits are named; words that may be a person's are only counted."""

import polars as pl
import pytest

from tests.support.lake import DAY, label_path
from workers.labels.shards import find_partition
from workers.labels.split_words import other_words
from workers.lake.layout import Lake


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "holdout"], ""),
        (["train", "test"], " They say 'test'."),
        (["Validation", "train", None], " They say 'Validation', 'null'."),
        (["ann@example.org", "bob@example.org", "test"], " They say 'test', 2 other values."),
        (["ann@example.org", "train"], " They say 1 other value."),
    ],
)
def test_common_words_are_told_and_others_counted(
    lake: Lake, words: list[str | None], told: str
) -> None:
    file = label_path(lake, "flights")
    rows = pl.read_parquet(file)
    splits = pl.Series("split", [words[row % len(words)] for row in range(rows.height)])
    rows.with_columns(splits).write_parquet(file)
    assert other_words(lake, find_partition(lake, "flights", DAY)) == told
