"""The ninth round, strangers who write files (2026-11-27): what broke of 25 attacks."""

import os
import pathlib

import polars as pl
import pytest

from privcore.exceptions import TerminalError
from tests.security.test_eighth_round_outputs import commit
from tests.support.lake import DAY
from tests.support.warehouse import failed
from workers.warehouse.store import Warehouse


def added(table: pathlib.Path, name: str) -> None:
    """Have a table's log name one more file."""
    add = {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 1}
    commit(table.parent, {"add": add | {"dataChange": True}})


def test_a_warehouse_file_has_no_more_rows_than_its_bytes_can_hold(tmp_path: pathlib.Path) -> None:
    """635 kB that unpack to 50 million rows took 8 GB of each command, and of alerts."""
    warehouse = Warehouse(str(tmp_path))
    warehouse.commit(failed("good", DAY))
    rows = pl.select(audit_id=pl.lit("x").repeat_by(9_000)).explode("audit_id")
    rows.write_parquet(tmp_path / "audits" / "forged.parquet")
    added(tmp_path / "audits", "forged.parquet")
    with pytest.raises(TerminalError, match=r"forged.parquet' has 9,000 rows"):
        warehouse.current()


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_warehouse_reads_no_file_of_a_folder_below_its_table(
    tmp_path: pathlib.Path, kind: str
) -> None:
    """Only the table's own folder was looked through for links and pipes."""
    warehouse = Warehouse(str(tmp_path))
    warehouse.commit(failed("good", DAY))
    file = tmp_path / "audits" / "below" / "x.parquet"
    file.parent.mkdir()
    os.mkfifo(file) if kind == "pipe" else file.symlink_to("/etc/hostname")
    added(tmp_path / "audits", "below/x.parquet")
    with pytest.raises(TerminalError, match="which lies elsewhere"):
        warehouse.current()
