"""Findings of `privaudit memorization`: the training sequences that a model gives away.

Figure 4 and Table 1 of "Defending against Reconstruction Attacks with Renyi DP", on your sequences.
"""

import dataclasses
import math
import pathlib
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.progress import announce
from flows.study.runner import Shown, Written, write_shown
from flows.study.tables import COLORS, Axis, StudyTable, chart, points_of, styled, table_of
from privcore.exceptions import InvalidInputError
from privcore.guarantees import DpSgd
from privcore.upper_bounds import curve_leakage
from workers.executors import Executor
from workers.memorization.scan import (
    HOLDOUT_ARM,
    LIKELY_EDGES,
    LISTED,
    LOSS_EDGES,
    TRAIN_ARM,
    MemorizationPass,
    MemorizationTally,
    scan_sequences,
)

_SHOWN = 20
_SCANNED = "Sequences"


@dataclass(frozen=True, slots=True)
class Memorization:
    """Result of the search."""

    tally: MemorizationTally
    at_risk: pl.DataFrame
    shared: MemorizationPass


def run_memorization(
    rows: pl.DataFrame,
    shared: MemorizationPass,
    *,
    max_bad_records: int,
    training: DpSgd | None,
    executor: Executor,
) -> Memorization:
    """Ask both models about every sequence of a table, on the executor's workers.

    Raises:
        InvalidInputError: the table has no such sequences.
        NotEvaluableError: too many of them cannot be read.
    """
    announce(_SCANNED, 0, rows.height)
    tally = scan_sequences(
        rows, shared, executor, on_done=lambda done: announce(_SCANNED, done, rows.height)
    )
    tally.bad.check(max_bad_records)
    if not tally.sequences[TRAIN_ARM]:
        rule = "a row of the table has the split 'train' and a sequence"
        raise InvalidInputError("split", "", rule)
    return Memorization(tally, _at_risk(tally, training), shared)


def write_memorization(found: Memorization, output: pathlib.Path) -> Written:
    """Write the files; return the risky sequences' places and what was found."""
    losses = loss_histogram(found.tally)
    shown = Shown(
        sentences(found),
        [at_risk_table(found.at_risk)],
        data={"at_risk": found.at_risk, "calibrated_loss": losses},
        figures={"calibrated_loss": loss_chart(losses), "at_risk": reach_chart(found)},
    )
    return write_shown(
        shown, output, title="Which training sequences a language model would give away"
    )


def _at_risk(tally: MemorizationTally, training: DpSgd | None) -> pl.DataFrame:
    """Return the listed sequences with their p-values, and the bound where it is known."""

    def promised(bits: float) -> float | None:
        """Return how many bits of a secret stay secret at least, from how many it has."""
        if training is None:
            return None
        return bits - float(curve_leakage(bits, divergence=lambda at: float(training.renyi(at))))

    rows = [
        {
            **dataclasses.asdict(one),
            "p_value": tally.p_value(one.calibrated_loss),
            "promised_bits": promised(one.reference_bits),
        }
        for one in tally.at_risk
    ]
    numbers = ("log10_probability", "calibrated_loss", "p_value", "secrecy_bits")
    more = ("reference_bits", "promised_bits")
    return pl.DataFrame(rows, schema={"row": pl.Int64} | dict.fromkeys(numbers + more, pl.Float64))


def at_risk_table(at_risk: pl.DataFrame) -> StudyTable:
    """Return where the sequences are that are generated easily and known best."""
    tries = pl.max_horizontal(0.0, -pl.col("log10_probability"))
    columns = (
        "row {row} | tries 10^{tries:.1f} | calibrated loss {calibrated_loss:.2f}"
        " | p-value {p_value:.2g} | secrecy, bits {secrecy_bits:.1f}"
        " | reference, bits {reference_bits:.1f}"
    )
    if at_risk["promised_bits"].null_count() < at_risk.height:
        columns += " | promised, bits {promised_bits:.1f}"
    rows = at_risk.head(_SHOWN).with_columns(tries=tries).to_dicts()
    return table_of("Training sequences at risk", rows, columns)


