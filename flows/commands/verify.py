"""A stored audit computed again: `privaudit verify`, `locate` and `read-labels`."""

import contextlib
import dataclasses
import datetime as dt
import io
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from flows.commands.options import LOOK, AuditId, ConfigOption, JsonOption, command, open_warehouse
from flows.commands.printing import json_text, print_rows, say, working
from privcore.exceptions import TerminalError
from privcore.rounding import down
from workers.plain_files import open_plain, write_new
from workers.plain_text import plain_text

if TYPE_CHECKING:
    from workers.audit.locate import Located
    from workers.audit.verify import Difference, Verification
    from workers.evidence.attestation import VerifiedBundle
    from workers.executors import Executor
    from workers.lake.layout import Lake
    from workers.warehouse.schema import AuditRecord
    from workers.warehouse.store import Warehouse


@contextlib.contextmanager
def stored_audit(
    audit_id: str, config: pathlib.Path | None
) -> "Iterator[tuple[AuditRecord, Lake, Executor, bytes]]":
    """Return a record by its id, the lake, an executor for its inputs, and the warehouse's key."""
    from flows.run.night_plan import Job, choose_executor, plan_night
    from workers.lake.layout import Lake

    settings, warehouse = open_warehouse(config)
    record = warehouse.record(warehouse.whole_id(audit_id))
    lake, job = Lake(settings.lake), Job(record.audit.model, record.audit.day)
    with choose_executor(plan_night(lake, [job], settings), settings.ray) as executor:
        yield record, lake, executor, warehouse.digest_key()


def not_the_days(warehouse: "Warehouse", audit_id: str) -> str:
    """Return that an audit is not its model's and day's verdict, and why; "" where it is."""
    import polars as pl

    taken_back = warehouse.withdrawn([audit_id]).get(audit_id)
    if taken_back is not None:
        return plain_text(f"This audit was withdrawn: {taken_back.why}")
    known = warehouse.scan("audits").filter(pl.col("audit_id") == audit_id)
    asked = warehouse.collect(known.select("model", "day", "secret", "exploratory"))
    model, day, secret, exploratory = asked.row(0)
    one = warehouse.current(every_secret=True, days=[day], models=asked["model"])
    counting = one.filter(pl.col("secret").eq_missing(secret))["audit_id"].to_list()
    if audit_id not in counting:
        counts = ", ".join(name[:8] for name in counting) or "none"
        return plain_text(f"Of {model} on {day} another audit counts, and not this one: {counts}.")
    if exploratory:
        return "No audit under the settings' plan is known: this one is exploratory."
    return ""


app = typer.Typer()
_CODES = {"reproduced": 0, "intact": 0, "verified": 0}
_CODES |= dict.fromkeys(("altered", "different", "wrong_key"), 1)
_SHOWN = 20


@command(app, panel=LOOK)
def verify(
    audit_id: str | None = None,
    *,
    config: ConfigOption = None,
    stored: bool = False,
    bundle: pathlib.Path | None = None,
    trust: list[pathlib.Path] | None = None,
    as_json: JsonOption = False,
) -> None:
    """Compute an audit again from the lake, and check whether it gives every stored figure again.

    With --bundle and --trust it verifies signed evidence instead, from any machine.

    Exit code: 0 reproduced (intact, verified), 1 altered, different or signed by another key, 2 not
    comparable (other inputs, another method, no digest) or expired, 3 error.

    Examples: privaudit verify 0f3c2a91; privaudit verify --stored;
    privaudit verify --bundle ads-ctr-2026-03-02.bundle.json --trust evidence.pem.pub

    Options:
        audit_id: The audit's id, or how it begins; with --stored alone every record is checked.
        stored: Check the digest of what is stored, without a lake.
        bundle (FILE): Verify a bundle of privaudit attest, without warehouse, lake or settings.
        trust (FILE): With --bundle: public key of the signer in PEM (repeatable).
    """
    if bundle is not None:
        if audit_id is not None or stored or not trust:
            raise typer.BadParameter("Give --bundle with --trust, without AUDIT_ID or --stored.")
        raise typer.Exit(_verify_bundle(bundle, trust, as_json=as_json))
    if trust:
        raise typer.BadParameter("--trust goes with --bundle.")
    if audit_id is None and not stored:
        raise typer.BadParameter("Give an AUDIT_ID, or --stored for all records.")
    with working("Verifying"):
        found, remark = _verified(audit_id, config, stored=stored)
    if as_json:
        typer.echo(json_text([dataclasses.asdict(one) for one in found]))
    else:
        say(*_lines_of_records(found))
    say(remark, aside=as_json)
    codes = {_CODES.get(one.finding, 2) for one in found}
    raise typer.Exit(next((code for code in (1, 2) if code in codes), 0))


