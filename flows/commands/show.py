"""`privaudit show`."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import (
    LOOK,
    AsOfOption,
    ConfigOption,
    CsvOption,
    JsonOption,
)
from flows.commands.printing import Form, form_of, print_audits, working

if TYPE_CHECKING:
    import polars as pl

    from workers.warehouse.store import Warehouse

app = typer.Typer()
_NAMED = 10
"""The most records that are named."""


@app.command(rich_help_panel=LOOK)
def show(
    config: ConfigOption = None,
    *,
    model: Annotated[
        str | None, typer.Option(help="Print this model alone, on its own latest night.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every current record, not only each model's latest.")
    ] = False,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help="Exit as `gate` does: 0 where every model is not_refuted, 1 violated, 2 "
            "inconclusive or undeclared, 3 failed.",
        ),
    ] = False,
    as_of: AsOfOption = None,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print how each model stands, by its nights together up to its own last record.

    Examples: privaudit show; privaudit show --model delays-private --all;
    privaudit show --as-of 2026-05-01T12:00
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    with working("Reading the warehouse"):
        import polars as pl

        from flows.next_steps import with_next_steps
        from flows.settings import load_settings
        from workers.warehouse.acknowledgements import with_acknowledgements
        from workers.warehouse.store import Warehouse
        from workers.warehouse.with_windows import with_windows

        settings = load_settings(config)
        warehouse = Warehouse(settings.warehouse, as_of=as_of)
        warehouse.check_exists()
        last, late = _last_audits(warehouse, model)
        # A night's q-values are of all its models, so its other models are left out at the end.
        days = None if every else last["day"].unique().to_list()
        audits = warehouse.current(every_secret=True, days=days)
        audits = with_windows(warehouse, audits)
        audits = with_acknowledgements(warehouse, audits)
        wanted = last["model"] if every else last["audit_id"]
        audits = audits.filter(pl.col(wanted.name).is_in(wanted.implode()))
        audits = with_next_steps(audits)
    print_audits(audits, form)
    if late.height:
        typer.echo(_set_aside(late), err=form is not Form.TABLE)
    if exit_code:
        from flows.next_steps import CODES
        from privcore.lower_bounds.verdicts import Verdict

        codes = [CODES[word] for word in Verdict if word in set(audits["verdict_together"])]
        raise typer.Exit(next(filter(None, codes), 0))


def _set_aside(late: "pl.DataFrame") -> str:
    """Name the records of days that cannot be."""
    from workers.plain_text import plain_text

    named = [f"{row['model']} on {row['day']}" for row in late.head(_NAMED).iter_rows(named=True)]
    more = f" and {late.height - _NAMED} more" if late.height > _NAMED else ""
    return plain_text(
        f"Set aside, since they are dated after the day of the audit: {', '.join(named)}{more}. "
        "Correct or withdraw them."
    )


def _last_audits(warehouse: "Warehouse", model: str | None) -> "tuple[pl.DataFrame, pl.DataFrame]":
    """Return the last audits, and those of days that cannot be, of one model if it is named."""
    from privcore.exceptions import TerminalError
    from workers.plain_text import plain_text

    last, late = warehouse.last_audits()
    if model is None:
        return last, late
    last, late = (some.filter(some["model"] == model) for some in (last, late))
    if last.is_empty():
        raise TerminalError(
            f"The warehouse has no audit of model {plain_text(model)!r}: "
            "`privaudit show --all` prints the models that it has."
        )
    return last, late
