"""What `study secrets` shows: leakage below the Renyi bound, guesses below theirs."""

import math
import pathlib
from typing import Any

import altair as alt
import polars as pl
from rich.table import Table

from flows.study.cells import check_scale
from flows.study.drawing import BLUE, GREEN, GREY, ORANGE, RED, log_axis, styled, write_svg
from flows.study.printing import Written, published_table, titled_table, workers_here, write_study
from flows.study.secrets import (
    CLIPPING,
    DELTA,
    DIGITS,
    NAME,
    NAME_STAND_IN,
    PASSWORD,
    SEED,
    SHARE_FROM_PRIOR,
    SHARE_OF_MODEL,
    SHARE_OF_POSTERIOR,
    SIGNIFICANCE,
    UNIFORM,
    Findings,
    read_names,
    study_secrets,
)
from privcore.guarantees import Neighbors
from privcore.upper_bounds import Published
from workers.executors import on_ray

RENYI = "Defending against Reconstruction Attacks with Renyi DP"
WORST_CASE = "Beyond the Worst Case"
_FEW_MODELS = 30.0  # fewer decide a mean that is not to be trusted
_LEVEL = 1e-6
_ABOUT = 0.1  # nats, for a printed "about"
_ERRORS = 2.0  # standard errors within which two shares of 2,000 models are the same
_PRINTED_MODELS = 2_000
_RELATION = {Neighbors.REPLACE: "replacing", Neighbors.ADD_REMOVE: "adding"}


def run_secrets(output: pathlib.Path, *, scale: float, names: str | None = None) -> Findings:
    """Run the study on this machine's processors, with the prior of names in a table, if any.

    Raises:
        InvalidInputError: as `study_secrets` and `read_names`.
    """
    check_scale(scale)
    prior = None if names is None else read_names(names)
    with workers_here(on_ray) as executor:
        return study_secrets(output, scale=scale, executor=executor, names=prior)


def write_secrets(findings: Findings, output: pathlib.Path) -> Written:
    """Write the study's files; return its tables and findings."""
    tables = [
        leakage_table(findings.leakage),
        guesses_table(findings.guesses),
        published_table(published(findings), title="What the papers print, and ours"),
    ]
    files = write_files(output, findings)
    return write_study(
        tables,
        [*findings.resumed, *sentences(findings)],
        files,
        title="Secrets in language models that DP-SGD trained",
    )


def leakage_table(found: pl.DataFrame) -> Table:
    """Return Figure 3 (left) of Stock et al.: what leaks at each noise, and the bound."""
    table = titled_table(f"Leakage of {DIGITS} digits, in nats, clipping norm 1")
    for name in ("noise", "steps", "leaked", "95% interval", "bound", "share"):
        table.add_column(name, justify="right")
    for row in found.filter(norm=1.0).sort("steps", "noise").to_dicts():
        table.add_row(
            f"{row['noise']:g}",
            str(row["steps"]),
            f"{row['leaked']:.2f}{'' if row['effective_models'] >= _FEW_MODELS else ' *'}",
            f"{row['lower']:.2f} to {row['upper']:.2f}",
            f"{row['bound']:.2f}",
            f"{row['leaked'] / row['bound']:.0%}",
        )
    return table


def guesses_table(found: pl.DataFrame) -> Table:
    """Return Figure 3 of "Beyond the Worst Case": success of three attacks, and bounds."""
    table = titled_table("How often the last digit is guessed, noise for replacing the secret")
    names = ("prior", "epsilon", "blind", "model", "model\nfrom prior", "posterior")
    for name in (*names, "bound, their\nattempts", "bound, any\nattack", "bound,\nf-DP"):
        table.add_column(name, justify="right")
    rows = found.filter(neighbors=str(Neighbors.REPLACE))
    for (prior, epsilon), group in rows.group_by("prior", "epsilon", maintain_order=True):
        of = {row["attack"]: row for row in group.to_dicts()}
        best = of[SHARE_OF_POSTERIOR]
        tradeoff = best["bound_tradeoff"]
        table.add_row(
            str(prior),
            f"{epsilon:g}",
            f"{best['blind']:.3f}",
            *(
                f"{of[name]['success']:.3f}"
                for name in (SHARE_OF_MODEL, SHARE_FROM_PRIOR, SHARE_OF_POSTERIOR)
            ),
            f"{best['bound_attempts']:.3f}",
            f"{best['bound']:.3f}",
            "-" if tradeoff is None else f"{tradeoff:.3f}",
        )
    return table


