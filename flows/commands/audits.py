"""Audit: `privaudit run`, `night`, `backfill`; `check-labels` and `release` of tables alone."""

import datetime as dt
import importlib.util
import pathlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from flows.commands.options import (
    AUDIT,
    ConfigOption,
    DayOption,
    JsonOption,
    ModelsOption,
    RayAddressOption,
    as_parameter,
    command,
)
from flows.commands.printing import (
    begin_prefect,
    json_text,
    print_audits,
    print_rows,
    print_study,
    say,
    shown_progress,
    working,
)
from privcore.exceptions import AuditError
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from workers.plain_text import plain_text

if TYPE_CHECKING:
    from prefect import Flow

    from flows.run.night_plan import Job
    from flows.settings import Settings
    from flows.study.runner import Shown
    from workers.release.release_attack import ReleaseAudit
    from workers.warehouse.schema import AuditRow

app = typer.Typer()

StrictOption = Annotated[
    bool,
    typer.Option(
        "--strict", help="Exit with 2 also where a model is inconclusive for its size alone."
    ),
]


@command(app, panel=AUDIT)
def run(
    *,
    model: str,
    day: dt.date,
    config: ConfigOption = None,
    ray_address: RayAddressOption = None,
    seed: int | None = None,
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> None:
    """Audit one model on one day, on demand, and commit the record.

    Exit code, of the model's nights together: 1 violated, 3 failed, 2 inconclusive by a doubt or an
    empty declaration, 0 else.

    Examples: privaudit run --model delays-private --day 2013-02-03;
    privaudit run --model delays-private --day 2013-02-03 --seed 7

    Options:
        model: Name of the model.
        day: Audited day.
        seed: Seed of the games, instead of the settings' plan.seed.
    """
    settings = _settings(config, [model])
    overrides = {} if seed is None else {"seed": seed}
    settings.plan_of(model, overrides)  # refuses a seed that is none
    if importlib.util.find_spec("prefect") is None:
        from flows.run.night_plan import Job

        done = _audited_here(Job(model, day, overrides or None), settings)
    else:
        begin_prefect()
        from flows.run.nightly import PlanOverrides, audit_model

        plan = PlanOverrides(**overrides)
        done = _audited(audit_model, settings, config, ray_address, model=model, day=day, plan=plan)
    _end(done, settings, as_json=as_json, strict=strict, one=True)


@command(app, panel=AUDIT)
def night(
    *,
    day: DayOption = None,
    models: ModelsOption = None,
    config: ConfigOption = None,
    ray_address: RayAddressOption = None,
    no_wait: bool = False,
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> None:
    """Audit all models of a night as Prefect would, without its schedule.

    Waits for each model's inputs, and its audit, until its deadline, and says at once what it waits
    for. With --no-wait, models whose inputs are not there are left out, without a record. The
    exit code is the worst verdict's, as in `run`; 2 where there was nothing to audit.

    Examples: privaudit night; privaudit night --day 2013-02-03 --model delays-private;
    privaudit night --no-wait

    Options:
        no_wait: Audit the models whose inputs are there now, and end.
    """
    settings = _settings(config, models or ())
    begin_prefect()
    from flows.run.nightly import nightly_audit

    done = _audited(
        nightly_audit, settings, config, ray_address, day=day, models=models, wait=not no_wait
    )
    _end(done, settings, as_json=as_json, strict=strict, nothing=2 if no_wait else 0)


@command(app, panel=AUDIT)
def backfill(
    *,
    first: dt.date,
    last: dt.date,
    models: ModelsOption = None,
    config: ConfigOption = None,
    ray_address: RayAddressOption = None,
    dry_run: bool = False,
    force: bool = False,
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> None:
    """Audit every model on every day of a range, leaving out what is committed.

    A run that was cut goes on where it was when started again.

    Examples: privaudit backfill --first 2013-02-01 --last 2013-02-14 --dry-run;
    privaudit backfill --first 2013-02-01 --last 2013-02-14 --model delays-private

    Options:
        first: First audited day.
        last: Last audited day.
        dry_run: Only list the audits to do.
        force: Also audit what is committed.
    """
    settings = _settings(config, models or ())
    begin_prefect()
    from flows.run import nightly

    given: dict[str, Any] = {"first": first, "last": last, "models": models, "force": force}
    if not dry_run:
        done = _audited(nightly.backfill, settings, config, ray_address, **given)
        _end(done, settings, as_json=as_json, strict=strict)
    import polars as pl

    jobs = [(job.day, job.model) for job in nightly.plan_backfill(settings, **given)]
    schema = {"day": pl.Date, "model": pl.String}
    print_rows(pl.DataFrame(jobs, schema=schema, orient="row"), as_json=as_json)
    if not as_json:
        say(f"{len(jobs)} audits to do.")


def _settings(config: ConfigOption, models: Iterable[str]) -> "Settings":
    """Return the settings; a model that they do not list is refused before anything starts."""
    from flows.settings import load_settings

    settings = load_settings(config)
    settings.check_listed(models)
    return settings


def _audited(
    flow: "Flow[..., Any]",
    settings: "Settings",
    config: ConfigOption,
    ray_address: RayAddressOption,
    **parameters: Any,
) -> "tuple[Sequence[AuditRow], AuditError | None]":
    """Run a flow of audits, and return what it committed, and what of its end is incomplete.

    What could not be committed is not begun.
    """
    from flows.run.conclusion import (
        AlertsUndeliveredError,
        AuditsFailedError,
        ReportUnpublishedError,
    )
    from flows.run.runs import start
    from workers.warehouse.store import Warehouse

    Warehouse(settings.warehouse).check_place()
    try:
        with _connected(ray_address, settings), shown_progress():
            return start(flow, **parameters, settings=as_parameter(config)), None
    except AuditsFailedError as error:
        typer.echo(f"privaudit: {error}", err=True)
        return error.rows, None
    except (AlertsUndeliveredError, ReportUnpublishedError) as error:
        return error.rows, error


def _audited_here(
    job: "Job", settings: "Settings"
) -> "tuple[Sequence[AuditRow], AuditError | None]":
    """Audit a model in this process without Prefect, and commit its records; nobody is notified."""
    from flows.run.audit_requests import as_asked, batches
    from flows.run.night_plan import choose_executor, plan_night
    from workers.lake.layout import Lake
    from workers.warehouse.nights_together import commit_nights
    from workers.warehouse.store import Warehouse

    warehouse = Warehouse(settings.warehouse)
    warehouse.check_place()
    with shown_progress():
        planned = tuple(plan_night(Lake(settings.lake), [job], settings))
        with choose_executor(planned, settings.ray) as executor:
            found = [
                as_asked(record, job, settings)
                for records in batches(planned, settings, executor, f"{job.model} {job.day}")
                for record in records
            ]
        commit_nights(warehouse, found)
    return [record.audit for record in found], None


def _end(
    done: "tuple[Sequence[AuditRow], AuditError | None]",
    settings: "Settings",
    *,
    as_json: bool,
    strict: bool,
    one: bool = False,
    nothing: int = 0,
) -> NoReturn:
    """Print what was committed, and exit with the worst verdict's code; `nothing` without audits.

    Of several audits only the first with each fault has its sentence printed, of `one` in any case.
    """
    rows, incomplete = done
    code = _print_committed(rows, settings, as_json=as_json, strict=strict, one=one)
    if incomplete is not None:
        raise incomplete
    raise typer.Exit(code if rows else nothing)


def _print_committed(
    rows: "Sequence[AuditRow]", settings: "Settings", *, as_json: bool, strict: bool, one: bool
) -> int:
    """Print what was committed, and return the exit code of the worst verdict."""
    import polars as pl

    from flows.commands.verify import not_the_days
    from flows.next_steps import cards_of, exit_code, with_next_steps
    from workers.warehouse.nights_together import audited_nights
    from workers.warehouse.store import Warehouse

    warehouse = Warehouse(settings.warehouse)
    stored = audited_nights(warehouse, {row.audit_id for row in rows})
    audits = with_next_steps(stored)
    # What counts of the audited days may be other audits.
    named = ("model", "day", "secret")
    models, columns = stored["model"].unique(), (*named, "audit_id", "verdict")
    current = warehouse.current(every_secret=True, models=models, columns=columns)
    counting = current.join(stored, on=named, how="semi")
    counts = pl.col("audit_id").is_in(counting["audit_id"].implode())
    asked = stored.filter(pl.col("exploratory").fill_null(value=False) | ~counts)
    print_audits(audits, as_json=as_json)
    for card in cards_of(audits) if one else ():
        step = f"Next ({card.step.role}): {card.step.text}"
        say(card.figures, card.odds, step, aside=as_json)
    faults = {row.detail: row for row in reversed(rows) if row.verdict == Verdict.FAILED}
    say(*(row.reason for row in (rows if one else reversed(faults.values()))), aside=as_json)
    others = (not_the_days(warehouse, audit_id) for audit_id in asked["audit_id"])
    say(*audits["inputs_changed"], *others, aside=as_json)
    words = [
        (Verdict(verdict), None if code is None else ReasonCode(code))
        for verdict, code in audits.select("verdict_together", "reason_code_together").rows()
    ]
    lost = len(rows) - audits.height  # what could not be committed is no record
    refuted = [Verdict.VIOLATED for word in counting["verdict"] if word == Verdict.VIOLATED]
    words += [(Verdict.FAILED, ReasonCode.NOT_RUN)] * lost + [(word, None) for word in refuted]
    return exit_code(words, strict=strict)


def _connected(ray_address: str | None, settings: "Settings") -> AbstractContextManager[object]:
    """Connect to Ray before the flow, which finds it connected: what refuses is one sentence.

    A Ray of our own refuses no one. The flow starts it where it needs it, and ends it before it
    draws the report, so that this process holds no part of its store by then.
    """
    from workers.executors import on_ray

    address = ray_address or settings.ray.address
    if address == settings.ray.address == "local":
        return nullcontext()
    return on_ray(address, settings.ray.cpus)


@command(app, panel=AUDIT)
def check_labels(
    table: str,
    *,
    true: str,
    released: str,
    epsilon: float,
    record: str,
    delta: float = 0.0,
    reads: str = "nothing",
    time: str | None = None,
    strict: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Compare true labels with released ones, row by row: no model is asked.

    Proves how much the mechanism itself gives away of labels, whatever is trained on them.

    Exit code: 0 nothing refutes the declaration, or too few labels; 1 violated; 2 inconclusive by
    a doubt; 3 error.

    Example: privaudit check-labels day.parquet --true y --released z --epsilon 1 --record user_id

    Options:
        table: Path or URI of Parquet or CSV files, or of a Delta table.
        true: Column of the label that the mechanism read, uncorrected.
        released: Column of the label that it released.
        epsilon: Declared epsilon of one label.
        record (COLUMN|row): Column of the record; row if each row is one of its own.
        delta: Declared delta.
        reads (COLUMN,...|nothing): What the mechanism reads beside label and coin.
        time: Column that orders the rows, to look for shared coins.
        strict: End with 2 also where there are too few labels.
    """
    from privcore.exceptions import InvalidInputError
    from privcore.lower_bounds.released_labels import Declared
    from workers.audit.label_check import AskedLabels, fields_of, judge_labels
    from workers.sources.tables.table_files import read_rows

    try:
        declared = Declared(epsilon, delta)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from None
    columns = [name.strip() for name in reads.split(",") if name.strip()]
    asked = AskedLabels(
        true, released, declared, record, () if columns == ["nothing"] else tuple(columns), time
    )
    judged = judge_labels(read_rows(table), asked)
    if as_json:
        typer.echo(json_text(fields_of(judged, asked)))
    else:
        code = f": {judged.code}" if judged.code else ""
        say(f"{judged.verdict}{code}. {judged.reason}", *judged.remarks)
    if judged.verdict is Verdict.VIOLATED:
        raise typer.Exit(1)
    by_size = judged.code is not None and judged.code.by_size
    if judged.verdict is Verdict.INCONCLUSIVE and (strict or not by_size):
        raise typer.Exit(2)


@command(app, panel=AUDIT)
def release(
    *,
    definition: Literal["idp", "group_idp", "bdp", "dp"],
    table: str,
    k: Annotated[int, {"min": 1}] = 1,
    epsilon: float = 0.01,
    precision: float = 0.01,
    target: list[str] | None = None,
    output: pathlib.Path = pathlib.Path("release"),
    as_json: JsonOption = False,
) -> None:
    """Attack a table behind the noise of individual or bootstrap differential privacy.

    Says how many of its records can be read, with how many queries, at what claimed budget, and
    writes a page. No value that was read is printed or kept.

    Exit code: 0 resisted, 1 reconstructed or partly, 3 error.

    Example: privaudit release --table bank.parquet --definition group_idp --k 1 --epsilon 0.01
    --target age=41,job=retired

    Options:
        definition: Claim of the answers: individual, group individual or bootstrap differential
            privacy; dp is the honest control.
        table: The table: path or URI of a Parquet or CSV file.
        k: Group size of group_idp.
        epsilon: Privacy budget that all answers together may claim.
        precision: Width to which floating-point columns are read.
        target (COLUMN=VALUE,...): A person to attack singly, by what is known; repeat it for more.
        output: Folder for the page.
    """
    from flows.study.runner import write_shown
    from workers.release.release_attack import ReleasePlan, as_table, audit_release
    from workers.sources.tables.table_files import read_rows

    plan = ReleasePlan(
        definition=definition,
        k=k,
        epsilon=epsilon,
        precision=precision,
        targets=tuple(_parsed(text) for text in target or ()),
    )
    attacked, name = as_table(read_rows(table), precision=precision), table.rpartition("/")[2]
    with working(f"Attacking {name}"):
        found = audit_release(attacked, plan, name=name)
    print_study(write_shown(_shown(found), output, title=f"Attack on {name}"), as_json=as_json)
    raise typer.Exit(0 if found.verdict == "resisted" else 1)


def _parsed(text: str) -> dict[str, str]:
    """Return a person's known values by column."""
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not (column.strip() and equals) for column, equals, _ in pairs):
        raise typer.BadParameter(f"{text!r} is not a target: write column=value,column=value.")
    return {column.strip(): value.strip() for column, _, value in pairs}


def _shown(found: "ReleaseAudit") -> "Shown":
    from flows.study.runner import Shown
    from flows.study.tables import StudyTable
    from workers.release.release_attack import CLAIMS

    plan = found.plan
    size = f", groups of {plan.k}" if plan.definition == "group_idp" else ""
    rows = [
        ("claimed", f"{CLAIMS[plan.definition]}{size}, epsilon {plan.epsilon:g}"),
        ("records read whole", f"{found.records_read:.2%} of {found.records:,}"),
        ("values read", f"{found.cells_read:.2%}"),
        ("queries", f"{found.queries:,}"),
        ("budget claimed", f"{found.claimed_budget:.3g} of {plan.epsilon:g}"),
    ]
    if found.targets.targets:
        told = f"{found.targets.told} of {found.targets.targets} correctly classified"
        read = f"{found.targets.reconstructed} read whole, {found.targets.queries:,} queries"
        rows.append(("single persons", f"{told}; {read}"))
    if found.stopped:
        rows.append(("ended early", plain_text(found.stopped)))
    columns = (("what", False), ("result", False))
    name = plain_text(found.table)
    return Shown([found.reason], [StudyTable(f"{name}: {found.verdict}", columns, rows)])
