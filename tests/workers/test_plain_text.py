import json
import unicodedata
import xml.etree.ElementTree as ET

import hypothesis
import pytest
from hypothesis import strategies

from workers.plain_text import plain_text

# Others of their categories are found by the property below.
OBEYED = {
    "escape": "\x1b",
    "line feed": "\n",
    "line separator": "\u2028",
    "right-to-left override": "\u202e",
    "zero-width joiner": "\u200d",
    "combining grapheme joiner": "\u034f",
    "Hangul filler": "\u3164",
    "tag": "\U000e0041",
    "variation selector supplement": "\U000e0101",
    "half a character": "\ud83d",
}


@pytest.mark.parametrize("character", OBEYED.values(), ids=OBEYED)
def test_what_is_obeyed_or_unseen_is_written_as_an_escape(character):
    shown = plain_text(f"a{character}b")
    assert character not in shown
    assert shown.isascii()
    assert json.loads(f'"{shown}"') == f"a{character}b"


@pytest.mark.parametrize(
    "text", ["", "plain", "Zoë", "日本", "a\u00a0b", "🙂", "❤️", "C:\\x", "\\u0041"]
)
def test_any_other_text_stays(text):
    assert plain_text(text) == text


@hypothesis.given(strategies.text(strategies.characters(exclude_categories=())))
def test_all_that_is_left_can_be_shown_stored_and_put_into_xml(text):
    shown = plain_text(text)
    assert plain_text(shown) == shown
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    page = f"<x>{shown.encode('utf-8').decode().replace('&', '&amp;').replace('<', '&lt;')}</x>"
    assert ET.fromstring(page).text == (shown or None)  # noqa: S314  # our own
