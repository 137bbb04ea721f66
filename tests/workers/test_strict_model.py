import pytest
from pydantic import ValidationError

from workers.strict_model import StrictModel, known_zone


class _Told(StrictModel):
    count: int = 1
    """How many there are, which takes
    two lines to say."""
    silent: int = 0


def test_the_text_below_a_field_describes_it_in_one_line():
    assert _Told.model_fields["count"].description == (
        "How many there are, which takes two lines to say."
    )
    assert _Told.model_fields["silent"].description is None


def test_what_has_no_field_and_what_changes_a_field_are_refused():
    with pytest.raises(ValidationError):
        _Told(other=1)
    with pytest.raises(ValidationError):
        _Told().count = 2


def test_a_zone_is_one_that_this_machine_knows():
    assert known_zone("Europe/Amsterdam") == "Europe/Amsterdam"
    with pytest.raises(ValueError, match="'Mars' is not a time zone: write a name like"):
        known_zone("Mars")
