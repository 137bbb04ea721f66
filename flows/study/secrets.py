"""`privaudit study secrets`: n-gram language models that DP-SGD trained on one secret, attacked.

Figure 3 of two papers. "Defending against Reconstruction Attacks with Renyi DP": how much more
probable a canary of ten digits becomes, against the Renyi bound. "Beyond the Worst Case": how often
a secret's last digit is guessed, where digits are not equally probable, against its bounds.
"""

import itertools
import math
from dataclasses import asdict, astuple
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import binomtest

from flows.study import tables
from flows.study.printed import RENYI, WORST_CASE, Ours, Setting, beside, printed_values
from flows.study.runner import Cell, Computed, Shown, Study
from flows.study.tables import Axis, CellRow, binomial_error, points_of, printed_at, table_of
from privcore import attacks, upper_bounds
from privcore.exceptions import InvalidInputError
from privcore.guarantees import Gaussian, Neighbors
from privcore.mechanisms import NoisySgd, train_secrets
from workers.sources.tables.table_files import read_rows

SEED, DIGITS, DELTA, SIGNIFICANCE = 2202, 10, 1e-5, 0.05
LOG_PRIOR = -DIGITS * math.log(10.0)
UNIFORM, PASSWORD, NAME, NAME_STAND_IN = "uniform", "password", "name", "name (stand-in)"
SHARE_OF_MODEL, SHARE_FROM_PRIOR, SHARE_OF_POSTERIOR = "model", "model from prior", "posterior"
_FEW_MODELS, _LEVEL, _TWO_SIDED = 30.0, 1e-6, 1.96  # a mean of fewer models is not to be trusted
_MISSING = (
    "the names' prior needs GPT-2 and the Enron e-mails. With their probabilities: privaudit study "
    "secrets --names names.csv"
)
_RELATION = {Neighbors.REPLACE: "replacing", Neighbors.ADD_REMOVE: "adding"}
MODELS, ATTACKED, OUTCOMES = 10_000, 2_000, 10
NOISE, EPSILONS = (0.5, 1.0, 2.0, 2.875, 5.0, 10.0), (0.5, 1.0, 2.0, 4.0, 10.0)
STEPS, CLIPPING = (1, 2, 5), (0.3, 1.0, 2.0)


def priors(names: NDArray[np.float64] | None = None) -> dict[str, NDArray[np.float64]]:
    """Return each prior over ten outcomes, from the most probable on.

    The paper's prior of `names` needs GPT-2 and e-mails; where it is not given, Zipf's law with
    exponent 1.5 stands in, whose most probable value has about the printed success.
    """
    ranks, uniform = np.arange(1, OUTCOMES + 1), float(upper_bounds.uniform_prior(1))
    password, stand_in = (
        upper_bounds.zipf_prior(ranks, exponent=exponent, size=OUTCOMES) for exponent in (1.1, 1.5)
    )
    last = {NAME_STAND_IN: stand_in} if names is None else {NAME: names}
    return {UNIFORM: np.full(OUTCOMES, uniform), PASSWORD: password, **last}


