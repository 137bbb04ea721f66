"""Whatever is wrong with one model's input, the seven others' records are as if it were not."""

import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

import flows.run.auditing
from tests.hostile.inputs import hostile_inputs
from tests.hostile.night import Hostile, check, make_template, play
from workers.executors import on_ray
from workers.lake.layout import Lake


@pytest.fixture(scope="module")
def nights(
    tmp_path_factory: pytest.TempPathFactory,
    prefect_server: None,  # noqa: ARG001
) -> Iterator[tuple[Lake, dict[str, Any]]]:
    """Return the template and what the seven records say without a hostile input; Ray runs."""
    folder = tmp_path_factory.mktemp("hostile")
    template = make_template(folder / "template")
    with on_ray("local", 2):
        night = play(template, folder / "undisturbed", None, [])
        assert {row.status for row in night.rows} == {"evaluated"}
        yield template, night.figures()


INPUTS = list(hostile_inputs())
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


def _given(hostile: Hostile) -> Any:
    marks = () if hostile.name in OF_EACH_KIND else (pytest.mark.slow,)
    return pytest.param(hostile, id=hostile.name, marks=marks)


@pytest.mark.parametrize("hostile", [_given(hostile) for hostile in INPUTS])
def test_a_night_goes_on(
    nights: tuple[Lake, dict[str, Any]],
    hostile: Hostile,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(
        flows.run.auditing, "deliver", lambda alert, _: heard.append(alert.payload())
    )
    template, expected = nights
    check(play(template, tmp_path / "night", hostile, heard), hostile, expected)
    shutil.rmtree(tmp_path)


def test_there_are_hundreds_of_inputs_and_one_of_each_kind_is_always_played() -> None:
    names = [hostile.name for hostile in INPUTS]
    assert len(names) == len(set(names)) == 560
    assert set(names) >= OF_EACH_KIND
