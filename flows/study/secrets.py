"""`privaudit study secrets`: n-gram language models that DP-SGD trained on one secret, attacked.

Figure 3 of two papers. "Defending against Reconstruction Attacks with Renyi DP": how much more
probable a canary of ten digits becomes, against the Renyi bound. "Beyond the Worst Case": how often
a secret's last digit is guessed, where digits are not equally probable, against its bounds.
"""

import itertools
import math

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import binomtest

from flows.study.cells import Cell, CellRow
from flows.study.runner import Study
from flows.study.secrets_shown import (
    DELTA,
    DIGITS,
    LOG_PRIOR,
    NAME,
    NAME_STAND_IN,
    PASSWORD,
    SEED,
    SHARE_FROM_PRIOR,
    SHARE_OF_MODEL,
    SHARE_OF_POSTERIOR,
    SIGNIFICANCE,
    UNIFORM,
    shown,
)
from privcore.attacks import (
    generator,
    guess_digit,
    guess_digit_with_prior,
    secret_leakage,
    secret_log_probability,
    tuned_training,
)
from privcore.exceptions import InvalidInputError
from privcore.guarantees import Gaussian, Neighbors
from privcore.mechanisms import NoisySgd, train_secrets
from privcore.upper_bounds import (
    curve_leakage,
    success_bound,
    tradeoff_success_bound,
    uniform_prior,
    zipf_prior,
)
from workers.release.table import read_frame

MODELS = 10_000
NOISE = (0.5, 1.0, 2.0, 2.875, 5.0, 10.0)
STEPS = (1, 2, 5)
CLIPPING = (0.3, 1.0, 2.0)
ATTACKED = 2_000
EPSILONS = (0.5, 1.0, 2.0, 4.0, 10.0)
OUTCOMES = 10
_NAME_EXPONENT = 1.5


def priors(names: NDArray[np.float64] | None = None) -> dict[str, NDArray[np.float64]]:
    """Return each prior over ten outcomes, from the most probable on.

    The paper's prior of `names` needs GPT-2 and e-mails (`read_names`); where it is not given,
    Zipf's law with exponent 1.5 stands in, whose most probable value has about the printed success.
    """
    ranks = np.arange(1, OUTCOMES + 1)
    stand_in = zipf_prior(ranks, exponent=_NAME_EXPONENT, size=OUTCOMES)
    return {
        UNIFORM: np.full(OUTCOMES, float(uniform_prior(1))),
        PASSWORD: zipf_prior(ranks, exponent=1.1, size=OUTCOMES),
        **({NAME_STAND_IN: stand_in} if names is None else {NAME: names}),
    }


