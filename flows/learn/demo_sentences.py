"""Findings of the demo, in sentences computed from its audits."""

import datetime as dt

import polars as pl

from flows.learn.demo import DemoResult
from privcore.lower_bounds.verdicts import Verdict
from privcore.rounding import at_least, exact, up


def sentences(result: DemoResult) -> list[str]:
    """Return what to see in the table: the leak's first night, the drift, the private model."""
    models, audits = result.found_before
    said = []
    if models:
        said.append(f"Went on with {models} models and {audits} audits of an earlier run.")
    broken, private = (
        result.audits.filter(pl.col("model") == name).sort("day")
        for name in ("delays-broken", "delays-private")
    )
    if broken.height:
        said.append(_leak(broken, result.broken))
    if private.height:
        said.append(_drift(private))
    return said


def _leak(nights: pl.DataFrame, dropped_on: dt.date) -> str:
    """Say when the privatisation was dropped, and when that was found."""
    dropped = f"delays-broken dropped its privatisation on {dropped_on}"
    kept = nights.filter(pl.col("day") < dropped_on)
    early = kept.filter(pl.col("verdict") == Verdict.VIOLATED).height
    found = nights.filter(
        (pl.col("day") >= dropped_on)
        & ((pl.col("verdict") == Verdict.VIOLATED) | (pl.col("standing") == Verdict.VIOLATED))
    )
    if early:
        return f"{dropped}, and was accused on {early} of {kept.height} nights before."
    if not found.height:
        return f"{dropped}, which no night shows yet."
    first = found.row(0, named=True)
    when = "that very night" if first["day"] == dropped_on else f"on {first['day']}"
    before = "the one night" if kept.height == 1 else f"{kept.height} nights"
    return f"{dropped}: found {when}; on {before} before, nothing was held against it."


def _drift(nights: pl.DataFrame) -> str:
    """Say on how many nights the proxy was wrong, and what a perfect attack could have proved."""
    drifted = nights.filter(pl.col("control_epsilon_if_proxy_right") > 0.0)
    accused = nights.filter(pl.col("verdict") == Verdict.VIOLATED).height
    declared = nights["epsilon_declared"].max()
    able = nights.filter(pl.col("epsilon_ceiling") > pl.col("epsilon_declared"))
    most = float(drifted["epsilon_if_proxy_right"].max() or 0.0) if drifted.height else 0.0  # type: ignore[arg-type]
    drift = f"on {drifted.height} of {nights.height} nights the world had moved on from its proxy"
    if most > 0.0:
        drift += f", which, if believed, would prove up to {at_least(most)}"
    ceilings = nights["epsilon_ceiling"]
    return (
        f"delays-private: {drift}; accused on {accused}. That it loses more than {exact(declared)} "  # type: ignore[arg-type]
        f"could have been proved on {able.height} nights (ceiling up to {up(ceilings.max())})."  # type: ignore[arg-type]
    )
