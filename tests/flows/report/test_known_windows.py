"""What nights prove together is derived once, and again wherever their history changed."""

import datetime as dt
import hashlib
import pathlib
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from flows.notify.incidents import incidents_before
from flows.notify.metrics import latest_records
from flows.report import known_windows as module
from flows.report.known_windows import WINDOWS, known_windows, stored_windows, windows_beside
from flows.run.auditing import Audited
from flows.run.conclusion import conclude
from flows.settings import load_settings
from tests.flows.conftest import Command
from tests.support.lake import write_settings
from tests.support.tiers import rest_slow
from tests.support.warehouse import night as night_of
from tests.support.warehouse import put_rows
from tests.workers.warehouse.test_night_windows import START, night
from workers.warehouse.night_columns import EPSILON_STANDING, NIGHTS_REMARK
from workers.warehouse.night_windows import epsilon_windows
from workers.warehouse.schema import AuditRow
from workers.warehouse.store import Warehouse
from workers.warehouse.with_windows import Windows

KEY = b"k" * 32


@pytest.fixture
def warehouse(tmp_path: pathlib.Path) -> Warehouse:
    """Six nights of two models."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    both = [night(number, model=model) for number in range(6) for model in ("ads", "loans")]
    put_rows(warehouse, both)
    return warehouse


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[str, int]]]:
    """The nights that each call of `read` derived."""
    calls: list[list[tuple[str, int]]] = []

    def windows(warehouse: Warehouse, audits: pl.DataFrame, **current: Any) -> pl.DataFrame:
        nights = audits.sort("model", "day").select("model", "day").rows()
        calls.append([(model, (day - START).days) for model, day in nights])
        return epsilon_windows(warehouse, audits, **current)

    monkeypatch.setattr("workers.warehouse.night_windows.epsilon_windows", windows)
    return calls


def read(warehouse: Warehouse, root: pathlib.Path, *, key: bytes = KEY) -> None:
    """Ask as a report does, and compare with what is derived anew."""
    current = warehouse.current(every_secret=True)
    found = known_windows(root, key)(warehouse, current).sort("day", "model", "audit_id")
    assert found.equals(epsilon_windows(warehouse, current).sort("day", "model", "audit_id"))


@pytest.mark.slow
def test_a_new_night_derives_itself_alone(
    warehouse: Warehouse, tmp_path: pathlib.Path, derived: list[list[tuple[str, int]]]
) -> None:
    read(warehouse, tmp_path)
    assert len(derived.pop()) == 12
    put_rows(warehouse, [night(6, model="ads")])
    read(warehouse, tmp_path)
    assert derived.pop() == [("ads", 6)]
    content = (tmp_path / WINDOWS).read_bytes()
    read(warehouse, tmp_path)
    assert derived.pop() == []
    assert (tmp_path / WINDOWS).read_bytes() == content


@pytest.mark.slow
def test_a_night_that_changed_derives_itself_and_what_came_after(
    warehouse: Warehouse, tmp_path: pathlib.Path, derived: list[list[tuple[str, int]]]
) -> None:
    read(warehouse, tmp_path)
    derived.clear()
    put_rows(warehouse, [night(3, model="loans", hour=5)])  # labels came late
    read(warehouse, tmp_path)
    assert derived.pop() == [("loans", 3), ("loans", 4), ("loans", 5)]
    second = warehouse.current().filter(pl.col("model") == "ads", pl.col("day") == day(1))
    warehouse.withdraw(second["audit_id"].item(), "The wrong labels.")
    read(warehouse, tmp_path)
    assert derived.pop() == [("ads", 2), ("ads", 3), ("ads", 4), ("ads", 5)]


def day(number: int) -> dt.date:
    return START + dt.timedelta(days=number)


@pytest.mark.slow
@pytest.mark.parametrize("lie", ["forged", "cut", "empty", "other key", "other code"])
def test_a_file_that_is_not_sealed_is_not_believed(
    warehouse: Warehouse,
    tmp_path: pathlib.Path,
    derived: list[list[tuple[str, int]]],
    monkeypatch: pytest.MonkeyPatch,
    lie: str,
) -> None:
    read(warehouse, tmp_path, key=b"x" * 32 if lie == "other key" else KEY)
    derived.clear()
    path = tmp_path / WINDOWS
    content = path.read_bytes()
    if lie == "forged":  # a byte of the rows, below the seal of others
        path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    if lie in {"cut", "empty"}:
        path.write_bytes(content[:-10] if lie == "cut" else b"")
    if lie == "other code":
        monkeypatch.setattr(module, "code_digest", lambda: "other code")
    read(warehouse, tmp_path)
    assert len(derived.pop()) == 12


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["all", "but the last night", "forged", "nothing", "no key"])
def test_a_command_reads_what_the_report_keeps_and_derives_the_rest(
    warehouse: Warehouse, tmp_path: pathlib.Path, derived: list[list[tuple[str, int]]], kept: str
) -> None:
    if kept != "nothing":
        read(warehouse, tmp_path)
    if kept == "but the last night":
        put_rows(warehouse, [night(6, model="loans")])
    if kept == "forged":
        (tmp_path / WINDOWS).write_bytes((tmp_path / WINDOWS).read_bytes()[:-1] + b"x")
    before = {path: path.read_bytes() for path in tmp_path.glob(".*")}
    derived.clear()
    audits = warehouse.current(every_secret=True, days=[day(6 if "last" in kept else 5)])
    found = windows_beside(tmp_path, None if kept == "no key" else KEY, warehouse, audits)
    assert found.sort("model").equals(epsilon_windows(warehouse, audits).sort("model"))
    assert found.height == audits.height == (1 if "last" in kept else 2)
    whole = [("ads", 5), ("loans", 5)]
    assert derived == {"all": [], "but the last night": [[("loans", 6)]]}.get(kept, [whole])
    assert {path: path.read_bytes() for path in tmp_path.glob(".*")} == before


@pytest.mark.slow
def test_a_command_derives_a_night_whose_history_changed_since_the_report(
    warehouse: Warehouse, tmp_path: pathlib.Path, derived: list[list[tuple[str, int]]]
) -> None:
    read(warehouse, tmp_path)
    derived.clear()
    put_rows(warehouse, [night(3, model="loans", hour=5)])  # labels came late
    audits = warehouse.current(every_secret=True, days=[day(5)])
    found = windows_beside(tmp_path, KEY, warehouse, audits)
    assert derived == [[("loans", 5)]]
    assert found.sort("model").equals(epsilon_windows(warehouse, audits).sort("model"))


@pytest.mark.parametrize("nights_before", rest_slow([0, 1]))
def test_a_nights_end_derives_each_night_once(
    tmp_path: pathlib.Path,
    warehouse: Warehouse,
    derived: list[list[tuple[str, int]]],
    nights_before: int,
) -> None:
    """Alerts, metrics and report ask for the same nights."""
    settings = load_settings(write_settings(tmp_path, ["ads", "loans"])).model_copy(
        update={"metrics": str(tmp_path / "audits.prom")}
    )
    for number in range(6, 7 + nights_before):
        derived.clear()
        last = [night(number, model=model) for model in ("ads", "loans")]
        put_rows(warehouse, last)
        conclude("night", "A night", [Audited(record.audit) for record in last], settings)
    nights = [one for call in derived for one in call]
    assert len(nights) == len(set(nights))
    assert {number for _, number in nights} == {6 + nights_before} | (
        set() if nights_before else set(range(6))
    )
    current = warehouse.current(every_secret=True)
    found = stored_windows(tmp_path / "report")(warehouse, current).sort("day", "model")
    assert found.equals(epsilon_windows(warehouse, current).sort("day", "model"))


COMMANDS = {
    "show": ["show"],
    "explain": ["explain", "ID"],
    "gate": ["gate", "--sha256", "model.cbm"],
    "sql": ["sql", "from epsilon_windows"],
}
ALERTS: dict[str, Callable[[Warehouse, AuditRow, Windows], object]] = {
    "metrics": lambda warehouse, _, windows: latest_records(warehouse, ["ads", "loans"], windows),
    "incidents": lambda warehouse, row, windows: incidents_before(warehouse, [row], windows),
}


@pytest.mark.slow
@pytest.mark.parametrize("reader", [*COMMANDS, *ALERTS])
def test_whoever_asks_for_a_night_is_told_what_the_report_kept(
    tmp_path: pathlib.Path,
    warehouse: Warehouse,
    derived: list[list[tuple[str, int]]],
    privaudit: Command,
    monkeypatch: pytest.MonkeyPatch,
    reader: str,
) -> None:
    """To derive a night anew takes a fleet's warehouse seconds, and first numba."""
    monkeypatch.chdir(tmp_path)
    write_settings(tmp_path, ["ads", "loans"])
    (tmp_path / "model.cbm").write_bytes(b"a model")
    sha256 = hashlib.sha256(b"a model").hexdigest()
    last = night(6, model="ads")
    last = last.model_copy(
        update={"audit": last.audit.model_copy(update={"target_sha256": sha256})}
    )
    put_rows(warehouse, [last])
    answers = []
    for kept in (False, True):
        if kept:
            assert privaudit("report").code == 0
            derived.clear()
        if reader in COMMANDS:
            words = [last.audit.audit_id if word == "ID" else word for word in COMMANDS[reader]]
            answers.append(privaudit(*words, "--json").out)
        else:
            windows = stored_windows(tmp_path / "report")
            answers.append(ALERTS[reader](warehouse, last.audit, windows))
        assert bool(derived) != kept
    assert not derived
    assert answers[0] == answers[1]


