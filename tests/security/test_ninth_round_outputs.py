"""The ninth round, by strangers at what an audit writes and at its machine: what broke of 25."""

import contextlib
import datetime as dt
import json
import os
import pathlib
import re
import types

import deltalake
import polars as pl
import prefect
import pyarrow as pa
import pytest
import yaml
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from flows.commands import checks
from flows.commands.printing import as_csv, json_text
from flows.notify.alerts import Alert, Event
from flows.notify.metrics import Latest, metrics_text
from flows.study.runner import Shown, write_shown
from privcore.exceptions import TerminalError
from tests.support.warehouse import forged_version
from workers import executors
from workers.databases import unverified_databases
from workers.plain_text import plain_text
from workers.warehouse.sql import _connect, _guarded, query
from workers.warehouse.store import Warehouse
from workers.warehouse.unlisted import unlisted_models

DAY = dt.date(2026, 4, 1)
ROOT = pathlib.Path(__file__).parents[2]


def named(path: str) -> dict[str, object]:
    """Return what a log says of a data file."""
    return {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1}


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_folder_below_a_table_holds_no_rows(stored: pathlib.Path, kind: str) -> None:
    """A link in it put labels into `sql` and exports, and a pipe in it was waited for."""
    folder = stored / "audits" / "below"
    folder.mkdir()
    path = folder / "rows.parquet"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to(stored)
    forged_version(stored, {"add": named("below/rows.parquet") | {"dataChange": True}})
    with pytest.raises(TerminalError, match="which lies elsewhere"):
        query(Warehouse(str(stored)), "from audits")


def test_no_older_version_of_a_log_leads_elsewhere(stored: pathlib.Path) -> None:
    """The next commit took the path out again, and only the newest version was looked at."""
    forged_version(stored, {"add": named("../rows.parquet") | {"dataChange": True}})
    there = {"path": "../rows.parquet", "dataChange": True}
    forged_version(stored, {"commitInfo": {"timestamp": 4 * 10**12}}, {"remove": there})
    log = stored / "audits" / "_delta_log" / f"{1:020}.json"
    made = json.dumps({"commitInfo": {"timestamp": 1_900_000_000_000}})
    log.write_text(f"{made}\n{log.read_text('utf-8')}", "utf-8")
    known = dt.datetime(2031, 1, 1, tzinfo=dt.UTC)
    with pytest.raises(TerminalError, match="which lies elsewhere"):
        query(Warehouse(str(stored), as_of=known, by_log=True), "from audits")


