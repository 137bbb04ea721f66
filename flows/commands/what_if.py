"""`privaudit what-if`."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import LOOK, ConfigOption, CsvOption, JsonOption
from flows.commands.printing import Form, form_of, print_rows, working
from flows.commands.stored import stored_audit

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from workers.audit.what_if import Variant

app = typer.Typer()
_FLAT = 0.005
"""Accuracy within this of the whole model's is called as good."""
_ADVICE = (
    "Advice and no guarantee: a bound of 0 does not show that nothing leaks, and choosing by "
    "private labels spends some of their privacy."
)


@app.command("what-if", rich_help_panel=LOOK)
def what_if(
    audit_id: Annotated[str, typer.Argument(help="The audit's id, or how it begins.")],
    config: ConfigOption = None,
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show bound and accuracy of an audited model with fewer rounds, or served otherwise.

    It reads the audit's inputs again, in one pass, and commits nothing. Boosted models (CatBoost,
    XGBoost, LightGBM) are audited after each tenth of their rounds. All models are audited as if
    their probabilities were served rounded, clipped, or as the top class alone.

    Exit code: 0, or 3 for an error.

    Example: privaudit what-if 0f3c2a91
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    from workers.audit.what_if import what_if as ask

    with working("Auditing variants"), stored_audit(audit_id, config) as (record, lake, executor):
        found = ask(record, lake, executor)
    import polars as pl

    print_rows(pl.DataFrame([dataclasses.asdict(one) for one in found]), form, table=_table)
    for line in (_rounds_sentence(found), _ADVICE):
        if line:
            typer.echo(line, err=form is not Form.TABLE)


def _rounds_sentence(found: "Sequence[Variant]") -> str:
    """Return where the leak begins and accuracy ends to grow, in words; nothing without rounds."""
    rounds = sorted(
        (one for one in found if one.rounds is not None), key=lambda one: one.rounds or 0
    )
    if len(rounds) < 2:
        return ""
    whole = rounds[-1]
    leaking = [one for one in rounds if one.epsilon_lower]
    begins = (
        f"A leak is first proved at round {leaking[0].rounds}" if leaking else "No leak is proved"
    )
    short = [place for place, one in enumerate(rounds) if one.accuracy < whole.accuracy - _FLAT]
    flat = rounds[short[-1] + 1 if short else 0]
    return (
        f"{begins}; from round {flat.rounds} on, accuracy stays within {_FLAT:.1%} of all "
        f"{whole.rounds} rounds', or above."
    )


def _table(rows: "pl.DataFrame", width: int) -> "Table":
    import polars as pl

    from flows.commands.tables import frame_table
    from privcore.rounding import down

    del width
    bounds = [down(value) for value in rows["epsilon_lower"].to_list()]
    return frame_table(
        rows.select(
            "variant",
            proved=pl.Series(bounds, dtype=pl.String),
            accuracy=pl.col("accuracy").round(4),
            log_loss=pl.col("log_loss").round(4),
            guarantee=pl.lit("none"),
        )
    )
