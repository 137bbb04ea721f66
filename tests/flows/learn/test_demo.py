import datetime as dt
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from flows.learn.demo import DemoResult, _begin, recipes, run_demo, sentences
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.verdicts import Verdict
from tests.support.lake import manifest_of
from workers.datasets.flights import DATASET, read_flights
from workers.lake.layout import Lake
from workers.warehouse.store import Warehouse

MODELS = ("delays-broken", "delays-plain", "delays-private")
DAYS = [dt.date(2013, 2, 1), dt.date(2013, 2, 2)]


@pytest.mark.slow
def test_the_demo_audits_every_model_on_every_day(small_demo):
    # The README's commands may have added an audit of another day to the same demo.
    audits = Warehouse(str(small_demo / "warehouse")).current().filter(pl.col("day").is_in(DAYS))
    assert audits.select("day", "model").rows() == [
        (day, model) for day in DAYS for model in MODELS
    ]
    assert audits["status"].to_list() == ["evaluated"] * 6
    assert audits["proxy_day"].to_list() == [
        day - dt.timedelta(days=1) for day in DAYS for _ in MODELS
    ]


@pytest.mark.slow
def test_the_demos_labels_are_all_flights_that_arrived(small_demo):
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


@pytest.mark.slow
def test_the_demos_models_declare_what_they_are_meant_to(small_demo):
    lake = Lake(str(small_demo / "lake"))
    declared = {
        model: (manifest_of(lake, model, DAYS[0])["privacy"] or {}).get("epsilon")
        for model in MODELS
    }
    assert declared == {"delays-plain": None, "delays-private": 2.0, "delays-broken": 0.5}
    private = {recipe.model: recipe.mechanism for recipe in recipes()}
    assert private["delays-broken"] is None
    assert private["delays-private"].epsilon == 2.0
    early = {recipe.model: recipe.mechanism for recipe in recipes(broken=False)}
    assert early["delays-broken"].epsilon == 0.5
    settings = (small_demo / "privaudit.toml").read_text()
    assert "declares epsilon 0.5; on 2013-02-02 somebody dropped the privatisation" in settings


def environment(home):
    """Return a user's environment, who has set nothing of ours."""
    ours = ("PREFECT", "PRIVAUDIT", "RAY")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"HOME": str(home), "COLUMNS": "80"}


