"""The audit's own output as an adversary reads it who knows all labels but one.

The adversary tries both values of the label and compares with what was published. Everything that
travels is looked at together: report, alerts, events, summaries, logs, what the command prints, its
exit code, and the statements' table.
"""

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
from tests.support.lake import DAY, label_path, put_labels, write_settings
from workers.lake.layout import Lake
from workers.publication.key import make_key
from workers.publication.publish import statement_of
from workers.publication.statement_row import Statement
from workers.publication.store import Statements
from workers.warehouse.store import Warehouse

pytestmark = pytest.mark.usefixtures("in_process")
PUBLISHED = '[publication]\nstatements = "statements"\nkey_file = "key"\nepsilon = 0.5\n'
NOISY = {
    "statement_id", "published_at", "labels_commitment", "audit_commitment", "evidence_figure",
    "premises_figure", "verdict", "pvalue", "log_evalue", "premises_pvalue",
}  # fmt: skip
_TIMES = re.compile(r"(seconds|cpu_seconds|worker)=({.*?}|\S+)")


def with_label_flipped(lake: Lake, record: int) -> None:
    rows = pl.read_parquet(label_path(lake, "flights"))
    flipped = pl.when(pl.int_range(pl.len()) == record).then(1 - pl.col("late"))
    label_path(lake, "flights").unlink()
    put_labels(lake, DAY, rows.with_columns(late=flipped.otherwise(pl.col("late"))))


def night(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: Any, *, public: bool
) -> str:
    """Return all that travels of a night, as one text."""
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
    file = write_settings(folder, ["good"], more=PUBLISHED if public else "")
    file.write_text(f'report_url = "https://reports.example.com/"\n{file.read_text()}')
    if public:
        make_key(folder / "key")  # another in each world, as nobody but its owner knows it
    caplog.clear()
    with caplog.at_level(logging.INFO, "workers"):
        ended = CliRunner().invoke(audits, ["night", "--day", str(DAY), "--config", str(file)])
    travelled += [ended.stdout, ended.exit_code]
    travelled += [_TIMES.sub("", line) for line in caplog.messages]
    pages = sorted((folder / "report").rglob("*"))
    travelled += [(str(page.relative_to(folder)), page.read_text()) for page in pages
                  if page.is_file()]  # fmt: skip
    if public:
        travelled += Statements(str(folder / "statements")).contents()
    return repr(travelled).replace(str(folder), "FOLDER")


def worlds(lake: Lake, tmp_path: pathlib.Path, record: int) -> list[pathlib.Path]:
    """Return three folders: the lake, the lake again, and with one label flipped.

    The models are the same files in all.
    """
    folders = [tmp_path / name for name in ("first", "again", "flipped")]
    for folder in folders:
        shutil.copytree(lake.uri, folder / "lake")
    with_label_flipped(Lake(str(folders[2] / "lake")), record)
    return folders


def without_noise(exact: Any, revision: int, key: bytes) -> Statement:
    """Return a statement whose noisy columns are the same whatever the labels are."""
    same: dict[str, Any] = {"audit_id": "a" * 32, "labels_digest": "d" * 64}
    same |= {"evidence_figure": 100, "premises_figure": -100}
    alike = statement_of(exact.model_copy(update=same), revision, bytes(32))
    fixed = {name: getattr(alike, name) for name in NOISY} | {"published_at": DAY}
    return Statement.model_validate(statement_of(exact, revision, key).model_dump() | fixed)


@pytest.mark.parametrize("record", [3, 210])
def test_of_a_public_night_nothing_but_noisy_figures_tells_a_label(
    lake: Lake,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    record: int,
) -> None:
    """With these set to the same, all that travels is the same, byte for byte."""
    monkeypatch.setattr(workers.publication.publish, "statement_of", without_noise)
    seen = [
        night(folder, monkeypatch, caplog, public=True) for folder in worlds(lake, tmp_path, record)
    ]
    assert seen[0] == seen[1]
    assert seen[0] == seen[2]
    assert "not_refuted" in seen[0]


def test_of_an_exact_night_a_digest_tells_every_label(
    lake: Lake,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Why exact reports are for people who may read the labels: ids are digests of these."""
    folders = worlds(lake, tmp_path, 3)
    for folder in folders:
        night(folder, monkeypatch, caplog, public=False)
    ids = [str(Warehouse(str(one / "warehouse")).current()["audit_id"][0]) for one in folders]
    assert ids[0] == ids[1] != ids[2]
    pages = [(one / "report" / "models" / "good.html").read_text() for one in folders]
    assert [name in page for name, page in zip(ids, pages, strict=True)] == [True] * 3


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
