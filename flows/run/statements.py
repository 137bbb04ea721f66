"""Publication of the public statement, once, when its record is committed."""

import datetime as dt
from collections.abc import Sequence

import polars as pl

from flows.notify.prefect_context import run_log
from flows.notify.public import PublicNight
from flows.settings import Settings
from flows.settings.publication_settings import PublicationSettings
from privcore.exceptions import TerminalError
from privcore.lower_bounds.secret import Secret
from workers.publication.charges import OverspentError
from workers.publication.erased import Entry, ErasedStatement, Published
from workers.publication.key import read_key
from workers.publication.publish import differences, is_about, opening_of, publish
from workers.publication.recurring import AskedError
from workers.publication.statement_row import Statement
from workers.publication.statement_store import ErasedError, Statements
from workers.publication.threshold_night import ThresholdNight
from workers.publication.training_again import days_again
from workers.versions import METHOD_VERSION
from workers.warehouse.exact_statement_row import ExactStatementRow
from workers.warehouse.schema import AuditRecord, AuditRow
from workers.warehouse.store import CONFIGURED, Warehouse

_NOTHING = (
    "The settings publish nothing: add [publication] with statements and key_file (privaudit init "
    "writes them as comments)."
)


def publication_key(settings: Settings) -> bytes:
    """Return the key of `[publication]`, which the settings have."""
    given = settings.publication
    assert given is not None  # noqa: S101
    return read_key(None if given.key is None else given.key.get_secret_value(), given.key_file)


def statement_of_record(record: AuditRecord, settings: Settings) -> Published | None:
    """Publish a record's statement and return it; one that is published already is returned.

    There is none without `[publication]`, where the plan was changed for one run, where the audit
    has none (`workers.audit.exact_statement`), where it would cost a label too much, was erased, or
    a test over nights was asked about the day before.
    """
    if settings.publication is None or not record.statements or record.audit.exploratory:
        return None
    try:
        return _publish(record.statements[0], settings, settings.publication, again=False)
    except (AskedError, ErasedError, OverspentError) as error:
        run_log().warning("%s", error)
        return None


def _publish(
    exact: ExactStatementRow, settings: Settings, given: PublicationSettings, *, again: bool
) -> Published:
    return publish(
        exact,
        also=days_again(Warehouse(settings.warehouse), exact),
        statements=Statements(given.statements),
        key=publication_key(settings),
        epsilon_per_label=given.epsilon_per_label,
        again=again,
    )


def publish_current(
    model: str, day: dt.date, settings: Settings, *, again: bool = False
) -> Published:
    """Publish the statement of a day's current audit, or return the one that is published.

    Raises:
        TerminalError: nothing can be published, and why.
    """
    if settings.publication is None:
        raise TerminalError(_NOTHING)
    warehouse = Warehouse(settings.warehouse)
    of_day = (pl.col("model") == model) & (pl.col("day") == day)
    audits = (
        warehouse.scan("audits")
        .filter(of_day & CONFIGURED)
        .join(warehouse.scan("audit_statements").select("audit_id"), on="audit_id", how="semi")
        .join(warehouse.scan("audit_withdrawals"), on="audit_id", how="anti")
        .sort("revision")
    )
    found = warehouse.collect(audits.select("audit_id"))["audit_id"]
    if not len(found):
        raise TerminalError(
            f"No audit of {model} for {day} has a statement. It was not audited since [publication]"
            " was set, nothing is declared, or what it rests on (decoys, sampling, rows held out "
            "by a column, too few records) allows none: audit it with privaudit run, or see "
            "docs/how-to/publish-statements.md."
        )
    (exact,) = warehouse.record(found[-1]).statements
    return _publish(exact, settings, settings.publication, again=again)


def published_nights(rows: Sequence[AuditRow], settings: Settings) -> list[PublicNight]:
    """Return the public results of audits that were committed.

    Args:
        rows: of the audits; those of other secrets than labels have no public edition.
        settings: with `[publication]`.

    Raises:
        TerminalError: the statements or the warehouse are damaged.
    """
    warehouse, published = Warehouse(settings.warehouse), _statements(settings).all()
    ids = [row.audit_id for row in rows if not row.exploratory]
    stated = warehouse.scan("audit_statements").filter(pl.col("audit_id").is_in(ids))
    exact = {
        audit_id: warehouse.record(audit_id).statements[0]
        for audit_id in warehouse.collect(stated.select("audit_id"))["audit_id"]
        if warehouse.withdrawal(audit_id) is None
    }
    told = []
    for row in rows:
        if row.secret == Secret.LABEL:
            about = exact.get(row.audit_id)
            found = [one for one in published if about is not None and is_about(about, one)]
            silent = bool(row.declares_nothing)
            told.append(PublicNight(row.model, row.day, _shown(found), declares_nothing=silent))
    return told


