"""The audit's own output as an adversary reads it who knows all labels but one.

The adversary tries both values of the label and compares with what was published. Everything that
travels is looked at together: report, alerts, events, summaries, logs, what the
command prints, its exit code, and the statements' table.
"""

import datetime as dt
import logging
import pathlib
import re
import shutil
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import flows.notify.alerts
import flows.run.auditing
import flows.run.conclusion
import workers.publication.publish
from flows.commands.audits import app as audits
from privcore.guarantees import PureDP
from privcore.lower_bounds.fdp import epsilon_lower
from privcore.publication import KeyedBits, discrete_laplace, exactly
from privcore.publication.noisy_wealth import SENSITIVITY, UNITS
from tests.support.lake import (
    DAY,
    declared,
    label_path,
    put_labels,
    put_model,
    write_settings,
)
from tests.support.tiers import tiered
from workers.lake.layout import Lake
from workers.publication.key import make_key
from workers.publication.publish import night_of, statement_of
from workers.publication.recurring import NightOfTest
from workers.publication.statement_row import Statement
from workers.publication.statement_store import Statements
from workers.publication.threshold_night import ThresholdNight
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process")
PUBLISHED = '[publication]\nstatements = "statements"\nkey_file = "key"\nepsilon = 0.5\n'
NOISY = {
    "statement_id", "published_at", "labels_commitment", "audit_commitment", "evidence_figure",
    "premises_figure", "verdict", "pvalue", "log_evalue", "premises_pvalue",
}  # fmt: skip
NOISY_NIGHT = (
    "test_id", "labels_commitment", "audit_commitment", "alarm", "premises_figure",
    "premises_pvalue", "verdict",
)  # fmt: skip
RECURRING = f"labels_recur = true\n{PUBLISHED}nights_per_test = 30\n"
NEXT = DAY + dt.timedelta(days=1)
_TIMES = re.compile(r"(seconds|cpu_seconds|worker)=({.*?}|\S+)")


CHANGED = {"flipped": 1 - pl.col("late"), "none": None}


def with_label(lake: Lake, day: dt.date, record: int, label: pl.Expr | None) -> None:
    rows = pl.read_parquet(label_path(lake, "flights", day))
    changed = pl.when(pl.int_range(pl.len()) == record).then(label)
    label_path(lake, "flights", day).unlink()
    put_labels(lake, day, rows.with_columns(late=changed.otherwise(pl.col("late"))))


def night(
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: Any,
    *,
    more: str = PUBLISHED,
    day: dt.date = DAY,
) -> str:
    """Return all that travels of a night, as one text; `more` are settings, of publication."""
    travelled: list[Any] = []
    monkeypatch.setattr(
        flows.notify.alerts, "deliver", lambda alert, _: travelled.append(alert.payload())
    )
    for module in (flows.run.auditing, flows.run.conclusion):
        if hasattr(module, "leave_summary"):
            monkeypatch.setattr(module, "leave_summary", lambda *said, **_: travelled.append(said))
    monkeypatch.setattr(
        flows.run.auditing, "emit", lambda *named, payload: travelled.append((named, payload))
    )
    file = write_settings(folder, ["good"], more=more)
    file.write_text(f'report_url = "https://reports.example.com/"\n{file.read_text()}')
    if more and not (folder / "key").exists():
        make_key(folder / "key")  # another in each world, as nobody but its owner knows it
    caplog.clear()
    with caplog.at_level(logging.INFO, "workers"):
        ended = CliRunner().invoke(audits, ["night", "--day", str(day), "--config", str(file)])
    travelled += [ended.stdout, ended.exit_code]
    travelled += [_TIMES.sub("", line) for line in caplog.messages]
    pages = sorted((folder / "report").rglob("*"))
    travelled += [(str(page.relative_to(folder)), page.read_text(errors="replace"))
                  for page in pages if page.is_file()]  # fmt: skip
    if more:
        travelled += Statements(str(folder / "statements")).contents()
    return repr(travelled).replace(str(folder), "FOLDER")


