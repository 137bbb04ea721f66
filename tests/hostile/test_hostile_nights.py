"""Whatever is wrong with one model's input, the seven others' records are as if it were not."""

import pathlib
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

import flows.notify.alerts
from tests.hostile.columns import MAKERS
from tests.hostile.inputs import PLACES, inputs_by_kind
from tests.hostile.night import (
    EIGHTH,
    Hostile,
    check,
    check_eighth,
    make_template,
    play,
    play_audits,
)
from workers.audit import accounting, record_promises
from workers.contained import Contained
from workers.executors import on_ray
from workers.lake.layout import Lake

KINDS = inputs_by_kind()
INPUTS = [hostile for inputs in KINDS.values() for hostile in inputs]
DOCUMENTED = pathlib.Path(__file__).parents[2] / "docs" / "evidence" / "reliability.md"
OF_EACH_KIND = {
    "number-timestamp-us-most",
    "unit-not-utf-8",
    "manifest-lists-1000-deep",
    "declares-composed-of-20000",
    "feature-split",
    "model-folders-are-a-loop",
    "labels-file-name-is-not-utf-8",
    "table-late_too-encrypted",
}
_ONE_PLACE = {f"{PLACES[number % len(PLACES)]}-{name}" for number, name in enumerate(MAKERS)}
_ANY_PLACE = {f"{place}-{name}" for place in PLACES for name in MAKERS}
IN_NIGHTS = [
    hostile
    for hostile in INPUTS
    if hostile.name not in _ANY_PLACE or hostile.name in _ONE_PLACE | OF_EACH_KIND
]
IN_AUDITS = [hostile for hostile in INPUTS if hostile not in IN_NIGHTS]
ENDED: dict[str, str] = {}
"""The status that each input that was played has ended in."""


@pytest.fixture(scope="module", autouse=True)
def soon_given_up() -> Iterator[None]:
    """Give arithmetic without end a smaller bound: two seconds show as much as sixty."""
    with pytest.MonkeyPatch.context() as patched:
        for module, name in ((accounting, "account"), (record_promises, "promises_of")):
            bounded = Contained(f"{module.__name__}:{name}", seconds=2, memory=1 << 29)
            patched.setattr(module, "_contained", bounded)
        yield


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return make_template(tmp_path_factory.mktemp("hostile") / "template")


@pytest.fixture(scope="module")
def undisturbed(
    template: Lake,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Any]]:
    """Yield what the seven records say without a hostile input; Ray runs."""
    with on_ray("local", 2):
        night = play(template, tmp_path_factory.mktemp("undisturbed"), None, [])
        assert {row.status for row in night.rows} == {"evaluated"}
        yield night.figures()


@pytest.fixture(scope="module")
def undisturbed_audits(
    template: Lake, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    rows = play_audits(template, tmp_path_factory.mktemp("undisturbed"), None)
    assert {row["status"] for row in rows.values()} == {"evaluated"}
    return rows


def _given(hostile: Hostile) -> Any:
    marks = pytest.mark.slow if hostile.name in OF_EACH_KIND else pytest.mark.soak
    return pytest.param(hostile, id=hostile.name, marks=marks)


@pytest.mark.parametrize("hostile", [_given(hostile) for hostile in IN_NIGHTS])
def test_a_night_goes_on(
    template: Lake,
    undisturbed: dict[str, Any],
    hostile: Hostile,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(
        flows.notify.alerts, "deliver", lambda alert, _: heard.append(alert.payload())
    )
    night = play(template, tmp_path / "night", hostile, heard)
    check(night, hostile, undisturbed)
    ENDED[hostile.name] = night.eighth["status"]
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("hostile", [_given(hostile) for hostile in IN_AUDITS])
def test_the_audits_of_those_who_share_its_labels_go_on(
    template: Lake,
    undisturbed_audits: dict[str, dict[str, Any]],
    hostile: Hostile,
    tmp_path: pathlib.Path,
) -> None:
    rows = play_audits(template, tmp_path / "audits", hostile)
    eighth = rows.pop(EIGHTH)
    check_eighth(eighth, hostile)
    ENDED[hostile.name] = str(eighth["status"])
    assert rows == {model: row for model, row in undisturbed_audits.items() if model != EIGHTH}
    shutil.rmtree(tmp_path)


def test_there_are_hundreds_of_inputs_and_one_of_each_kind_is_always_played() -> None:
    names = [hostile.name for hostile in INPUTS]
    assert len(names) == len(set(names)) == 560
    assert len(IN_NIGHTS) >= 300
    assert {hostile.name for hostile in IN_NIGHTS} >= OF_EACH_KIND


def test_the_documented_table_is_what_was_played() -> None:
    rows = re.findall(
        r"^\| (.+?) \| (\d+) \| (\d+) \| (\d+) \|$", DOCUMENTED.read_text("utf-8"), re.MULTILINE
    )
    documented = {kind: tuple(map(int, numbers)) for kind, *numbers in rows}
    assert list(documented) == [*KINDS, "in all"]
    for kind, inputs in KINDS.items():
        played, without, figures = documented[kind]
        assert played == without + figures == len(inputs)
        ended = [ENDED[hostile.name] for hostile in inputs if hostile.name in ENDED]
        if len(ended) == len(inputs):  # by a soak
            assert ended.count("evaluated") == figures, kind
    sums = [sum(documented[kind][place] for kind in KINDS) for place in range(3)]
    assert list(documented["in all"]) == sums
