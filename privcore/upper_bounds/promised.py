"""All that one guarantee promises: the least of the bounds that apply to it.

The other modules hold one theorem each, for one relation. Here a guarantee is a value, and a
question to it is answered by every theorem that fits its relation and what is known of its
mechanism.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike

from privcore.exceptions import InvalidInputError
from privcore.guarantees import Mechanism, Relation, add_remove_to_replace
from privcore.guarantees.conversions import Floats, checked, checked_delta
from privcore.upper_bounds.attack_success import (
    checked_prior,
    label_success,
    narcissus_bound,
    reconstruction_robustness,
    success_bound,
)
from privcore.upper_bounds.reidentification import rip_eta
from privcore.upper_bounds.renyi import renyi_success_bound
from privcore.upper_bounds.success_counts import SuccessCount, success_count

# Fine near 1, where few bits leak, and wide enough for secrets of thousands of bits. Any orders
# give a bound; infinity is pure DP.
ORDERS = np.concatenate([np.linspace(1.01, 11.0, 200), np.geomspace(11.5, 1_000.0, 60), [np.inf]])
_LARGEST_DELTA = np.nextafter(1.0, 0.0)


@dataclass(frozen=True, slots=True)
class Promised:
    """An (epsilon, delta) guarantee, asked what it promises against any attack.

    The theorems speak of a secret of one record that the guarantee protects: for label privacy
    its label, else all of it. They hold for any attacker who knows everything else.

    Args:
        epsilon: at least 0; infinity promises nothing.
        delta: in [0, 1).
        neighbors: the relation that epsilon and delta speak of. Where a theorem needs replacement
            and they speak of adding and removing, or of simulating, it gets what follows by
            `add_remove_to_replace`, which is twice the epsilon.
        mechanism: what was done, if it is known: its Renyi curve may promise more. It must have
            the guarantee, under the same relation.

    Raises:
        InvalidInputError: a value out of its range, or a mechanism under another relation.
    """

    epsilon: float
    delta: float = 0.0
    neighbors: Relation = Relation.REPLACE
    mechanism: Mechanism | None = None

    def __post_init__(self) -> None:
        checked("epsilon", self.epsilon, 0.0, np.inf, "epsilon is at least 0")
        checked_delta(self.delta)
        known = self.mechanism and Relation(self.mechanism.neighbors)
        if self.mechanism is not None and known is not self.neighbors:
            rule = f"the guarantee of its mechanism is for {self.mechanism.neighbors}"
            raise InvalidInputError("neighbors", str(self.neighbors), rule)

    @property
    def replacing(self) -> tuple[float, float]:
        """Epsilon and delta under replacement."""
        return self._after(self.neighbors.replacements)

    @property
    def simulating(self) -> tuple[float, float]:
        """Epsilon and delta under simulation, which the label-inference game is about."""
        return self._after(self.neighbors.imputations)

    def _after(self, steps: int) -> tuple[float, float]:
        if steps == 1:
            return self.epsilon, self.delta
        epsilon, delta = add_remove_to_replace(self.epsilon, delta=self.delta)
        return float(epsilon), min(float(delta), _LARGEST_DELTA)

    def success_bounds(self, prior: ArrayLike) -> Mapping[str, Floats]:
        """Return every theorem's bound on the success of one guess.

        Keys are `any_attack`, under simulation `simulation` (`label_success`), `narcissus`, with
        delta 0 `reconstruction_robustness`, and with a mechanism whose curve is known `renyi`. The
        last three compare with a run that does not know the secret, where it was taken out,
        replaced or imputed, so they hold under each relation as it is.

        Args:
            prior: success probability of the best blind guess, in [0, 1], any shape, which is
                that of each answer.
        """
        epsilon, delta = self.replacing
        bounds = {
            "any_attack": success_bound(prior, epsilon=epsilon, delta=delta),
            "narcissus": narcissus_bound(prior, epsilon=self.epsilon, delta=self.delta),
        }
        if self.neighbors is Relation.SIMULATE:
            simulated = label_success(
                prior, epsilon=self.epsilon, delta=self.delta, relation=self.neighbors
            )
            bounds["simulation"] = simulated
        if self.delta == 0.0:
            robustness = reconstruction_robustness(prior, epsilon=self.epsilon)
            bounds["reconstruction_robustness"] = robustness
        divergences = self._divergences()
        if divergences is not None:
            bounds["renyi"] = renyi_success_bound(prior, orders=ORDERS, divergences=divergences)
        return bounds

    def success(self, prior: ArrayLike) -> Floats:
        """Return the largest success probability of one guess: the least of `success_bounds`."""
        return np.asarray(reduce(np.minimum, self.success_bounds(prior).values()))[()]

    def leaked_bits(self, secret_bits: ArrayLike) -> Floats:
        """Return the most bits that leak of a uniform secret of `secret_bits`: log2(success/prior).

        Args:
            secret_bits: from 0 to 1,000, any shape, which is that of the answer.
        """
        rule = "a number of bits lies in [0, 1000]"
        bits = checked("secret_bits", secret_bits, 0.0, 1_000.0, rule)
        prior = checked_prior(np.exp2(-bits))
        return np.asarray(np.clip(np.log2(self.success(prior)) + bits, 0.0, bits))[()]

    def membership_accuracy(self) -> float:
        """Return the largest probability of telling a record that took part from one that did not.

        `1/2 + rip_eta`. Under label privacy: the label that training saw from another one.
        """
        epsilon, delta = self.replacing
        return 0.5 + float(rip_eta(epsilon, delta=delta))

    def correct_guesses(self, guesses: int, *, records: int, prior: float = 0.5) -> SuccessCount:
        """Return the distribution that bounds how many named secrets are right.

        Args:
            guesses: how many the attacker makes, of its own choice.
            records: how many take part, at least `guesses`.
            prior: success probability of the best blind guess on any of them.
        """
        epsilon, delta = self.replacing
        return success_count(prior, guesses=guesses, epsilon=epsilon, delta=delta, records=records)

    def correct_bits(self, guesses: int, *, records: int, shift: float = 0.0) -> SuccessCount:
        """Return the distribution that bounds the correct guesses of the label-inference game.

        A record's fair bit says whether its label or an imputed one is shown, so the guarantee
        counts as one for simulating (`simulating`). Labels and proxy that differ by `shift` in
        total variation tell the bit with at most that probability, so it adds to delta.

        Args:
            guesses: how many the attacker makes, of its own choice.
            records: how many take part, at least `guesses`.
            shift: in [0, 1].
        """
        checked("shift", shift, 0.0, 1.0, "a total variation lies in [0, 1]")
        epsilon, delta = self.simulating
        lost = min(delta + shift, _LARGEST_DELTA)
        return success_count(0.5, guesses=guesses, epsilon=epsilon, delta=lost, records=records)

    def _divergences(self) -> Floats | None:
        """Mechanism's Renyi curve at `ORDERS`; None where it is unknown."""
        if self.mechanism is None:
            return None
        try:
            return self.mechanism.renyi(ORDERS)
        except InvalidInputError:
            # DP-SGD under replacement, alone or in a composition, has no curve.
            return None
