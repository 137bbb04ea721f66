"""The ledger: what a label is charged, by one writer or by many at once."""

import concurrent.futures
import datetime as dt
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from privcore.exceptions import TerminalError
from tests.support.lake import DAY
from workers.publication import statement_store
from workers.publication.charges import OverspentError
from workers.publication.erased import NoStatementError
from workers.publication.publish import publish
from workers.publication.statement_row import Statement
from workers.publication.statement_store import Statements

KEY = bytes(range(32))
Maker = Callable[..., Any]


@pytest.fixture
def statements(tmp_path: pathlib.Path) -> Statements:
    return Statements(str(tmp_path / "statements"))


def put(statements: Statements, row: Any, limit: float = 1.0, **more: Any) -> Statement:
    return publish(row, statements=statements, key=KEY, epsilon_per_label=limit, **more)


def test_what_was_published_is_served_again_byte_for_byte(
    statements: Statements, exact: Maker
) -> None:
    first = put(statements, exact())
    before = statements.contents()
    assert put(statements, exact()) == first
    assert statements.contents() == before == [first.content()]
    assert statements.of("ads", DAY) == first
    assert statements.of("ads", DAY - dt.timedelta(days=1)) is None
    assert Statements(f"{statements.uri}-none").all() == []
    assert Statements(f"{statements.uri}-none").of("ads", DAY) is None


def test_labels_that_changed_publish_nothing_of_themselves(
    statements: Statements, exact: Maker
) -> None:
    """That there is a second statement would tell that labels changed."""
    first = put(statements, exact())
    changed = exact(labels_digest="e" * 64, audit_id="f" * 32, evidence_figure=1)
    assert put(statements, changed) == first
    assert len(statements.all()) == 1


def test_a_revision_is_asked_for_and_charged_and_has_noise_of_its_own(
    statements: Statements, exact: Maker
) -> None:
    first = put(statements, exact())
    second = put(statements, exact(), again=True)
    assert (first.revision, second.revision) == (1, 2)
    assert first.statement_id != second.statement_id
    assert first.evidence_figure != second.evidence_figure
    assert first.labels_commitment != second.labels_commitment
    assert statements.of("ads", DAY) == first, "who asks again knows what the first concluded"
    assert put(statements, exact()) == first


def test_a_label_is_charged_for_every_statement_that_it_takes_part_in(
    statements: Statements, exact: Maker
) -> None:
    """Ten tenths are one, exactly; the eleventh model on the same labels is refused."""
    for number in range(10):
        put(statements, exact(model=f"m{number}"))
    with pytest.raises(OverspentError, match="10 statements that cost 1 together"):
        put(statements, exact(model="m10"))
    assert len(statements.all()) == 10
    put(statements, exact(dataset="other"))
    put(statements, exact(day=DAY + dt.timedelta(days=1)))
    assert put(statements, exact(model="m3")).model == "m3"  # what is there costs nothing


def test_days_that_share_labels_are_charged_together(statements: Statements, exact: Maker) -> None:
    eve = DAY - dt.timedelta(days=1)
    put(statements, exact(label_days=(eve, DAY)), limit=0.15)
    with pytest.raises(OverspentError):
        put(statements, exact(day=eve), limit=0.15)
    with pytest.raises(OverspentError, match=r"owners agree\.$"):  # neither outside nor again
        put(statements, exact(model="other"), limit=0.15)
    put(statements, exact(day=DAY + dt.timedelta(days=1)), limit=0.15)


def test_tables_outside_the_lake_are_charged_together(statements: Statements, exact: Maker) -> None:
    """The scores of two models lie in a table each, and the labels beside them are the same."""
    put(statements, exact(dataset="s3://scores/ads"), limit=0.15)
    with pytest.raises(OverspentError, match="taken to hold the same labels"):
        put(statements, exact(model="b", dataset="/tables/b"), limit=0.15)
    put(statements, exact(model="b", dataset="/tables/b", day=DAY - dt.timedelta(1)), limit=0.15)
    put(statements, exact(model="b", dataset="scores"), limit=0.15)


