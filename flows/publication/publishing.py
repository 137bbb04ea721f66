"""Publication of what nights stored for it, and what an attestation is made of."""

import datetime as dt
from dataclasses import dataclass

import polars as pl

from flows.publication.page import statements_page
from flows.settings import Settings
from flows.settings.publication_settings import PublicationSettings
from privcore.exceptions import TerminalError
from workers.publication.charges import OverspentError
from workers.publication.key import read_key
from workers.publication.publish import follows, publish
from workers.publication.statement_row import Statement
from workers.publication.statement_store import Statements
from workers.versions import METHOD_VERSION
from workers.warehouse.exact_statement_row import ExactStatementRow
from workers.warehouse.schema import AuditRecord
from workers.warehouse.store import CONFIGURED, Warehouse
from workers.warehouse.table_row import typed_rows

_INGREDIENTS = "audit_statements"


@dataclass(frozen=True, slots=True)
class Publication:
    """The statements that are new, why others are not published, and where the page lies."""

    made: list[Statement]
    refused: list[OverspentError]
    page: str


def given(settings: Settings) -> PublicationSettings:
    """Return `[publication]` of the settings.

    Raises:
        TerminalError: they have none.
    """
    if settings.publication is None:
        raise TerminalError(
            "The settings have no [publication], so nothing is published: add it with statements "
            "and key_file (privaudit init writes them as comments, and privaudit publication-key "
            "makes the key), then audit a day and run privaudit publish."
        )
    return settings.publication


def key_of(settings: Settings) -> bytes:
    """Return the key of `[publication]`.

    Raises:
        TerminalError: there is none, or others may read its file.
    """
    publication = given(settings)
    key = publication.key
    return read_key(None if key is None else key.get_secret_value(), publication.key_file)


def publish_all(settings: Settings) -> Publication:
    """Publish a statement of every audited day that has none yet, and write the page anew.

    Of each model and day the last audit by the settings' own plan that was not withdrawn is taken,
    in the order of days. Which ones are taken is for nobody to choose: a person who knows the exact
    records would tell about labels by the choice.

    Raises:
        TerminalError: the key, the warehouse or the statements cannot be read or written.
    """
    publication, key = given(settings), key_of(settings)
    statements = Statements(publication.statements)
    made, refused = publish(
        _unwithdrawn(Warehouse(settings.warehouse)),
        statements=statements,
        key=key,
        epsilon_per_label=publication.epsilon_per_label,
    )
    return Publication(made, refused, statements.write_page(statements_page(statements.all())))


def _unwithdrawn(warehouse: Warehouse, *of: pl.Expr) -> list[ExactStatementRow]:
    """Return the ingredients of the last audit of each model and day, in the order of days."""
    audits = (
        warehouse.scan("audits")
        .filter(CONFIGURED, *of)
        .join(warehouse.scan("audit_withdrawals"), on="audit_id", how="anti")
        .select("audit_id", "revision")
    )
    rows = warehouse.scan(_INGREDIENTS).filter(*of).join(audits, on="audit_id")
    last = warehouse.collect(
        rows.sort("day", "model", "revision").unique(("model", "day"), keep="last").drop("revision")
    )
    return list(typed_rows(ExactStatementRow, last.sort("day", "model")))


def statement_about(model: str, day: dt.date, settings: Settings) -> Statement:
    """Return the published statement about a model's day, the first of several, to be vouched for.

    It is refused where none of the day's audits gives it under the key: a writer of the statements'
    place who has no key cannot make one that follows. Where the day's records were deleted, or
    another version of the method made them, nothing is checked. *Does not see* a writer who changes
    the exact record by as much.

    Raises:
        TerminalError: none was published, or it follows from none of the day's audits.
    """
    found = [
        one
        for one in Statements(given(settings).statements).all()
        if (one.model, one.day) == (model, day)
    ]
    if not found:
        raise TerminalError(
            f"No statement about {model} on {day} was published: run privaudit publish. If it "
            "publishes none, the day's audit allows none (docs/how-to/publish-statements.md)."
        )
    made, key, warehouse = found[0], key_of(settings), Warehouse(settings.warehouse)
    of_day = (pl.col("model") == model) & (pl.col("day") == day)
    same_method = pl.col("method_version") == METHOD_VERSION
    stored = warehouse.collect(warehouse.scan(_INGREDIENTS).filter(of_day, same_method))
    exact = typed_rows(ExactStatementRow, stored)
    if exact and not any(follows(made, one, key) for one in exact):
        raise TerminalError(
            f"The statement {made.statement_id} about {model} on {day} follows from no audit of "
            "that day under the key: somebody changed it, or the key was replaced since. Restore "
            "the statements' table, or the key."
        )
    return made


def record_about(model: str, day: dt.date, settings: Settings) -> AuditRecord:
    """Return the exact record that counts of a model's day, of labels.

    Raises:
        TerminalError: there is none.
    """
    warehouse = Warehouse(settings.warehouse)
    models = pl.Series("model", [model])
    current = warehouse.current(days=[day], models=models, columns=("audit_id",))
    if current.is_empty():
        raise TerminalError(
            f"There is no audit of {model} for {day}: audit it with privaudit run first."
        )
    return warehouse.record(current["audit_id"].item())
