"""Leakage of a secret by models that were trained on it: its probability, and guesses at it.

Stock et al. 2022 (arXiv:2202.07623), section 4.1, and "Beyond the Worst Case" (2025), section 5.2.
The models are those of `privcore.mechanisms.noisy_sgd`. Bounds on both are in
`privcore.upper_bounds`: `curve_leakage` and `success_bound`.
"""

import dataclasses
import itertools
import operator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax

from privcore.exceptions import InvalidInputError
from privcore.guarantees import Neighbors
from privcore.guarantees.conversions import Floats, checked
from privcore.mechanisms.noisy_sgd import NoisySgd, train_secrets
from privcore.mechanisms.parameter_checks import check_prior


@dataclass(frozen=True, slots=True)
class Leakage:
    """Increase of a secret's log-probability of being generated, by models trained on it, in nats.

    Attributes:
        leaked: log(p1/p0), where p1 is the *mean* over models of the secret's probability.
        lower: lower end of the bootstrap's interval for it.
        upper: upper end.
        mean_log: mean over models of log p1; below log of the mean.
        deviation: standard deviation over models of log p1.
        effective_models: (sum p1)^2 / sum p1^2, the number of models that really make the mean. If
            it is small, a few models decide, and neither the mean nor its interval is to be
            trusted: they come out too small.
    """

    leaked: float
    lower: float
    upper: float
    mean_log: float
    deviation: float
    effective_models: float


def secret_log_probability(parameters: ArrayLike, secrets: ArrayLike) -> Floats:
    """Return log p1 of each model's secret.

    Args:
        parameters: shape (models, digits, alphabet), of `train_secrets`.
        secrets: shape (models, digits).

    Returns:
        Shape (models,).
    """
    parameters = np.asarray(parameters, dtype=np.float64)
    secrets = np.asarray(secrets, dtype=np.int64)
    if parameters.ndim != 3 or secrets.shape != parameters.shape[:2]:
        rule = f"it is {parameters.shape[:2]}, a digit per beginning"
        raise InvalidInputError("shape of secrets", secrets.shape, rule)
    found = np.take_along_axis(log_softmax(parameters, axis=-1), secrets[..., np.newaxis], axis=2)
    return np.asarray(found[..., 0].sum(axis=1))


def secret_leakage(
    log_trained: ArrayLike,
    *,
    log_prior: float,
    generator: np.random.Generator,
    significance: float = 0.05,
    resamples: int = 500,
) -> Leakage:
    """Return the leakage of a secret from how probable it is under many models.

    Stock et al. 2022, equation 4, in log space: log of the mean of p1, minus log p0. It is what
    sampling from a model gives away; another attack on the same models may get more, and no attack
    more than the bound.

    Args:
        log_trained: shape (models,), log p1 under each model, at least two models.
        log_prior: log p0, the secret's log-probability for models that never saw it.
        generator: draws the bootstrap's samples.
        significance: in (0, 1), of the bootstrap's interval (its percentiles).
        resamples: of the bootstrap.
    """
    rule = "a log-probability is at most 0"
    logs = checked("log_trained", log_trained, -np.finfo(np.float64).max, 1e-9, rule)
    checked("log_prior", log_prior, -np.finfo(np.float64).max, 0.0, rule)
    checked("significance", significance, 1e-9, 1.0 - 1e-9, "it lies in (0, 1)")
    if logs.ndim != 1 or logs.size < 2:
        raise InvalidInputError("shape of log_trained", logs.shape, "it is (models,), at least 2")
    top = float(logs.max())
    weights = np.exp(logs - top)
    means = np.array(
        [weights[generator.integers(0, logs.size, logs.size)].mean() for _ in range(resamples)]
    )
    ends = np.quantile(means, [significance / 2.0, 1.0 - significance / 2.0])
    # Each resample keeps some model, but its weight may have vanished beside the largest.
    lower, upper = np.log(np.maximum(ends, 1e-300)) + top - log_prior
    return Leakage(
        leaked=float(np.log(weights.mean()) + top - log_prior),
        lower=float(lower),
        upper=float(upper),
        mean_log=float(logs.mean()),
        deviation=float(logs.std(ddof=1)),
        effective_models=float(weights.sum() ** 2 / np.sum(weights**2)),
    )


