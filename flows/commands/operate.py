"""Set up and operate: `privaudit init`, `check`, `overdue`, `manifest`."""

import datetime as dt
import json
import pathlib
import secrets
from typing import Any

import typer
from rich.markup import escape

from flows.commands.options import OPERATE, ConfigOption, DayOption, JsonOption, command, toml_of
from flows.commands.printing import console, json_text, quiet, say
from privcore.exceptions import TerminalError

_DRAWN = "drawn by init; an owner who knows it can choose which rows share a fold"
TEMPLATE = """\
# Settings of privaudit. Paths are relative to this file; s3://, gs:// and abfs:// addresses do too,
# with credentials from the environment's usual chain. An environment variable PRIVAUDIT_<NAME>
# overrides a key: PRIVAUDIT_LAKE, PRIVAUDIT_PLAN__SEED, PRIVAUDIT_WEBHOOK__SECRET.
# `privaudit check` tries all of it.

lake = "lake"            # models/<model>/day=YYYY-MM-DD/ and labels/<dataset>/day=YYYY-MM-DD/
warehouse = "warehouse"  # where results are committed
report = "report"        # folder of the report
# report_url = "https://privacy.example.com/audits/"  # under which people open it; goes into alerts
# metrics = "/var/lib/node_exporter/privaudit.prom"  # for Prometheus, written with each report

[night]
time_zone = "UTC"   # of every time of day: a name like Europe/Amsterdam
deadline = 09:00:00 # on the day after the audited one: then every verdict must be there
concurrency = 4     # audits at the same time, over all flow runs

# Every audited model. Only `name` is needed.
[[models]]
name = "ads-ctr"
# dataset = "clicks"                  # the only label dataset that its manifest may name
# trust = "independent"               # rows, split and models are not the owner's: see the how-to
# deadline = 07:30:00                 # instead of the night's
# notify = ["privacy@example.com"]    # who is notified: passed on with each alert
# membership = true                   # audit too if it is told who was trained on: its own claim
# drill = "ads-ctr-plain"             # the same learner without a mechanism, listed as a model too
# [models.plan]                       # instead of the common plan below, field by field
# slices = ["country"]
# privacy_unit = "user_id"
# [models.sampling]                   # training keeps 5% of the rows of a label: the holdout too
# label = { 0 = 0.05 }                # or weight = "w": 1/p for a row kept with probability p
# [models.attribute]                  # audit a categorical feature too, by a claim of its own
# column = "country"
# values = ["DE", "FR", "NL"]
# [models.released_labels]            # compare true labels with those released for training
# table = "s3://bucket/released"      # by days, as in privaudit check-labels
# true = "clicked"
# released = "noisy"
# record = "event_id"

# A model of any framework, by a table of probabilities: privaudit attach proposes this.
# [[models]]
# name = "ads-nn"
# [models.scores]
# table = "s3://bucket/predictions"   # Delta, or Parquet in folders ds=2026-03-02; Iceberg: catalog
# or CSV files of at most 512 MiB (UTF-8, numbers like 0.93): names of records and persons are text
# day = "ds"
# label = "clicked"
# label_state = "secret"              # or { privatised_by = { name = "...", parameters = {} } }
# target = "p_today"                  # of the second class; a column per class; or lists
# proxy = "p_yesterday"               # what was served, before the labels existed
# or target, proxy, label = { table = "s3://bucket/rescored", column = "p", record = "id" }
# or database = "bank", query = "select ... where day = $1"; address: PRIVAUDIT_DATABASE_BANK
# record = "event_id"                 # names a record: tables are joined by it, doubles are found
# split = "split"                     # train or holdout; or holdout = "bucket(event_id, 5) = 0"
# unit = "user_id"                    # whose record it is
# context = ["age", "country"]        # features: a student of them doubles what a weak leak proves
# known_at = "label_known_at"         # when a label was known; later than training it is left out
# cutoff_hours = 6.0                  # hours after midnight until which training could read labels
# time_zone = "Europe/Amsterdam"      # in which a time falls on a day; UTC
# classes = [0, 1]                    # values of the label, in the order of the probabilities
# scale = "probability"               # or log_odds
# [models.privacy]
# epsilon = 4.0
# delta = 0.0

# Model files and labelled rows where training leaves them: no lake, no manifest, nothing copied.
# [[models]]
# name = "ads-gbm"
# [models.checkpoints]
# path = "s3://bucket/models/{model}/{day:%Y/%m/%d}/model.json" # {day}: last day it was trained on
# or path = "models:/ads-gbm@{day}", an alias of an MLflow registry (MLFLOW_TRACKING_URI)
# format = "xgboost"                  # catboost, lightgbm, onnx; told by the path's ending
# ready = "s3://bucket/models/{model}/{day}/_DONE"  # if the file alone does not say it is whole
# [models.labels]
# table = "s3://bucket/clicks"        # as of scores; also for checkpoints in the lake, on its own
# day = "ds"
# label = "clicked"
# split = "split"                     # or holdout, as of scores
# unit = "user_id"                    # whose record it is
# columns = { hour = "dep_hour" }     # the model's feature, and the column that holds it
# [models.privacy]
# epsilon = 4.0

# How the game is played and read. All of it enters audit_id: change it, and the next audit of a day
# is another audit. These are the defaults.
[plan]
{plan}
# What all models trained on the same labels may promise together; above it there is an alert.
# [together]
# epsilon = 8.0
# delta = 1e-6        # at which declarations are composed

# What gate lets pass, and report and attest --page call accepted, beside the verdict not_refuted.
# [policy]
# max_epsilon = 2.0   # the largest declared epsilon
# max_sees_from = 3.0 # the least power: sees_from of the nights together
# max_age_days = 7    # the oldest proof: days since the last record was made
# trust = ["independent", "controlled"]   # whose evidence counts

[ray]
address = "local"  # local, auto (a cluster that runs already), or ray://host:port
# cpus = 4         # of a local Ray; all by default

# Statements that are differentially private for labels themselves, for people who may not read
# results about labels: privaudit publish makes them. privaudit make-key makes the key.
# [publication]
# statements = "statements"         # a place of its own, which more people may read
# key_file = "publication.key"      # of mode 600; or PRIVAUDIT_PUBLICATION__KEY in the environment
# epsilon = 0.1                     # of one statement; audits of some thousand records need 0.5
# epsilon_per_label = 1.0           # of all statements in which a label takes part

# A POST per alert, signed with HMAC-SHA256. Keep the secret in PRIVAUDIT_WEBHOOK__SECRET.
# [webhook]
# url = "https://alerts.example.com/privaudit"
# secret = "at least sixteen characters"
"""


