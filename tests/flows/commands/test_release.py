"""`privaudit release` as a person types it."""

import json

import pytest

from tests.workers.release.test_release_attack import frame

USAGE = 64
TABLE = ["--table", "staff.csv"]
pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(autouse=True)
def _table(tmp_path):
    frame().write_csv(tmp_path / "staff.csv")


def test_a_table_is_read_and_the_person_sees_how_much(privaudit, tmp_path):
    arguments = ["release", *TABLE, "--definition", "group_idp", "--k", "2"]
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


def test_what_resists_ends_with_zero(privaudit):
    code, out, _ = privaudit("release", *TABLE, "--definition", "dp")
    assert (code, out.startswith("staff.csv: resisted")) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "ends_with", "words"),
    [
        (["--definition", "idp"], USAGE, "--table"),
        (["--definition", "idp", *TABLE, "--target", "age"], USAGE, "is not a target"),
        (["--definition", "ddp", *TABLE], USAGE, "ddp"),
        (["--definition", "idp", *TABLE, "--k", "0"], USAGE, "--k"),
        (["--definition", "idp", "--table", "none.csv"], 3, "holds no file"),
        (["--definition", "idp", *TABLE, "--epsilon", "0"], 3, "epsilon"),
        (["--definition", "group_idp", "--k", "31", *TABLE], 3, "at least 2k = 62"),
        (["--definition", "idp", *TABLE, "--target", "size=3"], 3, "'size'"),
    ],
)
def test_what_is_wrong_is_one_sentence(privaudit, arguments, ends_with, words):
    code, _, err = privaudit("release", *arguments)
    assert code == ends_with
    assert words in " ".join(err.split())
    assert "Traceback" not in err
