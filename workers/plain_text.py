"""Foreign text, made safe to show: on a terminal, in a log, in a page, in XML."""

import re
import unicodedata

_UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\U000e0000-\U000e0fff]"
)
"""Characters that Python calls printable, and no reader sees."""
_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_BACKWARDS = re.compile(rf"[{_RIGHT_TO_LEFT}](?:[{_RIGHT_TO_LEFT}\s]*[{_RIGHT_TO_LEFT}])?")
_FORWARDS_AGAIN = "\u200e"

_COMMAND = re.compile(r"##(?=[a-z]*\[)|^\s*::(?=[a-z])", re.IGNORECASE)
"""Beginnings of what build servers obey in the output of a command: Azure's and TeamCity's anywhere
in a line, GitHub's where it begins."""


def plain_text(text: str) -> str:
    r"""Return text in which every character that is obeyed or unseen is written as an escape.

    Those are control characters and line breaks, marks that reorder text, have no width or no
    look, half characters, and code points that XML cannot hold; and what build servers take for a
    command. An escape is written as JSON does, so that text which is JSON keeps its meaning.

    >>> print(plain_text("\x1b[2Jgood\u202e"))
    \u001b[2Jgood\u202e
    """
    text = without_commands(text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


def in_reading_order(text: str) -> str:
    """Return text for the eye, in which figures after Hebrew or Arabic words keep their place.

    A terminal or a browser would show them, and whole columns, from right to left: a bound and a
    declaration change places. After these words a mark without a width turns the direction back.
    """
    if text.isascii():
        return text
    return _BACKWARDS.sub(lambda words: words[0] + _FORWARDS_AGAIN, text)


def without_commands(text: str) -> str:
    r"""Return text, or JSON that means the same, of which no build server obeys a part.

    >>> without_commands('{"column": "##vso[task.setvariable variable=PATH]/tmp"}')
    '{"column": "\\u0023#vso[task.setvariable variable=PATH]/tmp"}'
    """
    return _COMMAND.sub(lambda found: f"{_escaped(found[0][0])}{found[0][1:]}", text)


def _shown(character: str) -> str:
    if not _UNSEEN.match(character) and (
        character.isprintable() or unicodedata.category(character) == "Zs"
    ):
        return character
    return _escaped(character)


def _escaped(character: str) -> str:
    code = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{code[start : start + 4]}" for start in range(0, len(code), 4))
