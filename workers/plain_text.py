"""Foreign text, made safe to show: on a terminal, in a log, in a page, in XML."""

import re
import unicodedata

_UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\U000e0000-\U000e0fff]"
)
"""Characters that Python calls printable, and no reader sees."""
_MARKS = 4
"""Marks that one letter has at most: more cover the lines above and below."""

_LATIN_LIKE = (
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u0501\u04bb\u051b\u051d\u04cf"
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u050c"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03f2"
)
"""Cyrillic and Greek letters that look as Latin ones do."""
_MIXED = re.compile(
    f"[{_LATIN_LIKE}a-zA-Z]*(?:[a-zA-Z][{_LATIN_LIKE}]|[{_LATIN_LIKE}][a-zA-Z])[{_LATIN_LIKE}a-zA-Z]*"
)
_IMITATED = re.compile(f"[{_LATIN_LIKE}]")

_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_BACKWARDS = re.compile(rf"[{_RIGHT_TO_LEFT}](?:[{_RIGHT_TO_LEFT}\s]*[{_RIGHT_TO_LEFT}])?")
_FORWARDS_AGAIN = "\u200e"

_COMMAND = re.compile(r"##(?=[a-z]*\[)|^\s*::(?=[a-z])", re.IGNORECASE)
"""Beginnings of what build servers obey in the output of a command: Azure's and TeamCity's anywhere
in a line, GitHub's where it begins."""


def plain_text(text: str) -> str:
    r"""Return text in which every character that is obeyed or unseen is written as an escape.

    Those are control characters and line breaks, marks that reorder text, have no width or no
    look, a letter's marks beyond the fourth, half characters, and code points that XML cannot hold;
    letters that imitate Latin ones between these; and what build servers take for a command.
    An escape is written as JSON does, so that text which is JSON keeps its meaning.

    >>> print(plain_text("\x1b[2Jgood\u202e"))
    \u001b[2Jgood\u202e
    >>> print(plain_text("\u0430ds"))
    \u0430ds
    """
    text = without_commands(text)
    if text.isascii() and text.isprintable():
        return text
    text = _MIXED.sub(lambda word: _IMITATED.sub(lambda one: _escaped(one[0]), word[0]), text)
    shown, marks = [], 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in {"Mn", "Me"} else 0
        shown.append(_escaped(character) if marks > _MARKS else _shown(character))
    return "".join(shown)


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
