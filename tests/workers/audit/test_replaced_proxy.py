"""An owner who puts another model in the place of yesterday's gets no verdict."""

import pathlib

import pytest

from tests.support.audits import audited
from tests.support.lake import DAY, EVE, MEMORISE, put_model, remembering_lake, replace_model
from workers.lake.layout import Lake, checkpoint_folder


@pytest.fixture
def lake(tmp_path: pathlib.Path) -> Lake:
    """Return a lake whose model remembers the day's labels, against a declared 0.5."""
    lake = remembering_lake(tmp_path)
    assert audited(lake).verdict == "violated"
    return lake


def test_the_targets_own_file_is_no_proxy(lake: Lake) -> None:
    own = lake.read(f"{checkpoint_folder('good', DAY)}/model.cbm")
    replace_model(lake, "good", EVE, own)
    row = audited(lake)
    assert (row.status, row.detail) == ("not_evaluable", "proxy_is_target")
    assert "is the target's own file" in row.reason


@pytest.mark.slow
def test_another_model_that_saw_the_day_is_no_proxy(lake: Lake) -> None:
    """Its manifest still says that it was trained on the day before."""
    put_model(lake, DAY, model="copy", parameters=MEMORISE | {"iterations": 50})
    saw = lake.read(f"{checkpoint_folder('copy', DAY)}/model.cbm")
    replace_model(lake, "good", EVE, saw)
    row = audited(lake)
    assert (row.status, row.detail) == ("not_evaluable", "arms_differ")
    assert "the earlier model knows one side better" in row.reason
