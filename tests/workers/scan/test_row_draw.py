"""Which share of a large day's rows plays, and how that is said."""

import pytest

from workers.scan.partial_results import RowDraw, may_be_large


@pytest.mark.parametrize(
    ("training", "holdout", "large"),
    [
        (2_400_000, 1_200_000, False),
        (2_400_001, 1_200_000, True),
        (2_400_000, 1_200_001, True),
        (0, 0, False),
    ],
)
def test_either_arm_makes_a_day_large(training: int, holdout: int, large: bool) -> None:
    assert RowDraw(training, holdout).large is large


def test_files_of_few_rows_need_no_count() -> None:
    """A holdout of 1,200,001 rows and nothing else is a large day."""
    assert [may_be_large(rows) for rows in (1_200_000, 1_200_001, 2_400_000)] == [False, True, True]


def test_of_each_arm_as_many_play_as_are_drawn_at_most() -> None:
    assert RowDraw(9_600_000, 600_000).shares == (0.25, 1.0)
    assert RowDraw(0, 6_000_000).shares == (1.0, 0.2)


def test_it_adds_and_says_of_how_many_rows_lots_chose() -> None:
    draw = RowDraw(16_000_000, 1_000_000) + RowDraw(1, 2)
    assert draw == RowDraw(16_000_001, 1_000_002)
    said = "Lots chose 4,000,007 of the 16,000,001 training rows and 999,999 of the 1,000,002"
    assert draw.sentence(4_000_007, 999_999).startswith(said)
