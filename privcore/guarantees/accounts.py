"""Accounting: the guarantee that a mechanism's parameters account for.

A mechanism is an immutable description of what was done to the data, like dp_accounting's
`DpEvent`. It answers `epsilon(delta)`, `renyi(orders)` and `privacy_loss()`, the dp_accounting
privacy loss distribution (PLD) from which compositions are counted, and states its neighbouring
relation. The answers are the cost of the *described* mechanism; whether the training really was
that mechanism is what an audit asks.

Here are several mechanisms on the same record; those that make labels private before training sees
them (the mechanisms themselves, which sample, are in `privcore.mechanisms` under the same names);
those that add noise while training, to sums, to gradients, to teachers' votes; and a description
from its name and parameters, as a manifest holds them.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from privcore.exceptions import InvalidInputError
from privcore.guarantees.conversions import (
    Floats,
    checked_delta,
    checked_orders,
    gaussian_epsilon,
    gaussian_renyi,
    pure_renyi,
)

if TYPE_CHECKING:
    import dp_accounting


class Neighbors(StrEnum):
    """Pair of datasets that a mechanism's accounting compares; `Relation` has a claim's."""

    REPLACE = "replace"
    ADD_REMOVE = "add_remove"


class Mechanism(Protocol):
    """Interface of every description of a mechanism."""

    @property
    def neighbors(self) -> Neighbors:
        """The neighbouring relation under which the answers hold."""

    def epsilon(self, delta: float) -> float:
        """Return an epsilon, infinite if need be, such that (epsilon, delta)-DP holds."""

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the Renyi divergence in nats at each order above 1, in the shape of `orders`."""

    def privacy_loss(self) -> Any:
        """Return a pessimistic `PrivacyLossDistribution` of dp_accounting."""


def counted_epsilon(mechanism: Mechanism, pure: float, delta: float) -> float:
    """Epsilon at delta from the PLD, whose rounding must not lift it above the pure epsilon."""
    checked_delta(delta)
    if delta == 0.0:
        return pure
    return min(pure, float(mechanism.privacy_loss().get_epsilon_for_delta(delta)))


def event_renyi(event: "dp_accounting.DpEvent", orders: ArrayLike, *, limit: float) -> Floats:
    """dp_accounting's Renyi curve; `limit` at order infinity."""
    from dp_accounting.rdp import RdpAccountant

    orders = checked_orders(orders)
    finite = np.isfinite(orders)
    accountant = RdpAccountant(np.where(finite, orders, 2.0).ravel().tolist())
    divergences = accountant.compose(event).rdp.reshape(orders.shape)
    return np.where(finite, divergences, limit)[()]


def check_number(
    name: str, value: float, *, least: float = -math.inf, above: float = -math.inf
) -> None:
    """Raise `InvalidInputError` unless `value` is a finite number in the range."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < least or value <= above:
        bound = f"at least {least:g}" if above == -math.inf else f"above {above:g}"
        raise InvalidInputError(name, value, f"it is a finite number {bound}")


def check_count(name: str, value: int, *, least: int) -> None:
    """Raise `InvalidInputError` unless `value` is a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInputError(name, value, f"it is a whole number of at least {least}")


