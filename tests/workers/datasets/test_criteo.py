"""Criteo's published format, as it comes: missing, damaged, cut off, too damaged."""

import datetime as dt
import gzip

import numpy as np
import polars as pl
import pytest

import workers.datasets.criteo
from privcore.exceptions import InvalidInputError
from workers.datasets.criteo import (
    CARDINALITIES,
    CATEGORICAL,
    LABEL,
    NUMERIC,
    parse,
    read_day,
    synthetic_clicks,
    synthetic_day,
)

DAY = dt.date(2026, 1, 1)


def line(label="0", counts=None, hashes=None):
    counts = [str(place) for place in range(13)] if counts is None else counts
    hashes = [f"{place:08x}" for place in range(26)] if hashes is None else hashes
    return "\t".join([label, *counts, *hashes]).encode()


def published(path, lines, *, cut=0):
    """Write lines as Criteo publishes them, without the last `cut` bytes of text."""
    text = b"\n".join(lines) + b"\n"
    path.write_bytes(gzip.compress(text[: len(text) - cut]))
    return path


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of 1,000 lines."""
    monkeypatch.setattr(workers.datasets.criteo, "_CHUNK", 1_000)


@pytest.mark.usefixtures("small_chunks")
def test_published_rows_arrive_with_missing_values_and_shares(tmp_path):
    lines = [line(str(int(i % 32 == 0))) for i in range(5_000)]
    lines[0] = line("1", ["", "-1", *["7"] * 11], ["", "ABCDEF01", *["0"] * 24])
    path = published(tmp_path / "day_0.gz", lines)
    rows = read_day(path, DAY, rows=4_500, seed=1, sampled=1.0)
    assert (rows.height, rows[LABEL.column].sum()) == (4_500, 141)
    first = rows.row(0, named=True)
    assert first[NUMERIC[0]] is None
    assert first[NUMERIC[1]] == -1.0
    assert (first[CATEGORICAL[0]], first[CATEGORICAL[1]]) == ("", "abcdef01")
    share, held = ((rows["split"] == word).mean() for word in ("train", "holdout"))
    assert share == pytest.approx(0.80, abs=0.03)
    assert held == pytest.approx(0.16, abs=0.03)


@pytest.mark.usefixtures("small_chunks")
def test_a_parquet_file_gives_the_rows_of_the_text(tmp_path):
    lines = [line(str(int(i % 32 == 0)), ["", *[str(i * 10_000)] * 12]) for i in range(2_500)]
    lines[3] = line("1", ["0.5", *["1"] * 12])
    path = published(tmp_path / "day_0.gz", lines)
    cells = [one.decode().rstrip("\n").split("\t") for one in lines]
    kept = pl.DataFrame(
        {f"f{place}": column for place, column in enumerate(zip(*cells, strict=True))}
    )
    numbers = [f"f{place}" for place in range(1, 14)]
    kept = kept.with_columns(
        pl.col("f0").cast(pl.Int8), pl.col(numbers).cast(pl.Float32, strict=False)
    )
    kept.write_parquet(tmp_path / "day_0.parquet", row_group_size=700)
    found = {}
    for file in (path, tmp_path / "day_0.parquet"):
        found[file.suffix] = read_day(file, DAY, rows=2_000, seed=1).drop("split")
    assert found[".gz"].equals(found[".parquet"])


@pytest.mark.usefixtures("small_chunks")
def test_a_share_of_each_chunk_is_drawn_in_the_file_s_order_until_there_are_enough(tmp_path):
    """10,000 lines numbered by their first count, chunks of 1,000: 5% are 50 of each."""
    lines = [line(counts=[str(number), *["0"] * 12]) for number in range(10_000)]
    path = published(tmp_path / "day_0.gz", lines)
    drawn = {}
    for name, seed, rows in (("one", 1, 1_000_000), ("again", 1, 120), ("other", 2, 120)):
        features = read_day(path, DAY, rows=rows, seed=seed)
        assert features.height == min(rows, 500)
        drawn[name] = features[NUMERIC[0]].to_numpy()
    assert np.bincount(drawn["one"].astype(int) // 1_000).tolist() == [50] * 10
    assert np.all(np.diff(drawn["one"]) > 0)
    assert np.array_equal(drawn["again"], drawn["one"][:120])
    assert not np.array_equal(drawn["other"], drawn["again"])


@pytest.mark.parametrize(
    "bad",
    [
        line("2"),
        line(""),
        line(counts=["1.5", *["0"] * 12]),
        line(counts=["0"] * 12),
        line(hashes=["xyz", *["0"] * 25]),
        line(hashes=["0"] * 27),
        b"",
        b"\xff\xfe" + line(),
        line() + b"\r",
        line(counts=["9" * 30, *["0"] * 12]),
        line(counts=["\u0663", *["0"] * 12]),
        line(hashes=['"' * 8, *["0"] * 25]),
    ],
)
def test_a_malformed_row_is_counted_and_left_out(bad):
    frame, malformed = parse([line(), bad, line("1")])
    assert malformed == 1
    assert frame[LABEL.column].to_list() == [0, 1]
    assert parse([bad])[1] == 1


@pytest.mark.parametrize("cut", [1, 3, 40, 200])
def test_a_row_that_the_end_cuts_off_is_malformed(tmp_path, cut):
    """Also within the last hash, or just before its newline: who knows what was there."""
    path = published(tmp_path / "day_0.gz", [line()] * 300, cut=cut)
    assert read_day(path, DAY, rows=10_000, seed=1, sampled=1.0).height == 299


def test_more_than_1_percent_malformed_is_refused(tmp_path):
    exactly = published(tmp_path / "exactly.gz", [line()] * 990 + [b"?"] * 10)
    assert read_day(exactly, DAY, rows=1_000, seed=1, sampled=1.0).height == 990
    more = published(tmp_path / "more.gz", [line()] * 989 + [b"?"] * 11)
    with pytest.raises(InvalidInputError, match="11 of its first 1000 rows are malformed"):
        read_day(more, DAY, rows=1_000, seed=1, sampled=1.0)


def test_damaged_missing_and_empty_files_are_named(tmp_path):
    whole = gzip.compress(b"\n".join([line()] * 50_000))
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(whole[: len(whole) // 2])
    empty = published(tmp_path / "empty.gz", [])
    empty.write_bytes(gzip.compress(b""))
    plain = tmp_path / "no.gz"
    plain.write_bytes(b"not gzip at all")
    endless = tmp_path / "endless"
    endless.write_bytes(b"0" * 10_000_000)
    for path, what in (
        (damaged, "cannot be read"),
        (tmp_path / "missing.gz", "cannot be read"),
        (plain, "cannot be read"),
        (empty, "holds no rows"),
        (endless, "malformed"),
    ):
        with pytest.raises(InvalidInputError, match=what) as caught:
            read_day(path, DAY, rows=100_000, seed=1)
        assert str(path) in str(caught.value)


@pytest.mark.slow
def test_made_up_clicks_have_the_shape_of_the_logs():
    """3% clicks, a Bayes log-loss near 0.12 that beats the rate's, Zipf frequencies, two seeds."""
    for seed in (1, 2):
        frame, chances = synthetic_clicks(50_000, day=0, seed=seed)
        bayes = -np.mean(chances * np.log(chances) + (1 - chances) * np.log1p(-chances))
        rate = chances.mean()
        blind = -(rate * np.log(rate) + (1 - rate) * np.log1p(-rate))
        assert rate == pytest.approx(0.03, abs=0.004)
        assert bayes == pytest.approx(0.12, abs=0.01)
        assert bayes < 0.95 * blind
        assert frame[LABEL.column].mean() == pytest.approx(rate, abs=0.004)
    assert (CARDINALITIES[0], CARDINALITIES[-1]) == (3, 1_000_000)
    assert frame[CATEGORICAL[0]].n_unique() in {2, 3}
    counts = frame[CATEGORICAL[15]].value_counts(sort=True)["count"]
    # Zipf: the second value comes up about half as often as the first.
    assert counts[1] / counts[0] == pytest.approx(0.585, abs=0.05)
    assert frame[NUMERIC[12]].null_count() > 20_000
    assert frame[NUMERIC[0]].null_count() == 0
    assert frame[NUMERIC[0]].max() > 30 * frame[NUMERIC[0]].median()


def test_days_drift_mildly_and_the_same_seed_makes_the_same_clicks():
    assert synthetic_day(DAY, number=0, rows=1_000, seed=1)["split"].n_unique() == 3
    one, again, other = (synthetic_clicks(2_000, day=1, seed=5, part=n)[0] for n in (3, 3, 4))
    assert one.equals(again)
    assert not one.equals(other)
    effects = workers.datasets.criteo._effects
    values = np.arange(20_000, dtype=np.uint64)
    today, tomorrow = (effects(values, "x", day=day, seed=5) for day in (0, 1))
    assert np.corrcoef(today, tomorrow)[0, 1] == pytest.approx(np.sqrt(1 - 0.2**2), abs=0.01)
