"""Standing of a model: its nights, each held against what was declared for it."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from workers.warehouse.model_verdict import Standing

_Figure = TypeVar("_Figure", np.bool_, np.float64)


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
        nights: one model's evaluated nights of one secret, in their order, with the columns of
            their rows in `audit_wealth`.
        significance: allowed probability that one standing is ever wrong.
        wanted: places of the nights that are asked about; standings that speak of none of these
            are not computed.
        near: places of nights of which only `refuted` is asked.
    """
    asked = {*wanted, *near}
    violated = np.zeros(len(nights), dtype=bool)
    found: dict[int, Standing] = {}
    for places, end in _divided(nights):
        if not any(places[0] <= place < end for place in asked):
            continue
        own = [nights[place] for place in places]
        recurs = recurs_from(
            [night["holdout_sketch"] for night in own], recurring=bool(own[0]["labels_recur"])
        )
        test = functools.partial(
            declarations_refuted, [_claimed(night) for night in own], significance=significance
        )
        refuted = by_recurrence(test, recurs)
        if refuted.any():
            violated[places[int(refuted.argmax())] : end] = True
        for count, place in enumerate(places, 1):
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


def _divided(nights: Sequence[Mapping[str, Any]]) -> Iterator[tuple[list[int], int]]:
    """Yield the standings of a model's nights: the places of its declared nights, and its end."""

    def way(place: int) -> tuple[object, ...]:
        night = nights[place]
        return night["method_version"], night["labels_recur"], night.get("trust")

    for _, alike in itertools.groupby(range(len(nights)), key=way):
        places = list(alike)
        declared = [one for one in places if nights[one]["claimed_log_wealth"] is not None]
        for priced in (False, True):
            left = [one for one in declared if (nights[one]["standing_price"] > 0.0) is priced]
            while left:
                end = left[0] + STANDING_NIGHTS
                most = standing_length(nights[left[0]]["standing_price"])
                own = [one for one in left[:most] if one < end]
                left = left[len(own) :]
                yield own, min(end, places[-1] + 1, *left[:1])