def _verified(
    audit_id: str | None, config: pathlib.Path | None, *, stored: bool
) -> "tuple[list[Verification], str]":
    """Return what is found of one record, and whether it is not the day's; or of all records."""
    from workers.audit.verify import verify as verify_record
    from workers.audit.verify import verify_all_stored, verify_stored

    _, warehouse = open_warehouse(config)
    if audit_id is None:
        return list(verify_all_stored(warehouse)), ""
    if stored:
        found = verify_stored(warehouse.record(warehouse.whole_id(audit_id)))
    else:
        with stored_audit(audit_id, config) as again:
            found = verify_record(*again)
    return [found], not_the_days(warehouse, found.audit_id)


def _lines_of_records(found: "list[Verification]") -> Iterator[str]:
    """Yield what is found, line by line; of many records, those to look at."""
    for one in found:
        if len(found) == 1 or _CODES.get(one.finding, 2):
            yield f"{one.audit_id}  {one.finding}  {one.sentence}"
        for difference in one.differences[:_SHOWN]:
            yield f"  {_in_words(difference)}"
        if len(one.differences) > _SHOWN:
            yield f"  and {len(one.differences) - _SHOWN} more: --json lists them all"
    if len(found) != 1:
        intact = sum(not _CODES.get(one.finding, 2) for one in found)
        yield f"{intact} of {len(found)} records are intact."


def _in_words(difference: "Difference") -> str:
    """Return a difference as a line; of two rows of values, the first that differs."""
    where = f"{difference.table}.{difference.column} {difference.row}".rstrip()
    stored, again, more = difference.stored, difference.recomputed, ""
    if isinstance(stored, tuple) and isinstance(again, tuple) and len(stored) == len(again):
        pairs = enumerate(zip(stored, again, strict=True), start=1)
        # As words, since 0 and -0 are other bits.
        other = [(place, *pair) for place, pair in pairs if str(pair[0]) != str(pair[1])]
        more = f" ({len(other)} of its {len(stored)} values differ)"
        place, stored, again = other[0]
        where += f" at place {place}"
    return f"{where}: stored {stored}, recomputed {again}{more}"


def _verify_bundle(path: pathlib.Path, trust: list[pathlib.Path], *, as_json: bool) -> int:
    """Verify signed evidence, print what it proves, and return the exit code."""
    finding, sentence, bundle = _found(path, trust)
    if as_json:
        shown = {"finding": finding, "sentence": sentence}
        typer.echo(json_text(shown | ({} if bundle is None else _as_object(bundle))))
    else:
        lines = [] if bundle is None else _lines(bundle)
        say(f"{finding}: {sentence}", *(f"  {line}" for line in lines))
    return _CODES.get(finding, 2)


def _found(
    path: pathlib.Path, trust: list[pathlib.Path]
) -> "tuple[str, str, VerifiedBundle | None]":
    """Return what is found of a bundle, in words too, and what it proves, if anything.

    Raises:
        TerminalError: the bundle or a key cannot be read.
    """
    from workers.evidence.attestation import (
        LARGEST,
        UntrustedSignatureError,
        read_public_key,
        verify_bundle,
    )
    from workers.versions import METHOD_VERSION

    trusted = [read_public_key(path) for path in trust]
    try:
        with open_plain(path) as stream:
            data = stream.read(LARGEST + 1)
    except OSError as error:
        raise TerminalError(
            f"The bundle {path} cannot be read ({error.strerror}): check the path."
        ) from None
    try:
        bundle = verify_bundle(data, trusted, method_version=METHOD_VERSION)
    except UntrustedSignatureError as error:
        return error.what, error.sentence, None
    finding, sentence = "verified", "The bundle is signed by a trusted key and unchanged."
    if bundle.recomputed is False:
        finding = "different"
        sentence = (
            "The bundle is signed and unchanged, but its verdict does not follow from its "
            "figures: ask the signer why."
        )
    elif bundle.expired(dt.datetime.now(dt.UTC)):
        finding = "expired"
        sentence = (
            f"The bundle is signed and unchanged, but it expired on "
            f"{bundle.expires_at:%Y-%m-%d %H:%M} UTC, or it begins later: ask the signer for "
            "another one."
        )
    return finding, sentence, bundle


def _lines(bundle: "VerifiedBundle") -> list[str]:
    """Return what a bundle proves, line by line."""
    from workers.publication.statements import Statement

    made, words = bundle.made, bundle.words
    expires = f"expires {bundle.expires_at:%Y-%m-%d %H:%M} UTC"
    if isinstance(made, Statement):
        again = {True: "follow from", False: "do not follow from", None: "were not tried on"}
        tested = (
            f"p-values: {made.pvalue:.4g} of the claim at significance {made.significance:g}, "
            f"{made.premises_pvalue:.4g} of what the test assumes; they "
            f"{again[bundle.recomputed]} the signed figures"
        )
        lines = [
            f"public statement: {made.model} on {made.day}: {bundle.result}. {words['verdict']}",
            tested,
            f"published {made.published_at:%Y-%m-%d %H:%M} UTC, {expires}",
        ]
    else:
        audit = made.audit
        lines = [
            f"exact record: {audit.model} on {audit.day}: {audit.verdict}. {words['verdict']}",
            f"audit {audit.audit_id}, record {audit.record_digest}",
            f"recorded {audit.recorded_at:%Y-%m-%d %H:%M} UTC, {expires}",
        ]
    lines += [f"assumed: {each}" for each in words["assumptions"]]
    return lines + [f"not tested: {each}" for each in words["not_tested"]]


