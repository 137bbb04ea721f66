"""`privaudit check-labels` as a person types it."""

import json

import numpy as np
import polars as pl
import pytest

from tests.flows.commands.test_quick import ASKED_OF_LABELS as ASKED
from tests.workers.audit.test_label_check import honest, with_prior

pytestmark = pytest.mark.usefixtures("here", "in_process")


@pytest.fixture(autouse=True)
def _table(tmp_path):
    random = np.random.default_rng([1, 7])
    day = honest(random, 3_000)
    day.write_parquet(tmp_path / "day.parquet")
    day.with_columns(z="y").write_csv(tmp_path / "dropped.csv")
    day.head(30).write_csv(tmp_path / "few.csv")
    with_prior(day, random).drop("top").write_parquet(tmp_path / "prior.parquet")


@pytest.mark.parametrize(
    ("table", "more", "code", "words"),
    [
        ("day.parquet", (), 0, "not_refuted. Nothing refutes epsilon 1. At least 0."),
        ("dropped.csv", (), 1, "violated: this_night. 3,000 of 3,000 compared labels"),
        ("prior.parquet", (), 2, "inconclusive: reads_more. Released labels of one true label"),
        ("few.csv", (), 0, "inconclusive: too_small. 30 labels can be compared"),
        ("few.csv", ("--strict",), 2, "inconclusive: too_small."),
    ],
)
def test_one_answer_and_its_exit_code(privaudit, table, more, code, words):
    found, out, _ = privaudit("check-labels", table, *ASKED, *more)
    assert (found, out.startswith(words)) == (code, True), out


def test_json_has_every_figure(privaudit):
    code, out, _ = privaudit("check-labels", "dropped.csv", *ASKED, "--reads", "segment", "--json")
    found = json.loads(out)
    assert (code, found["verdict"], found["reads"]) == (1, "violated", ["segment"])
    assert found["epsilon_lower"] > 3.0
    assert found["pvalues"]["kept"] < 1e-9


@pytest.mark.parametrize(
    ("arguments", "expected", "words"),
    [
        (("day.parquet", *ASKED, "--reads", "w"), 3, "there is no column 'w'"),
        (("nowhere.parquet", *ASKED), 3, "check the address"),
        (("nowhere.parquet", *ASKED, "--delta", "2"), 64, "delta lies in [0, 1)"),
        (("nowhere.parquet", *ASKED, "--epsilon", "-1"), 64, "epsilon is -1.0"),
        (("nowhere.parquet", *ASKED, "--epsilon", "nan"), 64, "epsilon is nan"),
    ],
)
def test_what_is_wrong_is_one_sentence(privaudit, arguments, expected, words):
    code, out, err = privaudit("check-labels", *arguments)
    assert (code, out, words in err) == (expected, "", True), err


def test_a_table_of_labels_alone_is_compared(privaudit, tmp_path):
    pl.read_parquet(tmp_path / "day.parquet").select("y", "z").write_csv(tmp_path / "two.csv")
    arguments = ("--true", "y", "--released", "z", "--epsilon", "1", "--record", "row")
    assert privaudit("check-labels", "two.csv", *arguments)[0] == 0
