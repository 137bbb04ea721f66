"""Public statements: public facts and two noisy figures; what each label paid; where they are kept.

Exact statements are published with noise under the key, which the lake's side keeps and never
shows, and charged to their labels. The store is one append-only Delta table of its own, which is
the ledger, too. It lies apart from the warehouse, so that a reader of the one need not read the
other. Each row is a statement, and what it cost. Two writers never publish at once: the table's log
refuses the second, who then reads what the first was charged. Column statistics of the text of
statements are not kept, since they would repeat the text in the table's log.
"""

import datetime as dt
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import deltalake
import polars as pl
import pyarrow as pa
from pydantic import Field, ValidationError

from privcore.attacks import same_holdout
from privcore.exceptions import TerminalError
from privcore.lower_bounds.question import conclusive
from privcore.lower_bounds.verdicts import Verdict
from privcore.publication import (
    KeyedBits,
    NoisyWealth,
    StatementFigures,
    exactly,
    publish_statement,
)
from privcore.rounding import guarantee, up
from workers.lake.layout import open_filesystem, try_writing
from workers.versions import CODE_VERSION
from workers.warehouse.delta import open_table, readable, retry_commits, table_path, whole
from workers.warehouse.schema import ExactStatementRow, StatementFacts
from workers.warehouse.table_row import Moment

_SAME = (
    "model",
    "day",
    "dataset",
    "label_days",
    "method_version",
    "target_sha256",
    "proxy_sha256",
    "family",
    "epsilon_declared",
    "delta_declared",
    "neighbors",
    "unit",
    "by_policy",
    "epsilon_public",
)
"""Fields that make two audits the same to the public: none that a label changes."""
_SHOWN = 60
"""Letters of a strange entry that an error shows."""


PublicVerdict = Literal[Verdict.VIOLATED, Verdict.NOT_REFUTED, Verdict.INCONCLUSIVE]


class NoStatementError(TerminalError):
    """An entry of the statements' table is no statement of this version."""


class Statement(StatementFacts):
    """One public statement. Of its columns the two figures alone, and what follows, read labels."""

    statement_id: str = Field(description="Name of the statement, 32 random hexadecimal digits.")
    published_at: Moment = Field(description="When it was published, UTC.")
    method_version: str = Field(description="Version of the method.")
    code_version: str = Field(description="Version of privaudit that computed it.")
    target_sha256: str | None = Field(description="Digest of the audited model's file.")
    proxy_sha256: str | None = Field(description="Digest of the earlier model's file.")
    evidence_figure: int = Field(description="Its log-wealth in units of gap/64, with noise.")
    premises_figure: int = Field(description="Their log-wealth in units of gap/64, with noise.")
    verdict: PublicVerdict = Field(
        description="violated; not_refuted; or inconclusive: the declaration says nothing, what "
        "the test assumes is in doubt, or a false declaration would probably have looked the same."
    )
    pvalue: float = Field(description="Smallest significance at which the claim is refuted.")
    log_evalue: float | None = Field(
        description="Logarithm of an e-value against the claim. Null with few records."
    )
    premises_pvalue: float = Field(
        description="P-value of what the test assumes; at 0.1 or less nothing is concluded."
    )

    @property
    def charge(self) -> Fraction:
        """Privacy loss that publishing it adds for each label."""
        return exactly(self.epsilon_public)

    @property
    def figures(self) -> StatementFigures:
        """The statement's figures, from which verdict and p-values follow."""
        return _figures(self)


def _figures(row: "ExactStatementRow | Statement") -> StatementFigures:
    """Return a row's figures, with the noise that the row has."""
    each = exactly(row.epsilon_public) / 2
    return StatementFigures(
        row.significance,
        NoisyWealth(each, row.evidence_gap, row.evidence_figure, row.evidence_price),
        NoisyWealth(each, row.premises_gap, row.premises_figure),
    )


