"""The demo: real days, three models, every night's audit, one report; all of it below `demo/`."""

import datetime as dt
import hashlib
import pathlib
import re
import shutil
from dataclasses import dataclass

import polars as pl

from flows.progress import announce
from flows.run.conclusion import write
from flows.run.nightly import backfill
from flows.run.runs import start as start_flow
from flows.settings import FILE, load_settings
from privcore.exceptions import InvalidInputError
from privcore.lower_bounds.question import leak_to_be_seen
from privcore.lower_bounds.verdicts import Verdict
from privcore.rounding import exact, up
from workers.datasets.flights import DATASET, FEATURES, FIRST, LABEL, LAST, read_flights, write_day
from workers.executors import OnRay, on_ray
from workers.lake.layout import Lake, checkpoint_folder
from workers.training.jobs import Recipe, TrainingJob, train
from workers.training.methods import MultiStage
from workers.versions import CODE_VERSION, METHOD_VERSION
from workers.warehouse.nights_together import with_windows
from workers.warehouse.store import Warehouse

_SEED = 2013
# Many deep trees and large unpenalised steps: a model that overfits on purpose. One leaf step and
# 64 borders make each tree cheaper without making it less eager.
OVERFIT = {
    "iterations": 1000,
    "depth": 8,
    "learning_rate": 0.3,
    "l2_leaf_reg": 0.5,
    "random_strength": 0,
    "bootstrap_type": "No",
    "leaf_estimation_iterations": 1,
    "border_count": 64,
}
_DECLARED = {
    "definition": "label_dp",
    "neighbors": "replace",
    "unit": "flight",
    "delta": 0.0,
    "declared_by": "the demo",
    "declared_at": "2013-01-01T00:00:00Z",
}
_SETTINGS = """\
# Written by `privaudit demo`; paths are relative to this file.
lake = "lake"
warehouse = "warehouse"
report = "report"

[[models]]
name = "delays-plain"    # declares nothing

[[models]]
name = "delays-private"  # labels privatised by randomized response at epsilon 2, declared
drill = "delays-plain"   # the same learner without it: would a dropped mechanism be seen?

[[models]]
name = "delays-broken"   # declares epsilon 0.5; on {broken} somebody dropped the privatisation
# Made from {digest}.
"""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Result of the demo."""

    audits: pl.DataFrame
    report: pathlib.Path
    rows: int
    dropped: int
    broken: dt.date
    found_before: tuple[int, int]


def recipes(*, broken: bool = True) -> tuple[Recipe, ...]:
    """Return how the demo's three models are trained, and what they declare.

    `broken` says whether `delays-broken` has lost its privatisation by that day.
    """

    def recipe(
        model: str, *, mechanism: MultiStage | None = None, epsilon: float | None = None
    ) -> Recipe:
        privacy = None
        if epsilon is not None:
            parameters = {"epsilon": epsilon, "classes": len(LABEL.classes)}
            named = {"name": "randomized_response", "parameters": parameters}
            privacy = _DECLARED | {"epsilon": epsilon, "mechanism": named}
        return Recipe(model, DATASET, LABEL, FEATURES, mechanism, privacy, dict(OVERFIT))

    half, two = MultiStage(epsilon=0.5), MultiStage(epsilon=2.0)
    return (
        recipe("delays-plain"),
        recipe("delays-private", mechanism=two, epsilon=two.epsilon),
        recipe("delays-broken", mechanism=None if broken else half, epsilon=half.epsilon),
    )


def run_demo(*, folder: pathlib.Path, start: dt.date, days: int) -> DemoResult:
    """Lay out a lake, train, audit every day, write the report; what is there is kept.

    Raises:
        InvalidInputError: the range does not lie within the data; the day before the first one
            must be in it too, since its models serve as proxies.
    """
    audited = _range(start, days)
    broken = audited[len(audited) // 2]
    jobs = [
        TrainingJob(recipe, day, _SEED)
        for day in (start - dt.timedelta(days=1), *audited)
        for recipe in recipes(broken=day >= broken)
    ]
    _begin(folder, broken, jobs)
    settings = load_settings(folder / FILE)
    lake = Lake(settings.lake)
    laid_out = sorted({job.day for job in jobs})
    missing = [job for job in jobs if not lake.exists(checkpoint_folder(job.recipe.model, job.day))]
    before = len(jobs) - len(missing), Warehouse(settings.warehouse).current().height
    with on_ray(settings.ray.address, settings.ray.cpus) as executor:
        rows, dropped = _lay_out(lake, laid_out)
        _train(lake, jobs, missing, executor)
        file = str(folder / FILE)
        start_flow(backfill, first=audited[0], last=audited[-1], settings=file)
    warehouse = Warehouse(settings.warehouse)
    report = write(settings)
    shown = with_windows(warehouse, warehouse.current()).filter(pl.col("day").is_in(audited))
    return DemoResult(shown, report, rows, dropped, broken, before)


def _begin(folder: pathlib.Path, broken: dt.date, jobs: list[TrainingJob]) -> None:
    """Write the settings; what another demo left in the folder is deleted, what this one did stays.

    Raises:
        InvalidInputError: the folder holds what no demo made, or what a user went on with.
    """
    digest = hashlib.sha256(f"{CODE_VERSION} {METHOD_VERSION} {jobs}".encode()).hexdigest()[:16]
    text, file = _SETTINGS.format(broken=broken, digest=digest), folder / FILE
    before = file.read_text(encoding="utf-8") if file.exists() else None
    if before == text:
        return
    if before is not None:
        if not _as_written(before):
            rule = f"its {FILE} is not as this demo writes it: give another one, or delete that"
            raise InvalidInputError("--folder", str(folder), rule)
        for made in ("lake", "warehouse", "report"):
            shutil.rmtree(folder / made, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _as_written(text: str) -> bool:
    """Return whether a demo wrote these settings, of whichever days, unchanged since."""
    parts = re.split(r"\{\w+\}", _SETTINGS)
    return re.fullmatch("[-0-9a-f]+".join(map(re.escape, parts)), text) is not None


def _range(start: dt.date, days: int) -> list[dt.date]:
    if days < 1:
        raise InvalidInputError("--days", days, "the demo audits at least 1 day")
    last = start + dt.timedelta(days=days - 1)
    if not (start > FIRST and last <= LAST):
        raise InvalidInputError(
            "--start",
            str(start),
            f"with {days} days it must lie from {FIRST + dt.timedelta(1)} to {LAST}",
        )
    return [start + dt.timedelta(days=step) for step in range(days)]


def _lay_out(lake: Lake, days: list[dt.date]) -> tuple[int, int]:
    flights = read_flights()
    rows = dropped = 0
    for done, day in enumerate(days, start=1):
        written = write_day(lake, flights, day, seed=_SEED)
        rows, dropped = rows + written.rows, dropped + written.dropped
        announce("Lake of real days", done, len(days))
    return rows, dropped


def _train(
    lake: Lake, jobs: list[TrainingJob], missing: list[TrainingJob], executor: OnRay
) -> None:
    there = len(jobs) - len(missing)
    for done, _ in enumerate(executor.map(train, lake, missing), start=there + 1):
        announce("Daily CatBoost models", done, len(jobs))


def sentences(result: DemoResult) -> list[str]:
    """Return what was found (the leak's first night), what was not proved, and what to type."""
    models, audits = result.found_before
    said = []
    if models:
        said.append(f"Went on with {models} models and {audits} audits of an earlier run.")
    broken, private = (
        result.audits.filter(pl.col("model") == name).sort("day")
        for name in ("delays-broken", "delays-private")
    )
    if broken.height:
        said.append(f"Found: {_leak(broken, result.broken)}")
    if private.height:
        said.append(f"Not proved: {_unproved(private)}")
    settings = result.report.parent.parent / "privaudit.toml"
    said.append(
        f"Type next: privaudit show --config {settings}, or privaudit attach TABLE for your own."
    )
    return said


def _leak(nights: pl.DataFrame, dropped_on: dt.date) -> str:
    """Say when the privatisation was dropped, and when that was found."""
    dropped = f"delays-broken dropped its privatisation on {dropped_on}"
    kept = nights.filter(pl.col("day") < dropped_on)
    early = kept.filter(pl.col("verdict") == Verdict.VIOLATED).height
    found = nights.filter(
        (pl.col("day") >= dropped_on) & (pl.col("verdict_together") == Verdict.VIOLATED)
    )
    if early:
        return f"{dropped}, and was accused on {early} of {kept.height} nights before."
    if not found.height:
        return f"{dropped}, which no night shows yet."
    first = found.row(0, named=True)
    when = "that very night" if first["day"] == dropped_on else f"on {first['day']}"
    before = "the one night" if kept.height == 1 else f"{kept.height} nights"
    return f"{dropped}: found {when}; on {before} before, nothing was held against it."


def _unproved(nights: pl.DataFrame) -> str:
    """Say what the nights together would have shown, and what they have to show."""
    last = nights.row(-1, named=True)
    declared, sees = last["epsilon_declared"], last["sees_from_together"]
    seen = "no leak" if sees is None else f"a leak from {up(sees)} on"
    return (
        f"that delays-private keeps its epsilon of {exact(declared)}; no audit proves that. Its "
        f"nights together would probably have shown {seen}; to be conclusive they have to show "
        f"one of {exact(leak_to_be_seen(declared))}."
    )
