"""`privaudit gate`."""

import datetime as dt
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.commands.options import LOOK, ConfigOption, JsonOption, command, open_warehouse
from flows.commands.printing import json_text, print_audits, say, working
from privcore.lower_bounds.verdicts import ReasonCode, Verdict

if TYPE_CHECKING:
    from flows.commands.gate_files import Decision
    from flows.settings import PolicySettings
    from workers.lake.mlflow_registry import Version
    from workers.warehouse.schema import AuditRow

app = typer.Typer()


@command(app, panel=LOOK)
def gate(
    *,
    target: str | None = None,
    proxy: str | None = None,
    table: str | None = None,
    label: str | None = None,
    split: str | None = None,
    holdout: str | None = None,
    unit: str | None = None,
    feature: list[str] | None = None,
    max_epsilon: Annotated[float | None, {"min": 0.0}] = None,
    declared: Annotated[float | None, {"min": 0.0}] = None,
    delta: Annotated[float | None, {"min": 0.0}] = None,
    accept: list[ReasonCode] | None = None,
    mlflow_model: str | None = None,
    mlflow_version: str | None = None,
    alias: str | None = None,
    sha256: pathlib.Path | None = None,
    model: str | None = None,
    config: ConfigOption = None,
    hand_over_file: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Say whether a model may be released: audit its file before release, or look up its audits.

    With --target, --proxy and --table it audits the model file as `night` would, before anything is
    released, and stores nothing. With --sha256 it looks up the audits that know a file in the
    warehouse of the settings. What [policy] of the settings refuses is inconclusive.

    Exit code: 0 not_refuted, 1 violated, 2 inconclusive (a false declaration would probably have
    looked the same) or undeclared, 3 failed.
    The exit code depends on the labels: only people who may read the labels may see it.

    Examples: privaudit gate --target model.json --proxy old.json --table rows.parquet --label
    clicked --split split --max-epsilon 2; privaudit gate --sha256 model.cbm

    Audit files:
        target (FILE): The model file that is to be released: CatBoost, XGBoost, LightGBM or ONNX.
        proxy (FILE): An earlier model's file, which no row of the table trained.
        table (PATH): The rows that training read and those that it held out: a Parquet file, a
            folder of them, or a Delta table.
        label (COLUMN): Column of the label.
        split (COLUMN): Column of the words train and holdout.
        holdout (RULE): Instead of --split: rule for holdout rows, as "bucket(event_id, 5) = 0".
        unit (COLUMN): Column of the person: of each, one record is audited.
        feature (NAME=COLUMN): The column of a feature that has another name in the model
            (repeatable).
        hand_over_file: The file itself goes to others, not its answers alone: say whether labels
            can be read from it. One whose leaves hold the labels is violated.

    Limit:
        max_epsilon: The largest epsilon that the house allows: a larger declaration fails. Without
            --declared, the bound is held against it.
        declared: The epsilon that the model's owner declares.
        delta: Delta of --declared or --max-epsilon; 0 by default.

    Options:
        accept (CODE): Take an inconclusive audit with this reason code for not_refuted
            (repeatable), as few_held_out.
        sha256 (FILE): Look up the audits of this model file, by its digest, in the warehouse of the
            settings. Nothing is audited.
        model (NAME): With --sha256: only this model's audits. Whoever may write models and labels
            can have a copy of another model's file audited as theirs, and refuted.

    Registry:
        mlflow_model (NAME): Registered model whose version holds the target. A version that passes
            is tagged.
        mlflow_version (V): Version of the registered model.
        alias (A): Alias that is moved to the version if it passes.
    """
    limit = max_epsilon is not None or declared is not None
    if sha256 is not None:
        if limit or hand_over_file or any(each is not None for each in (target, proxy, table)):
            raise typer.BadParameter(
                "--sha256 looks up audits: leave out --target and its options, and the limit."
            )
        raise typer.Exit(_looked_up(sha256, model, accept or (), config, as_json=as_json))
    if model is not None:
        raise typer.BadParameter("--model goes with --sha256.")
    if target is None or proxy is None or table is None:
        raise typer.BadParameter(
            "Give --target, --proxy and --table to audit files, or --sha256 to look up audits."
        )
    if not limit:
        raise typer.BadParameter("Give --max-epsilon, --declared or both: what is the limit?")
    if (mlflow_model is None) != (mlflow_version is None) or (alias and mlflow_model is None):
        raise typer.BadParameter(
            "--mlflow-model and --mlflow-version go together, --alias with them."
        )
    from flows.commands.gate_files import decide
    from workers.lake.mlflow_registry import Version

    given: dict[str, Any] = {"label": label, "split": split, "holdout": holdout, "unit": unit}
    given |= {"max_epsilon": max_epsilon, "declared": declared, "delta": delta or 0.0}
    given |= {"features": feature or (), "accepted": accept or (), "policy": _policy(config)}
    with working("Auditing"):
        row, decision = decide(target, proxy, table, hand_over_file=hand_over_file, **given)
    version = None
    if mlflow_model is not None and mlflow_version is not None:
        version = Version(mlflow_model, mlflow_version, alias)
    raise typer.Exit(_printed(row, decision, version, as_json=as_json))


def _printed(
    row: "AuditRow", decision: "Decision", version: "Version | None", *, as_json: bool
) -> int:
    """Print the decision, promote a version that passes, and return the exit code."""
    from flows.commands.gate_files import promoted
    from flows.next_steps import CODES

    if as_json:
        content = {"gate": str(decision.verdict), "why": decision.why} | row.model_dump()
        typer.echo(json_text([content]))
    say(f"{decision.said}. {decision.why}", aside=as_json)
    if CODES[decision.verdict]:
        step = decision.card.step
        say(f"Next ({step.role}): {step.text}", aside=as_json)
    elif version is not None:
        say(promoted(version, row), aside=as_json)
    return CODES[decision.verdict]


def _policy(config: pathlib.Path | None) -> "PolicySettings | None":
    """Return [policy] of the settings; None where nobody names a file and there is none here."""
    from flows.settings import VARIABLE, load_settings, settings_path

    named = config is not None or os.environ.get(VARIABLE)
    return load_settings(config).policy if named or settings_path(None).exists() else None


def _looked_up(
    file: pathlib.Path,
    model: str | None,
    accepted: Sequence[ReasonCode],
    config: pathlib.Path | None,
    *,
    as_json: bool,
) -> int:
    """Look up the audits of a file, print them and the decision, and return the exit code."""
    with working("Reading the warehouse"):
        from flows.next_steps import CODES
        from flows.policy import refused_by_policy
        from workers.warehouse.serving_decision import audits_of, file_sha256, serving_verdict

        settings, warehouse = open_warehouse(config)
        audits = audits_of(warehouse, file_sha256(file), model)
        verdict, why = serving_verdict(audits, accepted)
        if CODES[verdict] == 0 and ReasonCode.OVER_POLICY not in accepted:
            today = dt.datetime.now(dt.UTC).date()
            if refused := refused_by_policy(settings.policy, audits, today):
                verdict, why = Verdict.INCONCLUSIVE, f"This file is not cleared. {refused}"
    if audits.height or as_json:
        print_audits(audits, as_json=as_json)
    say(f"{verdict}. {why}", aside=as_json)
    return CODES[verdict]