def test_labels_that_recur_are_charged_on_all_days(statements: Statements, exact: Maker) -> None:
    put(statements, exact(), limit=0.15)
    later = DAY + dt.timedelta(days=9)
    with pytest.raises(OverspentError):
        put(statements, exact(day=later, labels_recur=True), limit=0.15)
    put(statements, exact(day=later), limit=0.15)


def test_labels_of_a_holdout_that_comes_again_are_charged_again(
    statements: Statements, exact: Maker
) -> None:
    """More than half of it suffices; what other models published on those days counts, too."""
    one, new = bytes(range(32)), bytes(range(100, 132))
    days = [DAY + dt.timedelta(days=place) for place in range(4)]
    put(statements, exact(day=days[0], holdout_sketch=one.hex()), limit=0.25)
    other = {"model": "b", "day": days[0], "holdout_sketch": bytes(range(50, 82)).hex()}
    put(statements, exact(**other), limit=0.25)
    put(statements, exact(day=days[1], holdout_sketch=(new[:21] + one[21:]).hex()), limit=0.25)
    again = exact(day=days[2], holdout_sketch=(new[:20] + one[20:]).hex())
    with pytest.raises(OverspentError, match=r"3 statements that cost 0\.3 .* comes again from"):
        put(statements, again, limit=0.35)
    put(statements, again, limit=0.45)
    put(statements, exact(day=days[3]), limit=0.15)


def test_where_nothing_tells_holdouts_apart_all_of_the_dataset_are_charged(
    statements: Statements, exact: Maker
) -> None:
    """Conservative: ten nights at the defaults, then names or features are asked for."""
    days = [DAY + dt.timedelta(days=place) for place in range(4)]
    put(statements, exact(day=days[0], holdout_sketch=None), limit=0.15)
    with pytest.raises(OverspentError, match=r"so it is taken to: name scores\.context"):
        put(statements, exact(day=days[1], holdout_sketch=None), limit=0.15)
    with pytest.raises(OverspentError, match="1 statements"):
        put(statements, exact(day=days[1]), limit=0.15)
    put(statements, exact(day=days[1], dataset="other"), limit=0.15)
    put(statements, exact(day=days[1], holdout_sketch=None), limit=0.25)


def test_where_nothing_tells_holdouts_apart_tables_outside_are_one_dataset_too(
    statements: Statements, exact: Maker
) -> None:
    """One holdout beside two models' tables: it may come again in the other's on another day."""
    untold = {"holdout_sketch": None}
    put(statements, exact(dataset="s3://scores/ads", **untold), limit=0.15)
    other = {"model": "b", "dataset": "/tables/b", "day": DAY + dt.timedelta(days=1)}
    with pytest.raises(OverspentError, match=r"hold the same labels\. Nothing tells whether"):
        put(statements, exact(**other, **untold), limit=0.15)
    with pytest.raises(OverspentError, match=r"hold the same labels\.$"):
        put(statements, exact(**other), limit=0.15)


def test_another_model_file_or_claim_is_another_statement(
    statements: Statements, exact: Maker
) -> None:
    put(statements, exact())
    put(statements, exact(target_sha256="0" * 64))
    put(statements, exact(epsilon_declared=2.0))
    put(statements, exact(epsilon_public=0.2))
    put(statements, exact(significance=0.01))  # no reason to draw noise again
    assert [one.revision for one in statements.all()] == [1, 1, 1, 1]


def test_many_writers_at_once_never_charge_more_than_a_label_may_cost(
    statements: Statements, exact: Maker
) -> None:
    """Twelve models at once, of which five may publish."""
    refused = []

    def write(number: int) -> None:
        try:
            put(Statements(statements.uri), exact(model=f"m{number}"), limit=0.5)
        except OverspentError as error:
            refused.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(statements.all()) == 5
    assert len(refused) == 7


def test_compaction_changes_no_statement(statements: Statements, exact: Maker) -> None:
    for number in range(6):
        put(statements, exact(model=f"m{number}"))
    before = statements.contents()
    statements.compact(kept_days=1)
    assert statements.contents() == before
    put(statements, exact(model="m6"))
    assert statements.contents()[:6] == before
    Statements(f"{statements.uri}-none").compact(kept_days=1)


