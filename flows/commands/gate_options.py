"""Options of `privaudit gate`."""

import pathlib
from typing import Annotated, Any

import typer

_FILES, _LIMIT, _OUTPUT = "Audit files", "Limit", "Output"


def _file(metavar: str, text: str) -> Any:
    return typer.Option(metavar=metavar, help=text, rich_help_panel=_FILES)


def _column(what: str) -> Any:
    return _file("COLUMN", f"Column of {what}.")


def _output(metavar: str, text: str, *names: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=_OUTPUT)


TargetOption = Annotated[
    str | None,
    _file("FILE", "The model file that is to be released: CatBoost, XGBoost, LightGBM or ONNX."),
]
ProxyOption = Annotated[
    str | None,
    _file("FILE", "An earlier model's file, which no row of the table trained."),
]
TableOption = Annotated[
    str | None,
    _file(
        "PATH",
        "The rows that training read and those that it held out: a Parquet file, a folder of "
        "them, or a Delta table.",
    ),
]
LabelOption = Annotated[str | None, _column("the label")]
SplitOption = Annotated[str | None, _column("the words train and holdout")]
HoldoutOption = Annotated[
    str | None,
    _file("RULE", 'Instead of --split: rule for holdout rows, as "bucket(event_id, 5) = 0".'),
]
DayColumnOption = Annotated[
    str | None, _column("the day: the newest is audited; without it, all rows are")
]
TimeZoneOption = Annotated[
    str | None,
    _file("ZONE", "Zone in which a time of --day-column falls on a day, like Europe/Amsterdam."),
]
UnitOption = Annotated[str | None, _column("the person: of each, one record is audited")]
FeatureOption = Annotated[
    list[str] | None,
    _file(
        "NAME=COLUMN", "The column of a feature that has another name in the model (repeatable)."
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
    _output("FILE", "Write JUnit XML."),
]
SummaryOption = Annotated[
    pathlib.Path | None,
    _output(
        "FILE",
        "Write a summary in Markdown. Without it, the summary is added to "
        "$GITHUB_STEP_SUMMARY where that is set.",
    ),
]
ModelOption = Annotated[
    str | None,
    _output(
        "NAME",
        "Registered model whose version holds the target. A version that passes is tagged.",
        "--mlflow-model",
    ),
]
VersionOption = Annotated[
    str | None,
    _output("V", "Version of the registered model.", "--mlflow-version"),
]
AliasOption = Annotated[
    str | None,
    _output("A", "Alias that is moved to the version if it passes."),
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