def write_template(path: pathlib.Path, *, replace: bool) -> None:
    """Write the commented settings file.

    Raises:
        TerminalError: there is a file already and `replace` is not given, or it cannot be written.
    """
    plan = _plan_lines().replace("\nseed = 0\n", f"\nseed = {secrets.randbits(48)}  # {_DRAWN}\n")
    text = TEMPLATE.replace("{plan}", plan)
    try:
        with path.open("w" if replace else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise TerminalError(f"{path} is there already: give --force to replace it.") from None
    except OSError as error:
        raise TerminalError(f"{path} cannot be written: {error.strerror}.") from None


def _plan_lines() -> str:
    """Return every field of the plan that has a plain default, with what it means, as TOML."""
    from workers.plan import SECRET_FIELDS, Plan  # the mathematics takes a second

    lines = []
    for name, field in Plan.model_fields.items():
        if name in SECRET_FIELDS:
            continue  # set by the model's own entries
        value = field.default
        sign = "# " if value is None or isinstance(value, dict | tuple) else ""
        lines += [f"# {field.description}", f"{sign}{name} = {toml_of(value)}"]
    return "\n".join(lines) + "\n"


app = typer.Typer()


@command(app, panel=OPERATE)
def init(file: pathlib.Path = pathlib.Path("privaudit.toml"), *, force: bool = False) -> None:
    """Write a settings file in which every key is explained.

    Examples: privaudit init; privaudit init /etc/privaudit/privaudit.toml

    Options:
        file: Settings file to write.
        force: Replace settings that are there.
    """
    write_template(file, replace=force)
    typer.echo(f"Wrote {file}: set lake, warehouse and models in it, then run privaudit check.")


@command(app, panel=OPERATE)
def check(
    *,
    day: dt.date | None = None,
    models: list[str] | None = None,
    config: ConfigOption = None,
    full: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Try the settings against the real lake, warehouse, Ray, Prefect and webhook.

    Of each model a day is tried as its audit would: manifest, checkpoints, labels and what is
    declared, by the audit's own rules. One line each: ok, or failed with what is wrong and what to
    do. Nothing is stored. Exit code 0 if all is well, 1 otherwise.

    Examples: privaudit check; privaudit check --model ads-ctr --day 2026-11-19 --full

    Options:
        day: Day whose models and labels are tried; each model's newest by default.
        models (--model): Try only this model (repeatable); by default all.
        full: Read all of the day's rows, as the audit does, not a sample.
    """
    quiet()
    from flows.commands.checks import checks

    found = []
    out = console()
    for result in checks(config, day=day, models=models, whole=full):
        found.append(result)
        if not as_json:
            sign = "[green]ok    [/]" if result.ok else "[bold red]failed[/]"
            out.print(f"{sign} {escape(result.what)}: {escape(result.sentence)}")
    if as_json:
        rows = [{"check": one.what, "ok": one.ok, "sentence": one.sentence} for one in found]
        typer.echo(json_text(rows))
    raise typer.Exit(0 if all(result.ok for result in found) else 1)


@command(app, panel=OPERATE)
def overdue(
    *, day: DayOption = None, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """List the models without an audit whose deadline has passed, and alert.

    For a scheduler other than Prefect's, so that a silent Prefect does not go unnoticed: needs no
    server. Alerts go to the settings' webhook. Exit code 0 if none is missing, 1 otherwise.

    Examples: privaudit overdue; privaudit overdue --day 2013-02-05 --json
    """
    from flows.run.nightly import overdue_models
    from flows.settings import load_settings

    settings = load_settings(config)
    now = dt.datetime.now(dt.UTC)
    audited = day or settings.yesterday(now)
    models = overdue_models(settings, audited, now=now)
    if as_json:
        typer.echo(json_text([{"model": model, "day": audited} for model in models]))
    else:
        say(*(f"{model}: no audit for {audited}" for model in models))
    if settings.webhook is not None:
        from flows.notify.alerts import send
        from flows.notify.events import missing

        for model in models:
            send(settings.webhook, missing(model, audited, settings).payload())
    raise typer.Exit(1 if models else 0)


@command(app, panel=OPERATE)
def manifest(
    model_file: pathlib.Path | None = None,
    *,
    table: pathlib.Path | None = None,
    label: str | None = None,
    model: str = "model",
    day: dt.date | None = None,
    dataset: str = "labels",
    epsilon: float | None = None,
    delta: float = 0.0,
    unit: str = "record",
    schema: bool = False,
) -> None:
    """Print a manifest.json for a model file, with every field, to be looked through and stored.

    Features, classes and digest are the model's own; trained_on says the one day: correct it where
    it was trained on more. Of a lake's folder, model and day are the folders' names.

    Examples: privaudit manifest model.cbm --table labels.parquet --label late --model delays
    --day 2026-03-02 --dataset flights --epsilon 2 > manifest.json; privaudit manifest lake --label
    late --dataset flights

    Options:
        model_file: The model (.cbm, .ubj, .txt of LightGBM, .onnx); or a lake's folder: then
            manifest.json is written beside each model in it that has none.
        table: A Parquet file of the day's labels.
        label: The label's column.
        model: Name of the model; its folder in the lake.
        day: Day it was trained on.
        dataset: Name of the labels' folder in the lake.
        epsilon: Declared epsilon, if any.
        delta: Delta of the declaration.
        unit: Unit that the guarantee protects: a record, or a person's column.
        schema: Print the JSON Schema of manifests, and no manifest.
    """
    if schema:
        from workers.lake.manifest import json_schema

        typer.echo(json.dumps(json_schema(), indent=2))
        return
    from workers.sources.proposal import proposed_manifest, write_manifests

    privacy: dict[str, Any] | None = None
    if epsilon is not None:
        privacy = {"definition": "label_dp", "neighbors": "replace", "unit": unit}
        privacy |= {"epsilon": epsilon, "delta": delta, "mechanism": None}
        privacy |= {"declared_by": "unknown", "declared_at": None}
    if model_file is not None and model_file.is_dir():
        if table or day or label is None:
            raise typer.BadParameter("of a lake's folder give --label, and no --table or --day.")
        for written in write_manifests(model_file, dataset=dataset, label=label, privacy=privacy):
            typer.echo(f"Wrote {written}.")
        return
    if model_file is None or table is None or label is None or day is None:
        raise typer.BadParameter("give MODEL_FILE, --table, --label and --day; or --schema.")
    proposed = proposed_manifest(
        model_file, table, model=model, day=day, dataset=dataset, label=label, privacy=privacy
    )
    typer.echo(json.dumps(proposed, indent=2))
