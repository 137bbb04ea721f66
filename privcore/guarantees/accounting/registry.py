"""Registry: a mechanism's description from its name and parameters, as a manifest holds them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from privcore.exceptions import InvalidInputError
from privcore.guarantees.accounting.composition import Composition
from privcore.guarantees.accounting.labels import (
    LaplaceOneHotAccount,
    PureMechanism,
    RandomizedResponseAccount,
    RandomizedResponseWithPriorAccount,
)
from privcore.guarantees.accounting.mechanism import Mechanism, Neighbors
from privcore.guarantees.accounting.training import (
    DpSgd,
    GaussianMechanism,
    NoisyMaxGaussian,
    NoisyMaxLaplace,
)

MOST_PARTS = 1_000
"""Mechanisms that one composition may name; accounting takes time for each."""


def mechanism_from_manifest(name: str, parameters: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism that a manifest declares.

    Names and parameters: `pure` (epsilon); `randomized_response` (classes, and epsilon or
    keep_probability); `randomized_response_with_prior` (epsilon, optionally top and
    prior_from_outside, a list); `laplace_one_hot` (deviation); `gaussian` (noise_multiplier);
    `pate_laplace` (scale, queries); `pate_gaussian` (deviation, queries); `dp_sgd`
    (noise_multiplier, sampling_rate, steps); `composition` (mechanisms: a list of objects with
    name and parameters; optionally times).
    Where both relations make sense, `neighbors` ("replace" or "add_remove") is optional.

    Raises:
        InvalidInputError: an unknown name, a missing or unknown parameter (which is named), or a
            parameter out of its range.

    >>> mechanism_from_manifest("laplace_one_hot", {"deviation": 2.0}).epsilon(0.0)
    1.4142135623730951
    """
    if name not in _BUILDERS:
        raise InvalidInputError("mechanism", name, f"the known ones are {', '.join(_BUILDERS)}")
    given = {_FIELDS.get(key, key): value for key, value in parameters.items()}
    builders = _BUILDERS[name]
    builder = next((b for b in builders if given.keys() <= _accepted(b).keys()), builders[0])
    accepted = _accepted(builder)
    for key in parameters:
        if _FIELDS.get(key, key) not in accepted:
            raise InvalidInputError("unknown parameter", key, f"{name} does not take it")
    for key, parameter in accepted.items():
        if parameter.default is inspect.Parameter.empty and key not in given:
            raise InvalidInputError("missing parameter", _NAMES.get(key, key), f"{name} needs it")
    if "neighbors" in given:
        given["neighbors"] = _neighbors(given["neighbors"])
    return builder(**given)


def _composition(mechanisms: Sequence[Mapping[str, Any]], times: int = 1) -> Composition:
    """Composition from the manifest's nested objects."""
    rule = "it is a list of objects with a name and parameters"
    if not isinstance(mechanisms, list | tuple):
        raise InvalidInputError("mechanisms", mechanisms, rule)
    for each in mechanisms:
        known = isinstance(each, Mapping) and each.keys() == {"name", "parameters"}
        if not (
            known and isinstance(each["name"], str) and isinstance(each["parameters"], Mapping)
        ):
            raise InvalidInputError("mechanisms", each, rule)
    if _parts(mechanisms) > MOST_PARTS:
        rule = f"a composition has at most {MOST_PARTS:,}: write times where one repeats"
        raise InvalidInputError("number of mechanisms", _parts(mechanisms), rule)
    parts = tuple(mechanism_from_manifest(each["name"], each["parameters"]) for each in mechanisms)
    return Composition(parts, times)


def _parts(mechanisms: Any) -> int:
    """Return the number of mechanisms that a composition names, in all of its lists together."""
    if not isinstance(mechanisms, list | tuple):
        return 0
    return len(mechanisms) + sum(
        _parts(each["parameters"].get("mechanisms"))
        for each in mechanisms
        if isinstance(each, Mapping) and isinstance(each.get("parameters"), Mapping)
    )


_BUILDERS: dict[str, tuple[Callable[..., Mechanism], ...]] = {
    "pure": (PureMechanism,),
    "randomized_response": (
        RandomizedResponseAccount,
        RandomizedResponseAccount.from_keep_probability,
    ),
    "randomized_response_with_prior": (RandomizedResponseWithPriorAccount,),
    "laplace_one_hot": (LaplaceOneHotAccount,),
    "gaussian": (GaussianMechanism,),
    "pate_laplace": (NoisyMaxLaplace,),
    "pate_gaussian": (NoisyMaxGaussian,),
    "dp_sgd": (DpSgd,),
    "composition": (_composition,),
}
# `epsilon` is a method of every mechanism, so the field of that name is `pure_epsilon`.
_FIELDS = {"epsilon": "pure_epsilon"}
_NAMES = {field: name for name, field in _FIELDS.items()}


def _accepted(builder: Callable[..., Mechanism]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(builder).parameters


def _neighbors(value: Any) -> Neighbors:
    try:
        return Neighbors(value)
    except ValueError:
        rule = f"it is one of {', '.join(Neighbors)}"
        raise InvalidInputError("neighbors", value, rule) from None
