"""`privaudit what-if`."""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import LOOK, ConfigOption, CsvOption, JsonOption
from flows.commands.printing import Form, form_of, print_rows, working
from flows.commands.stored import stored_audit

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

app = typer.Typer()


@app.command("what-if", rich_help_panel=LOOK)
def what_if(
    audit_id: Annotated[str, typer.Argument(help="The audit's id, or how it begins.")],
    config: ConfigOption = None,
    *,
    output: Annotated[
        pathlib.Path | None,
        typer.Option(help="Folder for a page with the two curves, the table (CSV) and the words."),
    ] = None,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show bound and accuracy of an audited model with fewer rounds, or served otherwise.

    It reads the audit's inputs again, in one pass, and commits nothing. Boosted models (CatBoost,
    XGBoost, LightGBM) are audited after each tenth of their rounds. All models are audited as if
    their probabilities were served rounded, clipped, or as the top class alone. With --output, the
    curves of bound and accuracy by round are drawn; the report links a page below its own folder
    studies.

    Exit code: 0, or 3 for an error.

    Examples: privaudit what-if 0f3c2a91; privaudit what-if 0f3c2a91 --output
    report/studies/0f3c2a91
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    from workers.audit.what_if import what_if as ask

    with working("Auditing variants"), stored_audit(audit_id, config) as (record, lake, executor):
        found = ask(record, lake, executor)
    import polars as pl

    print_rows(pl.DataFrame([dataclasses.asdict(one) for one in found]), form, table=_table)
    from flows.study.what_if_shown import ADVICE, rounds_sentence

    for line in (rounds_sentence(found), ADVICE):
        if line:
            typer.echo(line, err=form is not Form.TABLE)
    if output is not None:
        from flows.study.runner import write_shown
        from flows.study.what_if_shown import shown

        title = f"Variants of {record.audit.model} on {record.audit.day}"
        written = write_shown(shown(found), output, title=title)
        typer.echo(f"Page: {written.files[-1]}", err=form is not Form.TABLE)


def _table(rows: "pl.DataFrame", width: int) -> "Table":
    import polars as pl

    from flows.commands.terminal_tables import frame_table
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
