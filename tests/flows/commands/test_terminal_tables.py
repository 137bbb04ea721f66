import io

import polars as pl
import pytest
from rich.console import Console

from flows.commands.terminal_tables import audits_table, frame_table
from privcore.lower_bounds.verdicts import Verdict
from privcore.rounding import ABSENT


def shown(frame, *, width=80):
    console = Console(file=io.StringIO(), width=width)
    console.print(audits_table(frame, width=width))
    return console.file.getvalue()


def audit(**changes):
    row = {
        "day": "2013-02-01",
        "model": "delays-private",
        "secret": "label",
        "epsilon_lower": 0.999,
        "epsilon_declared": 2.0,
        "sees_from": 3.101,
        "verdict": "inconclusive",
        "reason_code": "few_held_out",
    }
    return pl.DataFrame([row | changes])


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("verdict", Verdict)
def test_the_columns_that_matter_are_whole_on_every_terminal(width, verdict):
    table = shown(audit(verdict=str(verdict), model=":bug:"), width=width)
    for word in ("as_of", "model", "proved", "declared", "verdict", ":bug:", str(verdict)):
        assert word in table  # a name is no emoji


FULL = {
    "verdict_together": "not_refuted",
    "reason_code_together": None,
    "sees_from_together": 2.721,
    "nights_together": 14,
    "audit_id": "0f3c2a91" + "0" * 24,
    "next_step": "Serve the model.",
    "next_who": "model owner",
}


@pytest.mark.parametrize(
    ("width", "header"),
    [
        (40, "model verdict as_of"),
        (60, "model verdict proved as_of reason_code"),
        (70, "model verdict declared proved as_of reason_code"),
        (80, "model verdict declared proved together as_of reason_code"),
        (90, "model verdict declared proved sees_from together as_of reason_code"),
        (100, "model verdict declared proved sees_from together nights as_of reason_code audit_id"),
    ],
)
def test_columns_go_in_the_order_of_what_matters_least(width, header):
    lines = shown(audit(**FULL), width=width).splitlines()
    assert lines[0].split() == header.split()
    assert all(len(line) <= width for line in lines)
    assert lines[1].startswith("delays-private ")
    assert "not_refuted" in lines[1]
    assert lines[2].startswith("1 not_refuted.")


def test_the_next_step_is_below_the_table_where_there_is_no_room_in_it():
    narrow = shown(audit(**FULL), width=80).splitlines()
    assert narrow[-1] == "delays-private (model owner): Serve the model."
    wide = shown(audit(**FULL), width=1000).splitlines()
    assert wide[0].split()[-2:] == ["audit_id", "next"]
    assert wide[1].rstrip().endswith("Serve the model.")
    assert not wide[-1].startswith("delays-private")


def test_without_nights_together_the_nights_own_verdict_is_shown():
    lines = shown(audit(), width=200).splitlines()
    header = "model verdict declared proved sees_from as_of reason_code"
    assert " ".join(lines[0].split()) == header
    assert "inconclusive" in lines[1]
    assert "few_held_out" in lines[1]
    assert lines[2].startswith("1 inconclusive. proved: the loss is at least this")


def test_a_model_that_its_nights_alone_refute_shows_what_these_prove():
    told = {"verdict_together": "violated", "reason_code_together": "nights_together"}
    assert "2.31" in shown(audit(**FULL | told, epsilon_standing=2.314), width=120)
    assert "2.31" not in shown(audit(**FULL, epsilon_standing=2.314), width=120)


def test_short_ids_are_as_long_as_it_takes_to_tell_them_apart():
    two = pl.concat(
        [audit(audit_id="0f3c2a91ab" + "0" * 22), audit(audit_id="0f3c2a91ac" + "0" * 22)]
    )
    text = shown(two, width=200)
    assert "0f3c2a91ab" in text
    assert "0f3c2a91ac" in text
    assert "0f3c2a91 " in shown(audit(**FULL), width=200)


def test_a_lower_bound_is_rounded_towards_zero_and_a_leak_that_is_seen_up():
    for width in (80, 120):
        table = shown(audit(**FULL), width=width)
        assert "0.99" in table
        assert "1.00" not in table
        assert "2.73" in table


def test_what_is_not_there_is_a_dash():
    empty = dict.fromkeys(("epsilon_lower", "epsilon_declared", "sees_from", "reason_code"))
    line = shown(audit(**empty), width=120).splitlines()[1]
    assert line.split() == [
        "delays-private", "inconclusive", ABSENT, ABSENT, ABSENT, "2013-02-01", ABSENT,
    ]  # fmt: skip


def test_a_sum_of_floats_is_shown_in_the_digits_that_it_has_and_a_null_is_empty():
    console = Console(width=40, record=True)
    sums = {"total": [2.2 * 3, 2.0, 1e-9, float("inf"), None], "x": ["", "", "", "", "[red]y"]}
    console.print(frame_table(pl.DataFrame(sums)))
    assert console.export_text().split() == ["total", "x", "6.6", "2.0", "1e-09", "inf", "[red]y"]