def published(findings: Findings) -> list[Published]:
    """Return what the two papers print of these experiments, beside ours."""
    one = _leakage(findings, noise=2.875, steps=1)
    two = _leakage(findings, noise=2.875, steps=2)
    log_mean = one["leaked"] - DIGITS * math.log(10.0)
    below = findings.leakage.filter(
        pl.col("norm") == 1.0, pl.col("effective_models") >= _FEW_MODELS
    )
    shares = (below["leaked"] / below["bound"]).to_numpy()
    least, most = float(shares.min()), float(shares.max())
    return [
        Published(
            RENYI,
            "3.2",
            "log p1 at sigma 2.875: mean (about)",
            "-22.5",
            f"{log_mean:.1f}",
            agrees=abs(log_mean + 22.5) <= _ABOUT,
            remark=f"after one step, as log of p1's mean; the mean of log p1 is "
            f"{one['mean_log']:.1f}",
        ),
        Published(
            RENYI,
            "3.2",
            "log p1 at sigma 2.875: standard deviation (about)",
            "1.5",
            f"{one['deviation']:.1f}",
            agrees=round(one["deviation"], 1) == 1.5,
            remark=f"after one step; the number of steps is not printed, two give "
            f"{two['deviation']:.1f}",
        ),
        Published(
            RENYI,
            "Fig 3 left",
            "leakage of 10,000 models below L(p0), and close to it",
            "below, tight",
            f"{least:.0%} to {most:.0%} of it",
            agrees=bool((below["lower"] < below["bound"]).all()) and most >= 0.5,
            remark="closest with little noise and several steps; sampling from the model is not "
            "the attack that the bound fears",
        ),
        *_guessed(findings),
        _named(findings),
    ]


def _named(findings: Findings) -> Published:
    """Return the printed success for names beside ours, where their prior was given."""
    quantity = "attack success, PII (scaled to 10 values), epsilon 1"
    rows = findings.guesses.filter(
        prior=NAME, epsilon=1.0, neighbors=str(Neighbors.ADD_REMOVE), attack=SHARE_FROM_PRIOR
    )
    if rows.is_empty():
        remark = (
            "the names' prior needs GPT-2 and the Enron e-mails; the stand-in shows the shape. "
            "With their probabilities: privaudit study secrets --names names.csv"
        )
        return Published(WORST_CASE, "Fig 3", quantity, "0.525", "", None, remark)
    row = rows.row(0, named=True)
    return Published(
        WORST_CASE,
        "Fig 3",
        f"{quantity}: {SHARE_FROM_PRIOR}, noise for {_RELATION[Neighbors.ADD_REMOVE]}",
        "0.525",
        f"{row['success']:.3f}",
        agrees=_same_share(row["success"], 0.525, row["models"]),
        remark=f"a blind guess is right with {row['blind']:.3f}",
    )


