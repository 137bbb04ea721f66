"""What leaves for people who may not read labels, as one of them reads it who knows all but one.

The adversary tries both values of the label and compares with what was handed over: statements,
their page, what `publish` prints, and the exit code.
"""

import datetime as dt
import itertools
import pathlib
import re
import shutil
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import flows.notify.alerts
import workers.publication.statements
from flows.commands.audits import app as audits
from flows.commands.handover import app as publication
from flows.run.upkeep import withdraw_audit
from flows.settings import load_settings
from privcore.guarantees import PureDP
from privcore.lower_bounds.fdp import epsilon_lower
from privcore.publication import KeyedBits, discrete_laplace, exactly
from privcore.publication.noisy_wealth import SENSITIVITY, UNITS
from tests.support.lake import DAY, label_path, put_labels, write_settings
from workers.audit.run import run_audit
from workers.evidence.attestation import attest
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.plain_files import make_key
from workers.publication.statements import Statement, Statements, statement_of
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process")
PUBLISHED = '[publication]\nstatements = "statements"\nkey_file = "key"\nepsilon = 0.5\n'
NOISY = (
    "statement_id", "evidence_figure", "premises_figure", "verdict", "pvalue", "log_evalue",
    "premises_pvalue",
)  # fmt: skip
CHANGED = {"flipped": 1 - pl.col("late"), "none": None}


def with_label(lake: Lake, day: dt.date, record: int, label: pl.Expr | None) -> None:
    rows = pl.read_parquet(label_path(lake, "flights", day))
    changed = pl.when(pl.int_range(pl.len()) == record).then(label)
    label_path(lake, "flights", day).unlink()
    put_labels(lake, day, rows.with_columns(late=changed.otherwise(pl.col("late"))))


def worlds(lake: Lake, tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield the lake, the lake again, and for two records, with a label flipped and without it."""
    changes = [None, None, *itertools.product((3, 210), CHANGED.values())]
    for number, change in enumerate(changes):
        folder = tmp_path / str(number)
        shutil.copytree(lake.uri, folder / "lake")
        if change is not None:
            with_label(Lake(str(folder / "lake")), DAY, *change)
        yield folder


def handed_over(folder: pathlib.Path) -> str:
    """Return all that is handed over after a night, as one text."""
    file = write_settings(folder, ["good"], more=PUBLISHED)
    make_key(folder / "key")  # another in each world, as nobody but its owner knows it
    CliRunner().invoke(audits, ["night", "--day", str(DAY), "--config", str(file)])
    ended = CliRunner().invoke(publication, ["publish", "--config", str(file)])
    statements = Statements(str(folder / "statements"))
    page = (folder / "statements" / "index.html").read_text("utf-8")
    told = (
        ended.output,
        ended.exit_code,
        page,
        [one.model_dump_json() for one in statements.all()],
    )
    return repr(told).replace(str(folder), "FOLDER")


def without_noise(exact: Any, key: bytes) -> Statement:
    """Return a statement whose noisy columns are the same whatever the labels are."""
    same: dict[str, Any] = {"audit_id": "a" * 32, "labels_digest": "d" * 64}
    same |= {"evidence_figure": -3000, "premises_figure": -3000}
    alike = statement_of(exact.model_copy(update=same), bytes(32))
    # The sketch's own key differs in each world, and is set; the sketch under it is not.
    fixed = {name: getattr(alike, name) for name in (*NOISY, "holdout_sketch")}
    return statement_of(exact, key).model_copy(update=fixed | {"published_at": alike_time()})


def alike_time() -> dt.datetime:
    return dt.datetime(2026, 11, 2, tzinfo=dt.UTC)


@pytest.mark.slow
def test_of_a_statement_nothing_but_noisy_figures_tells_a_label(lake, tmp_path, monkeypatch):
    """With these set to the same, all that is handed over is the same, byte for byte."""
    monkeypatch.setattr(workers.publication.statements, "statement_of", without_noise)
    seen = [handed_over(folder) for folder in worlds(lake, tmp_path)]
    assert all(world == seen[0] for world in seen[1:])
    assert '"verdict":"inconclusive"' in seen[0]  # so few records could refute nothing
    assert re.search(r'"holdout_sketch":"[0-9a-f]{64}"', seen[0])


def told_of_exact_night(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return all pages, alerts, the statement and both bundles of a night, as one text."""
    travelled: list[Any] = []
    monkeypatch.setattr(
        flows.notify.alerts, "deliver", lambda alert, _: travelled.append(alert.payload())
    )
    handed_over(folder)
    settings = load_settings(folder / "privaudit.toml")
    current = Warehouse(settings.warehouse).current()
    withdraw_audit(settings, current["audit_id"].item(), why="Asked.")  # its alert names the audit
    for page in (folder / "report").rglob("*"):
        travelled += [page.read_text("utf-8", errors="replace")] if page.is_file() else []
    statements = Statements(str(folder / "statements")).all()
    travelled += [(folder / "statements" / "index.html").read_text("utf-8")]
    travelled += [attest(one).decode() for one in statements]
    record = Warehouse(settings.warehouse).record(current["audit_id"].item())
    return repr([*travelled, attest(record).decode()])


@pytest.mark.slow
def test_ids_on_pages_and_in_alerts_do_not_tell_a_label(lake, tmp_path, monkeypatch):
    """The reader computes digest and id for both values of the one label that is not known.

    From the same lake and plan, without a key and with that of a warehouse of the reader's own. The
    oracle is a real one: without the warehouse's key, digest and id of the true label are there.
    """
    label_free, keyed = tmp_path / "oracle", tmp_path / "keyed"
    for folder in (label_free, keyed):
        shutil.copytree(lake.uri, folder / "lake")
    text = told_of_exact_night(keyed, monkeypatch)
    stored = Warehouse(str(keyed / "warehouse")).scan("audits").collect()
    assert stored["audit_id"].item() in text
    plan = load_settings(keyed / "privaudit.toml").plan_of("good")
    own = Warehouse(str(tmp_path / "own")).digest_key()
    guesses = []
    for flipped in (False, True):
        if flipped:
            with_label(lake, DAY, 3, CHANGED["flipped"])
        for key in (b"", own):
            guess = run_audit(
                lake, "good", DAY, plan=plan, executor=InProcess(), digest_key=key
            ).audit
            guesses += [guess.audit_id[:8], str(guess.labels_digest)[:8]]
    assert len(set(guesses)) == 8
    assert not [guess for guess in guesses if guess in text]
    monkeypatch.setattr(Warehouse, "digest_key", lambda _: b"")
    text = told_of_exact_night(label_free, monkeypatch)
    assert [guess in text for guess in guesses] == [True, True] + [False] * 6


def proved_by(guessed: np.ndarray, log_odds: np.ndarray, labels: np.ndarray) -> float:
    """Return the bound at a significance of 1e-3 of guesses by the sign of the log-odds."""
    right = int(np.sum((log_odds > 0.0)[guessed] == (labels == 1)[guessed]))
    guesses, family = int(guessed.sum()), PureDP(1.0)
    return epsilon_lower(len(labels), guesses, right, family=family, delta=0.0, significance=1e-3)


@pytest.mark.slow
def test_privaudits_own_bets_prove_what_a_statement_costs_and_no_more():
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
    proved = proved_by(guessed, log_odds, labels)
    assert declared / 2 < proved <= declared
    assert rate == Fraction(1, 1300)


@pytest.mark.slow
def test_thirty_statements_about_one_label_cost_more_than_one_and_no_more_than_thirty():
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
    proved = proved_by(guessed, log_odds, labels)
    assert 5 * declared < proved <= nights * declared
