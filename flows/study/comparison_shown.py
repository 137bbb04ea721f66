"""Output of `study comparison`: which attack proves most on the same models."""

import polars as pl

from flows.study.drawing import BLUE, GREEN, ORANGE, RED, Axis, Panels, around, chart
from flows.study.printed import FIGURE_1, FIGURE_5, TITLE
from flows.study.runner import Shown
from flows.study.tables import paragraphs, table_of
from flows.study.three_attacks import (
    DELTA,
    LABELS,
    MEMBERSHIP,
    PAIRS,
    REPETITIONS,
    SEED,
    SIGNIFICANCE,
    figure_of,
)
from privcore.upper_bounds import Published

PARAMETERS = {"iterations": 100, "learning_rate": 0.4, "depth": 8}
DATA = {"clicks": "synthetic clicks", "flights": "flights"}
_OTHER = {"clicks": "synthetic data", "flights": "other data"}


def shown(attacks: pl.DataFrame, scale: float) -> Shown:
    """Return what there is to show of all attacks."""
    table = table_of(
        "Three attacks on the same models",
        attacks.to_dicts(),
        {
            "data": "{data}",
            "epsilon": "{epsilon}",
            "attack": "{attack}",
            "records": "{records:,}",
            "right": "{accuracy:.1%}",
            "paper's": figure_of,
            "lower": "{epsilon_lower:.2f}",
        },
        text=("data", "attack"),
    )
    order = [LABELS, PAIRS, *MEMBERSHIP]
    drawing = chart(
        [
            {"x": row["epsilon"], "panel": row["data"], "series": row["attack"],
             **around(row["epsilon_paper"], row["epsilon_paper_deviation"])}
            for row in attacks.to_dicts()
        ],
        "Three attacks on the same models",
        x=Axis("declared epsilon", order=["1", "2", "4", "8", "inf"]),
        y=Axis("paper's figure ± deviation"),
        colors=dict(zip(order, (RED, ORANGE, BLUE, GREEN), strict=True)),
        panels=Panels(list(DATA.values()), (260, 220)),
    )  # fmt: skip
    return Shown(
        sentences(attacks, scale),
        [table],
        published(attacks),
        {"comparison": attacks.with_columns(scale=pl.lit(scale), seed=pl.lit(SEED))},
        {"comparison": drawing},
    )


def published(attacks: pl.DataFrame) -> list[Published]:
    """Return what the paper says of Figures 1 and 5 beside ours.

    The paper's data are images, clicks and texts. Ours are others, so no verdict is given.
    """
    rows = []
    for name, data in DATA.items():
        ours = {row["attack"]: row for row in attacks.filter(data=data, epsilon="inf").to_dicts()}
        labels, loss, rmia = (figure_of(ours[attack]) for attack in (PAIRS, *MEMBERSHIP))
        for place, statement, printed, figures in (
            ("Fig 1", FIGURE_1, "similar", f"{labels}; {loss}"),
            ("Fig 5", FIGURE_5, "slightly above", f"{rmia}; {labels}, {loss}"),
        ):
            quantity = f"{statement}: {data}, epsilon inf"
            rows.append(Published(TITLE, place, quantity, printed, figures, None, _OTHER[name]))
    return rows


def strongest(attacks: pl.DataFrame, data: str) -> int:
    """Return at how many epsilons label inference, with as many records, is at least even."""
    count = 0
    for _, rows in attacks.filter(data=data).group_by("epsilon"):
        figures = dict(rows.select("attack", "epsilon_paper").rows())
        count += figures[PAIRS] >= max(figures[name] for name in MEMBERSHIP)
    return count


def sentences(attacks: pl.DataFrame, scale: float) -> list[str]:
    """Return what the study says in words, with its seeds and its terms."""
    setting = ", ".join(f"{name} {value}" for name, value in PARAMETERS.items())
    epsilons = attacks["epsilon"].n_unique()
    order = "; ".join(
        f"{data}: at {strongest(attacks, data)} of {epsilons} epsilons" for data in DATA.values()
    )
    return paragraphs(f"""
    Scale {scale:g}, seed {SEED}; CatBoost with {setting}; labels by randomized response at the
    epsilon shown. Figures at delta {DELTA:g} over {REPETITIONS} repetitions: the paper's (Gaussian,
    best of 1..100%, not corrected) and the corrected lower bound at significance {SIGNIFICANCE:g}.
    The clicks are synthetic, not Criteo's.

    Label inference speaks of replacing a label, membership inference of replacing a whole record,
    which randomized response on labels does not promise to hide: features are open.

    Label inference proves at least as much as both others on as many records: {order}.
    """)
