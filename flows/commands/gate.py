"""`privaudit gate`."""

import pathlib
from typing import Annotated

import typer

from flows.commands.options import LOOK, ConfigOption, CsvOption, JsonOption
from flows.commands.printing import Form, form_of, print_audits, working

app = typer.Typer()
_CODES = {"pass": 0, "fail": 1, "unknown": 2}


@app.command(rich_help_panel=LOOK)
def gate(
    sha256: Annotated[
        pathlib.Path,
        typer.Option(metavar="FILE", help="The model file that is to be served."),
    ],
    config: ConfigOption = None,
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say which audits know a model file by its SHA-256 digest, and whether it may be served.

    Exit code: 0 pass, 1 fail (a declaration is refuted or says nothing), 2 unknown (no audit knows
    the file, or none concludes), 3 error.

    Examples: privaudit gate --sha256 model.cbm; privaudit gate --sha256 model.cbm --json
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    with working("Reading the warehouse"):
        from flows.settings import load_settings
        from workers.warehouse.gate import audits_of, file_sha256
        from workers.warehouse.gate import gate as decide
        from workers.warehouse.store import Warehouse

        warehouse = Warehouse(load_settings(config).warehouse)
        warehouse.check_exists()
        audits = audits_of(warehouse, file_sha256(sha256))
        answer, why = decide(audits)
    if audits.height or form is not Form.TABLE:
        print_audits(audits, form)
    typer.echo(f"{answer}: {why}", err=form is not Form.TABLE)
    raise typer.Exit(_CODES[answer])
