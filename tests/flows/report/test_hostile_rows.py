"""No row of one model costs another its page, or any model the report."""

import re

import pytest

from flows.report.site import write_pages, write_report
from privcore.lower_bounds.verdicts import Verdict
from privcore.rounding import down, up
from tests.support.lake import DAY
from tests.support.report import everything_beside, record, tables, three_models
from tests.support.tiers import tiered
from tests.support.warehouse import failed
from workers.warehouse.schema import SliceRow
from workers.warehouse.store import Warehouse

CONTROLS = ["\x00", "\x07", "\x0b", "\x1b[2J", "\x9b", "\ufffe", "\uffff", "\u202e", "\U000e0041"]


def drawn(folder, nights, beside):
    """Write a report and return its pages by name."""
    write_pages(tables(nights, beside), folder)
    return {path.name: path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}


def beside(nights):
    return [row for night in nights for row in everything_beside(night)]


SHOWN = [(f"EWR{text}", "EWR\\u") for text in CONTROLS]
MARKUP = ('<a b="&">', "&lt;a b=&#34;&amp;&#34;&gt;</th>")


@pytest.mark.parametrize(
    ("value", "shown"), tiered([*SHOWN[:3], MARKUP, *SHOWN[3:]], always=4, slow=6), ids=ascii
)
def test_markup_and_control_characters_of_a_slice_are_text_and_every_page_drawn(
    value, shown, tmp_path
):
    nights = three_models(3)
    rows = [
        row.model_copy(update={"value": value}) if isinstance(row, SliceRow) else row
        for row in beside(nights[-3:])
    ]
    pages = drawn(tmp_path, nights, rows)
    assert len(pages) == 5
    assert not [name for name, page in pages.items() if "cannot be drawn" in page]
    assert not [name for name, page in pages.items() if value.removeprefix("EWR") in page]
    assert shown in pages["delays-broken.html"]


def test_a_page_that_cannot_be_drawn_says_so_and_costs_no_other(tmp_path, monkeypatch):
    def fails(history):
        if history.model == "delays-broken":
            raise ValueError("no place")
        return 1.0

    nights = three_models(3)
    monkeypatch.setattr("flows.report.plots.top_of_trend", fails)
    pages = drawn(tmp_path, nights, beside(nights[-3:]))
    assert "ValueError" in pages["delays-broken.html"]
    assert "VIOLATED: delays-broken" in pages["index.html"]
    assert "cannot be drawn" not in pages["delays-plain.html"]


def test_a_model_with_old_figures_and_none_since_has_its_page(tmp_path):
    silent = [record("old", day, Verdict.FAILED) for day in range(1, 101)]
    nights = [record("old", 0, Verdict.NOT_REFUTED, epsilon_declared=2.0), *silent]
    page = drawn(tmp_path, nights, everything_beside(nights[0]))["old.html"]
    assert "cannot be drawn" not in page


HUGE = [1e9, 1e25, 1e26, 1e28, 1e100, 1.7976931348623157e308]


@pytest.mark.parametrize("epsilon", tiered(HUGE, always=2, slow=4))
def test_a_huge_epsilon_costs_no_page_and_flattens_no_other_model(epsilon, tmp_path):
    calm = three_models(3)
    declared = {"epsilon_declared": epsilon, "epsilon_accounted": epsilon}
    nights = [*calm, record("huge", 2, Verdict.NOT_REFUTED, epsilon_ceiling=epsilon, **declared)]
    pages = drawn(tmp_path / "with", nights, beside(nights[-4:]))
    assert "huge.html" in pages
    assert "The page of huge cannot be drawn" not in pages["huge.html"]
    without = drawn(tmp_path / "without", calm, beside(nights[-4:-1]))
    for name in ("delays-plain.html", "delays-broken.html", "delays-private.html"):
        assert pages[name] == without[name]
    # The night's small plots share one scale, and end at 100.
    assert "cannot be drawn" not in pages["index.html"]
    assert not re.search(r' d="[^"]*\d{6}', pages["index.html"])


@pytest.mark.parametrize("value", HUGE)
def test_a_huge_figure_is_rounded_in_its_direction_and_short(value):
    assert float(down(value)) <= value <= float(up(value))
    assert float(down(value, beyond=1.0)) <= value
    assert max(map(len, (down(value), up(value)))) <= 10


def test_the_report_lists_what_was_taken_back(tmp_path):
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    kept, taken = failed("kept", DAY), failed("taken", DAY)
    warehouse.commit([kept, taken])
    write_report(warehouse, tmp_path / "report")
    index = tmp_path / "report" / "index.html"
    assert "taken back" not in index.read_text(encoding="utf-8")
    warehouse.withdraw(taken.audit.audit_id, "The <b>wrong</b> lake\x1b[2J " + "x" * 1000)
    write_report(warehouse, tmp_path / "report")
    page = index.read_text(encoding="utf-8")
    assert "Records that were taken back" in page
    assert "taken, <time" in page
    assert "The &lt;b&gt;wrong&lt;/b&gt; lake\\u001b[2J xxx" in page
    assert "x" * 300 not in page
    assert not (tmp_path / "report" / "models" / "taken.html").exists()
    assert (tmp_path / "report" / "models" / "kept.html").exists()
