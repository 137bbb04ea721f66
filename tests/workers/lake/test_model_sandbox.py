import os
import pathlib
import random
import shutil

import pytest

from tests.support.lake import DAY, PLAN, clone_model, model_path, replace_model
from workers.audit.run import run_audit
from workers.executors import InProcess
from workers.lake.layout import Lake
from workers.lake.model_sandbox import ModelDescription, UnreadableModelError, describe_model


@pytest.fixture(scope="module")
def model(template: Lake) -> bytes:
    return (model_path(template, "good") / "model.cbm").read_bytes()


def damaged(model: bytes, seed: int) -> bytes:
    """Return the file with one to eight of its bytes changed."""
    chance, content = random.Random(seed), bytearray(model)  # noqa: S311
    for _ in range(chance.choice([1, 1, 2, 8])):
        content[chance.randrange(len(content))] = chance.randrange(256)
    return bytes(content)


def first_that_crashes(model: bytes) -> bytes:
    for seed in range(400):
        content = damaged(model, seed)
        try:
            describe_model(content)
        except UnreadableModelError as error:
            if "CatBoost crashed (SIG" in error.why:
                return content
    pytest.fail("No damage crashed CatBoost's reader: is the sandbox still needed?")


def test_a_model_is_described_as_it_is(model: bytes) -> None:
    assert describe_model(model) == ModelDescription(
        kinds=("numeric", "numeric", "categorical"),
        names=("delay", "hour", "city"),
        classes=("0", "1"),
        class_count=2,
    )


def test_a_file_that_crashes_catboost_ends_as_a_record_and_the_next_audit_goes_on(
    model: bytes, template: Lake, tmp_path: pathlib.Path
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    shutil.copytree(template.uri, lake.uri)
    clone_model(lake, "bad")
    replace_model(lake, "bad", DAY, first_that_crashes(model))

    row = run_audit(lake, "bad", DAY, plan=PLAN, executor=InProcess()).audit

    assert (row.status, row.reason_code) == ("not_evaluable", "checkpoint_invalid")
    assert f"The checkpoint of bad for {DAY} cannot be read: CatBoost crashed (SIG" in row.reason
    assert run_audit(lake, "good", DAY, plan=PLAN, executor=InProcess()).audit.status == "evaluated"


@pytest.mark.parametrize("content", [b"", b"\0", b"CBM1", b"not a model", os.urandom(4096)])
def test_what_is_no_model_is_said_to_be_none(content: bytes) -> None:
    with pytest.raises(UnreadableModelError, match="is not in CatBoost's format"):
        describe_model(content)
