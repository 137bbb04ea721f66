"""Contents of the lake: `privaudit manifest`."""

import datetime as dt
import json
import pathlib
from typing import Annotated, Any

import typer

from flows.commands.options import OPERATE, day_option

app = typer.Typer()


@app.command(rich_help_panel=OPERATE)
def manifest(
    model_file: Annotated[
        pathlib.Path | None,
        typer.Argument(
            help="The model (.cbm, .ubj, .txt of LightGBM, .onnx); or a lake's folder: then "
            "manifest.json is written beside each model in it that has none."
        ),
    ] = None,
    table: Annotated[
        pathlib.Path | None, typer.Option(help="A Parquet file of the day's labels.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The label's column.")] = None,
    model: Annotated[
        str, typer.Option(help="Name of the model; its folder in the lake.")
    ] = "model",
    day: Annotated[dt.date | None, day_option("Day it was trained on.")] = None,
    dataset: Annotated[
        str, typer.Option(help="Name of the labels' folder in the lake.")
    ] = "labels",
    epsilon: Annotated[float | None, typer.Option(help="Declared epsilon, if any.")] = None,
    delta: Annotated[float, typer.Option(help="Delta of the declaration.")] = 0.0,
    unit: Annotated[
        str, typer.Option(help="Unit that the guarantee protects: a record, or a person's column.")
    ] = "record",
    declared_by: Annotated[
        str, typer.Option(help="Person or team that makes the declaration.")
    ] = "",
    *,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of manifests, and no manifest.")
    ] = False,
) -> None:
    """Print a manifest.json for a model file, with every field, to be looked through and stored.

    Features, classes and digest are the model's own; trained_on says the one day: correct it where
    it was trained on more. Of a lake's folder, model and day are the folders' names.

    Examples: privaudit manifest model.cbm --table labels.parquet --label late --model delays
    --day 2026-03-02 --dataset flights --epsilon 2 > manifest.json; privaudit manifest lake --label
    late --dataset flights
    """
    if schema:
        from workers.lake.manifest import json_schema

        typer.echo(json.dumps(json_schema(), indent=2))
        return
    from workers.sources.proposal import proposed_manifest, write_manifests

    privacy = None if epsilon is None else _declared(epsilon, delta, unit, declared_by)
    if model_file is not None and model_file.is_dir():
        if table or day or label is None:
            raise typer.BadParameter("of a lake's folder give --label, and no --table or --day.")
        for written in write_manifests(model_file, dataset=dataset, label=label, privacy=privacy):
            typer.echo(f"Wrote {written}.")
        return
    if model_file is None or table is None or label is None or day is None:
        raise typer.BadParameter("give MODEL_FILE, --table, --label and --day; or --schema.")
    proposed = proposed_manifest(
        model_file,
        table,
        model=model,
        day=day,
        dataset=dataset,
        label=label,
        privacy=privacy,
    )
    typer.echo(json.dumps(proposed, indent=2))


def _declared(epsilon: float, delta: float, unit: str, declared_by: str) -> dict[str, Any]:
    """Return a manifest's declaration of no named mechanism."""
    return {
        "definition": "label_dp",
        "neighbors": "replace",
        "unit": unit,
        "epsilon": epsilon,
        "delta": delta,
        "mechanism": None,
        "declared_by": declared_by or "unknown",
        "declared_at": None,
    }
