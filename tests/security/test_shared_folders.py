"""What other users of a machine put into its folders is neither followed nor waited for."""

import os
import pathlib
import subprocess
import sys

from workers import isolation
from workers.warehouse.sql import _connect


def python(code: str, **environment: str) -> str:
    """Return what a new process prints."""
    kept = {name: value for name, value in os.environ.items() if "POLARS" not in name}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True,
        env=kept | environment,
    )  # fmt: skip
    return done.stdout


def test_polars_sweeps_no_folder_that_another_user_made():
    """One in /var/tmp that led to a folder of ours had its numbered folders deleted."""
    told = python(
        "import os, sys, flows; print('polars' in sys.modules, os.environ['POLARS_OOC_SPILL_DIR'])"
    )
    assert told.split() == ["False", str(isolation.private_folder() / "polars")]


def test_polars_obeys_the_place_that_it_is_given(tmp_path):
    (tmp_path / "4194305").mkdir()  # of a process that cannot be: no number is as large
    python("import polars, time; time.sleep(0.3)", POLARS_OOC_SPILL_DIR=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_what_fits_in_no_memory_goes_to_a_folder_of_its_own():
    """It went to .tmp of the working folder, which another user may have made."""
    with _connect() as connection:
        asked = connection.execute("select current_setting('temp_directory')").fetchone()
        assert pathlib.Path(asked[0]).is_absolute()
        assert pathlib.Path(asked[0]).stat().st_mode & 0o077 == 0