def _shown(found: Sequence[Entry]) -> Entry | None:
    """Return the last statement about an audit; the first if it was erased: none replaces it."""
    if not found or isinstance(found[0], ErasedStatement):
        return found[0] if found else None
    return [one for one in found if not isinstance(one, ErasedStatement)][-1]


def opening_of_current(model: str, day: dt.date, settings: Settings) -> str:
    """Return the opening of a day's published statement, as hexadecimal digits.

    Of a test over nights it opens all answers, those to come included, which would have no noise
    for its holder. So it is given once the test is over.

    Raises:
        TerminalError: nothing was published, there is no key, or the day's test still runs.
    """
    published = _statements(settings).of(model, day)
    if published is None:
        raise TerminalError(f"No statement about {model} on {day} was published.")
    if not isinstance(published, ThresholdNight):
        return opening_of(published.statement_id, publication_key(settings)).hex()
    nights = [
        one
        for one in _statements(settings).all()
        if not isinstance(one, Statement) and one.test_id == published.test_id
    ]
    if not any(isinstance(one, ErasedStatement) or one.ends_test for one in nights):
        raise TerminalError(
            f"The test over nights that {model} on {day} belongs to still runs: its opening would "
            "take the noise of later nights away. Ask again after its alarm or its last night."
        )
    return opening_of(published.test_id, publication_key(settings)).hex()


def check_opening(record: AuditRecord, opening: str, settings: Settings) -> tuple[bool, str]:
    """Return whether a published statement follows from a record and its opening, and a sentence.

    Raises:
        TerminalError: nothing was published of the record, or the opening is none.
    """
    audit = record.audit
    published = [
        one
        for one in _statements(settings).all()
        if isinstance(one, Published) and (one.model, one.day) == (audit.model, audit.day)
    ]
    if not published or not record.statements:
        raise TerminalError(f"No statement about {audit.model} on {audit.day} was published.")
    try:
        secret = bytes.fromhex(opening)
    except ValueError:
        secret = b""
    if len(secret) != 32:
        raise TerminalError(
            "An opening is 64 hexadecimal digits: privaudit opening MODEL DAY prints them."
        )
    found = {one.statement_id: differences(one, record.statements[0], secret) for one in published}
    nearest = min(found, key=lambda statement_id: len(found[statement_id]))
    if not found[nearest]:
        return True, f"The statement {nearest} follows from this audit: figures and commitments."
    return False, (
        f"No published statement follows from this audit and this opening; the nearest, {nearest}, "
        f"differs in {', '.join(found[nearest])}. Ask for the statement's own opening, or why the "
        "record is another one."
    )


def check_follows(made: Published, settings: Settings) -> None:
    """Refuse to vouch for a statement that none of the day's audits gives under the key.

    A writer of the statements' place who has no key cannot make one that follows. Where the key or
    the exact records are not at hand, or another version of the method made these, nothing is
    checked. *Does not see* a writer who changes the exact record by as much.

    Raises:
        TerminalError: it follows from none.
    """
    try:
        key = publication_key(settings)
    except TerminalError:
        return
    warehouse = Warehouse(settings.warehouse)
    of_day = (pl.col("model") == made.model) & (pl.col("day") == made.day)
    stored = warehouse.collect(warehouse.scan("audit_statements").filter(of_day))
    exact = [
        warehouse.record(audit_id).statements[0]
        for audit_id, version in stored.select("audit_id", "method_version").iter_rows()
        if version == METHOD_VERSION
    ]
    if not exact or len(exact) < stored.height:
        return
    opening = opening_of(
        made.test_id if isinstance(made, ThresholdNight) else made.statement_id, key
    )
    if all(differences(made, one, opening) for one in exact):
        raise TerminalError(
            f"The statement {made.statement_id} about {made.model} on {made.day} follows from no "
            "audit of that day under the key: somebody changed it, or the key was replaced since. "
            "Restore the statements' table, and see privaudit attest-log."
        )


def _statements(settings: Settings) -> Statements:
    if settings.publication is None:
        raise TerminalError(_NOTHING)
    return Statements(settings.publication.statements)
