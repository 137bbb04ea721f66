"""Standing of a model: its nights, each held against what was declared for it."""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import same_holdout
from privcore.lower_bounds import (
    STANDING_NIGHTS,
    ClaimedNight,
    Verdict,
    declarations_refuted,
    standing_length,
)

_Figure = TypeVar("_Figure", np.bool_, np.float64)

COLUMNS = (
    "epsilon_declared",
    "standing_price",
    "claimed_log_wealth",
    "labels_recur",
    "holdout_sketch",
    "method_version",
)
"""Columns that are read of each night."""


@dataclass(slots=True)
class _Standing:
    """Declared nights that stand together."""

    first: int
    end: int
    places: list[int] = field(default_factory=list)


def standings(
    nights: Sequence[Mapping[str, Any]], *, significance: float, wanted: Collection[int]
) -> dict[int, str | None]:
    """Return how a model stands after some of its nights: violated, consistent, or None.

    Nothing that an owner declares begins a standing anew (`declarations_refuted`). A standing ends
    after `STANDING_NIGHTS` nights of the model; where delta has a price, after `WINDOW_NIGHTS`
    declared ones, if these come first; and with the method's version, or a change of whether labels
    recur, both of which operators decide. Nights with a price and nights without one have a
    standing each, and a model stands violated where one of them is.

    Args:
        nights: one model's evaluated nights of one secret, in their order, with `COLUMNS`.
        significance: allowed probability that one standing is ever wrong.
        wanted: places of the nights that are asked about; standings that speak of none of these
            are not computed.
    """
    violated = np.zeros(len(nights), dtype=bool)
    for standing in _divided(nights):
        if not any(standing.places[0] <= place < standing.end for place in wanted):
            continue
        own = [nights[place] for place in standing.places]
        refuted = by_recurrence(
            functools.partial(
                declarations_refuted,
                [_claimed(night) for night in own],
                significance=significance,
            ),
            recurs_from(
                [night["holdout_sketch"] for night in own], recurring=bool(own[0]["labels_recur"])
            ),
        )
        if refuted.any():
            violated[standing.places[int(refuted.argmax())] : standing.end] = True
    return {place: _word(nights[place], violated=bool(violated[place])) for place in wanted}


def recurs_from(sketches: Sequence[str | None], *, recurring: bool = False) -> NDArray[np.bool_]:
    """Return whether the nights up to each have labels that come again, shape (nights,).

    So they have from the first night on whose holdout is an earlier night's. A chance that one draw
    of the holdout was unlucky in is then no new chance, and the product of nights would count it on
    each of them.
    """
    return recurring | (np.maximum.accumulate(same_holdout(sketches)) >= 0)


def by_recurrence(
    test: Callable[..., NDArray[_Figure]], recurs: NDArray[np.bool_]
) -> NDArray[_Figure]:
    """Return what a test of nights says after each of them, with `recurring` as it then was."""
    if recurs.all() or not recurs.any():
        return test(recurring=bool(recurs[0]))
    return np.where(recurs, test(recurring=True), test(recurring=False))


def _word(night: Mapping[str, Any], *, violated: bool) -> str | None:
    if violated:
        return str(Verdict.VIOLATED)
    return None if night["claimed_log_wealth"] is None else str(Verdict.CONSISTENT)


def _claimed(night: Mapping[str, Any]) -> ClaimedNight:
    return ClaimedNight(
        night["epsilon_declared"], np.array(night["claimed_log_wealth"]), night["standing_price"]
    )


def _divided(nights: Sequence[Mapping[str, Any]]) -> list[_Standing]:
    """Return the standings of a model's nights."""
    every: list[_Standing] = []
    current: dict[bool, _Standing] = {}
    way: tuple[Any, ...] | None = None
    for place, night in enumerate(nights):
        if way != (night["method_version"], night["labels_recur"]):
            way = night["method_version"], night["labels_recur"]
            for standing in current.values():
                standing.end = min(standing.end, place)
            current = {}
        if night["claimed_log_wealth"] is None:
            continue
        price = night["standing_price"]
        before = current.get(price > 0.0)
        if before is not None and len(before.places) >= standing_length(price):
            before.end = min(before.end, place)
        if before is None or place >= before.end:
            current[price > 0.0] = _Standing(place, place + STANDING_NIGHTS)
            every.append(current[price > 0.0])
        current[price > 0.0].places.append(place)
    return every