def test_a_history_is_no_other_one(warehouse: Warehouse) -> None:
    """Ids and digests that make one text when joined are two histories."""
    current = warehouse.current(every_secret=True).filter(pl.col("model") == "ads").head(1)
    found = [
        module._histories(  # no warehouse holds such ids
            current.with_columns(audit_id=pl.lit(one), record_digest=pl.lit(digest)),
            asked=pl.Series([one]),
        )["history"].item()
        for one, digest in (("ab", "c d"), ("ab c", "d"), ("a", "bc d"), ("ab", "c  d"))
    ]
    assert len(set(found)) == 4


def test_an_audit_without_a_digest_is_derived_every_time(
    warehouse: Warehouse, tmp_path: pathlib.Path, derived: list[list[tuple[str, int]]]
) -> None:
    """Nor is a later night known, whose history it belongs to."""
    fourth = (pl.col("model") == "ads") & (pl.col("day") == day(4))
    lacking = pl.when(~fourth).then("record_digest").alias("record_digest")
    for _ in range(2):
        current = warehouse.current(every_secret=True).with_columns(lacking)
        known_windows(tmp_path, KEY)(warehouse, current)
    assert derived.pop() == [("ads", 4), ("ads", 5)]


def test_nights_that_contradict_each_other_are_read_again(
    warehouse: Warehouse, tmp_path: pathlib.Path, derived: list[list[tuple[str, int]]]
) -> None:
    """Whoever mends the rows sees it in the next report."""
    forged = night(6, model="ads")
    (wealth,) = forged.wealth
    broken = wealth.model_copy(update={"window_log_wealth": wealth.window_log_wealth[:-113]})
    put_rows(warehouse, [forged.model_copy(update={"wealth": (broken,)})])
    for _ in range(2):
        current = warehouse.current(every_secret=True)
        found = known_windows(tmp_path, KEY)(warehouse, current).filter(pl.col("model") == "ads")
        assert found[EPSILON_STANDING].null_count() == 7
        assert "contradict each other" in found.sort("day")[NIGHTS_REMARK][-1]
    assert len(derived.pop()) == 7


