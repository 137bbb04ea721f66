"""What the service and a notebook answer to a day of `tests.team_worlds`.

Each day is typed as its team would type it: `privaudit attach` on a table of predictions, the same
with the features as context, `privaudit run` on LightGBM checkpoints in a lake, and the notebook.
"""

import contextlib
import math
import pathlib
import tempfile
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from flows.cli import app
from privcore.lower_bounds import Arm, audit_probabilities
from tests.simulate import two_columns
from tests.support.lake import DAY, EVE, declared, put_labels, write_settings
from tests.support.studies import here
from tests.team_worlds import FEATURES, TeamDay
from workers.exceptions import NotEvaluableError
from workers.lake.checkpoints import write_checkpoint
from workers.lake.layout import Lake
from workers.warehouse.store import Warehouse


@dataclass(frozen=True)
class Answer:
    """What one audit answered.

    Attributes:
        verdict: of the audit.
        reason_code: why, in a fixed word; None for `not_refuted`.
        reason: the whole sentence.
        epsilon_lower: the bound; None where there is none.
    """

    verdict: str
    reason_code: str | None
    reason: str
    epsilon_lower: float | None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return short names of what is said beside the verdict."""
        return tuple(name for words, name in _REMARKS.items() if words in self.reason)

    def __str__(self) -> str:
        """Return the verdict or why there is none, and the remarks."""
        return ", ".join((self.reason_code or self.verdict, *self.remarks))


_REMARKS = {
    "holdout_suspect": "holdout_suspect",
    "rows that trained it": "rows counted",
    "may be logged twice": "logged twice",
}


def answer(day: TeamDay, way: str) -> Answer:
    """Return what a team reads that types the day in one of the four ways."""
    if way == "notebook with context":
        return _in_notebook(day)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        # A child process gives the same figures, and starts for seconds.
        patched.setattr("flows.run.nightly.choose_executor", here)
        return _by_service(pathlib.Path(name), day, way)


def _by_service(folder: pathlib.Path, day: TeamDay, way: str) -> Answer:
    """Type the audit in an empty folder, and read the record."""
    settings = folder / "privaudit.toml"
    if way == "lake":
        _put_in_lake(folder, day)
    else:
        with contextlib.suppress(NotEvaluableError):  # the settings are written, and `run` says it
            _typed(_as_table(folder, day, way), settings)
        with settings.open("a", encoding="utf-8") as file:
            file.write(f'unit = "{day.unit}"\n{_sampling(day)}')
    _typed(["run", "--model", "ads", "--day", str(DAY)], settings)
    warehouse = Warehouse(str(folder / "warehouse"))
    (name,) = warehouse.current()["audit_id"]
    row = warehouse.record(name).audit
    return Answer(row.verdict, row.reason_code, row.reason, row.epsilon_lower)


def _typed(command: list[str], settings: pathlib.Path) -> None:
    done = CliRunner().invoke(app, [*command, "--config", str(settings)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception


def _sampling(day: TeamDay) -> str:
    rates = ", ".join(f"{label} = {share}" for label, share in day.kept.items())
    return f"[models.sampling]\nlabel = {{ {rates} }}\n" if rates else ""


def _as_table(folder: pathlib.Path, day: TeamDay, way: str) -> list[str]:
    """Write a table of predictions, and return what attaches it."""
    table = folder / "predictions"
    (table / f"ds={DAY}").mkdir(parents=True)
    day.frame.write_parquet(table / f"ds={DAY}" / "part.parquet")
    command = ["attach", str(table), "--name", "ads", "--epsilon", str(day.epsilon)]
    command += ["--label", "clicked", "--target", "p_today", "--proxy", "p_yesterday"]
    if day.privacy_unit is not None:
        command += ["--unit", day.privacy_unit]
    if way == "attach with context":
        command += [word for name in FEATURES for word in ("--context", name)]
    write_settings(folder, [])
    return [*command, "--only-settings"]


def _put_in_lake(folder: pathlib.Path, day: TeamDay) -> None:
    """Write checkpoints, labels, and settings."""
    lake = Lake(str(folder / "lake"))
    put_labels(lake, DAY, day.frame.drop("p_today", "p_yesterday"), row_group_size=1 << 16)
    for when, text in ((EVE, day.proxy), (DAY, day.target)):
        manifest = {
            "model": "ads",
            "day": when,
            "dataset": "flights",
            "label": {"column": "clicked", "classes": [0, 1]},
            "features": [{"name": name, "kind": "numeric"} for name in FEATURES],
            "trained_on": {"first": when, "last": when, "split": "train"},
            "privacy": declared(day.epsilon, unit=day.unit),
        }
        write_checkpoint(lake, manifest, text.encode(), format="lightgbm")
    unit = "" if day.privacy_unit is None else f'privacy_unit = "{day.privacy_unit}"\n'
    settings = write_settings(folder, [], more=unit)
    with settings.open("a", encoding="utf-8") as file:
        file.write(f'[[models]]\nname = "ads"\n{_sampling(day)}')


def _in_notebook(day: TeamDay) -> Answer:
    """Ask `audit_probabilities`, which knows neither sampling nor units."""
    arms = []
    for split in ("train", "holdout"):
        rows = day.frame.filter(split=split)
        context = rows.select(FEATURES).to_numpy()
        said = (two_columns(rows[name].to_numpy()) for name in ("p_today", "p_yesterday"))
        arms.append(Arm(*said, rows["clicked"].to_numpy(), context))
    found = audit_probabilities(arms[0], arms[1], epsilon_declared=day.epsilon)
    lower = None if math.isnan(found.epsilon_lower) else found.epsilon_lower
    return Answer(found.verdict, found.reason_code, found.reason, lower)