def worlds(
    lake: Lake, tmp_path: pathlib.Path, record: int, *, days: tuple[dt.date, ...] = (DAY,)
) -> list[pathlib.Path]:
    """Return four folders: the lake, the lake again, with one label flipped, and without it.

    The models are the same files in all. A label that recurs changes on all days.
    """
    folders = [tmp_path / name for name in ("first", "again", *CHANGED)]
    for folder in folders:
        shutil.copytree(lake.uri, folder / "lake")
    for folder, label in zip(folders[2:], CHANGED.values(), strict=True):
        for day in days:
            with_label(Lake(str(folder / "lake")), day, record, label)
    return folders


def without_noise(exact: Any, revision: int, key: bytes) -> Statement:
    """Return a statement whose noisy columns are the same whatever the labels are."""
    same: dict[str, Any] = {"audit_id": "a" * 32, "labels_digest": "d" * 64}
    same |= {"evidence_figure": 100, "premises_figure": -100}
    alike = statement_of(exact.model_copy(update=same), revision, bytes(32))
    # The sketch's own key differs in each world, and is set; the sketch under it is not.
    fixed = {name: getattr(alike, name) for name in NOISY | {"holdout_sketch"}}
    fixed |= {"published_at": DAY}
    return Statement.model_validate(statement_of(exact, revision, key).model_dump() | fixed)


def night_without_noise(exact: Any, question: NightOfTest, key: bytes) -> ThresholdNight:
    """Return an answer whose columns that labels may change are the same whatever these are.

    Which question of which test it is still follows from the log, as in a real night.
    """
    same: dict[str, Any] = {"audit_id": "a" * 32, "labels_digest": "d" * 64}
    same |= {"evidence_figure": -(10**9), "premises_figure": -100}
    alike = night_of(exact.model_copy(update=same), question, bytes(32))
    fixed = {"published_at": DAY, "statement_id": f"{question.test_night:032x}"}
    fixed |= {name: getattr(alike, name) for name in (*NOISY_NIGHT, "holdout_sketch")}
    fixed["test_id"] = "b" * 32
    return ThresholdNight.model_validate(night_of(exact, question, key).model_dump() | fixed)


@pytest.mark.slow
@pytest.mark.parametrize("record", [3, 210])
def test_of_recurring_nights_nothing_but_their_answers_tells_a_label(
    lake: Lake,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    record: int,
) -> None:
    """One test over two nights on the same labels, with one of them flipped, or without it."""
    monkeypatch.setattr(workers.publication.publish, "night_of", night_without_noise)
    rows = pl.read_parquet(label_path(lake, "flights"))
    put_labels(lake, NEXT, rows.with_columns(delay=pl.col("delay") + 1.0))
    put_model(lake, NEXT, privacy=declared())
    seen = [
        [night(folder, monkeypatch, caplog, more=RECURRING, day=day) for day in (DAY, NEXT)]
        for folder in worlds(lake, tmp_path, record, days=(DAY, NEXT))
    ]
    assert all(world == seen[0] for world in seen[1:])
    assert "night 1 of at most 30" in seen[0][0]
    assert "night 2 of at most 30" in seen[0][1]


@pytest.mark.slow
@pytest.mark.parametrize("record", tiered([3, 210], always=1, slow=1))
def test_of_a_public_night_nothing_but_noisy_figures_tells_a_label(
    lake: Lake,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    record: int,
) -> None:
    """With these set to the same, all that travels is the same, byte for byte."""
    monkeypatch.setattr(workers.publication.publish, "statement_of", without_noise)
    seen = [night(folder, monkeypatch, caplog) for folder in worlds(lake, tmp_path, record)]
    assert all(world == seen[0] for world in seen[1:])
    assert "not_refuted" in seen[0]
    assert re.search(r'"holdout_sketch":"[0-9a-f]{64}"', seen[0])
    assert "TestRunFacet" in seen[0]


