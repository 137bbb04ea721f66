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
from flows.commands.printing import form_of, print_audits, print_rows, working

if TYPE_CHECKING:
    import polars as pl

    from workers.warehouse.store import Warehouse

app = typer.Typer()


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
    next_steps: Annotated[
        bool,
        typer.Option(
            "--next", help="Print one line per model: what its audit concludes, and the next step."
        ),
    ] = False,
    as_of: AsOfOption = None,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the latest audit of each model, of whichever night.

    Examples: privaudit show --next; privaudit show --model delays-private --all;
    privaudit show --as-of 2026-05-01T12:00
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    with working("Reading the warehouse"):
        import polars as pl

        from flows.settings import load_settings
        from workers.warehouse.acknowledgements import with_acknowledgements
        from workers.warehouse.store import Warehouse
        from workers.warehouse.with_windows import with_windows

        settings = load_settings(config)
        warehouse = Warehouse(settings.warehouse, as_of=as_of)
        warehouse.check_exists()
        last = _last_audits(warehouse, model)
        # A night's q-values are of all its models, so its other models are left out at the end.
        days = None if every else last["day"].unique().to_list()
        audits = warehouse.current(every_secret=True, days=days)
        audits = with_windows(warehouse, audits)
        audits = with_acknowledgements(warehouse, audits)
        wanted = last["model"] if every else last["audit_id"]
        audits = audits.filter(pl.col(wanted.name).is_in(wanted.implode()))
    if next_steps:
        from flows.next_steps import next_steps_table

        print_rows(next_steps_table(audits), form)
        return
    print_audits(audits, form)


def _last_audits(warehouse: "Warehouse", model: str | None) -> "pl.DataFrame":
    """Return the last audits, of one model if it is named; an unknown name is a sentence."""
    from privcore.exceptions import TerminalError
    from workers.plain_text import plain_text

    last = warehouse.last_audits()
    if model is None:
        return last
    last = last.filter(last["model"] == model)
    if last.is_empty():
        raise TerminalError(
            f"The warehouse has no audit of model {plain_text(model)!r}: "
            "`privaudit show --all` prints the models that it has."
        )
    return last