@pytest.mark.slow
def test_the_demo_as_a_user_runs_it_who_interrupts_it_once(tmp_path):
    folder = tmp_path / "a folder"
    home = folder / "home"
    home.mkdir(parents=True)
    command = [pathlib.Path(sys.executable).with_name("privaudit"), "demo", "--days", "2"]
    begun = subprocess.Popen(
        command, cwd=folder, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    models = folder / "demo" / "lake" / "models"
    while begun.poll() is None and len(list(models.glob("*/*/_SUCCESS"))) < 4:
        time.sleep(0.1)
    os.killpg(begun.pid, signal.SIGINT)  # as a terminal does
    _, said = begun.communicate(timeout=280)
    assert begun.returncode == 130, said
    assert "Run the same command again to go on: what was made or committed stays" in said
    assert "Traceback" not in said
    kept = {file: file.stat().st_mtime_ns for file in models.glob("*/*/_SUCCESS")}
    assert 4 <= len(kept) <= 9

    done = subprocess.run(
        command, cwd=folder, env=environment(home), capture_output=True, text=True, check=False,
        timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    went_on = re.search(r"Went on with (\d) models and 0 audits of an earlier run.", done.stdout)
    assert went_on, done.stdout
    assert len(kept) <= int(went_on[1]) <= 9  # Ray's workers may end a model after its driver
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    page = pathlib.Path(done.stdout.rpartition("Report: ")[2].splitlines()[0])
    assert page.is_relative_to(folder / "demo" / "report")
    assert page.exists()
    verdicts = {
        (words[7], words[0]): words[1]
        for line in done.stdout.splitlines()
        if len(words := line.split()) > 7 and words[0] in MODELS and words[1] in set(Verdict)
    }
    assert set(verdicts) == {(str(day), model) for day in DAYS for model in MODELS}
    for day in map(str, DAYS):
        assert verdicts[day, "delays-private"] != "violated"
        assert verdicts[day, "delays-plain"] == "undeclared"
    assert [verdicts[str(day), "delays-broken"] for day in DAYS] == ["inconclusive", "violated"]
    assert "found that very night; on the one night before, nothing was held" in done.stdout
    assert "Its nights together would probably have shown" in done.stdout
    assert re.search(r"\d labelled flights; 110 without an arrival delay", done.stdout)
    assert {path.name for path in folder.iterdir()} == {"home", "demo"}
    assert {path.name for path in (folder / "demo").iterdir()} == {
        "lake", "warehouse", "report", "privaudit.toml",
    }  # fmt: skip


def made(**changes):
    """Return a demo's result: three nights of two models, the leak from the second night on."""
    words = {
        "delays-broken": ("not_refuted inconclusive", "violated violated", "violated violated"),
        "delays-private": ("not_refuted inconclusive",) * 2 + ("not_refuted not_refuted",),
    }
    nights = [
        (
            model,
            DAYS[0] + dt.timedelta(days=at),
            *both.split(),
            {"delays-broken": 0.5}.get(model, 2.0),
        )
        for model, nights in words.items()
        for at, both in enumerate(nights)
    ]
    columns = ("model", "day", "verdict", "verdict_together", "epsilon_declared")
    audits = pl.DataFrame(nights, schema=columns, orient="row")
    audits = audits.with_columns(sees_from_together=3.0713)
    given = {
        "audits": audits, "report": pathlib.Path("demo/report/index.html"), "rows": 1,
        "dropped": 0, "broken": DAYS[1], "found_before": (0, 0),
    }  # fmt: skip
    return DemoResult(**given | changes)


PRIVATE = (
    "Not proved: that delays-private keeps its epsilon of 2; no audit proves that. Its nights "
    "together would probably have shown {seen}; to be conclusive they have to show one of 3."
)


def test_sentences_say_what_to_see():
    found = "that very night; on the one night before, nothing was held against it."
    dropped = "Found: delays-broken dropped its privatisation on"
    typed = "Type next: privaudit show --config demo/privaudit.toml, or privaudit attach TABLE for"
    assert sentences(made()) == [
        f"{dropped} {DAYS[1]}: found {found}",
        PRIVATE.format(seen="a leak from 3.08 on"),
        f"{typed} your own.",
    ]
    assert sentences(made(found_before=(7, 3)))[0] == (
        "Went on with 7 models and 3 audits of an earlier run."
    )
    assert sentences(made(broken=DAYS[0]))[0] == (
        f"{dropped} {DAYS[0]}: found on {DAYS[1]}; on 0 nights before, nothing was held against it."
    )
    accused = sentences(made(broken=DAYS[1] + dt.timedelta(days=1)))[0]
    assert accused.endswith("and was accused on 1 of 2 nights before.")
    calm = made().audits.with_columns(
        verdict=pl.lit("inconclusive"),
        verdict_together=pl.lit("inconclusive"),
        sees_from_together=pl.lit(None, pl.Float64),
    )
    assert sentences(made(audits=calm))[1] == PRIVATE.format(seen="no leak")
    assert sentences(made(audits=calm))[0] == f"{dropped} {DAYS[1]}, which no night shows yet."


def _left_alone(folder):
    (folder / "lake").mkdir(exist_ok=True)
    with pytest.raises(InvalidInputError, match="is not as this demo writes it"):
        run_demo(folder=folder, start=DAYS[0], days=1)
    assert (folder / "lake").exists()


def test_a_folder_of_somebody_elses_is_left_alone(tmp_path):
    (tmp_path / "privaudit.toml").write_text('lake = "lake"\n')
    _left_alone(tmp_path)


@pytest.mark.parametrize("change", [("# Made", "[ray]\ncpus = 1\n# Made"), ("delays-plain", "x")])
def test_a_demo_that_somebody_went_on_with_is_left_alone(change, tmp_path):
    file = tmp_path / "privaudit.toml"
    _begin(tmp_path, DAYS[0], [])
    (tmp_path / "lake").mkdir()
    _begin(tmp_path, DAYS[1], [])  # of other days: made anew
    assert not (tmp_path / "lake").exists()
    assert str(DAYS[1]) in file.read_text()
    file.write_text(file.read_text().replace(*change))
    _left_alone(tmp_path)
