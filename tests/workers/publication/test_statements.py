import datetime as dt
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import deltalake
import pytest

from privcore.exceptions import TerminalError
from tests.support.lake import DAY
from workers.publication.publish import publish
from workers.publication.statements import OverspentError, Statement, Statements

KEY = bytes(range(32))
Maker = Callable[..., Any]


@pytest.fixture
def statements(tmp_path: pathlib.Path) -> Statements:
    return Statements(str(tmp_path / "statements"))


def put(statements: Statements, row: Any, limit: float = 1.0) -> list[Statement]:
    made, refused = publish([row], statements=statements, key=KEY, epsilon_per_label=limit)
    for error in refused:
        raise error
    return made


def test_a_day_is_published_once(statements: Statements, exact: Maker) -> None:
    (first,) = put(statements, exact())
    assert statements.all() == [first]
    assert put(statements, exact()) == []
    assert statements.all() == [first]
    assert Statements(f"{statements.uri}-none").all() == []


def test_labels_that_changed_publish_nothing_of_themselves(
    statements: Statements, exact: Maker
) -> None:
    """That there is a second statement would tell that labels changed."""
    put(statements, exact())
    changed = exact(labels_digest="e" * 64, audit_id="f" * 32, evidence_figure=1)
    assert put(statements, changed) == []
    assert len(statements.all()) == 1


def test_a_night_is_one_append_and_what_costs_too_much_is_left_out_alone(
    statements: Statements, exact: Maker
) -> None:
    rows = [exact(model=f"m{number}") for number in range(4)]
    rows += [exact(model="m5", day=DAY + dt.timedelta(days=1)), rows[0]]
    made, refused = publish(rows, statements=statements, key=KEY, epsilon_per_label=0.25)
    assert [one.model for one in made] == ["m0", "m1", "m5"]
    assert ["m2" in str(refused[0]), "m3" in str(refused[1]), len(refused)] == [True, True, 2]
    assert statements.all() == made
    table = deltalake.DeltaTable(f"{statements.uri}/statements")
    assert len(table.file_uris()) == 1
    assert table.to_pyarrow_table()["position"].to_pylist() == [0, 1, 2]


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
    assert put(statements, exact(model="m3")) == []  # what is there costs nothing


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
    assert len(statements.all()) == 4


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


def test_a_place_that_cannot_be_written_is_said(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TerminalError):
        Statements(str(tmp_path / "file")).check_place()
    Statements(str(tmp_path / "new")).check_place()


def test_the_page_lies_beside_the_statements_and_is_replaced(statements: Statements) -> None:
    statements.check_place()
    for text in ("first, and long", "second"):
        assert statements.write_page(text) == f"{statements.uri}/index.html"
        assert pathlib.Path(f"{statements.uri}/index.html").read_text("utf-8") == text
    assert statements.all() == []
