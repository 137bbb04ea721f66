"""`privaudit study secrets`: n-gram language models that DP-SGD trained on one secret, attacked.

Figure 3 of two papers. "Defending against Reconstruction Attacks with Renyi DP": how much more
probable a canary of ten digits becomes, against the Renyi bound. "Beyond the Worst Case": how often
a secret's last digit is guessed, where digits are not equally probable, against its bounds.
"""

import itertools
import math
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import binomtest

from flows.study.printed import RENYI, WORST_CASE, Ours, PrintedTable, Setting, printed_values
from flows.study.runner import Cell, Computed, Shown, Study
from flows.study.tables import (
    Axis,
    CellRow,
    binomial_error,
    chart,
    paragraphs,
    points_of,
    printed_at,
    table_of,
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
from workers.sources.tables.table_files import read_rows

SEED, DIGITS, DELTA, SIGNIFICANCE = 2202, 10, 1e-5, 0.05
LOG_PRIOR = -DIGITS * math.log(10.0)
UNIFORM, PASSWORD, NAME, NAME_STAND_IN = "uniform", "password", "name", "name (stand-in)"
SHARE_OF_MODEL, SHARE_FROM_PRIOR, SHARE_OF_POSTERIOR = "model", "model from prior", "posterior"
_FEW_MODELS = 30.0  # fewer decide a mean that is not to be trusted
_LEVEL = 1e-6
_TWO_SIDED = 1.96
_SUCCESS = PrintedTable(
    *(WORST_CASE, "Fig 3", "{quantity}", "success", "error", "{of}"),
    control="blind",
    form=".3f",
    missing="the names' prior needs GPT-2 and the Enron e-mails. With their probabilities: "
    "privaudit study secrets --names names.csv",
)
_LEAKED = [
    PrintedTable(RENYI, "Section 3.2", error="error"),
    PrintedTable(RENYI, "Fig 3 left"),
]
_RELATION = {Neighbors.REPLACE: "replacing", Neighbors.ADD_REMOVE: "adding"}
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
        InvalidInputError: it has no ten positive numbers there.
        NotEvaluableError: the table cannot be read.
    """
    frame = read_rows(uri)
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
    return Study(
        "Secrets",
        "Secrets in language models that DP-SGD trained",
        cells,
        compute,
        SEED,
        shown,
        settings_of(models, attacked),
        drawn=f"Scale {scale:g}, seed {SEED}.",
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
                "error": binomial_error(right / models, models),
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


def shown(_: int, found: Computed) -> Shown:
    """Return what there is to show of both parts."""
    leakage, guesses = found.part("leakage"), found.part("guesses")
    replacing = guesses.filter(neighbors=str(Neighbors.REPLACE))
    return Shown(
        sentences(leakage, guesses),
        [
            table_of(
                f"Leakage of {DIGITS} digits, in nats, clipping norm 1",
                leakage.filter(norm=1.0).sort("steps", "noise").to_dicts(),
                {
                    "noise": "{noise:g}",
                    "steps": "{steps}",
                    "leaked": lambda row: f"{row['leaked']:.2f}{'' if _sure(row) else ' *'}",
                    "95% interval": "{lower:.2f} to {upper:.2f}",
                    "bound": "{bound:.2f}",
                    "share": lambda row: f"{row['leaked'] / row['bound']:.0%}",
                },
            ),
            table_of(
                "How often the last digit is guessed, noise for replacing the secret",
                replacing.to_dicts(),
                {
                    "prior": "{prior}",
                    "epsilon": "{epsilon:g}",
                    "attack": "{attack}",
                    "right": "{success:.3f} ± {error:.3f}",
                    "blind": "{blind:.3f}",
                    "bound, their attempts": "{bound_attempts:.3f}",
                    "bound, any attack": "{bound:.3f}",
                    "bound, f-DP": lambda row: (
                        "-" if row["bound_tradeoff"] is None else f"{row['bound_tradeoff']:.3f}"
                    ),
                },
                text=("prior", "attack"),
            ),
        ],
        ours=beside(leakage, guesses),
        data={"leakage": leakage, "guesses": guesses},
        figures={"leakage": _leakage_chart(leakage), "guesses": _guesses_chart(replacing)},
    )


def beside(leakage: pl.DataFrame, guesses: pl.DataFrame) -> list[Ours]:
    """Return what the two papers print of these experiments, beside ours."""
    at = leakage.filter(noise=2.875, norm=1.0)
    one, two = (at.filter(steps=steps).row(0, named=True) for steps in (1, 2))
    below = [row for row in leakage.filter(norm=1.0).to_dicts() if _sure(row)]
    log_p1 = [
        {
            "quantity": "log p1 at sigma 2.875: mean",
            "value": one["leaked"] + LOG_PRIOR,
            "error": (one["upper"] - one["lower"]) / (2.0 * _TWO_SIDED),
            "remark": "after one step, as log of p1's mean; the mean of log p1 is "
            f"{one['mean_log']:.1f}",
        },
        {
            "quantity": "log p1 at sigma 2.875: standard deviation",
            "value": one["deviation"],
            "error": one["deviation"] / math.sqrt(2.0 * one["models"]),
            "remark": f"after one step; the number is not printed, two give {two['deviation']:.1f}",
        },
    ]
    most = {
        "quantity": "leakage over the Renyi bound, at most",
        "value": max(row["leaked"] / row["bound"] for row in below),
    }
    uniform = float(guesses.filter(prior=UNIFORM)["blind"][0])
    baseline: CellRow = {"quantity": "baseline, uniform canary", "success": uniform, "of": ""}
    guessed: list[CellRow] = [{**baseline, "form": ".2f", "exact": True}]
    starts_blank = "a model that starts without the prior does not know what is common"
    asked = guesses.filter(pl.col("attack") != SHARE_OF_POSTERIOR, epsilon=1.0)
    guessed += [
        {
            **row,
            "quantity": f"attack success, {row['prior']}",
            "of": f"{row['attack']}, noise for {_RELATION[Neighbors(row['neighbors'])]}",
            "remark": starts_blank if row["attack"] == SHARE_OF_MODEL else "",
        }
        for row in asked.to_dicts()
    ]
    return [
        *_LEAKED[0].beside(log_p1),
        *_LEAKED[1].beside([most]),
        *_SUCCESS.beside(guessed),
    ]


def settings_of(models: int, attacked: int) -> list[Setting]:
    """Return what the papers fix, beside what it is here."""
    leaked, guessed = "log p1", "attack success"
    return [
        Setting("digits of the canary", "10", f"{DIGITS}", leaked),
        Setting("models for each leakage", "10,000", f"{models:,}", leaked),
        Setting("learning rate, clipping norm", "0.5/sigma, 1", "0.5/sigma, 1", leaked),
        Setting("models for each success", "2,000", f"{attacked:,}", guessed),
        Setting("delta", "1e-05", f"{DELTA:g}", guessed),
        Setting("password's prior", "Zipf 1.1 over 10 digits", "Zipf 1.1 over 10 digits", guessed),
    ]


def sentences(leakage: pl.DataFrame, guesses: pl.DataFrame) -> list[str]:
    """Return what the study says in words, with its terms."""
    few = sum(not _sure(row) for row in leakage.to_dicts())
    above = leakage.filter(pl.col("lower") > pl.col("bound")).height
    exceeding = guesses.filter(pl.col("exceeds_p_value") <= _LEVEL).height
    norms = ", ".join(f"{norm:g}" for norm in leakage["norm"].unique().sort())
    below = (
        f"Leakage is below the Renyi bound in all {leakage.height} settings"
        if not above
        else f"LEAKAGE IS ABOVE THE RENYI BOUND in {above} of {leakage.height} settings"
    )
    guessed = (
        "No attack exceeds its bound"
        if not exceeding
        else f"{exceeding} of {guesses.height} attacks EXCEED THEIR BOUND"
    )
    adding = guesses.filter(neighbors=str(Neighbors.ADD_REMOVE), epsilon=1.0)
    last = guesses.filter(epsilon=guesses["epsilon"].max(), attack=SHARE_OF_POSTERIOR)
    gains = "; ".join(
        f"{row['prior']} {row['success']:.2f} against {row['blind']:.2f} blind at epsilon "
        f"{row['epsilon']:g}"
        for row in last.filter(neighbors=str(Neighbors.REPLACE)).to_dicts()
    )
    return paragraphs(f"""
    {leakage["models"][0]:,} models for each noise, number of steps and clipping norm ({norms}),
    learning rate 0.5/noise; {guesses["models"][0]:,} models for each prior and epsilon, delta
    {DELTA:g}; intervals by bootstrap at {1 - SIGNIFICANCE:.0%}; shares ± their standard errors.

    {below}; in {few} of them (* in the table) fewer than {_FEW_MODELS:g} models make up the mean,
    which then comes out too small.

    {guessed} ({guesses.height} attacks, exact binomial test at {_LEVEL:g}).

    The paper's accountant counts noise for adding a record. Its theorems are about replacing a
    secret, which takes twice the noise: at epsilon 1 for adding, epsilon for replacing is
    {adding["epsilon_replace"][0]:.2f}. The table has the noise for replacing, the CSV both.

    Prior times posterior, which the paper leaves open, is never far from the model that starts from
    the prior: {gains}.
    """)


def _leakage_chart(found: pl.DataFrame) -> Any:
    rows = [{**row, "panel": _steps(row["steps"])} for row in found.to_dicts()]
    usual = [row for row in rows if row["norm"] == 1.0]
    leaked, interval = "leaked, norm {norm:g}", {"leaked": ("lower", "upper")}
    mean = printed_values(RENYI, "Section 3.2")["log p1 at sigma 2.875: mean"].middle
    return chart(
        [
            *points_of(usual, "noise", {"bound": "Renyi bound"}, panel="{panel}"),
            *points_of(rows, "noise", {"leaked": leaked}, error=interval, panel="{panel}"),
            printed_at(2.875, mean - LOG_PRIOR, leaked.format(norm=1.0), _steps(1)),
        ],
        "Figure 3 (Renyi DP), left: what sampling gives away of ten digits",
        x=Axis("noise", powers=(0, 1)),
        y=Axis("log(p1 / p0)"),
        colors="red green blue orange",
        size=(200, 190),
    )


def _guesses_chart(found: pl.DataFrame) -> Any:
    rows = found.to_dicts()
    once = [row for row in rows if row["attack"] == SHARE_OF_POSTERIOR]
    limits = {"bound": "bound, any attack", "bound_tradeoff": "bound, f-DP", "blind": "blind guess"}
    guessed, error = {"success": "{attack}"}, {"success": "error"}
    said = printed_values(WORST_CASE, "Fig 3")
    return chart(
        [
            *points_of(once, "epsilon", limits, panel="{prior}"),
            *points_of(rows, "epsilon", guessed, error=error, panel="{prior}"),
            *(
                printed_at(1.0, said[f"attack success, {name}"].middle, SHARE_FROM_PRIOR, name)
                for name in (PASSWORD, NAME)
            ),
        ],
        "Figure 3 (Beyond the Worst Case): the last digit of a secret, guessed",
        x=Axis("epsilon", powers=(0, 1)),
        y=Axis("guessed right", domain=(0.0, 1.0)),
        colors="red orange grey pink green blue",
        size=(200, 190),
    )


def _sure(row: dict[str, Any]) -> bool:
    return bool(row["effective_models"] >= _FEW_MODELS)


def _steps(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"