def sentence_of(made: Statement) -> str:
    """Return what a statement says of a model's day."""
    declared = guarantee(made.epsilon_declared, made.delta_declared)
    if made.verdict is Verdict.VIOLATED:
        return (
            f"The declared {declared} is refuted (p = {up(made.pvalue, decimals=4)}). The "
            "statement is private for labels, so it holds no figure of the audit itself: people "
            "who may read the labels find these in the exact record."
        )
    if made.declaration_empty:
        return f"The declared {declared} says nothing of so many records, whatever was audited."
    if made.figures.doubtful:
        return (
            f"What the test assumes is in doubt (p = {up(made.premises_pvalue, decimals=4)}), so "
            "nothing is concluded: labels of training and holdout records may differ, or an "
            "earlier model may have seen the holdout."
        )
    if made.sees_from is None:
        seen = "no leak, however large"
    else:
        seen = f"a leak from {up(made.sees_from)} on, if every label had shown it"
    if made.verdict is Verdict.INCONCLUSIVE:
        return (
            f"The declared {declared} is not refuted, and a false declaration would probably have "
            f"looked the same: such an audit would probably have seen {seen}. Nothing is concluded."
        )
    return (
        f"The declared {declared} is not refuted. Such an audit would probably have seen {seen}. "
        "That is no proof that the guarantee is kept."
    )


def verdict_of(facts: StatementFacts, figures: StatementFigures) -> PublicVerdict:
    """Return what follows from a statement's facts and figures.

    Nothing follows from an empty declaration or under doubtful assumptions. What is not refuted is
    `not_refuted` where a false declaration would probably have been refuted: no label decides that.
    """
    if facts.declaration_empty or figures.doubtful:
        return Verdict.INCONCLUSIVE
    if figures.refuted:
        return Verdict.VIOLATED
    seeing = conclusive(
        facts.epsilon_declared, epsilon_ceiling=facts.epsilon_ceiling, sees_from=facts.sees_from
    )
    return Verdict.NOT_REFUTED if seeing else Verdict.INCONCLUSIVE


def statement_from(content: str) -> Statement:
    """Return the statement that a stored text holds.

    Raises:
        NoStatementError: it holds none that this version knows.
    """
    try:
        return Statement.model_validate_json(content)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "all of it"
        raise NoStatementError(
            f"The statements' table holds {content[:_SHOWN]!a}, which is no statement ({where} is "
            "wrong): restore the table from a copy, since the audit alone writes there, or use the "
            "newer version of privaudit that wrote it."
        ) from None


def named_by(row: StatementFacts) -> list[str]:
    """Return what makes two audits the same to the public, each as text."""
    return [str(getattr(row, name)) for name in _SAME]


def subject_of(row: StatementFacts) -> str:
    """Return the digest of what makes two audits the same to the public, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(named_by(row)).encode()).hexdigest()


_OUTSIDE = "/"
"""The address of a table outside the lake has one; a dataset's name in the lake has none."""
_AGAIN = (
    " The holdout comes again from earlier nights, so its labels are charged on each of them: hold "
    "out new rows every day."
)
_UNTOLD = (
    " Nothing tells whether its holdout comes again, so it is taken to: name scores.context or "
    "scores.record, or hold out rows that differ."
)


class OverspentError(TerminalError):
    """A statement would cost a label more than all statements together may."""


