"""The page of statements: worst first within the newest day, and markup of names stays text."""

import datetime as dt
import re

from flows.publication.publishing import statements_page
from tests.support.statements import statement


def rows(text):
    """Return the models that the table names, in its order."""
    return re.findall(r'<th role="rowheader" scope="row">(.*?)</th>', text)


def test_the_newest_day_comes_first_and_the_worst_of_it():
    day = dt.date(2026, 11, 1)
    made = [
        statement(0, model="kept"),
        statement(1, model="refuted", evidence=20_000),
        statement(2, model="old", day=day - dt.timedelta(days=40)),
        statement(3, model="kept", day=day - dt.timedelta(days=40)),
        statement(4, model="kept", day=day - dt.timedelta(days=3)),
    ]
    text = statements_page(made)
    assert rows(text) == ["refuted", "kept", "kept", "old"]
    assert "5 public statements about the privacy of labels" in text
    assert "is refuted (p = " in text


def test_a_page_without_statements_says_so():
    assert "Nothing was published yet." in statements_page([])


def test_names_are_text():
    text = statements_page([statement(0, model="<script>alert(1)</script>\x1b[2J")])
    assert "<script>alert" not in text
    assert "\x1b" not in text
