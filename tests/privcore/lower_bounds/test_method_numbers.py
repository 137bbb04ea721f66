"""A method version gives the same numbers for ever: any change of one needs a new version."""

import json

import numpy as np
import pytest

from tests.support.method_numbers import LENGTHS, PATH, numbers, worlds
from workers.versions import METHOD_VERSION

PINNED = json.loads(PATH.read_text())


def test_the_numbers_are_of_this_version():
    assert PINNED["method_version"] == METHOD_VERSION
    assert tuple(PINNED["lengths"]) == LENGTHS
    assert PINNED["worlds"].keys() == worlds().keys()


@pytest.mark.parametrize("name", PINNED["worlds"])
def test_numbers_of_the_method(name):
    found, pinned = numbers(name, *worlds()[name]), PINNED["worlds"][name]
    assert found.keys() == pinned.keys()
    for figure, value in pinned.items():
        np.testing.assert_allclose(found[figure], value, rtol=1e-9, atol=1e-9, err_msg=figure)
