"""The page of attacked tables: newest audits, their figures, and no text that becomes markup."""

import datetime as dt
import re

import pytest

from flows.report.releases_page import releases_page
from tests.support.report import identity
from workers.warehouse.release_row import ReleaseRow

NOON = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def row(**changes):
    given = {
        **identity("a"), "target_sha256": None, "proxy_sha256": None, "recorded_at": NOON,
        "table": "bank.parquet", "definition": "group_idp", "group_size": 3,
        "epsilon_declared": 0.01, "epsilon_per_query": 1e-10, "claimed_budget": 0.00054,
        "queries": 5_418_936, "records": 45_211, "columns": 2, "cells_reconstructed": 1.0,
        "records_reconstructed": 1.0, "targets": 0, "targets_told": 0, "targets_reconstructed": 0,
        "targets_queries": 0, "progress_budget": (0.0002, 0.00054), "progress_cells": (0.5, 1.0),
        "verdict": "reconstructed", "reason": "All were read.",
    }  # fmt: skip
    return ReleaseRow(**given | changes)


def words_of(page):
    """Return what a reader sees, with plain spaces."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_figures_stand_beside_a_drawing_of_progress():
    page = releases_page([row()])
    text = words_of(page)
    for words in (
        "bank.parquet: reconstructed",
        "All were read.",
        "Claimed: group individual differential privacy, groups of 3, epsilon 0.01",
        "100% of 45 211",
        "5 418 936, each claiming epsilon 1e-10",
        "0.00054 of 0.01",
    ):
        assert words in text
    assert page.count("<svg") == 1
    assert "Single persons" not in page
    assert "Ended early" not in page
    assert "Answered by" not in page


def test_what_is_there_only_sometimes_is_shown_where_it_is():
    page = releases_page(
        [
            row(
                interface="staff:api", records_asked_again=1000, targets=3, targets_told=2,
                targets_reconstructed=1, targets_queries=77, stopped="The system refuses.",
            )
        ]
    )  # fmt: skip
    for words in (
        "Answered by staff:api",
        "by asking about 1 000 records again",
        "2 of 3 correctly classified",
        "1 read whole; 77 queries",
        "The system refuses.",
    ):
        assert words in words_of(page)


def test_the_latest_of_each_table_and_definition_newest_first():
    hour = dt.timedelta(hours=1)
    rows = [
        row(audit_id="1", reason="Old."),
        row(audit_id="2", recorded_at=NOON + hour, reason="New."),
        row(audit_id="3", recorded_at=NOON + 2 * hour, definition="bdp", group_size=1),
        row(audit_id="4", recorded_at=NOON - hour, interface="x:y", reason="Live."),
    ]
    page = releases_page(rows)
    assert "Old." not in page
    places = [page.index(words) for words in ("bootstrap differential", "New.", "Live.")]
    assert places == sorted(places)
    assert page.count("<svg") == 3


def test_an_attack_that_read_nothing_is_drawn():
    nothing = {"progress_budget": (0.0, 0.0), "progress_cells": (0.0, 0.0), "queries": 0}
    assert "<svg" in releases_page([row(**nothing, verdict="resisted")])


@pytest.mark.parametrize("name", ["table", "reason", "stopped", "interface"])
def test_text_is_text(name):
    page = releases_page([row(**{name: "<script>alert(1)</script>"})])
    assert "<script>alert" not in page