def _guessed(findings: Findings) -> list[Published]:
    """Return the printed successes at epsilon 1 beside ours, of models with and without a prior."""
    blind = findings.guesses.filter(prior=UNIFORM)["blind"][0]
    rows = [
        Published(
            WORST_CASE,
            "Fig 3",
            "baseline, uniform canary",
            "0.10",
            f"{blind:.2f}",
            agrees=abs(blind - 0.10) < 1e-9,
        )
    ]
    at_one = findings.guesses.filter(prior=PASSWORD, epsilon=1.0)
    for neighbors, relation in _RELATION.items():
        for attack in (SHARE_OF_MODEL, SHARE_FROM_PRIOR):
            row = at_one.filter(neighbors=str(neighbors), attack=attack).row(0, named=True)
            remark = (
                "a model that starts without the prior does not know which digits are common"
                if attack == SHARE_OF_MODEL
                else f"a blind guess is right with {row['blind']:.3f}"
            )
            rows.append(
                Published(
                    WORST_CASE,
                    "Fig 3",
                    "attack success, password (scaled to 10 digits), epsilon 1: "
                    f"{attack}, noise for {relation}",
                    "0.380",
                    f"{row['success']:.3f}",
                    agrees=_same_share(row["success"], 0.380, row["models"]),
                    remark=remark,
                )
            )
    return rows


def _same_share(ours: float, printed: float, models: int) -> bool:
    spread = printed * (1.0 - printed) * (1.0 / models + 1.0 / _PRINTED_MODELS)
    return abs(ours - printed) <= _ERRORS * math.sqrt(spread)


def sentences(findings: Findings) -> list[str]:
    """Return what the study says in words, with its seed and its terms."""
    leakage, guesses = findings.leakage, findings.guesses
    models, attacked = int(leakage["models"][0]), int(guesses["models"][0])
    few = leakage.filter(pl.col("effective_models") < _FEW_MODELS).height
    above = leakage.filter(pl.col("lower") > pl.col("bound")).height
    exceeding = guesses.filter(pl.col("exceeds_p_value") <= _LEVEL).height
    how = (
        f"Scale {findings.scale:g}, seed {SEED}; {models:,} models for each noise, number of steps "
        f"and clipping norm ({', '.join(f'{norm:g}' for norm in CLIPPING)}), learning rate "
        f"0.5/noise; {attacked:,} models for each prior and epsilon, delta {DELTA:g}; intervals by "
        f"bootstrap at {1 - SIGNIFICANCE:.0%}."
    )
    below = (
        f"Leakage is below the Renyi bound in all {leakage.height} settings"
        if not above
        else f"LEAKAGE IS ABOVE THE RENYI BOUND in {above} of {leakage.height} settings"
    )
    trust = (
        f"; in {few} of them (* in the table) fewer than {_FEW_MODELS:g} models make up the mean, "
        "which then comes out too small."
    )
    guessed = (
        f"No attack exceeds its bound ({guesses.height} attacks, exact binomial test at "
        f"{_LEVEL:g})."
        if not exceeding
        else f"{exceeding} of {guesses.height} attacks EXCEED THEIR BOUND (exact binomial test at "
        f"{_LEVEL:g})."
    )
    relation = (
        "The paper's accountant counts noise for adding a record. Its theorems are about replacing "
        "a secret, which takes twice the noise: at epsilon 1 for adding, epsilon for replacing is "
        f"{_replaced(guesses):.2f}. The table has the noise for replacing, the CSV both."
    )
    posterior = (
        "Prior times posterior, which the paper leaves open, is never far from the model that "
        "starts from the prior: " + _posterior_gain(guesses) + "."
    )
    return [how, below + trust, guessed, relation, posterior]


def _replaced(guesses: pl.DataFrame) -> float:
    rows = guesses.filter(neighbors=str(Neighbors.ADD_REMOVE), epsilon=1.0)
    return float(rows["epsilon_replace"][0])


def _posterior_gain(guesses: pl.DataFrame) -> str:
    """Return at the largest epsilon what the posterior adds to a blind guess, by prior."""
    last = guesses.filter(
        neighbors=str(Neighbors.REPLACE),
        epsilon=guesses["epsilon"].max(),
        attack=SHARE_OF_POSTERIOR,
    )
    return "; ".join(
        f"{row['prior']} {row['success']:.2f} against {row['blind']:.2f} blind at epsilon "
        f"{row['epsilon']:g}"
        for row in last.to_dicts()
    )


