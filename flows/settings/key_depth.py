"""Depth of the keys in a text of TOML, found before it is parsed.

`tomllib` takes time that grows with the square of a key's parts: minutes for 100,000 of them.
"""

import re

MOST_PARTS = 16
"""Parts of one key; the settings themselves need four."""
_QUOTED = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?'
    r"|'''(?:[^']|'(?!''))*+(?:''')?"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
"""Strings, comments, and quoted parts of keys; no alternative looks back, so this is one pass."""
_DEEP = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}")


def has_deep_key(text: str) -> bool:
    """Return whether some key has more than `MOST_PARTS` parts.

    >>> has_deep_key("a.b = 1"), has_deep_key("a." * 16 + "b = 1")
    (False, True)
    """
    return _DEEP.search(_QUOTED.sub("q", text)) is not None
