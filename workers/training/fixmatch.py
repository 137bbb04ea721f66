"""FixMatch: a network learns from few labels and many images without; and PATE-FM on top of it.

Sohn et al. 2020 (arXiv:2001.07685), with the values of the code that "Antipodes of Label
Differential Privacy" (Malek et al. 2021) publishes. Weak and strong augmentation take a key and
pixels: neither can see a label.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import generator
from privcore.exceptions import InvalidInputError
from privcore.mechanisms import NoisyMax, count_votes, disjoint_parts
from workers.training.networks import (
    FittedNetwork,
    Network,
    Parameters,
    checked_parameters,
    the_jax,
    the_optax,
)

OPERATIONS = 2
"""Operations of RandAugment on one image (Cubuk et al. 2020), each applied with probability 1/2."""
LEVELS = 10
"""An operation's strength is drawn from 1 to 9 tenths of its largest."""
_PADDING, _CUT = 0.125, 0.5  # shares of the side
_GREY = 127 / 255
_SHARPENED = ((1.0, 1.0, 1.0), (1.0, 5.0, 1.0), (1.0, 1.0, 1.0))
_GEOMETRIC = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
_INTENSITY = (
    "identity", "autocontrast", "brightness", "color", "contrast", "posterize", "sharpness",
    "solarize",
)  # fmt: skip
NAMES = _GEOMETRIC + _INTENSITY
"""The paper's pool but for equalising histograms."""


def weakly(key: Any, images: Any, *, flips: bool) -> Any:
    """Return each image moved by up to an eighth of its side, and mirrored with probability 1/2.

    Their shape is (images, side, side, channels), values 0 to 1. `flips` says whether a mirrored
    image is of the same class; of digits it is not.
    """
    jax = the_jax()
    np = jax.numpy
    side, padding = images.shape[1], round(_PADDING * images.shape[1])
    padded = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)), "reflect")
    moved, mirrored = jax.random.split(key)
    starts = jax.random.randint(moved, (len(images), 2), 0, 2 * padding + 1)

    def cropped(image: Any, start: Any) -> Any:
        return jax.lax.dynamic_slice(image, (start[0], start[1], 0), (side, side, image.shape[2]))

    found = jax.vmap(cropped)(padded, starts)
    if not flips:
        return found
    turned = jax.random.bernoulli(mirrored, 0.5, (len(images), 1, 1, 1))
    return np.where(turned, found[:, :, ::-1], found)


def strongly(key: Any, images: Any, *, flips: bool) -> Any:
    """Return images after `weakly`, two operations of RandAugment and a grey square."""
    jax = the_jax()
    first, *rounds, cut = jax.random.split(key, OPERATIONS + 2)
    found = weakly(first, images, flips=flips)
    for each in rounds:
        place, strength, sign, used = jax.random.split(each, 4)
        many = len(images)
        kinds = jax.random.randint(place, (many,), 0, len(NAMES))
        levels = jax.random.randint(strength, (many,), 1, LEVELS)
        signs = jax.random.rademacher(sign, (many,))
        changed = jax.vmap(operated)(found, kinds, levels, signs)
        applied = jax.random.bernoulli(used, 0.5, (many, 1, 1, 1))
        found = jax.numpy.where(applied, changed, found)
    return _cut(cut, found)


def operated(image: Any, kind: Any, level: Any, sign: Any) -> Any:
    """Return one image, of shape (side, side, channels), after the operation `NAMES[kind]`.

    `level` is in tenths of the largest strength, `sign` a geometric operation's direction.
    """
    np = the_jax().numpy
    turned = _transformed(image, kind, level / LEVELS, sign)
    parts = [turned, *_intensities(image, level)]
    return np.stack(parts)[np.maximum(kind - len(_GEOMETRIC) + 1, 0)]


