"""Foreign text, made safe to show: on a terminal, in a log, in a page, in XML."""

import re
import unicodedata

_UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\U000e0000-\U000e0fff]"
)
"""Characters that Python calls printable, and no reader sees."""
_MARKS = 4
"""Marks that one letter has at most: more cover the lines above and below."""

_COMMAND = re.compile(r"##(?=[a-z]*\[)|^\s*::(?=[a-z])", re.IGNORECASE)
"""Beginnings of what build servers obey in the output of a command: Azure's and TeamCity's anywhere
in a line, GitHub's where it begins."""

FORMULA = "^[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"  # their wide forms, too
"""Beginnings that a spreadsheet takes for a formula, as an expression that RE2 and Rust read."""
FORMULA_WITHIN = f"([;\t])({FORMULA.removeprefix('^')})"
"""The same within a text, where a spreadsheet may separate cells by semicolons or tabs."""


def plain_text(text: str) -> str:
    r"""Return text in which every character that is obeyed or unseen is written as an escape.

    Those are control characters and line breaks, marks that reorder text, have no width or no
    look, a letter's marks beyond the fourth, half characters, and code points that XML cannot hold;
    and what build servers take for a command.
    An escape is written as JSON does, so that text which is JSON keeps its meaning.

    >>> print(plain_text("\x1b[2Jgood\u202e"))
    \u001b[2Jgood\u202e
    """
    text = without_commands(text)
    if text.isascii() and text.isprintable():
        return text
    shown, marks = [], 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in {"Mn", "Me"} else 0
        shown.append(_escaped(character) if marks > _MARKS else _shown(character))
    return "".join(shown)


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