@pytest.mark.slow
def test_what_changed_is_told_whatever_a_label_made_of_the_night_before(
    lake: Lake,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without its label the first night has no figures; then nothing was compared with it."""
    monkeypatch.setattr(workers.publication.publish, "statement_of", without_noise)
    put_labels(lake, NEXT, pl.read_parquet(label_path(lake, "flights")))
    put_model(lake, NEXT, privacy=declared(3.0))
    stricter = "significance = 0.01\n" + PUBLISHED
    seen = []
    for folder in worlds(lake, tmp_path, 3):
        first = night(folder, monkeypatch, caplog)
        seen.append((first, night(folder, monkeypatch, caplog, more=stricter, day=NEXT)))
    assert all(world == seen[0] for world in seen[1:])
    assert "privaudit.claim.declaration_changed" in seen[0][1]
    assert "privaudit.claim.settings_changed" in seen[0][1]


@pytest.mark.slow
def test_of_an_exact_night_a_digest_tells_every_label(
    lake: Lake,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Why exact reports are for people who may read the labels: ids are digests of these."""
    folders = worlds(lake, tmp_path, 3)
    for folder in folders:
        night(folder, monkeypatch, caplog, more="")
    ids = [str(Warehouse(str(one / "warehouse")).current()["audit_id"][0]) for one in folders]
    assert ids[0] == ids[1]
    assert len({ids[0], *ids[2:]}) == 3
    pages = [(one / "report" / "models" / "good.html").read_text() for one in folders]
    assert [name in page for name, page in zip(ids, pages, strict=True)] == [True] * 4


@pytest.mark.slow
def test_privaudits_own_bets_prove_what_a_statement_costs_and_no_more() -> None:
    """The adversary sees 200,000 statements about two neighbours, 64 units apart in both figures.

    It knows their noise's distribution, and bets on which neighbour each is about. At a
    significance of 1e-3 the bound lies between a half of the declared 0.1 and 0.1.
    """
    declared, draws = 0.1, 200_000
    rate = exactly(declared) / 2 / SENSITIVITY
    random = np.random.default_rng(48)
    labels = random.integers(0, 2, draws)
    noise = np.array(
        [[discrete_laplace(rate, KeyedBits(bytes(32), part, number)) for part in (0, 1)]
         for number in range(draws)]
    )  # fmt: skip
    figures = noise + UNITS * labels[:, None]
    log_odds = float(rate) * (np.abs(figures) - np.abs(figures - UNITS)).sum(axis=1)
    guessed = np.abs(log_odds) > 0.9 * declared
    right = int(np.sum((log_odds > 0.0)[guessed] == (labels == 1)[guessed]))
    proved = epsilon_lower(
        draws, int(guessed.sum()), right, family=PureDP(1.0), delta=0.0, significance=1e-3
    )
    assert declared / 2 < proved <= declared
    assert rate == Fraction(1, 1300)


@pytest.mark.slow
def test_thirty_statements_about_one_label_cost_more_than_one_and_no_more_than_thirty() -> None:
    """Training rows that come again without `labels_recur` are charged once: what that gives away.

    Both figures of each night, 64 units apart, and the sum of their log-odds. The noise is that of
    `discrete_laplace`, as the difference of two geometric draws.
    """
    declared, nights, draws = 0.1, 30, 200_000
    rate, random = declared / 2 / SENSITIVITY, np.random.default_rng(1)
    labels, log_odds = random.integers(0, 2, draws), np.zeros(draws)
    for _ in range(2 * nights):
        noise = random.geometric(-np.expm1(-rate), (2, draws))
        figures = noise[0] - noise[1] + UNITS * labels
        log_odds += rate * (np.abs(figures) - np.abs(figures - UNITS))
    guessed = np.abs(log_odds) >= np.quantile(np.abs(log_odds), 0.95)
    right = int(np.sum((log_odds > 0.0)[guessed] == (labels == 1)[guessed]))
    proved = epsilon_lower(
        draws, int(guessed.sum()), right, family=PureDP(1.0), delta=0.0, significance=1e-3
    )
    assert 5 * declared < proved <= nights * declared
