"""Neural networks for the studies: their training by JAX, on a GPU where JAX finds one.

A network is two pure functions; `fit_network` trains it on class probabilities (one-hot labels, or
what a mechanism leaves of them). JAX and optax are the extra `networks`, and are imported here only
when a network is trained. Texts are read as TF-IDF weights (`term_weights`).
"""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from privcore.attacks import generator
from privcore.exceptions import InvalidInputError, TerminalError

Parameters: TypeAlias = Any
Inputs: TypeAlias = Any
"""Arrays, or tuples of arrays, whose first dimension is records."""
Reading: TypeAlias = Callable[[Any, Any], Any]
"""From what is known of labels and the network's own softmax, (records, classes) each, to targets.

It is traced by JAX, and no gradient flows through it.
"""
_ASKED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Network:
    """One architecture.

    Attributes:
        initial: from a JAX key to parameters before training.
        logits: from parameters and inputs to logits, shape (records, classes).
    """

    initial: Callable[[Any], Parameters]
    logits: Callable[[Parameters, Inputs], Any]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule by which a network is trained.

    Attributes:
        batch: records of a step; a shorter one at an epoch's end is left out.
        rate: the first learning rate; it falls to 0 along a cosine.
        optimizer: Adam, or stochastic gradient descent with Nesterov's momentum of 0.9.
        mixup: alpha of the Beta distribution by which each batch is mixed with itself in another
            order (Zhang et al. 2018); 0 mixes nothing.
    """

    epochs: int
    batch: int
    rate: float
    optimizer: Literal["adam", "sgd"] = "adam"
    mixup: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class FittedNetwork:
    """A trained network."""

    network: Network
    parameters: Parameters

    def log_odds(self, inputs: Inputs) -> NDArray[np.float64]:
        """Return logits, shape (records, classes)."""
        jax = the_jax()
        ask = jax.jit(self.network.logits)
        records = len(jax.tree.leaves(inputs)[0])
        parts = [
            np.asarray(ask(self.parameters, _take(inputs, slice(at, at + _ASKED_AT_ONCE))))
            for at in range(0, records, _ASKED_AT_ONCE)
        ]
        return np.concatenate(parts).astype(np.float64)

    def probabilities(self, inputs: Inputs) -> NDArray[np.float64]:
        """Return the softmax of the logits, shape (records, classes)."""
        return np.asarray(softmax(self.log_odds(inputs), axis=1))


def one_hot(labels: NDArray[np.int64], classes: int) -> NDArray[np.float32]:
    """Return a label's class as probabilities, shape (records, classes)."""
    return np.eye(classes, dtype=np.float32)[labels]


def fit_network(
    network: Network,
    inputs: Inputs,
    known: NDArray[np.floating[Any]],
    schedule: Schedule,
    *,
    seed: int,
    reading: Reading | None = None,
) -> FittedNetwork:
    """Return the network trained on these records by cross-entropy.

    `known`, of shape (records, classes), are class probabilities to learn, or what `reading` makes
    the targets of each step of. The first parameters, the order and mixing come from `seed`.

    Raises:
        TerminalError: JAX or optax is not installed, or training came to numbers that are none.
    """
    jax, optax = the_jax(), the_optax()
    many = len(known)
    batch = min(schedule.batch, many)
    steps = many // batch * schedule.epochs
    rate = optax.cosine_decay_schedule(schedule.rate, max(1, steps))
    optimizer = optax.adam(rate)
    if schedule.optimizer == "sgd":
        optimizer = optax.sgd(rate, momentum=0.9, nesterov=True)

    def loss(parameters: Parameters, given: Inputs, target: Any) -> Any:
        logits = network.logits(parameters, given)
        if reading is not None:
            target = jax.lax.stop_gradient(reading(target, jax.nn.softmax(logits)))
        return optax.softmax_cross_entropy(logits, target).mean()

    @jax.jit  # type: ignore[untyped-decorator, unused-ignore]
    def step(parameters: Parameters, state: Any, given: Inputs, target: Any) -> Any:
        gradient = jax.grad(loss)(parameters, given, target)
        updates, state = optimizer.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state

    random = generator(seed, "network")
    parameters = network.initial(jax.random.key(seed))
    state = optimizer.init(parameters)
    for _ in range(schedule.epochs):
        order = random.permutation(many)
        for at in range(0, many - batch + 1, batch):
            rows = order[at : at + batch]
            given, target = _take(inputs, rows), known[rows]
            if schedule.mixup:
                given, target = _mixed(given, target, random, schedule.mixup)
            parameters, state = step(parameters, state, given, target)
    return FittedNetwork(network, checked_parameters(parameters))