def test_a_row_of_a_time_that_python_has_not_ends_nothing(stored: pathlib.Path) -> None:
    """One of the year 29349 ended the report, the alerts of the night and `show` for all models."""
    warehouse, table = Warehouse(str(stored)), stored / "audits"
    rows = deltalake.DeltaTable(str(table)).to_pyarrow_table()
    late = {
        "audit_id": pa.array(["forged"]),
        "day": pa.array([10**7], pa.int32()).cast(pa.date32()),
        "declared_at": pa.array([2**60], pa.timestamp("us", "UTC")),
        "label_days": pa.array([[10**7]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
    }
    for name, column in late.items():
        rows = rows.set_column(rows.column_names.index(name), name, column)
    deltalake.write_deltalake(str(table), rows, mode="append")
    told = warehouse.collect(warehouse.scan("audits")).to_dicts()
    assert sorted(map(str, (row["day"] for row in told))) == ["2026-04-01", "None"]
    assert query(warehouse, "select max(day) as day from audits").to_dicts() == [{"day": None}]
    # Nor does a day to come hide that a model was taken out of the settings.
    (missed,) = unlisted_models(warehouse, [], DAY + dt.timedelta(days=1))
    assert missed.last_day == DAY


@pytest.mark.parametrize("password", [None, "audit:hunter2"])
def test_check_tells_that_a_server_of_prefect_asks_for_no_password(
    monkeypatch: pytest.MonkeyPatch, password: str | None
) -> None:
    """Any web page could start flows by a person's browser: its pages answer all origins."""
    found = types.SimpleNamespace(
        api_healthcheck=lambda: None,
        read_deployment_by_name=lambda _: types.SimpleNamespace(work_pool_name=None),
    )
    monkeypatch.setattr(checks, "_may_name_a_server", lambda: True)
    monkeypatch.setattr(prefect, "get_client", lambda **_: contextlib.nullcontext(found))
    address = {PREFECT_API_URL: "http://127.0.0.1:4200/api", PREFECT_API_AUTH_STRING: password}
    with temporary_settings(address):
        assert ("asks for no password" in checks._prefect()) == (password is None)


def test_the_example_of_a_service_asks_for_a_password() -> None:
    text = (ROOT / "infra" / "compose" / "compose.yaml").read_text("utf-8")
    services = yaml.safe_load(text)["services"]
    asked = "PREFECT_SERVER_API_AUTH_STRING"
    assert [name for name, one in services.items() if asked in one.get("environment", {})] == [
        "prefect-server"
    ]


def test_no_name_of_a_column_and_no_bytes_are_a_formula_in_csv() -> None:
    """A forged file's further columns were: exports guarded cells of text alone."""
    bytes_of = {"=HYPERLINK(A1)": [b"=HYPERLINK(A2)"], "lists": [["a;=B3"]], "less": [-1.5]}
    with _connect() as connection:
        rows = connection.from_arrow(pa.table(bytes_of))
        guarded = rows.project(", ".join(_guarded(rows)))
        assert guarded.columns == ["'=HYPERLINK(A1)", "lists", "less"]
        assert guarded.fetchall() == [("'=HYPERLINK(A2)", "['a;'=B3']", -1.5)]
    assert as_csv(pl.DataFrame({"x": [b"=A1"]})) == "x\n3d4131\n"  # it ended the command


def test_json_has_no_number_that_json_has_not() -> None:
    """A row without a finite figure made the answer of a command unreadable for other programs."""
    told = json_text([{"bound": float("nan"), "all": (float("inf"), 1.0)}])
    assert json.loads(told, parse_constant=pytest.fail) == [{"bound": None, "all": [None, 1.0]}]


def test_what_ray_kept_of_runs_is_removed_a_week_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """Logs, and rows that Ray had put on disk where a run was killed, stayed for good."""
    monkeypatch.setattr(executors, "private_folder", lambda: tmp_path)
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    old, new = (tmp_path / "ray" / f"session_{number}" for number in (1, 2))
    for session in (old, new):
        (session / "logs").mkdir(parents=True)
    os.utime(old, (0, 0))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "ray" / "session_latest").symlink_to(elsewhere)
    os.utime(elsewhere, (0, 0))
    assert executors._folder_of_ray() == tmp_path / "ray"
    assert [one.exists() for one in (old, new, elsewhere)] == [False, True, True]


@pytest.mark.parametrize(
    "words",
    ["[Sign in|https://evil.example]", '"Sign in":https://evil.example', "<!channel>"],
)
def test_no_words_are_a_link_in_a_tracker_or_by_alertmanager(words: str) -> None:
    """Jira's and Redmine's were; and Alertmanager sends a model's name to Slack as it is."""
    alert = Alert(Event.MISSING, words, DAY, f"{words}: no audit", words, ("bea",), None)
    latest = Latest(words, "label", DAY, "consistent", None, {})
    for told in (json.dumps(alert.payload()), metrics_text([latest], dt.UTC, [words])):
        assert not set("|<").intersection(told)
        assert "https://e" not in told


@pytest.mark.parametrize(
    "sign", ["##vso[task.setvariable variable=PATH]", "##[error]", "::error::"]
)
def test_no_name_of_a_column_is_a_command_of_a_build_server(sign: str) -> None:
    """A column's name in a reason of `gate` set variables of a build in Azure's pipelines."""
    told = plain_text(f"{sign}x")
    assert told == f"\\u{ord(sign[0]):04x}{sign[1:]}x"
    if sign.startswith("#"):
        assert sign not in json_text({"column": sign})
        assert json.loads(json_text({"column": sign})) == {"column": sign}


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("postgresql://a:b@db.example/x", ["bank"]),
        ("postgresql://a:b@db.example/x?sslmode=require", ["bank"]),
        ("postgresql://a:b@127.0.0.1/x?host=db.example", ["bank"]),
        ("postgresql://a:b@db.example/x?sslmode=verify-full", []),
        ("postgresql://a:b@127.0.0.1:5432/x", []),
        ("snowflake://a:b@account/x", []),
    ],
)
def test_check_tells_that_a_database_may_be_anybody(
    monkeypatch: pytest.MonkeyPatch, address: str, told: list[str]
) -> None:
    """A machine on the way that says it has no TLS got the login, and exact figures or labels."""
    monkeypatch.setenv("PRIVAUDIT_DATABASE_BANK", address)
    assert unverified_databases() == told


def test_a_study_follows_no_link_in_the_place_of_its_page(tmp_path: pathlib.Path) -> None:
    """Its page and its words were written into the file that a link of another user led to."""
    own = tmp_path / "own"
    own.write_text("mine", "utf-8")
    folder = tmp_path / "study"
    folder.mkdir()
    for name in ("index.html", "study.json"):
        (folder / name).symlink_to(own)
    write_shown(Shown(["Nothing was found."]), folder, title="A study")
    assert own.read_text("utf-8") == "mine"


def test_no_example_runs_an_action_that_a_tag_alone_names() -> None:
    """Who may move the tag had code run beside the registry's token."""
    texts = (file.read_text("utf-8") for file in (ROOT / "deploy").rglob("*.yml"))
    used = [one for text in texts for one in re.findall(r"uses: (\S+)", text)]
    assert used
    assert all(re.search("@[0-9a-f]{40}$", one) for one in used)