def _read_names(uri: str) -> NDArray[np.float64]:
    """Return the ten largest of a table's column `probability`, scaled so that they sum to one."""
    frame, rule = read_rows(uri), "each probability is a number of at least 0"
    if "probability" not in frame.columns or not frame["probability"].dtype.is_numeric():
        rule = "the file must have a column of numbers named 'probability'"
        raise InvalidInputError("--names", uri, rule)
    given = frame["probability"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    if not np.all(np.isfinite(given) & (given >= 0.0)):
        raise InvalidInputError("--names", uri, rule)
    likely: NDArray[np.float64] = np.sort(given)[::-1][:OUTCOMES]
    if len(likely) < OUTCOMES or likely[-1] == 0.0:
        raise InvalidInputError("--names", uri, "it has at least ten names of probability above 0")
    return np.asarray(likely / likely.sum())


def study(*, scale: float, names: str | None = None) -> Study:
    """Return the study: models trained on secrets, and attacked.

    Raises:
        InvalidInputError: the table of names has no ten positive numbers.
        NotEvaluableError: it cannot be read.
    """
    models, attacked = (max(200, round(scale * many)) for many in (MODELS, ATTACKED))
    cells = []
    for noise, steps, norm in itertools.product(NOISE, STEPS, CLIPPING):
        given = {"part": "leakage", "noise": noise, "steps": steps, "norm": norm, "models": models}
        cells.append(Cell(f"leakage-{noise:g}-{steps}-{norm:g}", given))
    known = priors(None if names is None else _read_names(names))
    for name, epsilon, neighbors in itertools.product(known, EPSILONS, _RELATION):
        given = {"part": "guesses", "prior": name, "epsilon": epsilon, "neighbors": str(neighbors)}
        given |= {"models": attacked, "probabilities": known[name].tolist()}
        cells.append(Cell(f"guesses-{name.split()[0]}-{epsilon:g}-{neighbors}", given))
    return Study(
        "Secrets",
        "Secrets in language models that DP-SGD trained",
        cells,
        _compute,
        SEED,
        _shown,
        settings_of(models, attacked),
        drawn=f"Scale {scale:g}, seed {SEED}.",
    )


def _compute(seed: int, cell: Cell) -> list[CellRow]:
    given = dict(cell.parameters)
    part, random = given.pop("part"), attacks.generator(seed, cell.name)
    rows = _leakage(random, **given) if part == "leakage" else _guesses(random, **given)
    given.pop("probabilities", None)
    return [{"part": part, **given, **row} for row in rows]


def _leakage(
    random: np.random.Generator, *, noise: float, steps: int, norm: float, models: int
) -> list[CellRow]:
    """Train models on one canary; the noise and learning rate are those of section 4.1."""
    canary = np.broadcast_to(random.integers(0, 10, DIGITS), (models, DIGITS))
    training = NoisySgd(noise, 0.5 / noise, norm, steps)
    parameters = train_secrets(canary, training=training, generator=random)
    logs = attacks.secret_log_probability(parameters, canary)
    found = attacks.secret_leakage(
        logs, log_prior=LOG_PRIOR, generator=random, significance=SIGNIFICANCE
    )
    run = training.accounted_as()
    secret = -LOG_PRIOR / math.log(2.0)
    bits = upper_bounds.curve_leakage(secret, divergence=lambda order: float(run.renyi(order)))
    first = {name: getattr(found, name) for name in ("leaked", "lower", "upper")}
    return [first | {"bound": float(bits) * math.log(2.0)} | asdict(found)]


def _guesses(
    random: np.random.Generator,
    *,
    probabilities: list[float],
    prior: str,
    epsilon: float,
    neighbors: str,
    models: int,
) -> list[CellRow]:
    """Train models each on a digit drawn from the prior, and guess it in three ways."""
    chances, relation = np.array(probabilities), Neighbors(neighbors)
    training = attacks.tuned_training(epsilon, delta=DELTA, neighbors=relation, generator=random)
    digits = random.choice(10, (models, 1), p=chances)
    blank, begun = (
        train_secrets(digits, training=training, generator=random, **start)[:, 0]
        for start in ({}, {"start": np.log(chances)})
    )
    guesses = {
        SHARE_OF_MODEL: attacks.guess_digit(blank),
        SHARE_FROM_PRIOR: attacks.guess_digit(begun),
        SHARE_OF_POSTERIOR: attacks.guess_digit_with_prior(blank, prior=chances, training=training),
    }
    replacing = training.accounted_as(Neighbors.REPLACE)
    replaced, secret = replacing.epsilon(DELTA), Gaussian(1.0 / replacing.noise_multiplier)
    tradeoff = float(upper_bounds.tradeoff_success_bound(10, guarantee=secret))
    trained = dict(zip(("noise", "learning_rate", "norm", "steps"), astuple(training), strict=True))
    blind, rows = float(chances.max()), []
    for attack, guess in guesses.items():
        right = int(np.sum(guess == digits[:, 0]))
        attempts = upper_bounds.success_bound(chances[guess], epsilon=replaced, delta=DELTA)
        bounds = {
            "bound_attempts": float(attempts.mean()),
            "bound": float(upper_bounds.success_bound(blind, epsilon=replaced, delta=DELTA)),
            "bound_tradeoff": tradeoff if prior == UNIFORM else None,
        }
        least = min(bound for bound in bounds.values() if bound is not None)
        success = {"attack": attack, "right": right, "success": right / models}
        success |= {"error": binomial_error(right / models, models), "blind": blind}
        exceeds = binomtest(right, models, least, alternative="greater").pvalue
        found = {"exceeds_p_value": exceeds, "epsilon_replace": replaced}
        rows.append(success | bounds | found | trained)
    return rows


def _shown(_: int, found: Computed) -> Shown:
    leakage, guesses = found.part("leakage"), found.part("guesses")
    replacing = guesses.filter(neighbors=str(Neighbors.REPLACE))
    leaks = leakage.filter(norm=1.0).sort("steps", "noise").to_dicts()
    leaks = [
        {**row, "few": "" if _sure(row) else " *", "share": row["leaked"] / row["bound"]}
        for row in leaks
    ]
    guessed = [
        {**row, "f_dp": "-" if (most := row["bound_tradeoff"]) is None else f"{most:.3f}"}
        for row in replacing.to_dicts()
    ]
    return Shown(
        sentences(leakage, guesses),
        [
            table_of(
                f"Leakage of {DIGITS} digits, in nats, clipping norm 1",
                leaks,
                "noise {noise:g} | steps {steps} | leaked {leaked:.2f}{few}"
                " | 95% interval {lower:.2f} to {upper:.2f} | bound {bound:.2f}"
                " | share {share:.0%}",
            ),
            table_of(
                "How often the last digit is guessed, noise for replacing the secret",
                guessed,
                "prior {prior} | epsilon {epsilon:g} | attack {attack}"
                " | right {success:.3f} ± {error:.3f} | blind {blind:.3f}"
                " | bound, their attempts {bound_attempts:.3f} | bound, any attack {bound:.3f}"
                " | bound, f-DP {f_dp}",
                text=("prior", "attack"),
            ),
        ],
        ours=_ours(leakage, guesses),
        data={"leakage": leakage, "guesses": guesses},
        figures={"leakage": _leakage_chart(leakage), "guesses": _guesses_chart(replacing)},
    )


def _ours(leakage: pl.DataFrame, guesses: pl.DataFrame) -> list[Ours]:
    """Return what the two papers print of these experiments, beside ours."""
    at = leakage.filter(noise=2.875, norm=1.0)
    one, two = (at.filter(steps=steps).row(0, named=True) for steps in (1, 2))
    below = [row for row in leakage.filter(norm=1.0).to_dicts() if _sure(row)]
    spread, of_print = one["deviation"], "log p1 at sigma 2.875: "
    leaked = [
        ("Section 3.2", f"{of_print}mean", one["leaked"] + LOG_PRIOR,
         (one["upper"] - one["lower"]) / (2 * _TWO_SIDED),
         f"after one step, as log of p1's mean; the mean of log p1 is {one['mean_log']:.1f}"),
        ("Section 3.2", f"{of_print}standard deviation", spread,
         spread / math.sqrt(2 * one["models"]),
         f"after one step; the number is not printed, two give {two['deviation']:.1f}"),
        ("Fig 3 left", "leakage over the Renyi bound, at most",
         max(row["leaked"] / row["bound"] for row in below)),
    ]  # fmt: skip
    names = ("place", "quantity", "value", "error", "remark")
    rows = [dict(zip(names, row, strict=False)) for row in leaked]
    blind = float(guesses.filter(prior=UNIFORM)["blind"][0])
    baseline: CellRow = {"place": "Fig 3", "quantity": "baseline, uniform canary", "value": blind}
    starts_blank = "a model that starts without the prior does not know what is common"
    guessed = [baseline | {"form": ".2f", "exact": True}] + [
        {
            "place": "Fig 3",
            "quantity": f"attack success, {row['prior']}",
            "of": f"{row['attack']}, noise for {_RELATION[Neighbors(row['neighbors'])]}",
            "value": row["success"],
            "error": row["error"],
            "of_control": row["blind"],
            "form": ".3f",
            "remark": starts_blank if row["attack"] == SHARE_OF_MODEL else "",
        }
        for row in guesses.filter(pl.col("attack") != SHARE_OF_POSTERIOR, epsilon=1.0).to_dicts()
    ]
    renyi = beside(RENYI, ("Section 3.2", "Fig 3 left"), rows)
    return renyi + beside(WORST_CASE, ["Fig 3"], guessed, missing=_MISSING)


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
    norms = ", ".join(f"{norm:g}" for norm in leakage["norm"].unique().sort())
    below = f"Leakage is below the Renyi bound in all {leakage.height} settings"
    if above := leakage.filter(pl.col("lower") > pl.col("bound")).height:
        below = f"LEAKAGE IS ABOVE THE RENYI BOUND in {above} of {leakage.height} settings"
    guessed = "No attack exceeds its bound"
    if exceeding := guesses.filter(pl.col("exceeds_p_value") <= _LEVEL).height:
        guessed = f"{exceeding} of {guesses.height} attacks EXCEED THEIR BOUND"
    adding = guesses.filter(neighbors=str(Neighbors.ADD_REMOVE), epsilon=1.0)
    most = {"epsilon": guesses["epsilon"].max(), "neighbors": str(Neighbors.REPLACE)}
    last = guesses.filter(attack=SHARE_OF_POSTERIOR, **most)
    gains = "; ".join(
        f"{row['prior']} {row['success']:.2f} against {row['blind']:.2f} blind at epsilon "
        f"{row['epsilon']:g}"
        for row in last.to_dicts()
    )
    return tables.paragraphs(f"""
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
    rows = [{**row, "s": "s"[: row["steps"] - 1]} for row in found.to_dicts()]
    usual = [row for row in rows if row["norm"] == 1.0]
    leaked, interval = "leaked, norm {norm:g}", {"leaked": ("lower", "upper")}
    mean = printed_values(RENYI, "Section 3.2")["log p1 at sigma 2.875: mean"].middle
    return tables.chart(
        [
            *points_of(usual, "noise", {"bound": "Renyi bound"}, panel="{steps} step{s}"),
            *points_of(rows, "noise", {"leaked": leaked}, error=interval, panel="{steps} step{s}"),
            printed_at(2.875, mean - LOG_PRIOR, leaked.format(norm=1.0), "1 step"),
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
    return tables.chart(
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