def guess_digit(parameters: ArrayLike) -> NDArray[np.int64]:
    """Return the digit that each model thinks most probable: the paper's attack.

    "Beyond the Worst Case", section 5.2. It does not know which digits are probable beforehand,
    unless the models started from that.

    Args:
        parameters: shape (models, alphabet), after the known beginning.

    Returns:
        Shape (models,).
    """
    return np.asarray(np.argmax(_checked_parameters(parameters), axis=1))


def guess_digit_with_prior(
    parameters: ArrayLike, *, prior: ArrayLike, training: NoisySgd
) -> NDArray[np.int64]:
    """Return the digit with the largest posterior, prior times what the parameters say.

    The attack that "Beyond the Worst Case" leaves open (section 7.1). Models start at zero and one
    digit is trained. After one step the parameters are -learning_rate (c (uniform - one-hot) +
    sigma C noise), so the log-likelihood of digit a is, up to a constant, c / (learning_rate
    sigma^2 C^2) times parameter a: no attack on these models succeeds more often. After several
    steps it still is while the model stays near uniform, and else approximately.

    Args:
        parameters: shape (models, alphabet), after the known beginning.
        prior: shape (alphabet,), each digit's probability.
        training: how the models were trained.

    Returns:
        Shape (models,).

    Raises:
        InvalidInputError: shapes that do not fit, or `prior` is not a distribution.
    """
    parameters = _checked_parameters(parameters)
    prior = np.asarray(prior, dtype=np.float64)
    check_prior(prior, shape=parameters.shape[1:])
    noise = training.learning_rate * (training.noise_multiplier * training.clipping_norm) ** 2
    evidence = training.first_gradient(digits=1, alphabet=prior.size)
    with np.errstate(divide="ignore"):
        # Without noise the parameters alone decide, among digits that can be.
        posterior = noise * np.log(prior) + evidence * parameters if noise else parameters
    return np.asarray(np.argmax(np.where(prior > 0.0, posterior, -np.inf), axis=1))


def tuned_training(
    epsilon: float,
    *,
    delta: float,
    neighbors: Neighbors,
    generator: np.random.Generator,
    models: int = 500,
) -> NoisySgd:
    """Return the training of one digit with the lowest mean loss on it, at a privacy level.

    "Beyond the Worst Case", section 5.2: clipping norm, learning rate and number of steps are
    chosen by the loss on the secret. The choice looks at secrets and is not private itself; its
    models are others than those that are attacked later.

    Args:
        epsilon: of all steps together, above 0.
        delta: in (0, 1).
        neighbors: the relation that epsilon speaks of.
        generator: draws the secrets and the noise.
        models: trained for each choice.
    """
    secrets = generator.integers(0, 10, (models, 1))
    choices = []
    for steps, norm, length in itertools.product((1, 10, 50), (0.3, 1.0), (0.1, 0.3, 1.0, 3.0)):
        plain = NoisySgd.private(
            epsilon,
            delta=delta,
            neighbors=neighbors,
            learning_rate=1.0,
            clipping_norm=norm,
            steps=steps,
        )
        # So that the noise of all steps together moves a parameter by about `length`.
        noise = plain.noise_multiplier * norm * steps**0.5
        training = dataclasses.replace(plain, learning_rate=length / noise)
        parameters = train_secrets(secrets, training=training, generator=generator, alphabet=10)
        choices.append((-float(secret_log_probability(parameters, secrets).mean()), training))
    return min(choices, key=operator.itemgetter(0))[1]


def _checked_parameters(parameters: ArrayLike) -> Floats:
    parameters = np.asarray(parameters, dtype=np.float64)
    if parameters.ndim != 2 or not parameters.size:
        raise InvalidInputError("shape of parameters", parameters.shape, "it is (models, alphabet)")
    if np.any(np.isnan(parameters)):
        raise InvalidInputError("parameters", np.nan, "parameters are numbers")
    return parameters
