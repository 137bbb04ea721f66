"""`privaudit locate`."""

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import LOOK, ConfigOption, CsvOption, JsonOption
from flows.commands.printing import Form, form_of, print_rows, working
from flows.commands.stored import stored_audit

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from workers.audit.locate import Located

app = typer.Typer()
_COLUMNS = ("segment", "records", "control_records", "named", "epsilon_lower", "qvalue")


@app.command(rich_help_panel=LOOK)
def locate(
    audit_id: Annotated[str, typer.Argument(help="The audit's id, or how it begins.")],
    config: ConfigOption = None,
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find where a model leaks: the groups of rows in which an audit can prove a leak.

    It reads the audit's inputs again and commits nothing. Groups are chosen by features and the
    models' answers, never by labels: by each feature, by regions of all features, by unusual values
    and by duplicates. On average at most the audit's significance of the named groups leak nothing.

    Exit code: 0 whether a group is named or not, 3 error.

    Example: privaudit locate 0f3c2a91
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    from workers.audit.locate import locate as locate_leak

    with working("Locating"), stored_audit(audit_id, config) as found_again:
        found = locate_leak(*found_again)
    import polars as pl

    if found.segments or form is not Form.TABLE:
        rows = pl.DataFrame([dataclasses.asdict(one) for one in found.segments], schema=_COLUMNS)
        print_rows(rows, form, table=_table)
    typer.echo(_sentence(found), err=form is not Form.TABLE)


def _sentence(found: "Located") -> str:
    """Return what the segments come to, in words."""
    named = [one for one in found.segments if one.named]
    small = (
        f" {found.too_small} groups have fewer rows than plan.minimum_slice_records or "
        "plan.minimum_control_records and were not tested."
        if found.too_small
        else ""
    )
    if not found.segments:
        return f"No group was tested.{small}"
    if not named:
        return (
            f"A leak is proved in none of {len(found.segments)} groups. That does not show that "
            f"there is none.{small}"
        )
    first = named[0]
    return (
        f"A leak is proved in {len(named)} of {len(found.segments)} groups, most of it in: "
        f"{first.segment} (epsilon at least {first.epsilon_lower:g}). Groups overlap, so one leak "
        f"may name several. The other groups may leak, too.{small}"
    )


def _table(rows: "pl.DataFrame", width: int) -> "Table":
    """Return the groups as a table, the named ones first."""
    import polars as pl

    from flows.commands.terminal_tables import frame_table

    del width
    bound = pl.when("named").then(pl.col("epsilon_lower").cast(pl.String)).otherwise(pl.lit("-"))
    return frame_table(
        rows.select(
            group="segment",
            training="records",
            holdout="control_records",
            proved=bound,
            q=pl.col("qvalue").round(4),
        )
    )