def checked_parameters(parameters: Parameters) -> Parameters:
    """Return parameters, or raise `TerminalError` where one is no number."""
    if not all(np.isfinite(leaf).all() for leaf in the_jax().tree.leaves(parameters)):
        raise TerminalError("A network's training diverged: its parameters are no numbers.")
    return parameters


def text_network(vocabulary: int, hidden: int = 128, classes: int = 2) -> Network:
    """Return a fully connected network over weighted terms, with two hidden layers.

    Its first layer adds up the rows of its matrix that a text has terms of, which is the product
    with the text's vector.
    """
    jax = the_jax()
    sizes = [(vocabulary, hidden), (hidden, hidden), (hidden, classes)]

    def initial(key: Any) -> Parameters:
        return dense_layers(key, sizes)

    def logits(parameters: Parameters, inputs: Inputs) -> Any:
        terms, weights = inputs
        first, second, last = parameters
        added = (first["weight"][terms] * weights[..., None]).sum(axis=1)
        found = jax.nn.relu(added + first["bias"])
        found = jax.nn.relu(found @ second["weight"] + second["bias"])
        return found @ last["weight"] + last["bias"]

    return Network(initial, logits)


def dense_layers(key: Any, sizes: list[tuple[int, int]]) -> Parameters:
    """Return the first parameters of fully connected layers (Glorot's uniform ones)."""
    jax = the_jax()
    draw = jax.nn.initializers.glorot_uniform()
    keys = jax.random.split(key, len(sizes))
    return [
        {"weight": draw(each, size), "bias": np.zeros(size[1], dtype=np.float32)}
        for each, size in zip(keys, sizes, strict=True)
    ]


def _mixed(given: Any, target: Any, random: np.random.Generator, alpha: float) -> tuple[Any, Any]:
    other, share = random.permutation(len(target)), np.float32(random.beta(alpha, alpha))
    return (
        share * given + (1 - share) * given[other],
        share * target + (1 - share) * target[other],
    )


def _take(inputs: Inputs, rows: Any) -> Inputs:
    return the_jax().tree.map(lambda each: each[rows], inputs)


@contextlib.contextmanager
def _of_the_extra() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise TerminalError(
            "This study trains neural networks with JAX, which is not installed: install "
            "privaudit[networks]."
        ) from None


def the_jax() -> Any:
    """Return JAX, of the extra `networks`."""
    with _of_the_extra():
        import jax  # noqa: PLC0415
    return jax


def the_optax() -> Any:
    """Return optax, of the extra `networks`."""
    with _of_the_extra():
        import optax  # noqa: PLC0415
    return optax


_TERM = re.compile(r"\b\w\w+\b")
_IN_TEXTS = 2
"""A term of one text alone says nothing of any other."""


@dataclass(frozen=True, slots=True, eq=False)
class TermWeights:
    """The terms of texts, and each term's weight.

    Attributes:
        terms: shape (texts, width): each text's terms as numbers; 0 where it has no more.
        weights: shape (texts, width): 0 where it has no more.
    """

    terms: NDArray[np.int32]
    weights: NDArray[np.float32]
    vocabulary: int

    def of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return terms and weights of some texts, as a network takes them."""
        return self.terms[rows], self.weights[rows]


def term_weights(texts: Sequence[str]) -> TermWeights:
    """Return the term frequencies of texts, each over its frequency in all of them.

    Terms are runs of two or more word characters in lower case, in two texts at least. A term's
    weight is its count in the text times 1 + ln((1 + texts)/(1 + texts that have it)), and the
    squares of a text's weights add up to 1, as scikit-learn's TfidfVectorizer computes it. It reads
    no label, and treats all texts alike: texts that a model is trained on and texts that it is not
    must be weighed together, or a term that is missing tells them apart.

    Raises:
        InvalidInputError: no term is in two texts.
    """
    counts = [Counter(_TERM.findall(text.lower())) for text in texts]
    having = Counter(term for count in counts for term in count)
    known = sorted(term for term, many in having.items() if many >= _IN_TEXTS)
    if not known:
        raise InvalidInputError("texts", len(counts), "no term is in two of them")
    numbers = {term: number for number, term in enumerate(known)}
    rarity = {term: 1.0 + np.log((1 + len(counts)) / (1 + having[term])) for term in known}
    width = max(sum(term in numbers for term in count) for count in counts)
    terms = np.zeros((len(counts), width), dtype=np.int32)
    weights = np.zeros((len(counts), width), dtype=np.float32)
    for row, count in enumerate(counts):
        kept = sorted(term for term in count if term in numbers)
        terms[row, : len(kept)] = [numbers[term] for term in kept]
        weights[row, : len(kept)] = [count[term] * rarity[term] for term in kept]
    norms = np.linalg.norm(weights, axis=1, keepdims=True)
    weights /= np.where(norms > 0.0, norms, 1.0)
    return TermWeights(terms, weights, len(known))
