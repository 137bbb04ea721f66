"""Live interfaces under attack: what they give away, and how an attack on one that fails ends."""

import itertools
import sys
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from privcore.exceptions import InvalidInputError, QueryFailedError, TransientError
from privcore.mechanisms import (
    BootstrapLaplace,
    KLaplace,
    NoisyCountThreshold,
    ProtectedTable,
    RestrictedInterface,
    RoundedToBit,
    Unprotected,
)
from tests.workers.release.test_release_attack import frame
from workers import patience
from workers.release.interface import Coin, connect
from workers.release.live import audit_interface
from workers.release.release_plan import ReleasePlan
from workers.release.table import as_columns, as_table

PLAN = ReleasePlan(definition="idp", epsilon=0.01)


def live(mechanism=None, rows=60, seed=0):
    table = as_table(frame(rows))
    random = np.random.default_rng(seed)
    return ProtectedTable(table.cells, table.columns, mechanism or KLaplace(), random)


def audit(interface, *, compare=None, **plan):
    given = PLAN.model_copy(update=plan)
    table = None if compare is None else as_columns(compare, interface.columns)
    return audit_interface(
        interface, given, name="staff:api", table=table, table_name="staff.csv" if table else None
    )


class Failing:
    """Fails on some of its calls, as told."""

    def __init__(self, interface, failures):
        self.interface, self.failures = interface, failures
        self.columns, self.records = interface.columns, interface.records
        self.calls = itertools.count()

    def answer(self, predicates, thresholds, *, epsilon):
        failure = self.failures(next(self.calls))
        if isinstance(failure, Exception):
            raise failure
        if failure is not None:
            return failure
        return self.interface.answer(predicates, thresholds, epsilon=epsilon)


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    slept = []
    monkeypatch.setattr(patience, "time", SimpleNamespace(sleep=slept.append))
    return slept


@pytest.mark.parametrize("compare", [None, frame()], ids=["asked again", "with its table"])
@pytest.mark.parametrize(
    ("mechanism", "plan"),
    [
        (KLaplace(), {}),
        (KLaplace(3), {"definition": "group_idp", "k": 3}),
        (BootstrapLaplace(), {"definition": "bdp"}),
    ],
)
def test_a_live_relaxation_is_read_whole(mechanism, plan, compare):
    row = audit(live(mechanism), compare=compare, **plan)
    assert row.verdict == "reconstructed"
    assert (row.records_reconstructed, row.cells_reconstructed) == (1.0, 1.0)
    assert row.progress_cells == pytest.approx((1 / 3, 2 / 3, 1.0))
    assert row.claimed_budget == pytest.approx(row.queries * row.epsilon_per_query)
    assert row.claimed_budget < 0.01
    assert row.interface == "staff:api"
    assert row.table == ("staff:api" if compare is None else "staff.csv")
    assert row.records_asked_again == (60 if compare is None else None)
    assert ("asking about 60 records again" in row.reason) == (compare is None)


@pytest.mark.parametrize("compare", [None, frame()], ids=["asked again", "with its table"])
@pytest.mark.parametrize("seed", range(5))
def test_an_honest_system_resists_whatever_it_is_taken_for(compare, seed):
    """It answers with 0 and 1, which the attack on a relaxation takes for noiseless."""
    for plan in ({}, {"definition": "dp"}):
        row = audit(live(NoisyCountThreshold(), seed=seed), compare=compare, **plan)
        assert row.verdict == "resisted"
        assert row.records_reconstructed < 0.1


@pytest.mark.parametrize("seed", range(5))
def test_the_same_coin_for_the_same_question_is_no_reading(seed):
    """A system that remembers its random answers confirms a quarter of what was misread."""

    class Remembering(Coin):
        def answer(self, predicates, thresholds, *, epsilon):  # noqa: ARG002
            groups = predicates.groups
            known = zip(predicates.group, predicates.low, predicates.high, thresholds, strict=True)
            return np.array(
                [
                    hash((seed, groups.columns, *groups.cells[g], predicates.column, *rest)) % 2
                    for g, *rest in known
                ],
                dtype=float,
            )

    columns = tuple(type(column)(column.name, 0, 40) for column in as_table(frame()).columns)
    row = audit(Remembering(columns, 400, np.random.default_rng(0)))
    assert row.verdict == "resisted"


