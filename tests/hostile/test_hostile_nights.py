"""Whatever is wrong with one model's input, the seven others' records are as if it were not."""

import pathlib
import re
import shutil
from typing import Any

import pytest

import flows.notify.alerts
from tests.hostile.inputs import inputs_by_kind
from tests.hostile.night import Hostile, check, make_template, play
from workers.audit import accounting
from workers.contained import Contained
from workers.executors import on_ray

KINDS = inputs_by_kind()
INPUTS = [hostile for inputs in KINDS.values() for hostile in inputs]
DOCUMENTED = pathlib.Path(__file__).parents[2] / "docs" / "evidence" / "reliability.md"
OF_EACH_KIND = {
    "number-timestamp-us-most",
    "label-not-utf-8-encoded",
    "declares-composed-of-20000",
    "model-folders-are-a-loop",
    "labels-file-name-is-not-utf-8",
    "table-late_too-encrypted",
}


@pytest.fixture(scope="module", autouse=True)
def soon_given_up():
    """Give arithmetic without end a smaller bound: two seconds show as much as sixty."""
    with pytest.MonkeyPatch.context() as patched:
        bounded = Contained(f"{accounting.__name__}:answer", seconds=2, memory=1 << 29)
        patched.setattr(accounting, "_contained", bounded)
        yield


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return make_template(tmp_path_factory.mktemp("hostile") / "template")


@pytest.fixture(scope="module")
def undisturbed(template, tmp_path_factory):
    """Yield what the seven records say without a hostile input; Ray runs."""
    with on_ray("local", 2):
        night = play(template, tmp_path_factory.mktemp("undisturbed"), None, [])
        assert {row.status for row in night.rows} == {"evaluated"}
        yield night.figures()


def _given(hostile: Hostile) -> Any:
    marks = pytest.mark.slow if hostile.name in OF_EACH_KIND else pytest.mark.soak
    return pytest.param(hostile, id=hostile.name, marks=marks)


@pytest.mark.parametrize("hostile", [_given(hostile) for hostile in INPUTS])
def test_a_night_goes_on(template, undisturbed, hostile, tmp_path, monkeypatch):
    heard: list[Any] = []
    monkeypatch.setattr(
        flows.notify.alerts, "deliver", lambda alert, _: heard.append(alert.payload())
    )
    night = play(template, tmp_path / "night", hostile, heard)
    check(night, hostile, undisturbed)
    shutil.rmtree(tmp_path)


def test_the_documented_table_counts_the_inputs_and_one_of_each_kind_is_always_played():
    names = {hostile.name for hostile in INPUTS}
    assert len(names) == len(INPUTS)
    assert names >= OF_EACH_KIND
    counted = {kind: len(inputs) for kind, inputs in KINDS.items()} | {"in all": len(INPUTS)}
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \|$", DOCUMENTED.read_text("utf-8"), re.MULTILINE)
    assert {kind: int(number) for kind, number in rows if kind in counted} == counted
