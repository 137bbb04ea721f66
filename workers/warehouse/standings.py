"""Standing of a model: its nights, each held against what was declared for it."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import same_holdout
from privcore.lower_bounds import (
    OFFSETS,
    STANDING_NIGHTS,
    ClaimedNight,
    ImaginedNight,
    declarations_refuted,
    nights_until_conclusive,
    sees_from_together,
    standing_length,
)

_Figure = TypeVar("_Figure", np.bool_, np.float64)

COLUMNS = (
    "epsilon_declared",
    "standing_price",
    "claimed_log_wealth",
    "imagined_mean",
    "imagined_variance",
    "labels_recur",
    "holdout_sketch",
    "method_version",
)
"""Columns that are read of each night."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a model's nights say together, up to one of them.

    Attributes:
        refuted: whether they refute that every declaration was true.
        nights: how many declared nights stand together; 0 where this one declares nothing.
        sees_from: the smallest leak beyond each night's declaration, added to this one's, that
            they would probably have refuted if every label of each had shown it; None where none.
        conclusive_after: how many nights like these are conclusive together; None where no number.
        repeat: whether labels or the holdout come again, so that nights do not add up.
    """

    refuted: bool = False
    nights: int = 0
    sees_from: float | None = None
    conclusive_after: int | None = None
    repeat: bool = False


@dataclass(slots=True)
class _Nights:
    """Declared nights that stand together."""

    first: int
    end: int
    places: list[int] = field(default_factory=list)


def standings(
    nights: Sequence[Mapping[str, Any]],
    *,
    significance: float,
    wanted: Collection[int],
    near: Collection[int] = (),
) -> dict[int, Standing]:
    """Return how a model stands after some of its nights.

    Nothing that an owner declares begins a standing anew (`declarations_refuted`). A standing ends
    after `STANDING_NIGHTS` nights of the model; where delta has a price, after `WINDOW_NIGHTS`
    declared ones, if these come first; and with the method's version, or a change of whether labels
    recur, both of which operators decide. Nights with a price and nights without one have a
    standing each, and a model stands refuted where one of them is.

    Args:
        nights: one model's evaluated nights of one secret, in their order, with `COLUMNS`.
        significance: allowed probability that one standing is ever wrong.
        wanted: places of the nights that are asked about; standings that speak of none of these
            are not computed.
        near: places of nights of which only `refuted` is asked.
    """
    asked = {*wanted, *near}
    violated = np.zeros(len(nights), dtype=bool)
    found: dict[int, Standing] = {}
    for standing in _divided(nights):
        if not any(standing.places[0] <= place < standing.end for place in asked):
            continue
        own = [nights[place] for place in standing.places]
        recurs = recurs_from(
            [night["holdout_sketch"] for night in own], recurring=bool(own[0]["labels_recur"])
        )
        test = functools.partial(
            declarations_refuted, [_claimed(night) for night in own], significance=significance
        )
        refuted = by_recurrence(test, recurs)
        if refuted.any():
            violated[standing.places[int(refuted.argmax())] : standing.end] = True
        for count, place in enumerate(standing.places, 1):
            if place in wanted:
                imagined = [_imagined(night) for night in own[:count]]
                found[place] = _seen(imagined, significance, recurring=bool(recurs[count - 1]))
    return {
        place: dataclasses.replace(found.get(place, Standing()), refuted=bool(violated[place]))
        for place in asked
    }


def _seen(
    imagined: Sequence[ImaginedNight | None], significance: float, *, recurring: bool
) -> Standing:
    """Return what nights that stand together would have seen; nothing where one is unknown."""
    known = [night for night in imagined if night is not None]
    if len(known) < len(imagined):
        return Standing(nights=len(imagined), repeat=recurring)
    return Standing(
        nights=len(known),
        sees_from=sees_from_together(known, significance=significance, recurring=recurring),
        conclusive_after=nights_until_conclusive(
            known, significance=significance, recurring=recurring
        ),
        repeat=recurring,
    )


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


def _claimed(night: Mapping[str, Any]) -> ClaimedNight:
    return ClaimedNight(
        night["epsilon_declared"], np.array(night["claimed_log_wealth"]), night["standing_price"]
    )


def _imagined(night: Mapping[str, Any]) -> ImaginedNight | None:
    if night["imagined_mean"] is None:
        return None
    mean, variance = (
        np.array(night[name]).reshape(-1, len(OFFSETS))
        for name in ("imagined_mean", "imagined_variance")
    )
    return ImaginedNight(night["epsilon_declared"], mean, variance, night["standing_price"])


def _divided(nights: Sequence[Mapping[str, Any]]) -> list[_Nights]:
    """Return the standings of a model's nights."""
    every: list[_Nights] = []
    current: dict[bool, _Nights] = {}
    way: tuple[Any, ...] | None = None
    for place, night in enumerate(nights):
        asked = night["method_version"], night["labels_recur"], night.get("trust")
        if way != asked:
            way = asked
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
            current[price > 0.0] = _Nights(place, place + STANDING_NIGHTS)
            every.append(current[price > 0.0])
        current[price > 0.0].places.append(place)
    return every
