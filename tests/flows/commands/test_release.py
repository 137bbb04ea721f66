"""`privaudit release` as a person types it."""

import json
import pathlib

import pytest

from tests.flows.commands.test_warehouse import Command, privaudit
from tests.workers.release.test_release_attack import frame

__all__ = ["privaudit"]
USAGE = 64

pytestmark = pytest.mark.usefixtures("in_process")

SYSTEM = """
import polars as pl
import numpy as np
from privcore.mechanisms import NoisyCountThreshold, ProtectedTable
from workers.release.table import as_table

def honest():
    table = as_table(pl.read_csv("staff.csv"))
    return ProtectedTable(
        table.cells, table.columns, NoisyCountThreshold(), np.random.default_rng(0)
    )
"""


@pytest.fixture(autouse=True)
def _table(tmp_path: pathlib.Path) -> None:
    frame().write_csv(tmp_path / "staff.csv")
    (tmp_path / "honest_system.py").write_text(SYSTEM, encoding="utf-8")


def test_a_table_is_read_and_the_person_sees_how_much(privaudit: Command) -> None:
    arguments = ["release", "--table", "staff.csv", "--definition", "group-idp", "--k", "2"]
    code, out, _ = privaudit(*arguments, "--target", "age=99", "--target", "age=20, town=A")
    assert code == 1
    assert "reconstructed: All 60 records were read" in " ".join(out.split())
    assert "100.00% of 60" in out
    assert "2 of 2 correctly classified" in out
    assert "of 0.01" in out
    code, out, _ = privaudit(*arguments, "--json")
    row = json.loads(out)
    assert (code, row["verdict"], row["group_size"], row["targets"]) == (1, "reconstructed", 2, 0)


def test_what_resists_ends_with_zero(privaudit: Command) -> None:
    code, out, _ = privaudit("release", "--table", "staff.csv", "--definition", "dp")
    assert (code, out.split(":")[0]) == (0, "resisted")
    code, out, _ = privaudit(
        "release", "--interface", "honest_system:honest", "--definition", "idp"
    )
    assert (code, out.split(":")[0]) == (0, "resisted")
    assert "by asking about" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--definition", "idp"], "--table or --interface"),
        (
            ["--definition", "idp", "--interface", "a:b", "--target", "age=3"],
            "the table that --target is compared with",
        ),
        (["--definition", "idp", "--table", "staff.csv", "--target", "age"], "is not a target"),
        (["--definition", "ddp", "--table", "staff.csv"], "ddp"),
        (["--definition", "idp", "--table", "staff.csv", "--k", "0"], "--k"),
    ],
)
def test_wrong_usage_is_told(privaudit: Command, arguments: list[str], words: str) -> None:
    code, _, err = privaudit("release", *arguments)
    assert code == USAGE
    assert words in " ".join(err.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--definition", "idp", "--table", "none.csv"], "cannot be read"),
        (["--definition", "idp", "--table", "staff.csv", "--epsilon", "0"], "epsilon"),
        (["--definition", "group-idp", "--k", "31", "--table", "staff.csv"], "at least 2k = 62"),
        (["--definition", "idp", "--interface", "none:api"], "cannot be imported"),
        (["--definition", "idp", "--table", "staff.csv", "--target", "size=3"], "'size'"),
    ],
)
def test_bad_input_is_one_sentence(privaudit: Command, arguments: list[str], words: str) -> None:
    code, _, err = privaudit("release", *arguments)
    assert code == 3
    assert words in " ".join(err.split())
    assert "Traceback" not in err
