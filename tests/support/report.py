"""Rows for reports: audits of any verdict, and everything that can stand beside one."""

import datetime as dt
from collections.abc import Iterable
from typing import Any

import polars as pl

from flows.report.report_rows import PARTS, Tables
from privcore.lower_bounds.verdicts import Verdict
from workers.warehouse.nights_together import AuditedNight
from workers.warehouse.schema import BoundRow, PromiseRow, ReliabilityRow, SliceRow
from workers.warehouse.table_row import TableRow
from workers.warehouse.tables import arrow_schema

FIRST = dt.date(2013, 2, 1)
FRACTIONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
FIGURES = {
    "records": 1740,
    "control_records": 185,
    "epsilon_lower": 0.98,
    "epsilon_paper": 2.61,
    "epsilon_if_proxy_right": 1.02,
    "control_epsilon_if_proxy_right": 0.12,
    "sees_from": 1.9,
    "sees_from_together": 1.3,
    "epsilon_standing": 1.1,
    "epsilon_ceiling": 4.671,
    "epsilon_game": 0.64,
    "epsilon_lower_28_days": 1.25,
    "epsilon_ceiling_28_days": 6.3,
    "control_epsilon_lower": 0.0,
    "target_log_loss": 0.402,
    "proxy_log_loss": 0.431,
    "claim_pvalue": 0.2,
}

CODES = {
    Verdict.VIOLATED: "this_night",
    Verdict.FAILED: "labels_missing",
    Verdict.INCONCLUSIVE: "few_held_out",
    Verdict.NOT_REFUTED: None,
    Verdict.UNDECLARED: "nothing_declared",
}


def identity(audit_id: str = "0") -> dict[str, Any]:
    """Return the columns that every row carries."""
    return {
        "audit_id": audit_id,
        "method_version": "1",
        "code_version": "0.1.0",
        "target_sha256": "a" * 64,
        "proxy_sha256": "b" * 64,
        "labels_digest": "c" * 64,
    }


def record(
    model: str = "delays-plain",
    offset: int = 0,
    verdict: Verdict = Verdict.UNDECLARED,
    **changes: Any,
) -> AuditedNight:
    """Return one night of one model; `offset` counts days from the first."""
    values = {
        **identity(f"{model}-{offset}".encode().hex()),
        "model": model,
        "day": FIRST + dt.timedelta(days=offset),
        "recorded_at": dt.datetime(2013, 2, 2, 2, 0, tzinfo=dt.UTC) + dt.timedelta(days=offset),
        "status": "evaluated",
        "verdict": verdict,
        "reason_code": CODES[verdict],
        "reason_code_together": CODES[verdict],
        "reason": "a reason",
        "secret": "label",
        "dataset": "flights",
        "proxy_day": FIRST + dt.timedelta(days=offset - 1),
        "significance": 0.05,
        "plan": "{}",
        **FIGURES,
    }
    if verdict is Verdict.FAILED:
        values |= dict.fromkeys(FIGURES) | {"status": "not_evaluable"}
    values |= {"verdict_together": verdict, "nights_together": offset + 1}
    return AuditedNight(**values | changes)


def three_models(days: int) -> list[AuditedNight]:
    """Return three models of three verdicts; the control leaks every seventh day."""
    rows = []
    for offset in range(days):
        storm = {"control_epsilon_lower": 0.3} if offset % 7 == 6 else {}
        bound = {"epsilon_lower": 0.7 + 0.05 * (offset % 9)}
        declared = {"mechanism": "randomized_response", "declared_by": "the owner"}
        private = {"epsilon_declared": 2.0, "epsilon_accounted": 2.0} | declared
        broken = {"epsilon_declared": 0.5} | declared
        rows += [
            record("delays-plain", offset, **bound | storm),
            record("delays-private", offset, Verdict.NOT_REFUTED, **bound | private | storm),
            record("delays-broken", offset, Verdict.VIOLATED, **bound | broken | storm),
        ]
    return rows


def everything_beside(night: AuditedNight) -> list[TableRow]:
    """Return rows of every other table for one audit."""
    of = identity(night.audit_id)
    heights = (0.0, 0.0, 0.0, 0.1, 0.7, 1.3, 1.1, 0.7, 0.4, 0.1)
    return [
        *(
            BoundRow(
                **of,
                arm=arm,
                family=family,
                fraction=fraction,
                guesses=round(1740 * fraction),
                correct=1500 * fraction,
                epsilon_lower=height * (1.4 if family == "gaussian" else 1.0) * (arm == "audit"),
            )
            for arm in ("audit", "control")
            for family in ("pure_dp", "approx_dp", "gaussian")
            for fraction, height in zip(FRACTIONS, heights, strict=True)
        ),
        *(
            ReliabilityRow(
                **of,
                role=role,
                bin=tenth,
                records=200 - 18 * tenth,
                predicted=tenth / 10 + 0.05,
                observed=min(1.0, (tenth / 10 + 0.05) * (1.0 if role == "target" else 0.9)),
            )
            for role in ("target", "proxy")
            for tenth in range(10)
        ),
        *(
            SliceRow(
                **of,
                column="origin",
                value=value,
                records=1200,
                control_records=300,
                epsilon_lower=bound,
                epsilon_ceiling=4.1,
                control_epsilon_lower=0.0,
            )
            for value, bound in (("EWR", 0.61), ("JFK", 0.32), ("LGA", 0.0))
        ),
        *(_promises(of) if night.epsilon_declared is not None else ()),
    ]


def _promises(of: dict[str, Any]) -> list[PromiseRow]:
    """Return what the declaration promises, in part."""
    single = [("success_bound", 0.5, 0.731), ("success_bound", 0.01, 0.027)]
    single += [("leaked_bits", bits, 1.45) for bits in (1.0, 10.0, 20.0)]
    return [
        *(
            PromiseRow(
                **of, guarantee="declared", quantity=quantity, parameter=at, value=value, source="s"
            )
            for quantity, at, value in single
        ),
        *(
            PromiseRow(
                **of,
                guarantee="declared",
                quantity="correct_guesses",
                parameter=fraction,
                guesses=max(1, round(1740 * fraction)),
                value=float(max(1, round(1300 * fraction))),
                achieved=1200.0 * fraction,
                source="s",
            )
            for fraction in FRACTIONS
        ),
    ]


def tables(audits: Iterable[AuditedNight], beside: Iterable[TableRow] = ()) -> Tables:
    """Return the tables that a report is drawn from."""
    rows = list(beside)
    return Tables(
        frame(list(audits), AuditedNight),
        {
            name: frame([row for row in rows if isinstance(row, kind)], kind)
            for name, kind in PARTS.items()
        },
    )


def full_tables(days: int) -> Tables:
    """Return three models with everything that can stand beside their last audits."""
    nights = three_models(days)
    return tables(nights, [row for night in nights[-3:] for row in everything_beside(night)])


def frame(rows: list[Any], kind: type[TableRow]) -> pl.DataFrame:
    """Return rows as a frame, also where there are none."""
    if not rows:
        return pl.DataFrame(arrow_schema(kind).empty_table())
    return pl.DataFrame([row.model_dump(mode="python") for row in rows], infer_schema_length=None)