def write_files(output: pathlib.Path, findings: Findings) -> list[pathlib.Path]:
    """Write all figures (CSV) and the two drawings (SVG)."""
    files = []
    for name, data, chart in (
        ("leakage", findings.leakage, leakage_chart(findings.leakage)),
        ("guesses", findings.guesses, guesses_chart(findings.guesses)),
    ):
        files += [output / f"{name}.csv", output / f"{name}.svg"]
        data.with_columns(scale=pl.lit(findings.scale), seed=pl.lit(SEED)).write_csv(files[-2])
        write_svg(chart, files[-1])
    return files


def leakage_chart(found: pl.DataFrame) -> Any:
    """Return leakage and bound against noise, a panel for each number of steps."""
    rows = [
        {
            "noise": row["noise"],
            "panel": _steps(row["steps"]),
            "nats": nats,
            "series": series,
        }
        for row in found.to_dicts()
        for nats, series in (
            (row["leaked"], f"leaked, norm {row['norm']:g}"),
            (row["bound"], "Renyi bound"),
        )
        if row["norm"] == 1.0 or (series != "Renyi bound" and row["norm"] in CLIPPING)
    ]
    order = ["Renyi bound", *(f"leaked, norm {norm:g}" for norm in CLIPPING)]
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True, strokeWidth=1.75)
        .encode(
            x=alt.X("noise:Q", scale=alt.Scale(type="log"), axis=log_axis("noise", powers=(0, 1))),
            y=alt.Y("nats:Q", title="log(p1 / p0)"),
            color=alt.Color(
                "series:N",
                title=None,
                sort=order,
                scale=alt.Scale(domain=order, range=[RED, GREEN, BLUE, ORANGE]),
            ),
        )
        .properties(width=200, height=190)
    )
    facet = alt.Facet("panel:N", title=None)
    return styled(lines.facet(facet=facet, columns=3), "What sampling gives away of ten digits")


def _steps(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"


def guesses_chart(found: pl.DataFrame) -> Any:
    """Return success and bounds against epsilon, a panel for each prior."""
    rows = []
    for row in found.filter(neighbors=str(Neighbors.REPLACE)).to_dicts():
        at = {"epsilon": row["epsilon"], "panel": row["prior"]}
        rows.append({**at, "share": row["success"], "series": row["attack"]})
        if row["attack"] == SHARE_OF_POSTERIOR:
            rows.append({**at, "share": row["blind"], "series": "blind guess"})
            rows.append({**at, "share": row["bound"], "series": "bound, any attack"})
            if row["bound_tradeoff"] is not None:
                rows.append({**at, "share": row["bound_tradeoff"], "series": "bound, f-DP"})
    colors = {
        "bound, any attack": RED,
        "bound, f-DP": ORANGE,
        SHARE_OF_POSTERIOR: BLUE,
        SHARE_FROM_PRIOR: GREEN,
        SHARE_OF_MODEL: "#cc79a7",
        "blind guess": GREY,
    }
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True, strokeWidth=1.75)
        .encode(
            x=alt.X(
                "epsilon:Q", scale=alt.Scale(type="log"), axis=log_axis("epsilon", powers=(0, 1))
            ),
            y=alt.Y("share:Q", title="guessed right", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "series:N",
                title=None,
                sort=list(colors),
                scale=alt.Scale(domain=list(colors), range=list(colors.values())),
            ),
        )
        .properties(width=200, height=190)
    )
    facet = alt.Facet("panel:N", title=None, sort=[UNIFORM, PASSWORD, NAME, NAME_STAND_IN])
    return styled(lines.facet(facet=facet, columns=3), "The last digit of a secret, guessed")


def _leakage(findings: Findings, *, noise: float, steps: int) -> dict[str, Any]:
    rows = findings.leakage.filter(noise=noise, steps=steps, norm=1.0)
    return rows.row(0, named=True)