def read_names(uri: str) -> NDArray[np.float64]:
    """Return the ten most probable of a table's names, scaled so that they sum to one.

    Args:
        uri: CSV or Parquet with a column `probability`, or anything in proportion to it.

    Raises:
        InvalidInputError: the table cannot be read, or has no ten positive numbers there.
    """
    frame = read_frame(uri)
    if "probability" not in frame.columns or not frame["probability"].dtype.is_numeric():
        raise InvalidInputError(
            "--names", uri, "the file must have a column of numbers named 'probability'"
        )
    given = frame["probability"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    likely: NDArray[np.float64] = np.sort(given)
    if not np.all(np.isfinite(likely)) or np.any(likely < 0.0):
        raise InvalidInputError("--names", uri, "each probability is a number of at least 0")
    likely = likely[::-1][:OUTCOMES]
    if len(likely) < OUTCOMES or likely[-1] == 0.0:
        raise InvalidInputError("--names", uri, "it has at least ten names of probability above 0")
    scaled: NDArray[np.float64] = likely / likely.sum()
    return scaled


def study(*, scale: float, names: str | None = None) -> Study:
    """Return the study: models trained on secrets, and attacked.

    Raises:
        InvalidInputError: no such table.
    """
    models, attacked = max(200, round(MODELS * scale)), max(200, round(ATTACKED * scale))
    cells = [
        Cell(
            f"leakage-{noise:g}-{steps}-{norm:g}",
            {"part": "leakage", "noise": noise, "steps": steps, "norm": norm, "models": models},
        )
        for noise, steps, norm in itertools.product(NOISE, STEPS, CLIPPING)
    ]
    cells += [
        Cell(
            f"guesses-{name.split()[0]}-{epsilon:g}-{neighbors}",
            {
                "part": "guesses",
                "prior": name,
                "epsilon": epsilon,
                "neighbors": str(neighbors),
                "models": attacked,
                "probabilities": probabilities.tolist(),
            },
        )
        for name, probabilities in priors(None if names is None else read_names(names)).items()
        for epsilon in EPSILONS
        for neighbors in (Neighbors.REPLACE, Neighbors.ADD_REMOVE)
    ]
    title = "Secrets in language models that DP-SGD trained"
    return Study(
        "Secrets",
        title,
        cells,
        compute,
        SEED,
        lambda found: shown(found.part("leakage"), found.part("guesses"), scale),
        scale,
    )


def compute(seed: int, cell: Cell) -> list[CellRow]:
    """Return the rows of one part."""
    given = dict(cell.parameters)
    part = given.pop("part")
    random = generator(seed, cell.name)
    if part == "leakage":
        rows = _leakage(random, **given)
    else:
        probabilities = np.array(given.pop("probabilities"))
        rows = _guesses(random, probabilities, **given)
    return [{"part": part, **given, **row} for row in rows]


def _leakage(
    random: np.random.Generator, *, noise: float, steps: int, norm: float, models: int
) -> list[CellRow]:
    """Train models on one canary; the noise and learning rate are those of section 4.1."""
    canary = np.broadcast_to(random.integers(0, 10, DIGITS), (models, DIGITS))
    training = NoisySgd(noise, 0.5 / noise, norm, steps)
    parameters = train_secrets(canary, training=training, generator=random)
    logs = secret_log_probability(parameters, canary)
    found = secret_leakage(logs, log_prior=LOG_PRIOR, generator=random, significance=SIGNIFICANCE)
    run = training.accounted_as()
    bits = curve_leakage(
        -LOG_PRIOR / math.log(2.0), divergence=lambda order: float(run.renyi(order))
    )
    return [
        {
            "leaked": found.leaked,
            "lower": found.lower,
            "upper": found.upper,
            "bound": float(bits) * math.log(2.0),
            "mean_log": found.mean_log,
            "deviation": found.deviation,
            "effective_models": found.effective_models,
        }
    ]


def _guesses(
    random: np.random.Generator,
    probabilities: NDArray[np.float64],
    *,
    prior: str,
    epsilon: float,
    neighbors: str,
    models: int,
) -> list[CellRow]:
    """Train models each on a digit drawn from the prior, and guess it in three ways."""
    adjacency = Neighbors(neighbors)
    training = tuned_training(epsilon, delta=DELTA, neighbors=adjacency, generator=random)
    digits = random.choice(10, (models, 1), p=probabilities)
    log_prior = np.log(probabilities)
    blank = train_secrets(digits, training=training, generator=random)[:, 0]
    begun = train_secrets(digits, training=training, generator=random, start=log_prior)[:, 0]
    guesses = {
        SHARE_OF_MODEL: guess_digit(blank),
        SHARE_FROM_PRIOR: guess_digit(begun),
        SHARE_OF_POSTERIOR: guess_digit_with_prior(blank, prior=probabilities, training=training),
    }
    replacing = training.accounted_as(Neighbors.REPLACE)
    replaced = replacing.epsilon(DELTA)
    secret = Gaussian(1.0 / replacing.noise_multiplier)
    tradeoff = float(tradeoff_success_bound(10, guarantee=secret))
    blind = float(probabilities.max())
    rows = []
    for attack, guess in guesses.items():
        right = int(np.sum(guess == digits[:, 0]))
        attempts = success_bound(probabilities[guess], epsilon=replaced, delta=DELTA)
        bounds = {
            "bound_attempts": float(attempts.mean()),
            "bound": float(success_bound(blind, epsilon=replaced, delta=DELTA)),
            "bound_tradeoff": tradeoff if prior == UNIFORM else None,
        }
        least = min(bound for bound in bounds.values() if bound is not None)
        rows.append(
            {
                "attack": attack,
                "right": right,
                "success": right / models,
                "blind": blind,
                **bounds,
                "exceeds_p_value": binomtest(right, models, least, alternative="greater").pvalue,
                "epsilon_replace": replaced,
                "noise": training.noise_multiplier,
                "learning_rate": training.learning_rate,
                "norm": training.clipping_norm,
                "steps": training.steps,
            }
        )
    return rows