def sentences(found: Memorization) -> list[str]:
    """Return what was found in words, with its terms."""
    tally, shared = found.tally, found.shared
    train, holdout = (int(count) for count in tally.sequences)
    temperatures = ", ".join(f"{value:g}" for value in shared.sampling.temperatures)
    top = "all tokens" if shared.sampling.top is None else f"the top {shared.sampling.top} tokens"
    how = (
        f"{train:,} training and {holdout:,} holdout sequences, {tally.tokens:,} tokens; target "
        f"{shared.target.name} ({shared.target.digest[:12]}), reference {shared.reference.name} "
        f"({shared.reference.digest[:12]}); sampled from {top} at temperature {temperatures}."
    )
    listed = (
        f"{tally.within_reach:,} training sequences would be generated within 10^{shared.reach:g} "
        f"tries; the {min(LISTED, tally.within_reach):,} of them that the target knows best are "
        "listed, by their places alone."
    )
    if not holdout:
        known = "No holdout sequences: no p-value can be below 1."
    else:
        low = int((found.at_risk["p_value"] <= 0.01).sum())
        known = (
            f"{low:,} of them are known better than 99% of holdout sequences, which training never "
            "saw. A common sequence is generated often too: what marks a memory is a low "
            "calibrated loss."
        )
    silence = (
        "A sequence that is not listed may be found by another attack: this one samples from the "
        "model."
    )
    bad = tally.bad.summary(tally.bad.total)
    return [how, listed, known, silence, *([bad] if bad else [])]


def loss_histogram(tally: MemorizationTally) -> pl.DataFrame:
    """Return how many sequences of each arm have a calibrated loss in each bin of half a nat."""
    arms = {"training": TRAIN_ARM, "holdout": HOLDOUT_ARM}
    return pl.concat(
        pl.DataFrame(
            {
                "arm": arm,
                "from": [-math.inf, *LOSS_EDGES],
                "to": [*LOSS_EDGES, math.inf],
                "sequences": tally.losses(index),
            }
        )
        for arm, index in arms.items()
    )


def loss_chart(losses: pl.DataFrame) -> Any:
    """Return Figure 4 (left): calibrated losses of training and holdout sequences."""
    inner = losses.filter(pl.col("from").is_finite(), pl.col("to").is_finite())
    share = pl.col("sequences") / pl.col("sequences").sum().over("arm").clip(1)
    shares = inner.with_columns(share=share).filter(pl.col("sequences") > 0)
    return chart(
        points_of(shares.to_dicts(), "from", {"share": "{arm}"}),
        "How much better the target knows each sequence",
        x=Axis("calibrated loss, nats"),
        y=Axis("share of sequences"),
        colors="red grey",
        marks="points",
    )


def reach_chart(found: Memorization) -> Any:
    """Return Figure 4 (right): calibrated loss against the probability of being generated."""
    counts: NDArray[np.int64] = found.tally.counts[TRAIN_ARM]
    rows = [
        {
            "log10": float(LIKELY_EDGES[likely - 1]),
            "log10_to": float(LIKELY_EDGES[likely - 1]) + 1.0,
            "loss": float(LOSS_EDGES[loss - 1]),
            "loss_to": float(LOSS_EDGES[loss]),
            "sequences": int(counts[likely, loss]),
        }
        for likely, loss in zip(*np.nonzero(counts), strict=True)
        if likely > 0 and 0 < loss < LOSS_EDGES.size
    ]
    tiles = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_rect()
        .encode(
            x=alt.X("log10:Q", title="log10 of the probability of being generated"),
            x2="log10_to:Q",
            y=alt.Y("loss:Q", title="calibrated loss, nats"),
            y2="loss_to:Q",
            color=alt.Color(
                "sequences:Q",
                title="training sequences",
                scale=alt.Scale(type="log", range=["#dce9f2", COLORS["blue"]]),
            ),
        )
    )
    reach = (
        alt.Chart(alt.InlineData(values=[{"reach": -found.shared.reach}]))
        .mark_rule(color=COLORS["red"], strokeDash=[4, 3])
        .encode(x="reach:Q")
    )
    layers = alt.layer(tiles, reach).properties(width=440, height=240)
    return styled(layers, "At risk: right of the line, and low")
