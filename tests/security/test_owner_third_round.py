"""The third round of an owner (2026-11-25): what broke of the attacks that were written down."""

import pathlib

import pytest

from flows.settings import SettingsError, load_settings
from tests.support.lake import DAY, PLAN, declared, edit_manifest, small_lake, write_settings
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
