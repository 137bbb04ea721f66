"""Tables, files and helpers that were made to be slow, large or never done."""

import unicodedata

import polars as pl
import pytest

from tests.support.audits import audited
from tests.support.lake import DAY, EVE, label_path, label_rows, small_lake
from workers.exceptions import NotEvaluableError
from workers.sources.tables.day_tables import TablePlace
from workers.sources.tables.table_files import find_day


@pytest.mark.slow
def test_a_delta_log_of_3_000_commits_and_no_checkpoint_is_read(tmp_path):
    """Its reader starts up to 512 threads. That a listed file is gone shows that it was read."""
    table, versions = tmp_path / "table", 3_000
    pl.DataFrame({"day": [str(DAY)], "x": [1]}).write_delta(str(table))
    first = (table / "_delta_log" / f"{0:020}.json").read_text("utf-8").splitlines()
    (added,) = (line for line in first if line.startswith('{"add"'))
    for version in range(1, versions):
        log = table / "_delta_log" / f"{version:020}.json"
        log.write_text(added.replace('"path":"', f'"path":"{version}-', 1) + "\n")
    with pytest.raises(NotEvaluableError, match="which is gone"):
        find_day(TablePlace(table=str(table), day="day"), DAY)


def test_files_whose_names_differ_in_their_unicode_form_alone_are_two(tmp_path):
    lake = small_lake(tmp_path / "lake", days=(EVE, DAY))
    once = audited(lake)
    path = label_path(lake, "flights")
    for seed, form in enumerate(("NFC", "NFD")):
        name = unicodedata.normalize(form, "caf\u00e9.parquet")
        label_rows(400, seed=50 + seed).write_parquet(path.parent / name)
    both = audited(lake)
    assert both.status == "evaluated", both.reason
    rows = sum(label_rows(400, seed=50 + seed)["split"].is_in(["train"]).sum() for seed in (0, 1))
    assert (both.records or 0) - (once.records or 0) == rows
