"""`privaudit verify`."""

import dataclasses
import datetime as dt
import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import LOOK, ConfigOption, CsvOption, JsonOption
from flows.commands.printing import Form, console, form_of, json_text, print_rows, working
from flows.commands.stored import not_the_days, stored_audit
from flows.commands.verify_bundle import AtOption, BundleOption, TrustOption, verify_evidence
from workers.plain_text import plain_text

if TYPE_CHECKING:
    from flows.settings import Settings
    from workers.audit.verify import Difference, Verification
    from workers.warehouse.schema import AuditRecord

app = typer.Typer()
_CODES = {"reproduced": 0, "intact": 0, "altered": 1, "different": 1}
_SHOWN = 20


@app.command(rich_help_panel=LOOK)
def verify(
    audit_id: Annotated[
        str | None,
        typer.Argument(
            help="The audit's id, or how it begins; with --stored alone every record is checked."
        ),
    ] = None,
    config: ConfigOption = None,
    *,
    stored: Annotated[
        bool, typer.Option("--stored", help="Check the digest of what is stored, without a lake.")
    ] = False,
    bundle: BundleOption = None,
    trust: TrustOption = None,
    at: AtOption = None,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compute an audit again from the lake, and check whether it gives every stored figure again.

    With --bundle and --trust it verifies signed evidence instead, from any machine.

    Exit code: 0 reproduced (intact, verified), 1 altered, different or signed by another key, 2 not
    comparable (other inputs, another method, no digest) or expired, 3 error.

    Examples: privaudit verify 0f3c2a91; privaudit verify --stored;
    privaudit verify --bundle ads-ctr-2026-03-02.bundle.json --trust evidence.pem.pub
    """
    if bundle is not None:
        if audit_id is not None or stored or as_csv or not trust:
            raise typer.BadParameter(
                "Give --bundle with --trust, without AUDIT_ID, --stored or --csv."
            )
        now = at or dt.datetime.now(dt.UTC)
        raise typer.Exit(verify_evidence(bundle, trust, now, as_json=as_json))
    if trust or at is not None:
        raise typer.BadParameter("--trust and --at go with --bundle.")
    form = form_of(as_csv=as_csv, as_json=as_json)
    if audit_id is None and not stored:
        raise typer.BadParameter("Give an AUDIT_ID, or --stored for all records.")
    with working("Verifying"):
        found, record, settings = _verified(audit_id, config, stored=stored)
    _print(found, form)
    codes = {_CODES.get(one.finding, 2) for one in found}
    if record is not None:
        from workers.warehouse.store import Warehouse

        if remark := not_the_days(Warehouse(settings.warehouse), record.audit.audit_id):
            typer.echo(remark, err=form is not Form.TABLE)
    raise typer.Exit(next((code for code in (1, 2) if code in codes), 0))


def _verified(
    audit_id: str | None, config: pathlib.Path | None, *, stored: bool
) -> "tuple[list[Verification], AuditRecord | None, Settings]":
    """Return what is found of one record or of all, and the record where it is one."""
    from flows.settings import load_settings
    from workers.audit.verify import verify as verify_record
    from workers.audit.verify import verify_all_stored, verify_stored
    from workers.warehouse.store import Warehouse

    settings = load_settings(config)
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_exists()
    if audit_id is None:
        return list(verify_all_stored(warehouse)), None, settings
    record = warehouse.record(warehouse.whole_id(audit_id))
    if stored:
        return [verify_stored(record)], record, settings
    with stored_audit(audit_id, config) as (record, lake, executor, key):
        return [verify_record(record, lake, executor, key)], record, settings


def _print(found: "list[Verification]", form: Form) -> None:
    rows = [dataclasses.asdict(one) for one in found]
    if form is Form.JSON:
        typer.echo(json_text(rows))
        return
    if form is Form.CSV:
        import polars as pl

        counted = [row | {"differences": len(row["differences"])} for row in rows]
        print_rows(pl.DataFrame(counted), form)
        return
    out = console()
    for one in found:
        # Of many records, those to look at.
        if len(found) == 1 or _CODES.get(one.finding, 2):
            line = f"{one.audit_id}  {one.finding}  {one.sentence}"
            out.print(plain_text(line), highlight=False, markup=False)
        for difference in one.differences[:_SHOWN]:
            line = plain_text(f"  {_in_words(difference)}")
            out.print(line, highlight=False, markup=False)
        if len(one.differences) > _SHOWN:
            out.print(f"  and {len(one.differences) - _SHOWN} more: --json lists them all")
    if len(found) != 1:
        intact = sum(not _CODES.get(one.finding, 2) for one in found)
        out.print(f"{intact} of {len(found)} records are intact.", highlight=False)


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