def _transformed(image: Any, kind: Any, share: Any, sign: Any) -> Any:
    """Return an image turned, sheared or moved: the nearest pixel of each place, black outside."""
    np = the_jax().numpy
    side = image.shape[0]
    signed = share * sign
    angle = np.deg2rad(-30.0 * signed)
    cos, sin = np.cos(angle), np.sin(angle)
    middle = side / 2.0
    moved = np.trunc(signed * 0.3 * side)
    rows = np.array([
        [cos, sin, middle - cos * middle - sin * middle,
         -sin, cos, middle + sin * middle - cos * middle],
        [1.0, 0.3 * signed, 0.0, 0.0, 1.0, 0.0],
        [1.0, 0.0, 0.0, 0.3 * signed, 1.0, 0.0],
        [1.0, 0.0, moved, 0.0, 1.0, 0.0],
        [1.0, 0.0, 0.0, 0.0, 1.0, moved],
    ])  # fmt: skip
    xx, xy, x0, yx, yy, y0 = rows[np.minimum(kind, len(_GEOMETRIC) - 1)]
    centers = np.arange(side) + 0.5
    x, y = centers[None, :], centers[:, None]
    from_x = np.floor(xx * x + xy * y + x0).astype(int)
    from_y = np.floor(yx * x + yy * y + y0).astype(int)
    inside = (from_x >= 0) & (from_x < side) & (from_y >= 0) & (from_y < side)
    found = image[np.clip(from_y, 0, side - 1), np.clip(from_x, 0, side - 1)]
    return np.where(inside[..., None], found, 0.0)