def _as_object(bundle: "VerifiedBundle") -> dict[str, Any]:
    kind = "record" if hasattr(bundle.made, "audit") else "statement"
    return {
        "result": bundle.result,
        "recomputed": bundle.recomputed,
        "expires_at": bundle.expires_at.isoformat(),
        kind: bundle.made.model_dump(mode="json"),
        "words": bundle.words,
    }


_COLUMNS = ("segment", "records", "control_records", "named", "epsilon_lower", "qvalue")


@command(app, panel=LOOK)
def locate(audit_id: AuditId, *, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Find where a model leaks: the groups of rows in which an audit can prove a leak.

    It reads the audit's inputs again and commits nothing. Groups are chosen by features and the
    models' answers, never by labels: by each feature, by regions of all features, by unusual values
    and by duplicates. On average at most the audit's significance of the named groups leak nothing.

    Exit code: 0 whether a group is named or not, 3 error.

    Example: privaudit locate 0f3c2a91
    """
    from workers.audit.locate import locate as locate_leak

    with working("Locating"), stored_audit(audit_id, config) as found_again:
        found = locate_leak(*found_again)
    import polars as pl

    if found.segments or as_json:
        rows = pl.DataFrame([dataclasses.asdict(one) for one in found.segments], schema=_COLUMNS)
        proved = pl.when("named").then(pl.col("epsilon_lower").cast(pl.String))
        table = rows.select(
            group="segment",
            training="records",
            holdout="control_records",
            proved=proved.otherwise(pl.lit("-")),
            q=pl.col("qvalue").round(4),
        )
        print_rows(rows if as_json else table, as_json=as_json)
    say(_groups_sentence(found), aside=as_json)


@command(app, panel=LOOK)
def read_labels(
    audit_id: AuditId,
    *,
    config: ConfigOption = None,
    labels: pathlib.Path | None = None,
    as_json: JsonOption = False,
) -> None:
    """Read training labels from the audited model's file, as whoever downloads it can.

    An audit asks the model. A boosted tree's file, with the training features, also gives exact
    sums of labels. Beside a declared randomized response, they say whether it was applied.

    Exit code: 0 the declaration is not refuted, 1 the declared mechanism was not applied, 3 error.
    The exit code depends on the labels: only people who may read the labels may see it.

    Example: privaudit read-labels 0f3c2a91

    Options:
        labels (PARQUET): Write all labels that training read (released) beside the table's (true),
            for check-labels, if the file determines them.
    """
    from workers.audit.verify import read_stored

    with working("Reading"), stored_audit(audit_id, config) as (record, lake, executor, key):
        found = read_stored(record, lake, executor, key)
    answers = record.audit.epsilon_lower
    if as_json:
        said = dataclasses.asdict(found)
        del said["labels"]
        more = {"epsilon_lower_by_answers": answers, "sentence": found.sentence}
        typer.echo(json_text({"code": found.code} | said | more))
    else:
        proved = f"epsilon at least {down(answers)}" if answers else "nothing is proved"
        typer.echo(f"With the model's answers: {proved}.")
        verdict = "" if found.code is None else f"{found.code.verdict}: {found.code}. "
        say(f"With the model's file: {verdict}{found.sentence}")
    if labels is not None:
        if found.labels is None:
            raise TerminalError(
                f"{labels} is not written, as the file does not determine every label: "
                "check-labels would be misled by a choice of them."
            )
        content = io.BytesIO()
        found.labels.write_parquet(content)
        write_new(labels, content.getvalue())
    if found.code is not None:
        raise typer.Exit(1)


def _groups_sentence(found: "Located") -> str:
    """Return what the segments come to, in words."""
    named = [one for one in found.segments if one.named]
    small = ""
    if found.too_small:
        small = (
            f" {found.too_small} groups have fewer rows than plan.minimum_slice_records or "
            "plan.minimum_control_records and were not tested."
        )
    if not found.segments:
        return f"No group was tested.{small}"
    if not named:
        return (
            f"A leak is proved in none of {len(found.segments)} groups. That does not show that "
            f"there is none.{small}"
        )
    first = named[0]
    return (
        f"A leak is proved in {len(named)} of {len(found.segments)} groups, most of it in: "
        f"{first.segment} (epsilon at least {first.epsilon_lower:g}). Groups overlap, so one leak "
        f"may name several. The other groups may leak, too.{small}"
    )
