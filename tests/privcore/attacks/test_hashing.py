import numpy as np
import pytest

from privcore.attacks.hashing import record_streams
from privcore.exceptions import InvalidInputError
from tests.support.words import WORD, naive_draw, naive_stream


def test_streams_are_the_published_generator():
    """The first outputs of splitmix64 from 0 and 1234567, as its other implementations give them.

    Vigna's splitmix64.c, Java's SplittableRandom: the audits that are stored depend on them.
    """
    first = record_streams(3, key=0, indices=None)
    assert [hex(word) for word in first] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]
    assert record_streams(1, key=1_234_567, indices=None)[0] == 6_457_827_717_110_365_317


@pytest.mark.parametrize("key", [0, 11, WORD - 1])
def test_streams_agree_with_whole_numbers(key):
    indices = np.array([0, 1, 5, 2**40, 2**63 - 1])
    streams = record_streams(5, key=key, indices=indices)
    assert streams.tolist() == [naive_stream(key, int(index)) for index in indices]


@pytest.mark.slow
def test_draws_are_fair_and_independent_over_records_and_repetitions():
    """2,000 records and 200 repetitions, key 3: bits within five standard errors, uniforms too."""
    draws = np.array([[naive_draw(3, i, r) for r in range(200)] for i in range(2_000)], dtype=float)
    uniform = (draws[:, :, 2] / 2**53 - 0.5) * np.sqrt(12.0)
    for values in (draws[:, :, 0] * 2.0 - 1.0, draws[:, :, 1] * 2.0 - 1.0, uniform):
        error = 1.0 / np.sqrt(values.size)
        assert abs(values.mean()) < 5.0 * error
        assert abs((values[1:] * values[:-1]).mean()) < 5.0 * error
        assert abs((values[:, 1:] * values[:, :-1]).mean()) < 5.0 * error
        assert abs((values * uniform).mean() - float(values is uniform)) < 5.0 * error
        assert np.abs(values.mean(axis=0)).max() < 5.5 / np.sqrt(2_000)


def test_indices_are_one_per_record():
    with pytest.raises(InvalidInputError, match=r"indices is \(2,\), but their shape is \(3,\)"):
        record_streams(3, key=0, indices=np.arange(2))
