import numpy as np
import pytest

from privcore.attacks.hashing import stream_key
from privcore.attacks.unit_records import unit_streams
from privcore.exceptions import InvalidInputError

PEOPLE = np.random.default_rng(2).integers(0, 12, 60)


def test_each_record_belongs_to_the_stream_of_its_unit():
    streams, rows = unit_streams(PEOPLE, 60, key=7)
    assert np.all(streams[1:] > streams[:-1])
    assert streams[rows].tolist() == [stream_key(7, person) for person in PEOPLE.tolist()]


def test_units_may_be_words_or_integers_of_any_width():
    words = np.array([f"person {person}" for person in PEOPLE])

    def known(units):
        return [part.tolist() for part in unit_streams(units, 60, key=7)]

    assert known(words) == known(words.astype(object))
    for kind in (np.int8, np.uint64, object):
        assert known(PEOPLE.astype(kind)) == known(PEOPLE)
    assert known(words) != known(PEOPLE)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        (np.array([1, 2]), r"units is \(2,\), but there is one per label"),
        (np.array([1.0, np.nan, 2.0]), "units is nan, but every record"),
        (np.array(["a", None, "b"]), "units is None, but every record"),
        (np.array([1.0, 2.0, 3.0]), r"units is 1\.0, but units are integers"),
        (np.array([None, 1, 2]), "units is None, but every record"),
        (np.array(["a", "", "b"]), "units is '', but every record"),
        (np.array(["a", 1, "b"], dtype=object), "units is 1, but .* of one kind"),
        (np.array([True, False, True]), "units is True, but units are"),
    ],
)
def test_bad_units_are_named(units, message):
    with pytest.raises(InvalidInputError, match=message):
        unit_streams(units, 3, key=0)
