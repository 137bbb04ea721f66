"""FixMatch: a network learns from few labels and many images without (Sohn et al. 2020)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import generator
from workers.training.augmentation import strongly, weakly
from workers.training.networks import (
    FittedNetwork,
    Network,
    Parameters,
    checked_parameters,
    the_jax,
    the_optax,
)

_COSINE = 7.0 / 16.0  # of a half turn: the rate falls to a fifth


@dataclass(frozen=True, slots=True)
class FixMatch:
    """Schedule of a network's training; arXiv:2001.07685, with Malek et al. 2021's values.

    Attributes:
        epochs: times 1/`batch` of the unlabelled images are the steps.
        batch: labelled images of a step; all where there are fewer.
        unlabelled: unlabelled images of a step for each labelled one.
        confidence: a prediction at least so sure is a label of the strongly augmented image.
        temperature: of these predictions.
        weight: of the unlabelled loss.
        rate: the first learning rate, with Nesterov's momentum of 0.9.
        weight_decay: of the squares of all parameters.
        averaging: decay of the moving average of parameters, which answers. At step t it is at
            most (1 + t)/(10 + t), so that short trainings forget their first parameters.
        flips: whether images may be mirrored.
    """

    epochs: int
    batch: int = 64
    unlabelled: int = 7
    confidence: float = 0.95
    temperature: float = 1.0
    weight: float = 1.0
    rate: float = 0.03
    weight_decay: float = 5e-4
    averaging: float = 0.999
    flips: bool = True


Trainer = Callable[..., FittedNetwork]


@lru_cache(maxsize=4)  # a student at each epsilon, and teachers: one compilation for all
def fixmatch_trainer(network: Network, settings: FixMatch, classes: int) -> Trainer:
    """Return a function that trains networks, compiled once for all of one size.

    It takes `pixels` (images, side, side, channels), `labels` (images,), `unlabelled` (others,
    side, side, channels) and `seed`, and returns a network. It raises `TerminalError` if JAX or
    optax is not installed, or if training came to numbers that are none.
    """
    jax, optax = the_jax(), the_optax()

    def loss(parameters: Parameters, key: Any, given: Any, labels: Any, others: Any) -> Any:
        weak, strong = weak_and_strong(key, given, others, flips=settings.flips)
        known = network.logits(parameters, weak[: len(given)])
        supervised = optax.softmax_cross_entropy(known, jax.nn.one_hot(labels, classes)).mean()
        seen = network.logits(parameters, jax.numpy.concatenate([weak[len(given) :], strong]))
        guessed, learnt = seen[: len(others)], seen[len(others) :]
        return supervised + settings.weight * consistency(guessed, learnt, settings)

    @jax.jit  # type: ignore[untyped-decorator, unused-ignore]
    def step(trained: Any, total: Any, key: Any, given: Any, labels: Any, others: Any) -> Any:
        parameters, average, state, at = trained
        gradient = jax.grad(loss)(parameters, key, given, labels, others)
        optimizer = _optimizer(optax, settings, total)
        updates, state = optimizer.update(gradient, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        kept = jax.numpy.minimum(settings.averaging, (1.0 + at) / (10.0 + at))
        average = jax.tree.map(
            lambda old, new: kept * old + (1.0 - kept) * new, average, parameters
        )
        return parameters, average, state, at + 1

    def trained(
        pixels: NDArray[np.float32],
        labels: NDArray[np.int64],
        unlabelled: NDArray[np.float32],
        *,
        seed: int,
    ) -> FittedNetwork:
        batch = min(settings.batch, len(labels))
        more = min(settings.unlabelled * batch, len(unlabelled))
        steps = max(1, len(unlabelled) // batch) * settings.epochs
        random, key = generator(seed, "fixmatch"), jax.random.key(seed)
        first = network.initial(key)
        found = (first, first, _optimizer(optax, settings, steps).init(first), 0)
        labelled_rows = _batches(len(labels), batch, random)
        other_rows = _batches(len(unlabelled), more, random)
        for at in range(steps):
            rows, others = next(labelled_rows), next(other_rows)
            step_key = jax.random.fold_in(key, at)
            found = step(found, steps, step_key, pixels[rows], labels[rows], unlabelled[others])
        return FittedNetwork(network, checked_parameters(found[1]))

    return trained


def weak_and_strong(key: Any, given: Any, others: Any, *, flips: bool) -> tuple[Any, Any]:
    """Return labelled and unlabelled images augmented weakly, and the latter strongly."""
    jax = the_jax()
    first, second = jax.random.split(key)
    both = jax.numpy.concatenate([given, others])
    return weakly(first, both, flips=flips), strongly(second, others, flips=flips)


def consistency(guessed: Any, learnt: Any, settings: FixMatch) -> Any:
    """Return the unlabelled loss: cross-entropy to the guess where it is sure, 0 elsewhere.

    Args:
        guessed: logits on weakly augmented images, shape (images, classes); constants.
        learnt: logits on the same images, strongly augmented.
        settings: temperature and confidence.
    """
    jax, optax = the_jax(), the_optax()
    chances = jax.nn.softmax(jax.lax.stop_gradient(guessed) / settings.temperature)
    sure = chances.max(axis=1) >= settings.confidence
    target = jax.nn.one_hot(chances.argmax(axis=1), chances.shape[1])
    return (sure * optax.softmax_cross_entropy(learnt, target)).mean()


def _optimizer(optax: Any, settings: FixMatch, steps: Any) -> Any:
    jax = the_jax()

    def rate(at: Any) -> Any:
        return settings.rate * jax.numpy.cos(jax.numpy.pi * _COSINE * at / steps)

    return optax.chain(
        optax.add_decayed_weights(settings.weight_decay),
        optax.sgd(rate, momentum=0.9, nesterov=True),
    )


def _batches(records: int, size: int, random: np.random.Generator) -> Any:
    """Yield rows without end: an order of all records after another, `size` at a time."""
    waiting: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    while True:
        while len(waiting) < size:
            waiting = np.concatenate([waiting, random.permutation(records)])
        yield waiting[:size]
        waiting = waiting[size:]
