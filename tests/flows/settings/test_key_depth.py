import time
import tomllib
from typing import Any

import pytest

from flows.settings.key_depth import MOST_PARTS, has_deep_key


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, dict) + max(map(depth, inner), default=0)


PARTS = ("a", "a-1", '"a.b"', "'a.b'", '"a\\"b"', '"="', '""', '"#"', "'\"'")
DOTS = (".", " . ", "\t.")


@pytest.mark.parametrize("dot", DOTS)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    "written", ["{} = 1", "[{}]", "[[{}]]", "a = {{ {} = 1 }}", 'b = "\\""\n{} = 1']
)
def test_a_key_of_too_many_parts_is_seen_however_it_is_written(
    written: str, part: str, dot: str
) -> None:
    for parts, deep in ((MOST_PARTS, False), (MOST_PARTS + 1, True)):
        text = written.format(dot.join([part] * parts))
        assert depth(tomllib.loads(text)) >= parts
        assert has_deep_key(text) is deep


MANY = ".".join(["a"] * 100)


@pytest.mark.parametrize(
    "text",
    [
        f"# {MANY}",
        f'a = "{MANY}"',
        f"a = '{MANY}'",
        f'a = """\n{MANY}"\n"" {MANY}"""',
        f"a = '''\n{MANY}'\n'' {MANY}'''",
        f'a = "\\"{MANY}" # {MANY}',
        "a = [" + "0.1, " * 100 + "]",
        "a = [" + '"x.1", ' * 100 + "]",
    ],
)
def test_what_is_no_key_may_have_any_dots(text: str) -> None:
    tomllib.loads(text)
    assert not has_deep_key(text)


@pytest.mark.parametrize("piece", ['"', "'", '"\\', '\\"', "a", "a ", "- .", "a.b=", "#", "\"'"])
def test_it_takes_one_pass(piece: str) -> None:
    begin = time.process_time()
    has_deep_key(piece * ((1 << 20) // len(piece)))
    assert time.process_time() - begin < 5.0
