import io

import polars as pl
import pytest
from rich.console import Console

from flows.commands.terminal_tables import audits_table, frame_table
from privcore.rounding import ABSENT


def shown(frame: pl.DataFrame, *, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(audits_table(frame, width=width))
    return console.file.getvalue()


def audit(**changes: object) -> pl.DataFrame:
    row = {
        "day": "2013-02-01",
        "model": "delays-private",
        "secret": "label",
        "epsilon_lower": 0.999,
        "epsilon_declared": 2.0,
        "epsilon_ceiling": 4.789,
        "control_epsilon_lower": 0.0,
        "epsilon_paper": 2.055,
        "verdict": "consistent",
    }
    return pl.DataFrame([row | changes])


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "verdict", ["consistent", "violated", "proxy_unfaithful", "undeclared", "not_evaluable"]
)
def test_the_columns_that_matter_are_whole_on_every_terminal(width: int, verdict: str) -> None:
    table = shown(audit(verdict=verdict), width=width)
    for word in ("day", "model", "epsilon_lower", "declared", "verdict", "delays-private", verdict):
        assert word in table


ALWAYS = "day model epsilon_lower declared verdict"
FULL = {"standing": "violated", "audit_id": "0f3c2a91" + "0" * 24, "epsilon_standing": 5.758}


@pytest.mark.parametrize(
    ("width", "header"),
    [
        (40, "day model verdict"),
        (60, ALWAYS),
        (72, f"{ALWAYS} standing"),
        (80, f"{ALWAYS} standing audit_id"),
        (1000, f"{ALWAYS} standing audit_id epsilon_standing ceiling control paper*"),
    ],
)
def test_columns_go_in_the_order_of_what_matters_least(width: int, header: str) -> None:
    lines = shown(audit(**FULL), width=width).splitlines()
    assert lines[0].split() == header.split()
    assert all(len(line) <= width for line in lines)
    assert lines[1].startswith("2013-02-01 delays-private ")
    assert "consistent" in lines[1]


def test_short_ids_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    two = pl.concat(
        [audit(audit_id="0f3c2a91ab" + "0" * 22), audit(audit_id="0f3c2a91ac" + "0" * 22)]
    )
    text = shown(two, width=200)
    assert "0f3c2a91ab " in text
    assert "0f3c2a91ac " in text
    assert "0f3c2a91 " in shown(audit(**FULL), width=200)


def test_a_lower_bound_is_rounded_towards_zero() -> None:
    for width in (80, 120):
        assert "0.99" in shown(audit(), width=width)
        assert "1.00" not in shown(audit(), width=width)


def test_what_is_not_there_is_a_dash() -> None:
    empty = dict.fromkeys(
        (
            "epsilon_lower",
            "epsilon_declared",
            "epsilon_ceiling",
            "control_epsilon_lower",
            "epsilon_paper",
        )
    )
    for width, more in ((60, 0), (120, 3)):
        table = shown(audit(**empty), width=width)
        line = next(line for line in table.splitlines() if "2013" in line)
        assert line.split() == [
            "2013-02-01", "delays-private", ABSENT, ABSENT, "consistent", *[ABSENT] * more,
        ]  # fmt: skip


def test_the_papers_figure_is_marked_as_uncorrected() -> None:
    table = shown(audit(), width=100)
    assert "paper*" in table
    assert "* the paper's own figure, uncorrected" in table


def test_a_refused_name_is_printed_as_it_was_given() -> None:
    assert "[bold]/../x" in shown(audit(model="[bold]/../x"), width=100)


def test_any_frame_is_a_table_with_empty_nulls() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(frame_table(pl.DataFrame({"a": [1, None], "b": ["x", "[red]y"]})))
    text = console.file.getvalue()
    assert "None" not in text
    assert "[red]y" in text


def test_a_name_is_no_emoji() -> None:
    assert ":bug:" in shown(audit(model=":bug:"), width=100)