@dataclass(frozen=True, slots=True)
class Composition:
    """Several mechanisms on the same record, the whole list `times` over.

    The same label in thirty days' training is `Composition((daily,), times=30)`. Later mechanisms
    may be chosen by what earlier ones answered, their parameters may not.

    >>> from privcore.guarantees import RandomizedResponseAccount
    >>> Composition((RandomizedResponseAccount(1.0, 2),), times=3).epsilon(0.0)
    3.0
    """

    mechanisms: tuple[Mechanism, ...]
    times: int = 1

    def __post_init__(self) -> None:
        check_count("times", self.times, least=1)
        relations = sorted({str(mechanism.neighbors) for mechanism in self.mechanisms})
        if len(relations) != 1:
            rule = "a composition has at least one mechanism, all under one neighbouring relation"
            raise InvalidInputError("neighbors", relations, rule)

    @property
    def neighbors(self) -> Neighbors:
        """The relation that all of them share."""
        return self.mechanisms[0].neighbors

    def epsilon(self, delta: float) -> float:
        """Return the sum of epsilons at delta 0, else at most that, from the composed PLDs."""
        pure = self.times * math.fsum(each.epsilon(0.0) for each in self.mechanisms)
        return counted_epsilon(self, pure, delta)

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the sum of divergences (Mironov 2017, arXiv:1702.07476, Proposition 1)."""
        total = np.sum([each.renyi(orders) for each in self.mechanisms], axis=0)
        return np.asarray(self.times * total)[()]

    def privacy_loss(self) -> Any:
        """Return the composed PLD."""
        losses = [each.privacy_loss() for each in self.mechanisms]
        once = reduce(lambda one, other: one.compose(other), losses)
        return once.self_compose(self.times) if self.times > 1 else once


@dataclass(frozen=True, slots=True)
class PureMechanism:
    """Anything that is known to be epsilon-DP, and nothing more.

    It is accounted for as binary randomized response, of which every epsilon-DP mechanism is a
    post-processing (Kairouz, Oh and Viswanath 2015, arXiv:1311.0776).

    >>> PureMechanism(0.7).epsilon(0.0)
    0.7
    """

    pure_epsilon: float
    neighbors: Neighbors = Neighbors.REPLACE

    def __post_init__(self) -> None:
        check_number("epsilon", self.pure_epsilon, least=0.0)

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon of binary randomized response at `delta`."""
        return _response_epsilon(self.pure_epsilon, 2, delta)

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the largest divergence that epsilon-DP allows."""
        return pure_renyi(self.pure_epsilon, orders=orders)

    def privacy_loss(self) -> Any:
        """Return the PLD of binary randomized response."""
        from dp_accounting.pld import common, privacy_loss_distribution

        parameters = common.DifferentialPrivacyParameters(self.pure_epsilon, 0.0)
        return privacy_loss_distribution.from_privacy_parameters(parameters)


@dataclass(frozen=True, slots=True)
class RandomizedResponseAccount:
    """K-ary randomized response on a label: kept, or replaced by one of the K - 1 others.

    It is kept with probability e^epsilon / (e^epsilon + K - 1), which is epsilon-label-DP and no
    better (Warner 1965 for K = 2; Kairouz, Bonawitz and Ramage 2016, arXiv:1602.07387).

    >>> RandomizedResponseAccount(1.0, classes=2).epsilon(0.0)
    1.0
    """

    pure_epsilon: float
    classes: int

    def __post_init__(self) -> None:
        check_number("epsilon", self.pure_epsilon, least=0.0)
        check_count("classes", self.classes, least=2)

    @classmethod
    def from_keep_probability(cls, keep_probability: float, classes: int) -> Self:
        """Describe the response that keeps a label with `keep_probability`, in [1/classes, 1).

        Its epsilon is log(p (K - 1)/(1 - p)).
        """
        check_count("classes", classes, least=2)
        check_number("keep_probability", keep_probability, least=1.0 / classes)
        if keep_probability >= 1.0:
            rule = "a label that is always kept has no guarantee: it lies in [1/classes, 1)"
            raise InvalidInputError("keep_probability", keep_probability, rule)
        odds = math.log(keep_probability) + math.log(classes - 1) - math.log1p(-keep_probability)
        # At 1/classes rounding may leave a tiny negative number.
        return cls(max(0.0, odds), classes)

    neighbors: ClassVar[Neighbors] = Neighbors.REPLACE
    """Replacement of the label."""

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon at `delta`; with more classes it falls faster in delta."""
        return _response_epsilon(self.pure_epsilon, self.classes, delta)

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the exact divergence between the responses to two labels."""
        return pure_renyi(self.pure_epsilon, orders=orders, classes=self.classes)

    def privacy_loss(self) -> Any:
        """Return the PLD between the responses to two labels."""
        from dp_accounting import NeighboringRelation
        from dp_accounting.pld import privacy_loss_distribution

        # dp_accounting's parameter: the probability of an answer that ignores the label.
        noise = self.classes * math.exp(
            -np.logaddexp(self.pure_epsilon, math.log(self.classes - 1))
        )
        return privacy_loss_distribution.from_randomized_response(
            min(noise, 1.0), self.classes, neighboring_relation=NeighboringRelation.REPLACE_ONE
        )


@dataclass(frozen=True, slots=True)
class RandomizedResponseWithPriorAccount:
    """Randomized response among a label's most probable values, by a prior blind to the label.

    Ghazi et al. 2021 (arXiv:2102.06062), RRTop-k and RRWithPrior: a label among the k most
    probable is answered as by k-ary randomized response, any other by one of the k at random. It
    is epsilon-label-DP whatever the k of each record, and k = 1 reveals nothing. `top` is the
    least k above 1 that any record used; 2, the worst, is right where k was chosen per record.

    The prior itself, if it was learned from labels, has a cost of its own: compose it.
    `prior_from_outside` says that it was not: these class probabilities were known before the
    labels were looked at, and cost nothing. If that is not so, neither is the guarantee.

    >>> RandomizedResponseWithPriorAccount(1.0).epsilon(0.0)
    1.0
    """

    pure_epsilon: float
    top: int = 2
    prior_from_outside: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_count("top", self.top, least=2)
        check_number("epsilon", self.pure_epsilon, least=0.0)
        if self.prior_from_outside is not None:
            _check_prior(self.prior_from_outside)

    neighbors: ClassVar[Neighbors] = Neighbors.REPLACE
    """Replacement of the label."""

    @property
    def accounted_as(self) -> RandomizedResponseAccount:
        """The pair of labels that are distinguished most easily: both among the `top`."""
        return RandomizedResponseAccount(self.pure_epsilon, self.top)

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon at `delta` of a label among the `top`."""
        return self.accounted_as.epsilon(delta)

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the divergence between the responses to two labels among the `top`."""
        return self.accounted_as.renyi(orders)

    def privacy_loss(self) -> Any:
        """Return the PLD between the responses to two labels among the `top`."""
        return self.accounted_as.privacy_loss()


@dataclass(frozen=True, slots=True)
class LaplaceOneHotAccount:
    """Laplace noise of standard deviation `deviation` on every entry of a one-hot label.

    ALIBI (Malek et al. 2021, arXiv:2106.03408): replacing a label moves two entries by 1, so
    epsilon = 2 / scale = 2 sqrt(2) / deviation. What is done with the noisy labels later is free.

    >>> round(LaplaceOneHotAccount(2.0).epsilon(0.0), 3)
    1.414
    """

    deviation: float

    def __post_init__(self) -> None:
        check_number("deviation", self.deviation, above=0.0)

    neighbors: ClassVar[Neighbors] = Neighbors.REPLACE
    """Replacement of the label."""

    @property
    def scale(self) -> float:
        """The Laplace distribution's scale, its deviation over sqrt(2)."""
        return self.deviation / math.sqrt(2.0)

    def epsilon(self, delta: float) -> float:
        """Return 2 sqrt(2) / deviation at delta 0, else at most that, from the PLD."""
        return counted_epsilon(self, 2.0 / self.scale, delta)

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the exact divergence: twice that of one entry."""
        import dp_accounting

        event = dp_accounting.SelfComposedDpEvent(dp_accounting.LaplaceDpEvent(self.scale), 2)
        return event_renyi(event, orders, limit=2.0 / self.scale)

    def privacy_loss(self) -> Any:
        """Return the PLD of two entries that move by 1."""
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_laplace_mechanism(self.scale).self_compose(2)


def _check_prior(prior: Sequence[float]) -> None:
    rule = "it is a list of at least 2 class probabilities, which sum to 1 within 1e-6"
    if not isinstance(prior, list | tuple) or len(prior) < 2:
        raise InvalidInputError("prior_from_outside", prior, rule)
    for probability in prior:
        check_number("prior_from_outside", probability, least=0.0)
    if abs(math.fsum(prior) - 1.0) > 1e-6:
        raise InvalidInputError("prior_from_outside", prior, rule)


def _response_epsilon(epsilon: float, classes: int, delta: float) -> float:
    """Epsilon at delta of K-ary randomized response.

    Its hockey-stick divergence at epsilon' is (e^epsilon - e^epsilon') / (e^epsilon + K - 1).
    """
    share = delta * (1.0 + (classes - 1) * math.exp(-epsilon))
    checked_delta(delta)
    return max(0.0, epsilon + math.log1p(-share)) if share < 1.0 else 0.0


@dataclass(frozen=True, slots=True)
class GaussianMechanism:
    """Gaussian noise of `noise_multiplier` times the sensitivity under the stated relation.

    It is 1/noise_multiplier-Gaussian DP (Dong, Roth and Su 2022, Theorem 1).

    >>> round(GaussianMechanism(1.0).epsilon(1e-5), 2)
    4.38
    """

    noise_multiplier: float
    neighbors: Neighbors = Neighbors.REPLACE

    def __post_init__(self) -> None:
        check_number("noise_multiplier", self.noise_multiplier, above=0.0)

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon at `delta`; infinite at 0."""
        return float(gaussian_epsilon(1.0 / self.noise_multiplier, delta=delta))

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the exact divergence, order / (2 noise_multiplier^2)."""
        return gaussian_renyi(1.0 / self.noise_multiplier, orders=orders)

    def privacy_loss(self) -> Any:
        """Return the PLD of one Gaussian mechanism."""
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_gaussian_mechanism(self.noise_multiplier)


def noisy_max_laplace(
    scale: float, queries: int, neighbors: Neighbors = Neighbors.REPLACE
) -> Composition:
    """Return PATE's `queries` answers: the classes with the most votes after Laplace noise.

    One record reaches one teacher, which moves one vote: two counts by 1, so an answer is
    2/scale-DP (Papernot et al. 2017, arXiv:1610.05755, section 3.1, with scale = 1/gamma). It does
    not use how clear the votes were: that makes a smaller epsilon, but one that depends on data.

    >>> round(noisy_max_laplace(10.0, queries=5).epsilon(0.0), 2)
    1.0
    """
    check_number("scale", scale, above=0.0)
    check_count("queries", queries, least=1)
    return Composition((PureMechanism(2.0 / scale, neighbors),), times=queries)


def noisy_max_gaussian(
    deviation: float, queries: int, neighbors: Neighbors = Neighbors.REPLACE
) -> GaussianMechanism:
    """Return PATE's `queries` answers: the classes with the most votes after Gaussian noise.

    A moved vote is a distance of sqrt(2) between vote counts, so all answers together are
    sqrt(2 queries)/deviation-Gaussian DP, and (order, order queries/deviation^2)-Renyi DP:
    Papernot et al. 2018 (arXiv:1802.08908), Proposition 8. It does not depend on data.

    >>> round(noisy_max_gaussian(10.0, queries=5).epsilon(1e-5), 2)
    1.2
    """
    check_number("deviation", deviation, above=0.0)
    check_count("queries", queries, least=1)
    return GaussianMechanism(deviation / math.sqrt(2.0 * queries), neighbors)


@dataclass(frozen=True, slots=True)
class DpSgd:
    """`steps` sums of clipped gradients, each over a Poisson sample, with Gaussian noise.

    Abadi et al. 2016 (arXiv:1607.00133). The noise multiplier is relative to the clipping norm,
    which is the sensitivity to adding or removing a record; the PLD under replacement counts the
    move from one clipped gradient to its opposite. Batches that are shuffled, not Poisson samples,
    are not covered.

    >>> round(DpSgd(noise_multiplier=1.1, sampling_rate=0.01, steps=10).epsilon(1e-5), 1)
    0.3
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int
    neighbors: Neighbors = Neighbors.ADD_REMOVE

    def __post_init__(self) -> None:
        check_number("noise_multiplier", self.noise_multiplier, above=0.0)
        check_number("sampling_rate", self.sampling_rate, above=0.0)
        if self.sampling_rate > 1.0:
            raise InvalidInputError("sampling_rate", self.sampling_rate, "it lies in (0, 1]")
        check_count("steps", self.steps, least=1)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at `delta` by PLD, a bound with a tiny excess; infinite at 0."""
        return counted_epsilon(self, math.inf, delta)

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the divergence (Mironov, Talwar and Zhang 2019, arXiv:1908.10530).

        It is infinite at orders whose series did not converge.

        Raises:
            InvalidInputError: the relation is replacement, for which dp_accounting has no curve.
        """
        if self.neighbors is not Neighbors.ADD_REMOVE:
            rule = "the Renyi curve of DP-SGD is known for add_remove; use epsilon(delta)"
            raise InvalidInputError("neighbors", str(self.neighbors), rule)
        import dp_accounting

        step = dp_accounting.PoissonSampledDpEvent(
            self.sampling_rate, dp_accounting.GaussianDpEvent(self.noise_multiplier)
        )
        event = dp_accounting.SelfComposedDpEvent(step, self.steps)
        return event_renyi(event, orders, limit=math.inf)

    def privacy_loss(self) -> Any:
        """Return the PLD of all steps together."""
        from dp_accounting import NeighboringRelation
        from dp_accounting.pld import privacy_loss_distribution

        relation = {
            Neighbors.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
            Neighbors.REPLACE: NeighboringRelation.REPLACE_ONE,
        }[self.neighbors]
        step = privacy_loss_distribution.from_gaussian_mechanism(
            self.noise_multiplier, sampling_prob=self.sampling_rate, neighboring_relation=relation
        )
        return step.self_compose(self.steps)


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
        match each:
            case {"name": str(), "parameters": Mapping()} if len(each) == 2:
                continue
        raise InvalidInputError("mechanisms", each, rule)
    parts = tuple(mechanism_from_manifest(each["name"], each["parameters"]) for each in mechanisms)
    return Composition(parts, times)


_BUILDERS: dict[str, tuple[Callable[..., Mechanism], ...]] = {
    "pure": (PureMechanism,),
    "randomized_response": (
        RandomizedResponseAccount,
        RandomizedResponseAccount.from_keep_probability,
    ),
    "randomized_response_with_prior": (RandomizedResponseWithPriorAccount,),
    "laplace_one_hot": (LaplaceOneHotAccount,),
    "gaussian": (GaussianMechanism,),
    "pate_laplace": (noisy_max_laplace,),
    "pate_gaussian": (noisy_max_gaussian,),
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