def test_two_compactions_at_once_leave_each_statement_once(
    statements: Statements, exact: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have opened the table: `optimize.compact` of deltalake 1.6 doubled its rows here."""
    for revised in (False, True, True):
        put(statements, exact(), limit=9.0, again=revised)
    before = statements.contents()
    rewrite, others = statement_store.rewrite, []

    def overtaken(table: deltalake.DeltaTable, *how: Any) -> None:
        if not others:
            others.append(())
            rewrite(deltalake.DeltaTable(table.table_uri), *how)  # it has come as far as this one
        rewrite(table, *how)

    monkeypatch.setattr(statement_store, "rewrite", overtaken)
    statements.compact(kept_days=1)
    assert others
    assert len(before) == 3
    assert statements.contents() == before
    assert len(deltalake.DeltaTable(f"{statements.uri}/statements").file_uris()) == 1


def test_a_publication_during_a_compaction_is_kept(
    statements: Statements, exact: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(statements, exact(), limit=9.0)
    put(statements, exact(), limit=9.0, again=True)
    rewrite, late = statement_store.rewrite, []

    def overtaken(table: deltalake.DeltaTable, *how: Any) -> None:
        if not late:
            late.append(put(Statements(statements.uri), exact(), limit=9.0, again=True))
        rewrite(table, *how)

    monkeypatch.setattr(statement_store, "rewrite", overtaken)
    statements.compact(kept_days=1)
    assert [one.revision for one in statements.all()] == [1, 2, 3]
    assert late[0] in statements.all()


def test_compactions_and_publications_in_threads_leave_each_statement_once(
    statements: Statements, exact: Maker
) -> None:
    for revised in (False, True, True):
        put(statements, exact(), limit=9.0, again=revised)
    before = statements.contents()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        work = [pool.submit(Statements(statements.uri).compact, kept_days=1) for _ in range(3)]
        made = pool.submit(put, Statements(statements.uri), exact(), 9.0, again=True)
        for one in work:
            one.result()
    assert sorted(statements.contents()) == sorted([*before, made.result().content()])


def test_a_place_that_cannot_be_written_is_said(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TerminalError):
        Statements(str(tmp_path / "file")).check_place()
    Statements(str(tmp_path / "new")).check_place()


GARBLED = {
    "no JSON": "figures: 12",
    "cut off": '{"model":"ads"',
    "a list": "[1, 2]",
    "empty": "",
    "null": None,
    "a strange tombstone": '{"tombstone":{},"statement_id":"x"}',
    "a strange night": '{"test_id":"x","alarm":"perhaps"}',
    "terminal codes": '\x1b[2J{"model":"ads"}',
}


@pytest.mark.parametrize("content", GARBLED.values(), ids=GARBLED)
def test_a_row_that_is_no_statement_is_said_in_a_sentence(
    content: str | None, statements: Statements, exact: Maker
) -> None:
    """Questions to the store: all statements, one day's, an erasure, the ledger, a compaction."""
    put(statements, exact())
    column = pa.array([content], type=pa.string())
    table = deltalake.DeltaTable(f"{statements.uri}/statements")
    row = pa.table(table.to_pyarrow_table().to_pydict() | {"content": column, "day": [DAY]})
    garbled = row.set_column(2, "model", pa.array(["other"]))
    deltalake.write_deltalake(table, garbled, mode="append")
    kept = statements.of("ads", DAY)
    assert kept is not None
    for ask in (
        statements.all,
        lambda: statements.of("other", DAY),
        lambda: put(statements, exact(model="third")),
        lambda: statements.compact(kept_days=1),
    ):
        with pytest.raises(NoStatementError, match=r"which is no statement \(.*restore") as said:
            ask()
        assert "\x1b" not in str(said.value)
        assert len(str(said.value)) < 400


def test_a_row_of_a_day_that_python_has_not_is_said_in_a_sentence(
    statements: Statements, exact: Maker
) -> None:
    """It ended every command that reads statements with an unexpected error."""
    put(statements, exact())
    table = deltalake.DeltaTable(f"{statements.uri}/statements")
    rows = table.to_pyarrow_table()
    late = pa.array([10**7], pa.int32()).cast(pa.date32())
    forged = rows.set_column(rows.column_names.index("day"), "day", late)
    deltalake.write_deltalake(table, forged, mode="append")
    with pytest.raises(NoStatementError, match="beside another day, None"):
        statements.all()
