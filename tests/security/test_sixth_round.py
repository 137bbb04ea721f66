"""The sixth round, of an owner and of strangers (2026-11-27): what broke of 30 attacks."""

import datetime as dt
import os
import pathlib
import tracemalloc
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit

from flows.failures import in_one_sentence
from flows.notify.webhook import WebhookError, send
from flows.settings import WebhookSettings, load_settings
from flows.settings.problems import SettingsError
from privcore.attacks import LabelCounts, OddsTally, unlike_arms
from privcore.exceptions import InvalidInputError, TerminalError
from privcore.lower_bounds import Arm, audit_probabilities
from tests.support.lake import write_settings
from tests.worlds import both
from workers.exceptions import NotEvaluableError
from workers.labels.batches import Batch
from workers.lake import limits
from workers.memorization.scan import _tokens
from workers.patience import ONCE
from workers.sources.manifest_proposal import proposed_manifest
from workers.sources.scores.join_parts import JoinPart, check_names

DAY = dt.date(2026, 3, 2)


def arm(proxy: np.ndarray[Any, Any]) -> OddsTally:
    """Return records by the proxy's log-odds, which is all that the comparison reads."""
    bins = np.clip(((proxy + 14.0) * 16).astype(int), 0, 447)
    counts = np.zeros((448, 224, 2), dtype=np.int64)
    np.add.at(counts[:, 100, 0], bins, 1)
    return OddsTally(proxy.size, counts)


def compared(*arms: np.ndarray[Any, Any], classes: int = 2) -> str:
    one, other = map(arm, arms)
    given = SimpleNamespace(classes=classes, odds=(one,), control_odds=(other,))
    given.labels = given.control_labels = None
    if classes > 2:  # of which all but two have no label
        counts = np.zeros((2, 1, classes, 448, 2), dtype=np.int64)
        counts[:, 0, 1, :, 0] = [each.counts.sum(axis=(1, 2)) for each in (one, other)]
        counts[:, 0, 0] = counts[:, 0, 1, ::-1]
        counts[:, 0, 2:, 0, 0] = [[one.records], [other.records]]
        given.labels, given.control_labels = map(LabelCounts, counts)
    return unlike_arms(cast("Any", given))


def test_a_holdout_of_the_rows_that_the_proxy_is_surest_of_is_told() -> None:
    """A leak on the others proved 0.00, and nothing was said."""
    random = np.random.default_rng(0)
    odds = random.normal(size=3_000)
    surest = np.abs(odds) > np.quantile(np.abs(odds), 0.6)
    assert "answers otherwise of the holdout" in compared(odds[~surest], odds[surest])
    # An invented third class was enough for nothing to be said.
    assert "answers otherwise of the holdout" in compared(odds[~surest], odds[surest], classes=3)
    assert compared(odds[1::2], odds[::2], classes=3) == ""


def remembering(share: float, *, seed: int, own: bool = True) -> float:
    """Return the bound of a target that answers as the proxy, but for what it remembers.

    It is certain of some rows, by their own labels or by others drawn for them.
    """
    random = np.random.default_rng(seed)
    arms = []
    for records, known in ((20_000, share), (5_000, 0.0)):
        log_odds = random.normal(-1.0, 1.2, records)
        labels = (random.random(records) < expit(log_odds)).astype(np.int64)
        proxy = both(log_odds + 0.1 * random.normal(size=records))
        remembered = random.random(records) < known
        read = labels if own else (random.random(records) < expit(log_odds)).astype(np.int64)
        certain = both(np.where(read == 1, 7.0, -7.0))
        arms.append(Arm(np.where(remembered[:, None], certain, proxy), proxy, labels))
    return audit_probabilities(arms[0], arms[1], epsilon_declared=0.5, seed=seed).epsilon_lower


def test_a_model_that_answers_as_yesterdays_but_for_what_it_remembers_is_refuted() -> None:
    """Such strata of the holdout had no record past the cut, and nothing was proved (method 17)."""
    assert min(remembering(0.05, seed=seed) for seed in range(3)) > 1.5
    assert [remembering(0.05, seed=seed, own=False) for seed in range(3)] == [0.0] * 3