def check_charge(made: Statement, known: Sequence[Statement], epsilon_per_label: float) -> None:
    """Refuse a statement that would cost a label too much, beside those that may share labels.

    A label of a day takes part in all statements whose days include it; one that recurs
    (`plan.labels_recur`) may take part in all of its dataset. If sketches say that this holdout was
    another day's, its labels were there on that day, and took part in what was published of that
    day by any model. Where a statement has no sketch, its holdout is taken for that of all
    statements of its dataset.
    *Does not see* that training rows come again where `plan.labels_recur` does not say so, that
    less than about half of a holdout comes again, or that the same rows come under other features;
    nor, of models with different features, those of days on which this model published nothing.

    Tables outside the lake are taken for one dataset, since the scores of several models commonly
    lie in a table each, beside the same labels. A sum of floats would be a little off, so fractions
    are added.

    Raises:
        OverspentError: a label would be charged more.
    """
    outside = _OUTSIDE in made.dataset
    known = [
        one for one in known if one.dataset == made.dataset or (outside and _OUTSIDE in one.dataset)
    ]
    again = [  # of other days, with this holdout
        one
        for one in known
        if not set(one.label_days) & set(made.label_days)
        and same_holdout((one.holdout_sketch, made.holdout_sketch))[1] == 0
    ]
    days = set(made.label_days).union(*(one.label_days for one in again))
    shares = [
        one
        for one in known
        if made.labels_recur
        or one.labels_recur
        or days & set(one.label_days)
        or None in {one.holdout_sketch, made.holdout_sketch}  # nothing says that they differ
    ]
    spent: Fraction = sum((one.charge for one in shares), start=Fraction())
    if spent + made.charge > exactly(epsilon_per_label):
        told = _UNTOLD if made.holdout_sketch is None else _AGAIN if again else ""
        same = " Tables outside the lake are taken to hold the same labels." if outside else ""
        raise OverspentError(
            f"The labels of {made.dataset} took part in {len(shares)} statements that cost "
            f"{float(spent):g} together; one more of {made.epsilon_public:g} would exceed "
            f"publication.epsilon_per_label, {epsilon_per_label:g}. Nothing is published for "
            f"{made.model} on {made.day}: raise that limit only if the labels' owners agree."
            f"{same}{told}"
        )


_TABLE = "statements"
_WRITER = "statements"
"""Every commit names it, so that the log refuses the second of two at once."""
_CONFIGURATION = {"delta.appendOnly": "true", "delta.dataSkippingStatsColumns": "position"}
_SCHEMA = pa.schema([pa.field("position", pa.int64()), pa.field("content", pa.string())])
PAGE = "index.html"
"""The page of all statements, beside their table."""


@dataclass(frozen=True, slots=True)
class Statements:
    """The public statements at a path or an object-store URI."""

    uri: str

    def check_place(self) -> None:
        """Write, read and delete a small file where the statements are to lie."""
        table_path(self.uri, _TABLE)
        try_writing("publication.statements", self.uri)

    def all(self) -> list[Statement]:
        """Return all statements in the order of publication.

        Raises:
            NoStatementError: a row is no statement.
        """
        stored = open_table(self._path)
        return [] if stored is None else _statements(self.uri, stored)

    def append(
        self, choose: Callable[[Sequence[Statement]], Sequence[Statement]]
    ) -> list[Statement]:
        """Append what is chosen, all of it in one commit, and return it.

        Args:
            choose: returns new statements, given all that there are. It is called again where
                another writer was first.
        """

        def once() -> list[Statement]:
            stored = deltalake.DeltaTable.create(
                self._path, schema=_SCHEMA, mode="ignore", configuration=_CONFIGURATION
            )
            known = _statements(self.uri, stored)
            made = list(choose(known))
            if not made:
                return made
            rows = [
                {"position": len(known) + place, "content": one.model_dump_json()}
                for place, one in enumerate(made)
            ]
            named = deltalake.Transaction(_WRITER, len(known), int(time.time() * 1000))
            deltalake.write_deltalake(
                stored,
                pa.Table.from_pylist(rows, schema=_SCHEMA),
                mode="append",
                commit_properties=deltalake.CommitProperties(app_transactions=[named]),
            )
            return made

        return retry_commits(self.uri, _TABLE, once)

    def write_page(self, text: str) -> str:
        """Replace the page beside the statements, and return where it lies."""
        files = open_filesystem(self.uri)
        with files.open_output_stream(PAGE) as stream:
            stream.write(text.encode())
        return f"{self.uri.rstrip('/')}/{PAGE}"

    @property
    def _path(self) -> str:
        return table_path(self.uri, _TABLE)


def _statements(uri: str, stored: deltalake.DeltaTable) -> list[Statement]:
    def read() -> pl.DataFrame:
        with readable(uri):
            return pl.scan_delta(stored).sort("position").collect()

    return [statement_from(content) for content in whole(uri, read)["content"]]


_TAKEN_OVER = (*StatementFacts.model_fields, "method_version", "target_sha256", "proxy_sha256")


