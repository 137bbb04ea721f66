"""The third round of an owner (2026-11-25): what broke of the attacks that were written down."""

import pathlib
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from flows.settings import SettingsError, load_settings
from privcore.attacks import Tallies
from privcore.attacks.odds import odds_tally
from tests.security.test_independent_round import predictions, scored
from tests.support.lake import DAY, PLAN, declared, edit_manifest, small_lake, write_settings
from workers.audit.narrow_answers import narrow_answers
from workers.audit.run import run_audit
from workers.executors import InProcess


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("unit", '"cust\u043emer"', "mixes letters of Cyrillic and Latin"),
        ("unit", '"cus\\u00adtomer"', "holds characters that no reader sees"),
        ("declared_at", "0001-01-01T00:00:00+14:00", "before the year 1"),
        ("delta", "5e-324", "write 0"),
    ],
)
def test_a_declaration_in_the_settings_that_no_manifest_could_make_is_refused_there(
    tmp_path: pathlib.Path, field: str, value: str, why: str
) -> None:
    """It was met when the night looked for inputs, and no model was audited."""
    path = write_settings(tmp_path, ["good"])
    text = path.read_text(encoding="utf-8")
    declares = (
        'scores = { table = "scores", label = "late", target = "new", proxy = "old" }\n'
        f"privacy = {{ epsilon = 0.5, {field} = {value} }}\n"
    )
    path.write_text(text.replace("[plan]", f"{declares}[plan]"), encoding="utf-8")
    with pytest.raises(SettingsError, match=why):
        load_settings(path)


def test_a_delta_that_arithmetic_cannot_hold_is_no_declaration(tmp_path: pathlib.Path) -> None:
    """The audit ended with a division by zero, as an unexpected error."""
    lake = small_lake(tmp_path / "lake")
    edit_manifest(lake, "good", DAY, privacy=declared(0.5, delta=5e-324))
    row = run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit
    assert (row.verdict, row.reason_code) == ("not_evaluable", "manifest_invalid"), row.reason
    assert "delta 4.94066e-324 is above 0 and below 1e-100: write 0" in row.reason


NARROW = "lie within a quarter of log-odds"


def test_answers_that_are_scaled_and_shifted_are_told(tmp_path: pathlib.Path) -> None:
    """All labels could be read from the third digit on: 2.43 became 0, without a remark."""
    frame = predictions()
    row = scored(tmp_path / "plain", frame)
    assert row.verdict == "violated"
    assert NARROW not in row.reason
    small = frame.with_columns(new=0.5 + 0.01 * pl.col("new"))
    row = scored(tmp_path / "scaled", small)
    assert (row.verdict, row.epsilon_lower) == ("doubtful", 0.0), row.reason
    assert NARROW in row.reason


@pytest.mark.parametrize(("spread", "told"), [(0.0, True), (0.02, True), (0.2, False)])
def test_answers_are_narrow_where_counts_do_not_tell_them_apart(spread: float, told: bool) -> None:
    random = np.random.default_rng(3)
    new = 1.0 / (1.0 + np.exp(-random.normal(0.3, spread, 2_000)))
    said = np.column_stack([1.0 - new, new])
    odds = (odds_tally(said, said, random.integers(0, 2, 2_000)),)
    tallies = replace(Tallies.zero(repetitions=1, classes=2), odds=odds)
    assert (NARROW in narrow_answers(tallies)) is told
    assert narrow_answers(replace(tallies, ordered=True)) == ""
