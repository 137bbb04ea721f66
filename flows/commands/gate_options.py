"""Options of `privaudit gate`."""

import pathlib
from typing import Annotated, Any

import typer

_FILES, _LIMIT, _OUTPUT = "Audit files", "Limit", "Output"


def _column(what: str) -> Any:
    return typer.Option(metavar="COLUMN", help=f"Column of {what}.", rich_help_panel=_FILES)


TargetOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="The model file that is to be released: CatBoost, XGBoost, LightGBM or ONNX.",
        rich_help_panel=_FILES,
    ),
]
ProxyOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="An earlier model's file, which no row of the table trained.",
        rich_help_panel=_FILES,
    ),
]
TableOption = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="The rows that training read and those that it held out: a Parquet file, a folder of "
        "them, or a Delta table.",
        rich_help_panel=_FILES,
    ),
]
LabelOption = Annotated[str | None, _column("the label")]
SplitOption = Annotated[str | None, _column("the words train and holdout")]
HoldoutOption = Annotated[
    str | None,
    typer.Option(
        metavar="RULE",
        help='Instead of --split: rule for holdout rows, as "bucket(event_id, 5) = 0".',
        rich_help_panel=_FILES,
    ),
]
DayColumnOption = Annotated[
    str | None, _column("the day: the newest is audited; without it, all rows are")
]
UnitOption = Annotated[str | None, _column("the person: of each, one record is audited")]
FeatureOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COLUMN",
        help="The column of a feature that has another name in the model (repeatable).",
        rich_help_panel=_FILES,
    ),
]
_Epsilon = {"min": 0.0, "rich_help_panel": _LIMIT}
MaxEpsilonOption = Annotated[
    float | None,
    typer.Option(
        help="The largest epsilon that the house allows: a larger declaration fails. Without "
        "--declared, the bound is held against it.",
        **_Epsilon,
    ),
]
DeclaredOption = Annotated[
    float | None,
    typer.Option(help="The epsilon that the model's owner declares.", **_Epsilon),
]
DeltaOption = Annotated[
    float | None,
    typer.Option(help="Delta of --declared or --max-epsilon; 0 by default.", **_Epsilon),
]
JunitOption = Annotated[
    pathlib.Path | None,
    typer.Option(metavar="FILE", help="Write JUnit XML.", rich_help_panel=_OUTPUT),
]
SummaryOption = Annotated[
    pathlib.Path | None,
    typer.Option(
        metavar="FILE",
        help="Write a summary in Markdown. Without it, the summary is added to "
        "$GITHUB_STEP_SUMMARY where that is set.",
        rich_help_panel=_OUTPUT,
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--mlflow-model",
        metavar="NAME",
        help="Registered model whose version holds the target. A version that passes is tagged.",
        rich_help_panel=_OUTPUT,
    ),
]
VersionOption = Annotated[
    str | None,
    typer.Option(
        "--mlflow-version",
        metavar="V",
        help="Version of the registered model.",
        rich_help_panel=_OUTPUT,
    ),
]
AliasOption = Annotated[
    str | None,
    typer.Option(
        metavar="A",
        help="Alias that is moved to the version if it passes.",
        rich_help_panel=_OUTPUT,
    ),
]
AuditedModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="With --sha256: only this model's audits. Whoever may write models and labels can "
        "have a copy of another model's file audited as theirs, and refuted.",
    ),
]
Sha256Option = Annotated[
    pathlib.Path | None,
    typer.Option(
        metavar="FILE",
        help="Look up the audits of this model file, by its digest, in the warehouse of the "
        "settings. Nothing is audited.",
    ),
]
