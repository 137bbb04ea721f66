"""Where public statements lie: one Delta table of its own, append-only, with the ledger of charges.

It lies apart from the warehouse, so that who may read the one need not read the other. Each row is
a statement, and what it cost. Two writers never publish at once: the table's log refuses the
second, who then reads what the first was charged.
"""

import datetime as dt
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import deltalake
import polars as pl
import pyarrow as pa

from privcore.exceptions import TerminalError
from privcore.publication import exactly
from workers.lake.probe import try_writing
from workers.publication.statement_row import Statement
from workers.warehouse.delta import open_table, readable, retry_commits, table_path, whole

_TABLE = "statements"
_WRITER = "statements"
"""Every commit names it, so that the log refuses the second of two at once."""
_OUTSIDE = "/"
"""The address of a table outside the lake has one; a dataset's name in the lake has none."""
_CONFIGURATION = {"delta.appendOnly": "true"}
_SCHEMA = pa.schema([
    pa.field("position", pa.int64()),
    pa.field("statement_id", pa.string()),
    pa.field("model", pa.string()),
    pa.field("day", pa.date32()),
    pa.field("dataset", pa.string()),
    pa.field("content", pa.string()),
])  # fmt: skip


class OverspentError(TerminalError):
    """A statement would cost a label more than all statements together may."""


@dataclass(frozen=True, slots=True)
class Statements:
    """The public statements at a path or an object-store URI.

    Attributes:
        uri: where they lie.
    """

    uri: str

    def check_place(self) -> None:
        """Write, read and delete a small file where the statements are to lie.

        Raises:
            TerminalError: they cannot lie there; the sentence says why.
        """
        table_path(self.uri, _TABLE)
        try_writing("publication.statements", self.uri)

    def all(self) -> list[Statement]:
        """Return all statements, in the order in which they were published.

        Raises:
            TerminalError: the table is damaged.
            TransientError: storage kept failing.
        """
        return [Statement.model_validate_json(text) for text in self.contents()]

    def contents(self) -> list[str]:
        """Return the text of all statements, byte for byte, in the order of publication.

        Raises:
            TerminalError: the table is damaged.
            TransientError: storage kept failing.
        """
        stored = open_table(self._path)
        return [] if stored is None else _contents(self.uri, stored, pl.lit(value=True))

    def of(self, model: str, day: dt.date) -> Statement | None:
        """Return the statement about a model's day that counts, the first; None if there is none.

        Raises:
            TerminalError: the table is damaged.
            TransientError: storage kept failing.
        """
        stored = open_table(self._path)
        if stored is None:
            return None
        asked = (pl.col("model") == model) & (pl.col("day") == day)
        found = _contents(self.uri, stored, asked)
        return Statement.model_validate_json(found[0]) if found else None

    def publish(
        self,
        make: Callable[[int], Statement],
        *,
        dataset: str,
        same: Callable[[Statement], bool],
        epsilon_per_label: float,
        again: bool = False,
    ) -> Statement:
        """Publish a statement and charge it; one that was published already is returned as it is.

        Whether there is one already is decided by `same`, which may read nothing that labels
        change: to publish anew because labels changed would tell that they did.

        Args:
            make: returns the statement of a revision: the number of those of the same, this one
                included.
            dataset: whose labels the statement is about.
            same: whether a statement is of the same audit of the same models by the same plan.
            epsilon_per_label: what all statements in which a label takes part may cost together.
            again: publish another revision, though there is one; it is charged like the first.

        Raises:
            OverspentError: a label would be charged more; nothing is published.
            TransientError: other writers kept winning, or storage kept failing.
            TerminalError: the table is damaged or cannot be written.
        """

        def once() -> Statement:
            stored = deltalake.DeltaTable.create(
                self._path, schema=_SCHEMA, mode="ignore", configuration=_CONFIGURATION
            )
            sharing = (
                pl.col("dataset").str.contains(_OUTSIDE, literal=True)
                if _OUTSIDE in dataset
                else pl.col("dataset") == dataset
            )
            contents = _contents(self.uri, stored, sharing)
            known = [Statement.model_validate_json(text) for text in contents]
            alike = [one for one in known if same(one)]
            if alike and not again:
                return alike[0]
            made = make(len(alike) + 1)
            _check_charge(made, known, epsilon_per_label)
            position = sum(pl.DataFrame(stored.get_add_actions(flatten=True))["num_records"])
            row = {
                "position": [position],
                "statement_id": [made.statement_id],
                "model": [made.model],
                "day": [made.day],
                "dataset": [made.dataset],
                "content": [made.content()],
            }
            named = deltalake.Transaction(_WRITER, position, int(time.time() * 1000))
            deltalake.write_deltalake(
                stored,
                pa.table(row, schema=_SCHEMA),
                mode="append",
                commit_properties=deltalake.CommitProperties(app_transactions=[named]),
            )
            return made

        return retry_commits(self.uri, _TABLE, once)

    def compact(self, *, kept_days: int) -> None:
        """Put the files of many publications together; every statement stays as it is.

        Args:
            kept_days: how long files stay that were replaced.

        Raises:
            TransientError: other writers kept winning.
            TerminalError: the table is damaged.
        """

        def once() -> None:
            stored = open_table(self._path)
            if stored is not None:
                stored.optimize.compact()
                stored.vacuum(
                    retention_hours=24 * kept_days,
                    dry_run=False,
                    enforce_retention_duration=False,
                )
                stored.create_checkpoint()

        retry_commits(self.uri, _TABLE, once)

    @property
    def _path(self) -> str:
        return table_path(self.uri, _TABLE)


def _contents(uri: str, stored: deltalake.DeltaTable, asked: pl.Expr) -> list[str]:
    def read() -> list[str]:
        with readable(uri):
            rows = pl.scan_delta(stored).filter(asked).sort("position").select("content").collect()
        return rows["content"].to_list()

    return whole(uri, read)


def _check_charge(made: Statement, known: list[Statement], epsilon_per_label: float) -> None:
    """Refuse a statement that would cost a label too much, beside those that may share labels.

    A label of a day takes part in all statements whose days include it; one that recurs may take
    part in all of its dataset. Tables outside the lake are taken for one dataset, since the scores
    of several models commonly lie in a table each, beside the same labels. A sum of floats would
    be a little off, so fractions are added.
    """
    days = set(made.label_days)
    shares = [
        one for one in known if made.labels_recur or one.labels_recur or days & set(one.label_days)
    ]
    spent: Fraction = sum((exactly(one.epsilon_public) for one in shares), start=Fraction())
    outside = (
        " Tables outside the lake are taken to hold the same labels."
        if _OUTSIDE in made.dataset
        else ""
    )
    if spent + exactly(made.epsilon_public) > exactly(epsilon_per_label):
        raise OverspentError(
            f"The labels of {made.dataset} took part in {len(shares)} statements that cost "
            f"{float(spent):g} together; one more of {made.epsilon_public:g} would exceed "
            f"publication.epsilon_per_label, {epsilon_per_label:g}. Nothing is published for "
            f"{made.model} on {made.day}: raise that limit only if the labels' owners agree."
            f"{outside}"
        )
