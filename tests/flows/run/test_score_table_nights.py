"""Models with score tables in the settings: planned, checked and audited as all others are."""

import deltalake
import polars as pl
import pytest

from flows.commands.checks import checks
from flows.settings import SettingsError, load_settings
from tests.flows.run.test_in_place_nights import PRIVACY, planned, settings_in
from tests.support.lake import DAY, EVE

SCORES = """
[models.scores]
table = "predictions"
label = "clicked"
target = "p_today"
proxy = "p_yesterday"
holdout = "bucket(event_id, 3) = 0"
"""


def rows(day, count=3_000):
    """Return rows whose target gives every label away."""
    numbers = pl.int_range(count, eager=True)
    label = (numbers * 7919 % 5 < 2).cast(pl.Int64)
    return pl.DataFrame(
        {
            "day": [day] * count,
            "event_id": numbers.cast(pl.String),
            "clicked": label,
            "p_today": 0.3 + 0.2 * label,
            "p_yesterday": [0.4] * count,
            "user_id": numbers,
        }
    )


@pytest.fixture
def path(tmp_path):
    deltalake.write_deltalake(str(tmp_path / "predictions"), rows(DAY), partition_by=["day"])
    return settings_in(tmp_path, SCORES + PRIVACY)


def test_a_night_waits_for_the_tables_day_and_pins_its_version(path):
    settings = load_settings(path)
    table = settings.models[0].scores.table
    assert table == str(path.parent / "predictions")
    ready = planned(path, DAY)
    assert (ready.missing, ready.external_inputs.tables.version) == (None, 0)
    assert ready.label_bytes > 0
    assert ready.shares == (f"table {table}", None)
    assert f"has no day = {EVE}" in planned(path, EVE).missing


def test_check_looks_at_the_newest_day_and_its_columns(path):
    def said(text):
        given = settings_in(path.parent, text)
        found = checks(given)
        lake = next(each for each in found if each.what == "lake")
        assert lake.ok
        return next(each.sentence for each in found if each.what == "model ads")

    told = said(SCORES + PRIVACY)
    assert told.startswith(f"{DAY} of {path.parent / 'predictions'}, version 0, declares epsilon 0")
    assert "declares nothing" in said(SCORES)
    assert "no column 'p_tomorrow'" in said(SCORES.replace("p_today", "p_tomorrow"))
    assert "is no Delta table" in said(SCORES.replace("predictions", "elsewhere"))


def test_the_settings_say_what_the_label_column_holds(tmp_path):
    by = '{ privatised_by = { name = "randomized_response", parameters = { epsilon = 1.0 } } }'
    for said in ('"secret"', by):
        read = load_settings(settings_in(tmp_path, f"{SCORES}label_state = {said}\n"))
        assert read.models[0].scores.label_state is not None
    with pytest.raises(SettingsError, match=r"label_state"):
        load_settings(settings_in(tmp_path, f'{SCORES}label_state = "public"\n'))


def test_the_tables_unit_is_the_plans(tmp_path):
    settings = load_settings(settings_in(tmp_path, f'{SCORES}unit = "user_id"\n'))
    assert settings.plan_of("ads").privacy_unit == "user_id"
