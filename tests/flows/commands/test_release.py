"""`privaudit release` as a person types it."""

import json
import pathlib

import pytest

from tests.flows.commands.test_warehouse import Command, privaudit
from tests.workers.release.test_release_attack import frame

__all__ = ["privaudit"]
USAGE = 64


@pytest.fixture(autouse=True)
def _table(tmp_path: pathlib.Path) -> None:
    frame().write_csv(tmp_path / "staff.csv")


def test_a_table_is_read_and_the_person_sees_how_much(
    privaudit: Command, tmp_path: pathlib.Path
) -> None:
    arguments = ["release", "--table", "staff.csv", "--definition", "group_idp", "--k", "2"]
    code, out, _ = privaudit(*arguments, "--target", "age=99", "--target", "age=20, town=A")
    assert code == 1
    assert out.startswith("staff.csv: reconstructed")
    said = " ".join(out.split())
    assert "All 60 records were read" in said
    assert "100.00% of 60" in said
    assert "2 of 2 correctly classified" in said
    assert "staff.csv: reconstructed" in (tmp_path / "release" / "index.html").read_text("utf-8")
    code, out, _ = privaudit(*arguments, "--json")
    assert (code, "groups of 2" in json.dumps(json.loads(out))) == (1, True)


def test_what_resists_ends_with_zero(privaudit: Command) -> None:
    code, out, _ = privaudit("release", "--table", "staff.csv", "--definition", "dp")
    assert (code, out.startswith("staff.csv: resisted")) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--definition", "idp"], "--table"),
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
        (["--definition", "idp", "--table", "none.csv"], "holds no file"),
        (["--definition", "idp", "--table", "staff.csv", "--epsilon", "0"], "epsilon"),
        (["--definition", "group_idp", "--k", "31", "--table", "staff.csv"], "at least 2k = 62"),
        (["--definition", "idp", "--table", "staff.csv", "--target", "size=3"], "'size'"),
    ],
)
def test_bad_input_is_one_sentence(privaudit: Command, arguments: list[str], words: str) -> None:
    code, _, err = privaudit("release", *arguments)
    assert code == 3
    assert words in " ".join(err.split())
    assert "Traceback" not in err
