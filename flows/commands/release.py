"""Audit: `privaudit release`, for tables whose answers claim a relaxation of privacy."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.commands.options import (
    AUDIT,
    ConfigOption,
    CsvOption,
    JsonOption,
    RayAddressOption,
    as_parameter,
)
from flows.commands.printing import (
    Form,
    begin_prefect,
    console,
    form_of,
    json_text,
    print_rows,
    print_table,
)
from flows.commands.progress_bars import shown_progress

if TYPE_CHECKING:
    from workers.warehouse.release_row import ReleaseRow

app = typer.Typer()

_DEFINITIONS: dict[str, Literal["idp", "group_idp", "bdp", "dp"]] = {
    "idp": "idp",
    "group-idp": "group_idp",
    "bdp": "bdp",
    "dp": "dp",
}

DefinitionOption = Annotated[
    Literal["idp", "group-idp", "bdp", "dp"],
    typer.Option(
        help="Claim of the answers: individual, group individual or bootstrap differential "
        "privacy; dp is the honest control."
    ),
]
TableOption = Annotated[
    str | None,
    typer.Option(
        help="The table: path or URI of a Parquet or CSV file. With --interface, the table "
        "behind it, to compare with what was read."
    ),
]
InterfaceOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="A live system, instead of the mechanism that the definition recommends: a "
        "function without arguments that returns a QueryInterface.",
    ),
]
TargetOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=VALUE,...",
        help="A person to attack singly, by what is known; repeat it for more.",
    ),
]


@app.command(rich_help_panel=AUDIT)
def release(
    definition: DefinitionOption,
    table: TableOption = None,
    interface: InterfaceOption = None,
    k: Annotated[int, typer.Option(min=1, help="Group size of group-idp.")] = 1,
    epsilon: Annotated[
        float, typer.Option(help="Privacy budget that all answers together may claim.")
    ] = 0.01,
    precision: Annotated[
        float, typer.Option(help="Width to which floating-point columns are read.")
    ] = 0.01,
    target: TargetOption = None,
    config: ConfigOption = None,
    ray_address: RayAddressOption = None,
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Attack a table behind the noise of individual or bootstrap differential privacy.

    Says how many of its records can be read, with how many queries, at what claimed budget, and
    commits the record. No value that was read is printed or kept. A live system is attacked with
    --interface; without its table, what was read is checked by asking it again.

    Exit code: 0 resisted, 1 reconstructed or partly, 3 error.

    Example: privaudit release --table bank.parquet --definition group-idp --k 1 --epsilon 0.01
    --target age=41,job=retired
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    if table is None and (interface is None or target):
        what = "the table that --target is compared with" if interface else "--table or --interface"
        raise typer.BadParameter(f"give {what}.")
    begin_prefect()
    from flows.run.release import release_audit
    from flows.run.start import start
    from flows.settings import load_settings
    from workers.executors import on_ray

    targets = tuple(_parsed(text) for text in target or ())
    ray = load_settings(config).ray
    # Before the flow, which finds it connected: a cluster that refuses gives one sentence.
    carried: AbstractContextManager[object] = nullcontext()
    if interface is None:
        carried = on_ray(ray_address or ray.address, ray.cpus)
    with carried, shown_progress():
        row = start(
            release_audit,
            table=table,
            definition=_DEFINITIONS[definition],
            k=k,
            epsilon=epsilon,
            precision=precision,
            targets=targets,
            interface=interface,
            settings=as_parameter(config),
        )
    if form is Form.JSON:
        typer.echo(json_text(row.model_dump(mode="json")))
    elif form is Form.CSV:
        import polars as pl

        print_rows(pl.DataFrame([row.model_dump(mode="json")]), form)
    else:
        _print(row)
    raise typer.Exit(0 if row.verdict == "resisted" else 1)


def _parsed(text: str) -> dict[str, str]:
    """Return a person's known values by column."""
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not (column.strip() and equals) for column, equals, _ in pairs):
        raise typer.BadParameter(f"{text!r} is not a target: write column=value,column=value.")
    return {column.strip(): value.strip() for column, _, value in pairs}


def _print(row: "ReleaseRow") -> None:
    from rich.table import Table
    from rich.text import Text

    from workers.plain_text import plain_text

    out = console()
    sentence = Text.assemble((row.verdict, "bold"), plain_text(f": {row.reason}"))
    out.print(sentence, highlight=False)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("records read whole", f"{row.records_reconstructed:.2%} of {row.records:,}")
    table.add_row("values read", f"{row.cells_reconstructed:.2%}")
    if row.records_asked_again is not None:
        table.add_row("checked", f"by asking about {row.records_asked_again:,} records again")
    table.add_row("queries", f"{row.queries:,}")
    table.add_row("budget claimed", f"{row.claimed_budget:.3g} of {row.epsilon_declared:g}")
    if row.targets:
        told = f"{row.targets_told} of {row.targets} correctly classified as in the table or not"
        read = f"{row.targets_reconstructed} read whole, {row.targets_queries:,} queries"
        table.add_row("single persons", f"{told}; {read}")
    if row.stopped:
        table.add_row("ended early", Text(plain_text(row.stopped)))
    print_table(table, out)