def publish(
    exact: Sequence[ExactStatementRow],
    *,
    statements: Statements,
    key: bytes,
    epsilon_per_label: float,
) -> tuple[list[Statement], list[OverspentError]]:
    """Publish the statements of audits of which none is published, in one append.

    Whether there is one already is decided by what no label changes (`subject_of`): to publish anew
    because labels changed would tell that they did.

    Args:
        exact: what is to be said, without noise, in the order in which it is charged.
        statements: where statements are kept.
        key: secret, of 32 bytes or more.
        epsilon_per_label: what all statements in which a label takes part may cost together.

    Returns:
        What was published now, and why some is not: a label would be charged more.

    Raises:
        TerminalError: the statements cannot be read or written.
    """
    refused: list[OverspentError] = []

    def choose(known: Sequence[Statement]) -> list[Statement]:
        there = {subject_of(one) for one in known}
        made: list[Statement] = []
        refused.clear()
        for row in exact:
            if subject_of(row) in there:
                continue
            one = statement_of(row, key)
            try:
                check_charge(one, [*known, *made], epsilon_per_label)
            except OverspentError as error:
                refused.append(error)
                continue
            made.append(one)
            there.add(subject_of(row))
        return made

    return statements.append(choose), refused


def statement_of(exact: ExactStatementRow, key: bytes) -> Statement:
    """Return the public statement of an audit.

    The statement's id is drawn under the key for what the audit read, labels included, and its
    noise for the id: noise that is the same for two versions of the labels would cancel in their
    difference. Without the key neither tells which labels were read.
    """
    named = (*named_by(exact), exact.audit_id, str(exact.labels_digest))
    statement_id = f"{KeyedBits(key, 'statement', *named).below(1 << 128):032x}"
    made = publish_statement(_figures(exact), key=key, named=(statement_id,))
    return Statement(
        **{name: getattr(exact, name) for name in _TAKEN_OVER}
        | {"holdout_sketch": sketch_under(key, exact.holdout_sketch)},
        statement_id=statement_id,
        published_at=dt.datetime.now(dt.UTC),
        code_version=CODE_VERSION,
        evidence_figure=made.evidence.figure,
        premises_figure=made.premises.figure,
        verdict=verdict_of(exact, made),
        pvalue=made.pvalue,
        log_evalue=made.evidence.log_evalue,
        premises_pvalue=made.premises_pvalue,
    )


def follows(published: Statement, exact: ExactStatementRow, key: bytes) -> bool:
    """Return whether a statement is what its audit gives under the key."""
    of_moment = {"published_at": published.published_at, "code_version": published.code_version}
    return statement_of(exact, key).model_copy(update=of_moment) == published


def sketch_under(key: bytes, sketch: str | None) -> str | None:
    """Return a holdout's sketch as the public sees it: each byte replaced at its place, by the key.

    **Privacy for labels.** The sketch is a function of the holdout rows' features and of which rows
    these are (`sketched_rows`). Both are given where a statement is private for labels
    (`publish_statement`), and no label changes them: a row whose label cannot be read is in the
    sketch, too, and the sketch exists or not whatever the labels are. So what replaces it is the
    same for all labels, it adds nothing to the privacy loss, and noise and figures are drawn
    without it.

    **Features.** Each byte is a pseudorandom function's of its place and of the sketch's byte, the
    same for all statements under one key. A reader without the key therefore learns of any two
    statements at which places their sketches agree, and no more: about the share of rows that both
    holdouts have in common. Whether a row that the reader knows is in a holdout is not told, since
    the row's hash leads to a byte that the key alone replaces. *Does tell* how much of a holdout
    comes again on which nights and beside which models, and that few rows of it changed. A reader
    who has the exact sketch of one night beside its public one knows one byte at each place, and
    recognises it on other nights.

    After a new key the first holdout looks like one that never came.
    """
    if sketch is None:
        return None
    told = enumerate(bytes.fromhex(sketch))
    return bytes(KeyedBits(key, "holdout", place, one).below(1 << 8) for place, one in told).hex()
