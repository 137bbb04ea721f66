"""`privaudit attach`: from the user's own table to a first verdict."""

import pathlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from flows.commands import audits
from flows.commands.options import (
    OPERATE,
    JsonOption,
    command,
    feature_columns,
    refuse_missing,
    toml_of,
)
from flows.commands.printing import quiet, say
from workers.plain_text import plain_text

if TYPE_CHECKING:
    from workers.sources.proposal import Proposal

app = typer.Typer()

_NEW = 'lake = "lake"\nwarehouse = "warehouse"\nreport = "report"\n\n'


@command(app, panel=OPERATE)
def attach(
    table: str,
    *,
    name: str = "attached",
    label: str | None = None,
    target: str | None = None,
    proxy: str | None = None,
    target_table: str | None = None,
    proxy_table: str | None = None,
    split: str | None = None,
    holdout: str | None = None,
    day_column: str | None = None,
    time_zone: str | None = None,
    unit: str | None = None,
    record: str | None = None,
    context: list[str] | None = None,
    checkpoints: str | None = None,
    feature: list[str] | None = None,
    catalog: str | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    config: pathlib.Path = pathlib.Path("privaudit.toml"),
    only_settings: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Look at a table of predictions, or of rows, write settings for it, and audit its newest day.

    Every choice is explained; what the table does not say is asked, or taken from these options.
    The table itself is only read. The exit codes are those of `run`. For evidence that a model's
    owner cannot choose, see docs/how-to/independent-evidence.md.

    Examples: privaudit attach s3://bucket/predictions --name ads-ctr --proxy p_served --epsilon 4;
    privaudit attach labels --target-table s3://bucket/rescored --proxy-table s3://bucket/served;
    privaudit attach rows --label clicked --checkpoints "runs/{day}/m.json" --feature hr=dep_hour

    Options:
        table: Delta table, Parquet or CSV files, or Iceberg table's name.
        name: Name for the model.
        label (COLUMN): Column of the label.
        target (COLUMN): Column of the audited model's probability, or number.
        proxy (COLUMN): Column of an earlier model's probability, or number.
        target_table (TABLE): Separate table with the audited model's scores.
        proxy_table (TABLE): Separate table with the earlier model's.
        split (COLUMN): Column of the words train and holdout.
        holdout (RULE): Holdout: "bucket(event_id, 5) = 0".
        day_column (COLUMN): Column of the day, or name of its folders.
        time_zone (ZONE): Zone in which times fall on a day, like Europe/Amsterdam: asked for where
            rows carry an offset.
        unit (COLUMN): Column of the person that a record belongs to.
        record (COLUMN): Column of the record's name, which joins tables.
        context (COLUMN): Column of a feature that was known before the label (repeatable): the
            audit then usually proves more.
        checkpoints (PATH): The table holds no scores: models of files like runs/{day}/model.json,
            or models:/NAME@{day}, are asked about its rows.
        feature (NAME=COLUMN): With --checkpoints: the column of a feature that has another name in
            the model.
        catalog: Iceberg catalogue, as pyiceberg's settings know it.
        epsilon: Declared epsilon, if any.
        delta: Delta of the declaration.
        config: Settings file to write or to add to.
        only_settings: Write the settings and audit nothing.
    """
    quiet()
    from flows.commands.checks import check_model
    from flows.settings import load_settings
    from privcore.exceptions import TerminalError

    if feature and checkpoints is None:
        raise typer.BadParameter("--feature goes with --checkpoints: a model file takes it.")
    columns = feature_columns(feature or []) or None
    given: dict[str, Any] = {"catalog": catalog, "day": day_column, "time_zone": time_zone}
    given |= {"label": label, "target": target, "proxy": proxy, "split": split, "holdout": holdout}
    given |= {"unit": unit, "record": record, "context": context, "columns": columns}
    tables = {"target": target_table, "proxy": proxy_table}
    others = {role: _place(one, catalog) for role, one in tables.items() if one}
    place = _place(table, catalog)
    proposal = _proposed(place, given, checkpoints and _whole_path(checkpoints), others)
    privacy = _declared(epsilon, delta)
    day = proposal.newest
    if day is None:
        raise TerminalError(
            f"The column {proposal.settings['day']!r} of {place} does not show which day is the "
            "newest, and nothing is written: make it hold dates, times or text like 2026-03-02, or "
            "name another column with --day-column."
        )
    text = as_toml(name, place, proposal, privacy, folder=config.absolute().parent)
    _write(config, text)
    typer.echo(text, err=as_json)
    say(check_model(load_settings(config), name, day), aside=as_json)
    if not only_settings:
        audits.run(model=name, day=day, config=config, as_json=as_json)


def _place(table: str, catalog: str | None) -> str:
    """Return a table's address from wherever it is read."""
    from workers.lake.places import local_path

    return table if catalog else str(local_path(table) or table)


def _declared(epsilon: float | None, delta: float) -> dict[str, float]:
    """Return what `[models.privacy]` says; nothing where nothing is declared."""
    from privcore.guarantees import Relation
    from privcore.upper_bounds import Promised

    if epsilon is None:
        return {}
    Promised(epsilon, delta, Relation.REPLACE)  # refuses what is no guarantee
    return {"epsilon": epsilon, "delta": delta}


def _whole_path(template: str) -> str:
    """Return a template of paths from here as a whole one."""
    if "://" in template or template.startswith("models:/") or pathlib.Path(template).is_absolute():
        return template
    here = str(pathlib.Path.cwd()).replace("{", "{{").replace("}", "}}")
    return str(pathlib.Path(here) / template)


def _proposed(
    table: str, given: dict[str, Any], checkpoints: str | None, others: dict[str, str]
) -> "Proposal":
    """Look at the tables, and ask for what they do not say."""
    from privcore.exceptions import TerminalError
    from workers.sources.proposal import propose
    from workers.sources.tables.table_files import look

    if given["context"] and checkpoints is not None:
        raise TerminalError(
            "--context is for score tables. Model files (--checkpoints) name their features "
            "themselves: leave out --context."
        )
    if others and checkpoints is not None:
        raise TerminalError(
            f"--{next(iter(others))}-table names a score table, and --checkpoints names model "
            "files: give only one of them."
        )
    catalog = given["catalog"]
    seen = look(table, catalog=catalog, day=given["day"])
    beside = {role: look(place, catalog=catalog) for role, place in others.items()}
    proposal = propose(seen, given, checkpoints=checkpoints, others=beside)
    if not proposal.missing:
        return proposal
    return propose(seen, given | _answers(proposal.missing), checkpoints=checkpoints, others=beside)


def _answers(missing: Mapping[str, str]) -> dict[str, str]:
    """Ask on a terminal for what is missing; otherwise say which options tell it."""
    if not sys.stdin.isatty():
        refuse_missing(missing)
    answers = {}
    for key, sentence in missing.items():
        say(sentence)
        answers[key] = typer.prompt(key, prompt_suffix=" = ")
    return answers


def _write(config: pathlib.Path, text: str) -> None:
    """Write the settings, or add the model to those that are there, if they are whole after it."""
    from flows.settings import load_settings

    before = config.read_text(encoding="utf-8") if config.exists() else None
    config.write_text(_NEW + text if before is None else f"{before}\n{text}", encoding="utf-8")
    try:
        load_settings(config)
    except BaseException:
        if before is None:
            config.unlink()
        else:
            config.write_text(before, encoding="utf-8")
        raise


def as_toml(
    name: str, table: str, proposal: "Proposal", privacy: Mapping[str, Any], *, folder: pathlib.Path
) -> str:
    """Return `[[models]]` with every choice explained beside it.

    Columns' names and labels may be anybody's: a line break in one is written as an escape, so that
    none adds a line to the settings.

    Args:
        name: of the model.
        table: its first table.
        proposal: what was chosen, and why.
        privacy: what is declared, if anything.
        folder: of the settings file. What lies below it is named from there, so that the folder
            can be moved or shared.
    """
    part = "[models.scores]" if proposal.checkpoints is None else "[models.labels]"
    table = _from(folder, table)
    lines = ["[[models]]", f"name = {toml_of(name)}", part, f"table = {toml_of(table)}"]
    for prefix, keys in (("", proposal.settings), ("# ", proposal.offered)):
        for key, value in keys.items():
            shown = value
            if isinstance(value, Mapping) and "table" in value:
                shown = {**value, "table": _from(folder, value["table"])}
            why = plain_text(proposal.why[key])
            lines.append(f"{prefix}{key} = {toml_of(shown)}  # {why}")
    if proposal.unused:
        reasons = (f"{name} ({why})" for name, why in proposal.unused.items())
        lines.append(f"# not used: {plain_text(', '.join(reasons))}")
    if (path := proposal.checkpoints) is not None:
        path = _from(pathlib.Path(str(folder).replace("{", "{{").replace("}", "}}")), path)
        lines += ["[models.checkpoints]", f"path = {toml_of(path)}  # as you said"]
    if privacy:
        lines += ["[models.privacy]", *(f"{key} = {toml_of(one)}" for key, one in privacy.items())]
    return "\n".join(lines) + "\n"


def _from(folder: pathlib.Path, place: str) -> str:
    """Return a path below a folder as it is named from there, and any other place as it is."""
    path = pathlib.PurePath(place)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else place
