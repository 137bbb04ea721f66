"""Figures as text: never more than the figure, and the same wherever a person reads it."""

import io
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from flows.commands.terminal_tables import audits_table
from privcore.rounding import down, odds_at_least, odds_at_most, percent_up, significant_up, up
from tests.support.report import record

GRID = np.linspace(0.0, 27.99, 2800)
"""The epsilons at which a headline can lie, hundredths apart."""


@pytest.mark.parametrize(
    ("value", "decimals", "expected"),
    [
        (0.999, 2, "0.99"),
        (0.29, 2, "0.29"),
        (0.0, 2, "0.00"),
        (0.004, 2, "> 0"),
        (None, 2, "\N{EN DASH}"),
        (float("nan"), 2, "\N{EN DASH}"),
        (float("inf"), 2, "∞"),
    ],
)
def test_a_lower_bound_is_rounded_towards_zero(value, decimals, expected):
    assert down(value, decimals=decimals) == expected


def test_a_limit_is_rounded_up():
    assert up(4.671) == "4.68"
    assert up(4.67) == "4.67"


@pytest.mark.parametrize(
    ("bound", "declared", "expected"),
    [(0.98, 0.5, "0.98"), (0.504, 0.5, "0.504"), (0.5004, 0.5, "0.5004"), (0.004, 0.0, "0.004")],
)
def test_a_violation_reads_as_one(bound, declared, expected):
    assert down(bound, beyond=declared) == expected


def test_odds_are_rounded_to_the_side_of_the_claim():
    assert odds_at_least(0.9) == "2.4 to 1"
    assert odds_at_most(0.5) == "1.65 to 1"
    assert odds_at_least(0.04) == "1.04 to 1"
    assert odds_at_most(700.0) == "e^700 to 1"


def test_every_point_of_the_headlines_grid_reads_as_its_hundredth():
    for hundredth, value in enumerate(GRID.tolist()):
        expected = f"{Decimal(hundredth) / 100:.2f}"
        assert down(value) == (expected if hundredth else "0.00")
        assert Decimal(up(value)) - Decimal(expected) in {Decimal("0.00"), Decimal("0.01")}


@pytest.mark.parametrize("decimals", [1, 2, 3])
def test_the_same_bound_reads_the_same_with_more_decimals(decimals):
    for value in GRID.tolist():
        less, more = (down(value, decimals=places) for places in (decimals, decimals + 1))
        assert less == "> 0" or more.startswith(less)


@given(value=st.floats(0.0, 1e6), decimals=st.integers(0, 6))
def test_no_text_claims_more_than_the_figure(value, decimals):
    lower, upper = down(value, decimals=decimals), up(value, decimals=decimals)
    figure = Decimal(repr(value))
    step = Decimal(1).scaleb(-decimals)
    assert Decimal(upper) - step < figure <= Decimal(upper)
    if lower == "> 0":
        assert 0 < figure < step
    else:
        assert Decimal(lower) <= figure < Decimal(lower) + step


@given(value=st.floats(1e-4, 700.0))
def test_other_texts_err_to_the_side_of_their_claim(value):
    assert Decimal(down(value, beyond=0.0)) <= Decimal(repr(value))
    assert Decimal(significant_up(value)) >= Decimal(repr(value)) * Decimal("0.999999999")
    assert Decimal(percent_up(value).removesuffix("%")) >= Decimal(repr(value * 100.0))


@pytest.mark.parametrize("value", [0.29, 0.57, 1.13, 2.01, 4.35, 8.95, 0.004])
def test_the_terminal_shows_a_bound_and_a_leak_as_rounded(value):
    audit = record(epsilon_lower=value, sees_from=value, sees_from_together=None)
    console = Console(file=io.StringIO(), width=140)
    console.print(audits_table(pl.DataFrame([audit.model_dump()]), width=140))
    terminal = console.file.getvalue()
    assert down(value) in terminal
    assert up(value) in terminal
