"""Publication of what nights stored for it, and what an attestation is made of."""

import dataclasses
import datetime as dt
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

import jinja2
import polars as pl

from flows.report.canvas import SIGNS
from flows.report.templating import environment
from flows.settings import PublicationSettings, Settings
from privcore.exceptions import TerminalError
from privcore.lower_bounds import Verdict
from workers.plain_files import read_key
from workers.plain_text import plain_text
from workers.publication.statements import (
    OverspentError,
    Statement,
    Statements,
    follows,
    publish,
    sentence_of,
)
from workers.versions import CODE_VERSION, METHOD_VERSION
from workers.warehouse.schema import AuditRecord, ExactStatementRow, NoteKind
from workers.warehouse.store import CONFIGURED, Warehouse
from workers.warehouse.table_row import typed_rows

_INGREDIENTS = "audit_statements"
_FOLDER = pathlib.Path(__file__).with_name("templates")
_SHOWN = dt.timedelta(days=28)
"""The page shows the last statement of each model, and all of this time before the newest."""
_MEANINGS = {
    Verdict.VIOLATED: "The statement refutes the declared epsilon, if the holdout was drawn at "
    "random from the rows trained on, and no earlier model saw it.",
    Verdict.INCONCLUSIVE: "The declaration says nothing, what the test assumes is in doubt, or a "
    "false declaration would probably have looked the same.",
    Verdict.NOT_REFUTED: "The statement does not refute the declaration, and a larger leak of "
    "every label would probably have been seen. That is no proof: noise can hide a violation.",
}
_SIGNS = {
    verdict: dataclasses.replace(SIGNS[verdict], meaning=meaning)
    for verdict, meaning in _MEANINGS.items()
}


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
            "and key_file (privaudit init writes them as comments, and privaudit make-key "
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
    return read_key(
        None if key is None else key.get_secret_value(),
        publication.key_file,
        setting="publication.key_file",
        variable="PRIVAUDIT_PUBLICATION__KEY",
    )


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


def _unwithdrawn(warehouse: Warehouse) -> list[ExactStatementRow]:
    """Return the ingredients of the last audit of each model and day, in the order of days."""
    audits = (
        warehouse.scan("audits")
        .filter(CONFIGURED)
        .join(warehouse.notes(NoteKind.WITHDRAWN), on="audit_id", how="anti")
        .select("audit_id", "revision")
    )
    rows = warehouse.scan(_INGREDIENTS).join(audits, on="audit_id")
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


def statements_page(statements: Sequence[Statement]) -> str:
    """Return the page of all statements, given in the order of publication."""
    newest = max((one.day for one in statements), default=None)
    last = {one.model: one.statement_id for one in sorted(statements, key=lambda one: one.day)}
    shown = [
        one
        for one in statements
        if last[one.model] == one.statement_id or (newest and one.day > newest - _SHOWN)
    ]
    ranks = list(_SIGNS)
    shown.sort(key=lambda one: (-one.day.toordinal(), ranks.index(one.verdict), one.model))
    pages = environment()
    own = pages.overlay(
        loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(_FOLDER), pages.loader])  # type: ignore[list-item]
    )
    return own.get_template("statements.html.j2").render(
        day=newest,
        count_all=len(statements),
        statements=[
            (one, plain_text(one.model), _SIGNS[one.verdict], plain_text(sentence_of(one)))
            for one in shown
        ],
        signs=list(_SIGNS.values()),
        version=CODE_VERSION,
    )
