"""Probabilities as they are served: rounded, clipped, or the top class alone."""

import numpy as np
import pytest

from privcore.exceptions import InvalidInputError
from workers.sources.served import Served

TWO = np.array([[0.006, 0.994], [0.5, 0.5], [0.734, 0.266]])
THREE = np.array([[0.0, 0.004, 0.996], [0.2, 0.5, 0.3]])


def test_rounded_to_two_digits() -> None:
    assert Served(digits=2)(TWO) == pytest.approx(
        np.array([[0.01, 0.99], [0.5, 0.5], [0.73, 0.27]])
    )
    many = np.full((1, 400), 1.0 / 400)
    assert Served(digits=2)(many) == pytest.approx(many)


def test_clipped_and_the_top_class() -> None:
    assert Served(least=0.05)(TWO)[0] == pytest.approx([0.05 / 1.044, 0.994 / 1.044])
    assert Served(least=0.05)(THREE)[1] == pytest.approx(THREE[1])
    assert Served(top=True)(THREE).tolist() == [[0, 0, 1], [0, 1, 0]]
    with pytest.raises(InvalidInputError, match="least"):
        Served(least=0.4)(THREE)


@pytest.mark.parametrize(
    "served", [Served(), Served(digits=1), Served(least=0.1), Served(top=True)]
)
def test_every_record_adds_up_to_one(served: Served) -> None:
    for given in (TWO, THREE):
        assert served(given).sum(axis=1) == pytest.approx(np.ones(len(given)))