def test_a_random_holdout_is_not_remarked_on() -> None:
    for seed in range(200):
        random = np.random.default_rng(seed)
        odds = random.normal(scale=random.uniform(0.1, 4.0), size=int(random.integers(300, 3_000)))
        chosen = random.random(odds.size) < random.uniform(0.1, 0.6)
        assert compared(odds[~chosen], odds[chosen]) == ""


@pytest.mark.parametrize("names", [("ID", "Id"), ("rowid",), ("privaudit: record",)])
def test_a_join_refuses_columns_that_it_would_confuse(names: tuple[str, ...]) -> None:
    """One called rowid was an unexpected error, and some that differ in case were taken for one."""
    found = cast("Any", SimpleNamespace(day_in_files=False))
    part = JoinPart("first", found, "record", "day", {name: name for name in names})
    with pytest.raises(NotEvaluableError, match="cannot tell the column"):
        check_names([part])


def test_a_column_that_is_called_as_a_joined_one_is_refused() -> None:
    found = cast("Any", SimpleNamespace(day_in_files=False))
    first = JoinPart("first", found, "record", "day", {"label: late": "label: late"})
    label = JoinPart("label", found, "record", "day", {"late": "label: late"})
    with pytest.raises(NotEvaluableError, match="'label: late'"):
        check_names([first, label])
    check_names([JoinPart("first", found, "record", "day", {"late": "late"}), label])


def test_a_sentence_of_a_command_is_bounded() -> None:
    """A number of 100 MB in a CSV file was printed whole."""
    for error in (InvalidInputError("x", "9" * 1_000_000, "no"), ValueError("9" * 1_000_000)):
        assert len(in_one_sentence(error)) <= limits.REASON_CHARACTERS + 3
    assert in_one_sentence(ValueError("short")) == "ValueError: short"


@pytest.mark.parametrize("pipe", ["model.cbm", "rows.parquet"])
def test_a_manifest_is_made_of_plain_files(tmp_path: pathlib.Path, pipe: str) -> None:
    for name in ("model.cbm", "rows.parquet"):
        (tmp_path / name).write_bytes(b"nothing")
    (tmp_path / pipe).unlink()
    os.mkfifo(tmp_path / pipe)
    with pytest.raises(TerminalError, match="cannot be read"):
        proposed_manifest(
            tmp_path / "model.cbm", tmp_path / "rows.parquet",
            model="m", day=DAY, dataset="d", label="y",
        )  # fmt: skip


def test_sequences_become_tokens_one_after_the_other() -> None:
    """A file of 188 kB took 9 GB."""
    batch = Batch(pa.table({"text": ["x" * 100_000] * 200}), "p", ("f", 0, 0))
    tracemalloc.start()
    found = sum(len(one) for one in _tokens(batch, "text", np.arange(200)) if one is not None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found, peak < 20_000_000) == (200 * 100_001, True)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "a\u202eb", "", "x" * 2_000])
def test_a_model_in_the_settings_has_a_name_of_one_line(tmp_path: pathlib.Path, name: str) -> None:
    place = write_settings(tmp_path, ["good"])
    escaped = "".join(f"\\u{ord(each):04x}" for each in name)
    place.write_text(place.read_text("utf-8").replace('"good"', f'"{escaped}"'), "utf-8")
    with pytest.raises(SettingsError, match=r"models\.0\.name"):
        load_settings(place)


@pytest.mark.parametrize("url", ["https://a\nb/", "https://xn--/"])
def test_an_address_that_is_none_ends_no_delivery(url: str) -> None:
    """It was an unexpected error, after which no alert of the night was sent."""
    webhook = WebhookSettings.model_validate({"url": url, "secret": "0123456789abcdef" * 3})
    with pytest.raises(WebhookError, match="did not take"):
        send(webhook, {"subject": "s"}, patience=ONCE)
