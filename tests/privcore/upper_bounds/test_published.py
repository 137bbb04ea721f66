"""Printed figures beside computed ones: equal where nothing is remarked."""

from privcore.upper_bounds import (
    leakage_curves,
    published_leakage,
    published_noise,
    published_protection,
)


def test_protection_agrees_with_the_print_or_says_why_not():
    rows = published_protection()
    assert len(rows) == 7
    for row in rows:
        assert (row.printed == row.computed) == (row.remark == "")
    assert [row.computed for row in rows if row.remark] == ["0.443", "0.40", "0.16"]


def test_leakage_of_short_and_long_secrets():
    curves = leakage_curves(secret_bits=[1, 20], noise_multipliers=(0.32, 0.34, 0.47, 0.5))
    short, long = published_leakage(reversed(curves))
    assert (short.printed, long.printed) == ("below 10", "around 50")
    assert 5.0 < float(short.computed) < 10.0
    assert 45.0 < float(long.computed) < 55.0


def test_noise_is_computed_where_nothing_was_printed():
    growth, ratio = published_noise()
    assert growth.computed == "16.0"
    assert ratio.remark
    assert float(ratio.computed) > 20.0
