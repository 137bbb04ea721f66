"""Cost of protection on a team's rows: trained, audited, and the choice accounted for."""

import json
import math
import pathlib
import stat

import numpy as np
import polars as pl
import pytest

from flows.study import ladder, runner
from flows.study.ladder import choice, shown
from privcore.exceptions import InvalidInputError
from privcore.rounding import ABSENT
from tests.flows.conftest import Command
from tests.support.studies import here, played

ROWS = 2_400


@pytest.fixture
def table(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return rows whose label is a coin: what a model predicts of training rows, it memorised."""
    random = np.random.default_rng(7)
    frame = pl.DataFrame({f"x{one}": random.normal(size=ROWS) for one in range(6)}).with_columns(
        pl.Series("town", random.choice(["A", "B", None], ROWS)),
        pl.Series("ill", random.integers(0, 2, ROWS)),
    )
    frame[0, "ill"] = None
    path = tmp_path / "visits.parquet"
    frame.write_parquet(path)
    return path


@pytest.fixture
def _memorising(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "PARAMETERS", {"iterations": 120, "depth": 8, "learning_rate": 0.5})


@pytest.mark.slow
@pytest.mark.usefixtures("_memorising")
def test_what_memorises_is_proved_to_and_what_is_protected_is_not(
    table: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    made = ladder.study(tmp_path / "out", str(table), label="ill", epsilons=[0.5])
    found, output = played(made, tmp_path / "out")
    rows = {row["mechanism"]: row for row in found.cell_rows}
    assert list(rows) == ["none", *ladder.MECHANISMS]
    assert rows["none"]["epsilon_lower"] > 1.0
    for name in ladder.MECHANISMS:
        assert rows[name]["verdict"] == "consistent"
        assert rows[name]["epsilon_lower"] <= 0.5
    assert all(row["trained_on"] + row["held_out"] < ROWS for row in rows.values())
    assert all(0.4 < row["accuracy"] < 0.6 for row in rows.values())
    assert any("promise together 1.500" in sentence for sentence in output.sentences)
    lake = next((tmp_path / "out").glob("lake-*"))
    assert stat.S_IMODE(lake.stat().st_mode) == 0o700
    # Interrupted after a model was written and before its row was: only that one is made again.
    next((tmp_path / "out" / "cells").glob("lp-1st-*")).unlink()
    again, _ = played(made, tmp_path / "out")
    assert (again.cell_rows, again.found) == (found.cell_rows, 3)


def test_the_choice_is_accounted_for_by_all_that_was_tried() -> None:
    tried = [(None, None), (1.0, 0.0), (2.0, 0.0), (1.0, 1e-5)]
    rows = [{"epsilon": epsilon, "delta": delta} for epsilon, delta in tried]
    composed, bits, _ = choice(rows)
    assert "The 3 protected models" in composed
    assert "promise together 4.000 at delta 1e-05" in composed
    assert "at most 2.0 bits" in bits


def test_an_audit_without_figures_is_no_zero() -> None:
    row = {
        "mechanism": "lp-1st", "epsilon": 1.0, "delta": 0.0, "accuracy": 0.5, "log_loss": 0.7,
        "held_out": 200, "most_frequent": 0.5, "trained_on": 200, "epsilon_lower": None,
        "epsilon_ceiling": None, "verdict": "not_evaluable", "reason": "Too few records.",
    }  # fmt: skip
    output = shown(pl.DataFrame([row]), "ill")
    ((*_, proved, ceiling, verdict),) = output.tables[0].rows
    assert (proved, ceiling, verdict) == (ABSENT, ABSENT, "not_evaluable")
    assert output.sentences[-1] == f"No bound ({ABSENT}): Too few records."


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"epsilons": []}, "1 to 12 finite numbers"),
        ({"epsilons": [0.0]}, "1 to 12 finite numbers"),
        ({"epsilons": [math.inf]}, "1 to 12 finite numbers"),
        ({"epsilons": range(1, 14)}, "1 to 12 finite numbers"),
        ({"label": "sick"}, "the table's columns are x0"),
        ({"features": ["x0", "ill"]}, "the label is no feature"),
        ({"label": "x0"}, "classes"),
    ],
)
def test_what_makes_no_sense_is_refused(
    table: pathlib.Path, tmp_path: pathlib.Path, changes: dict[str, object], rule: str
) -> None:
    given: dict[str, object] = {"label": "ill", "epsilons": [1.0]}
    with pytest.raises(InvalidInputError, match=rule):
        ladder.study(tmp_path / "out", str(table), **given | changes)  # type: ignore[arg-type]


def test_too_few_rows_are_refused(table: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pl.read_parquet(table).head(ladder.FEWEST_ROWS).write_parquet(table)  # one has no label
    with pytest.raises(InvalidInputError, match="at least 600 rows with a label"):
        ladder.study(tmp_path / "out", str(table), label="ill")


@pytest.mark.slow
def test_the_command_prints_and_writes_it(
    privaudit: Command, table: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ladder, "PARAMETERS", {"iterations": 5, "depth": 3})
    monkeypatch.setattr(runner, "on_ray", here)
    output = tmp_path / "out"
    ran = privaudit(
        "ladder", str(table), "--label", "ill", "--feature", "x0", "--epsilon", "2",
        "--output", str(output), "--json",
    )  # fmt: skip
    assert ran.code == 0
    (told,) = json.loads(ran.out)["tables"]
    assert [row["promised"] for row in told["rows"]] == [ABSENT, "2", "2", "2 (delta 1e-5)"]
    assert (output / "index.html").exists()