@pytest.mark.slow
def test_nights_that_refuted_together_stay_so_whatever_labels_come_later(
    tmp_path: pathlib.Path,
) -> None:
    """Ten such nights, each audited again with labels of noise, were consistent together."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    put_rows(warehouse, [night_of(ahead, 1.6) for ahead in range(4)])
    before = standings(warehouse, tmp_path)[-1]
    assert before["standing"].item() == "violated"
    noise = [night_of(ahead, -0.5, hour=1, labels_digest="x" * 64) for ahead in range(4)]
    put_rows(warehouse, noise)
    after = standings(warehouse, tmp_path)[-1]
    assert after["audit_id"].item() == noise[-1].audit.audit_id
    for column in ("standing", "epsilon_standing"):
        assert after[column].item() == before[column].item()
    first = warehouse.first_audits(pl.Series(["ads"]))["audit_id"][0]
    warehouse.withdraw(first, "The labels were damaged.")
    assert standings(warehouse, tmp_path)["standing"].to_list() == ["consistent"] * 4


def standings(warehouse: Warehouse, folder: pathlib.Path) -> pl.DataFrame:
    """Return what the nights prove together, as a report keeps and reads it."""
    (folder / "report").mkdir(exist_ok=True)
    current = warehouse.current(every_secret=True)
    return known_windows(folder / "report", bytes(32))(warehouse, current).sort("day")