def test_too_few_distinct_records_are_no_proof_without_the_table():
    same = pl.DataFrame({"x": [1, 1, 1, 2, 2, 3]})
    table = as_table(same)
    api = ProtectedTable(table.cells, table.columns, KLaplace(), np.random.default_rng(0))
    row = audit(api)
    assert (row.verdict, row.records_reconstructed) == ("resisted", 0.0)
    assert "give the table" in row.stopped
    assert audit(api, compare=same).verdict == "reconstructed"


def test_records_are_drawn_where_there_are_more_than_a_thousand():
    row = audit(live(rows=3000))
    assert (row.verdict, row.records, row.records_asked_again) == ("reconstructed", 3000, 1000)


def test_answers_make_the_record_and_the_same_answers_make_the_same():
    one, same, other = audit(live(seed=1)), audit(live(seed=1)), audit(live(seed=2))
    assert one.audit_id == same.audit_id
    assert one.labels_digest != other.labels_digest
    assert one.audit_id != other.audit_id


def test_a_system_that_comes_back_is_asked_again(waits):
    row = audit(Failing(live(), lambda call: ConnectionError("gone") if call % 2 else None))
    assert row.verdict == "reconstructed"
    assert 0.5 <= min(waits) <= max(waits) <= 0.75


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (TimeoutError("too slow"), "did not answer: too slow"),
        (TransientError("away"), "did not answer: away"),
        (ZeroDivisionError("oops"), "failed with ZeroDivisionError: oops"),
        ("nonsense", "answered 'nonsense'"),
        (np.zeros(7), "answered (7,)"),
        (np.zeros((0,)), "answered (0,)"),
    ],
)
def test_a_system_that_stays_away_leaves_a_record_with_what_was_learned(failure, words):
    counting = Failing(live(), lambda _: None)
    audit(counting)
    calls = next(counting.calls)
    for last, share in ((0, 0.0), (calls // 2, 0.0), (calls - 1, 2 / 3)):
        row = audit(Failing(live(), lambda call, last=last: failure if call >= last else None))
        assert row.verdict == "resisted"
        assert words in row.stopped
        assert row.records_reconstructed == 0.0
        assert row.progress_cells == tuple(sorted(row.progress_cells))
        assert row.cells_reconstructed == pytest.approx(share)


def test_nan_is_no_answer():
    system = live()
    answer = system.answer
    system.answer = lambda *asked, epsilon: np.nan * answer(*asked, epsilon=epsilon)
    row = audit(system)
    assert "answered nan" in row.stopped


def test_a_limit_on_queries_leaves_what_was_read_before_it():
    free = audit(live(), compare=frame())
    limited = RestrictedInterface(live(), queries=free.queries - 10)
    row = audit(limited, compare=frame())
    assert "refuses to answer" in row.stopped
    assert row.cells_reconstructed == pytest.approx(2 / 3)
    assert row.verdict == "resisted"
    assert row.reason.startswith("67% of all values were read before the attack ended")


def test_targets_of_a_live_interface_are_compared_with_its_table():
    targets = ({"age": "20"}, {"age": "99"})
    row = audit(live(), compare=frame(), targets=targets)
    assert (row.targets, row.targets_told) == (2, 2)
    assert row.progress_budget[-1] < row.claimed_budget


def test_distinct_records_that_cannot_be_are_named():
    """A coin says "some" of half of all ranges: more than there are records."""
    row = audit(Coin(as_table(frame()).columns, 60, np.random.default_rng(0)), definition="bdp")
    assert row.verdict == "resisted"
    assert row.stopped is not None


@pytest.mark.parametrize("compare", [None, frame()], ids=["asked again", "with its table"])
@pytest.mark.parametrize("definition", ["idp", "bdp", "dp"])
def test_a_system_without_noise_is_read_and_said_to_have_none(definition, compare):
    """An attack that looked for the claimed noise would misread its counts by one."""
    row = audit(live(Unprotected()), compare=compare, definition=definition)
    assert (row.verdict, row.records, row.cells_reconstructed) == ("reconstructed", 60, 1.0)
    assert "No answer had any noise" in row.reason


@pytest.mark.slow
@pytest.mark.parametrize("compare", [None, frame()], ids=["asked again", "with its table"])
@pytest.mark.parametrize(
    ("mechanism", "plan"),
    [
        (KLaplace(), {}),
        (KLaplace(2), {"definition": "group_idp", "k": 2}),
        (BootstrapLaplace(), {"definition": "bdp"}),
    ],
)
def test_rounding_to_bits_does_not_help(mechanism, plan, compare):
    row = audit(live(RoundedToBit(mechanism)), compare=compare, **plan)
    assert row.verdict == "reconstructed"
    assert row.claimed_budget == pytest.approx(row.queries * row.epsilon_per_query)
    assert "noise" not in row.reason


def test_noise_in_every_answer_is_not_read_and_said_so():
    row = audit(live(KLaplace(added_sensitivity=1.0)), compare=frame())
    assert row.verdict == "resisted"
    assert "Every answer had noise" in row.reason


class Memory:
    """Draws the noise of each question once: asked again, it answers as before."""

    def __init__(self, interface):
        self.interface, self.known = interface, {}
        self.columns, self.records = interface.columns, interface.records

    def answer(self, predicates, thresholds, *, epsilon):
        new = self.interface.answer(predicates, thresholds, epsilon=epsilon)
        groups = predicates.groups
        of = [tuple(zip(groups.columns, row, strict=True)) for row in groups.cells.tolist()]
        parts = (predicates.group, predicates.low, predicates.high, thresholds)
        keys = [
            (frozenset((*of[group], (predicates.column, low, high))), threshold)
            for group, low, high, threshold in zip(*(p.tolist() for p in parts), strict=True)
        ]
        return np.array(
            [self.known.setdefault(key, answer) for key, answer in zip(keys, new, strict=True)]
        )


@pytest.mark.parametrize("definition", ["idp", "bdp"])
@pytest.mark.parametrize("seed", range(5))
def test_an_honest_system_with_a_memory_is_not_accused_by_its_own_answers(seed, definition):
    """Its coins look like answers without noise; other questions do not confirm them."""
    interface = Memory(live(NoisyCountThreshold(), seed=seed))
    row = audit(interface, definition=definition)
    assert row.verdict == "resisted"
    assert row.records_reconstructed < 0.05


MODULE = """
import numpy as np
from privcore.mechanisms import Column, KLaplace, ProtectedTable

def api():
    cells = np.arange(40).reshape(20, 2)
    return ProtectedTable(cells, (Column("a"), Column("b")), KLaplace(), np.random.default_rng(0))

def away():
    raise ConnectionError("nobody there")

def broken():
    raise KeyError("password")

def other():
    return 3

number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "staff_system.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("staff_system", None)


@pytest.mark.usefixtures("module")
def test_an_interface_is_found_by_its_name():
    found = connect("staff_system:api")
    assert [column.name for column in found.columns] == ["a", "b"]
    assert audit(found).verdict == "reconstructed"
    for name, words in (
        ("staff_system", "module:function"),
        (":api", "module:function"),
        ("staff_system:", "module:function"),
        ("no_such_system:api", "cannot be imported"),
        ("staff_system:none", "no such function"),
        ("staff_system:number", "no such function"),
        ("staff_system:other", "QueryInterface"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            connect(name)
    with pytest.raises(TransientError, match="nobody there"):
        connect("staff_system:away")
    with pytest.raises(QueryFailedError, match="KeyError"):
        connect("staff_system:broken")


def test_a_table_is_read_in_the_columns_of_the_system():
    columns = as_table(frame()).columns
    table = as_columns(frame().select("town", "pay", "age"), columns)
    assert np.array_equal(table.cells, as_table(frame()).cells)
    for changed, words in (
        (frame().drop("pay"), "'pay'"),
        (frame().head(0), "at least one row"),
        (frame().with_columns(pl.lit("Z").alias("town")), "one of"),
        (frame().with_columns(pl.lit("x").alias("age")), "holds numbers"),
        (frame().with_columns(pl.lit(None, pl.Int64).alias("age")), "60 of its values"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            as_columns(changed, columns)