def _intensities(image: Any, level: Any) -> list[Any]:
    """Return an image after each operation of `_INTENSITY`, in that order."""
    np = the_jax().numpy
    factor = 0.9 * level / LEVELS + 0.05
    lowest, highest = image.min(axis=(0, 1)), image.max(axis=(0, 1))
    flat = highest <= lowest
    contrasted = (image - lowest) / np.where(flat, 1.0, highest - lowest)
    weights = np.array([1.0]) if image.shape[2] == 1 else np.array([0.299, 0.587, 0.114])
    grey = np.broadcast_to((image @ weights)[..., None], image.shape)
    smooth = _smoothed(image)
    kept = np.left_shift(1, 4 - 4 * level // LEVELS)
    return [
        image,
        np.where(flat, image, contrasted),
        factor * image,
        grey + factor * (image - grey),
        grey.mean() + factor * (image - grey.mean()),
        np.floor(np.round(image * 255.0) / kept) * kept / 255.0,
        smooth + factor * (image - smooth),
        np.where(np.round(image * 255.0) >= 256 - 256 * level // LEVELS, 1.0 - image, image),
    ]


def _smoothed(image: Any) -> Any:
    """Return an image whose inner pixels are means of their neighbourhood."""
    np = the_jax().numpy
    side = image.shape[0]
    added = sum(
        weight * image[down : side - 2 + down, right : side - 2 + right]
        for down, row in enumerate(_SHARPENED)
        for right, weight in enumerate(row)
    )
    return np.asarray(image).at[1:-1, 1:-1].set(added / sum(map(sum, _SHARPENED)))


def _cut(key: Any, images: Any) -> Any:
    """Return images with a grey square of half their side, cut off at the border."""
    jax = the_jax()
    np = jax.numpy
    side = images.shape[1]
    centers = jax.random.uniform(key, (len(images), 2, 1), maxval=side)
    starts = np.floor(np.maximum(centers - _CUT * side / 2.0, 0.0))
    places = np.arange(side)
    within = (places >= starts) & (places <= np.minimum(starts + _CUT * side, side))
    square = within[:, 0, :, None] & within[:, 1, None, :]
    return np.where(square[..., None], _GREY, images)


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


@functools.lru_cache(maxsize=4)  # a student at each epsilon, and teachers: one compilation for all
def fixmatch_trainer(network: Network, settings: FixMatch, classes: int) -> Trainer:
    """Return a function that trains networks, compiled once for all of one size.

    It takes `pixels` (images, side, side, channels), `labels` (images,), `unlabelled` (others,
    side, side, channels) and `seed`, and returns a network. It raises `TerminalError` if JAX or
    optax is not installed, or if training came to numbers that are none.
    """
    jax, optax = the_jax(), the_optax()

    def rate(at: Any, steps: Any) -> Any:
        return settings.rate * jax.numpy.cos(jax.numpy.pi * _COSINE * at / steps)

    def optimizer(steps: Any) -> Any:
        return optax.chain(
            optax.add_decayed_weights(settings.weight_decay),
            optax.sgd(functools.partial(rate, steps=steps), momentum=0.9, nesterov=True),
        )

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
        updates, state = optimizer(total).update(gradient, state, parameters)
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
        found = (first, first, optimizer(steps).init(first), 0)
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

    Logits have the shape (images, classes); `guessed` are on weakly augmented images, and
    constants, `learnt` on the same images, strongly augmented.
    """
    jax, optax = the_jax(), the_optax()
    chances = jax.nn.softmax(jax.lax.stop_gradient(guessed) / settings.temperature)
    sure = chances.max(axis=1) >= settings.confidence
    target = jax.nn.one_hot(chances.argmax(axis=1), chances.shape[1])
    return (sure * optax.softmax_cross_entropy(learnt, target)).mean()


def _batches(records: int, size: int, random: np.random.Generator) -> Any:
    """Yield rows without end: an order of all records after another, `size` at a time."""
    waiting: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    while True:
        while len(waiting) < size:
            waiting = np.concatenate([waiting, random.permutation(records)])
        yield waiting[:size]
        waiting = waiting[size:]


DELTA = 1e-5


@dataclass(frozen=True, slots=True)
class PateFixMatch:
    """Arxiv:2106.03408: labels are private, images are not.

    Each teacher learns from the labels of its own part and from all images. The teachers vote on
    some of the images, Gaussian noise is added to the votes, and the student learns from the
    answers and from all images. As in the published code, parts include the images that are asked.
    A replaced label changes one teacher, thus one vote of each answer: `NoisyMax` accounts for
    that, whatever the votes are. The published code leaves out images of which a noisy count stays
    below a threshold, and states an epsilon that depends on the private votes; here all images that
    are asked are answered, and none of the budget is spent on choosing them.
    """

    teachers: int
    queries: int
    teaching: FixMatch
    learning: FixMatch

    def mechanism(self, epsilon: float) -> NoisyMax:
        """Return the aggregation at an epsilon, stated at delta 1e-5; infinity is no noise."""
        return NoisyMax.from_epsilon(epsilon, noise="gaussian", queries=self.queries, delta=DELTA)

    def vote(
        self,
        network: Network,
        pixels: NDArray[np.float32],
        labels: NDArray[np.int64],
        *,
        classes: int,
        seed: int,
        random: np.random.Generator,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the images that are asked, and the votes on them, shape (queries, classes).

        The votes are private: only `graduate` may use them.

        Raises:
            InvalidInputError: more teachers or more queries than images.
        """
        if self.queries > len(labels):
            raise InvalidInputError("queries", self.queries, f"there are only {len(labels)} images")
        parts = disjoint_parts(len(labels), self.teachers, random)
        asked = np.sort(random.permutation(len(labels))[: self.queries])
        train = fixmatch_trainer(network, self.teaching, classes)
        said = []
        for place, part in enumerate(parts):
            teacher = train(pixels[part], labels[part], pixels, seed=seed + place)
            said.append(teacher.log_odds(pixels[asked]).argmax(axis=1))
        return asked, count_votes(np.stack(said), classes)

    def graduate(
        self,
        network: Network,
        pixels: NDArray[np.float32],
        ballot: tuple[NDArray[np.int64], NDArray[np.float64]],
        *,
        epsilon: float,
        seed: int,
        random: np.random.Generator,
    ) -> FittedNetwork:
        """Return the student, which sees no label but the noisy answers."""
        asked, votes = ballot
        answers = self.mechanism(epsilon).sample(votes, random)
        train = fixmatch_trainer(network, self.learning, votes.shape[1])
        return train(pixels[asked], answers, pixels, seed=seed)
