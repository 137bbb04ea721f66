import datetime as dt
import os
import pathlib
import re
import subprocess
import sys

import polars as pl
import pytest

from flows.learn.demo import recipes
from tests.support.lake import manifest_of
from workers.datasets.flights import DATASET, read_flights
from workers.lake.layout import Lake
from workers.warehouse.store import Warehouse

MODELS = ("delays-broken", "delays-plain", "delays-private")
DAYS = [dt.date(2013, 2, 1), dt.date(2013, 2, 2)]


def test_the_demo_audits_every_model_on_every_day(small_demo: pathlib.Path) -> None:
    # The README's commands may have added an audit of another day to the same demo.
    audits = Warehouse(str(small_demo / "warehouse")).current().filter(pl.col("day").is_in(DAYS))
    assert audits.select("day", "model").rows() == [
        (day, model) for day in DAYS for model in MODELS
    ]
    assert audits["status"].to_list() == ["evaluated"] * 6
    assert audits["proxy_day"].to_list() == [
        day - dt.timedelta(days=1) for day in DAYS for _ in MODELS
    ]


def test_the_demo_keeps_everything_below_its_folder(small_demo: pathlib.Path) -> None:
    assert {path.name for path in small_demo.iterdir()} == {
        "lake", "warehouse", "report", "privaudit.toml",
    }  # fmt: skip
    assert [path.name for path in small_demo.parent.iterdir()] == ["demo"]
    assert next((small_demo / "report").glob("*.html")).stat().st_size > 10_000


def test_the_demos_labels_are_all_flights_that_arrived(small_demo: pathlib.Path) -> None:
    flights = read_flights()
    assert flights.height == 336_776
    lake = Lake(str(small_demo / "lake"))
    for day in DAYS:
        arrived = flights.filter(pl.col("date") == day, pl.col("arr_delay").is_not_null())
        folder = small_demo / "lake" / "labels" / DATASET / f"day={day}"
        rows = pl.read_parquet(folder / "*.parquet")
        assert rows.height == arrived.height
        assert rows["late"].sum() == (arrived["arr_delay"] > 15).sum()
        assert set(rows["split"]) == {"train", "holdout"}
        assert 0.15 < (rows["split"] == "holdout").mean() < 0.25
        assert "arr_delay" not in rows.columns
        assert "dep_delay" in rows.columns
        assert lake.exists(f"labels/{DATASET}/day={day}")


def test_the_demos_models_declare_what_they_are_meant_to(small_demo: pathlib.Path) -> None:
    lake = Lake(str(small_demo / "lake"))
    declared = {
        model: (manifest_of(lake, model, DAYS[0])["privacy"] or {}).get("epsilon")
        for model in MODELS
    }
    assert declared == {"delays-plain": None, "delays-private": 2.0, "delays-broken": 0.5}
    private = {recipe.model: recipe.mechanism for recipe in recipes()}
    assert private["delays-broken"] is None
    assert private["delays-private"].epsilon == 2.0


def test_the_command_prints_the_table_and_the_reports_path(
    small_demo: pathlib.Path, printed_demo: str
) -> None:
    for word in ("day", "model", "epsilon_lower", "declared", "verdict", *MODELS, *map(str, DAYS)):
        assert word in printed_demo
    assert re.search(r"\d labelled flights; 110 without an arrival delay", printed_demo)
    page = pathlib.Path(printed_demo.rpartition("Report: ")[2].strip())
    assert page.is_relative_to(small_demo / "report")
    assert page.exists()


@pytest.mark.slow
def test_the_demo_as_a_user_runs_it(tmp_path: pathlib.Path) -> None:
    script = pathlib.Path(sys.executable).with_name("privaudit")
    home = tmp_path / "home"
    home.mkdir()
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("PREFECT", "PRIVAUDIT", "RAY"))
    }
    done = subprocess.run(
        [script, "demo", "--days", "2"],
        cwd=tmp_path, env=kept | {"HOME": str(home), "COLUMNS": "80"},
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    page = pathlib.Path(done.stdout.rpartition("Report: ")[2].strip())
    assert page.is_relative_to(tmp_path / "demo" / "report")
    assert page.exists()
    verdicts = {
        (words[0], words[1]): words[-1]
        for line in done.stdout.splitlines()
        if len(words := line.split()) == 5 and words[1] in MODELS
    }
    assert set(verdicts) == {(str(day), model) for day in DAYS for model in MODELS}
    for day in map(str, DAYS):
        assert verdicts[day, "delays-private"] != "violated"
        assert verdicts[day, "delays-plain"] in {"undeclared", "proxy_unfaithful"}
    assert "violated" in {verdicts[str(day), "delays-broken"] for day in DAYS}
    assert {path.name for path in tmp_path.iterdir()} == {"home", "demo"}
