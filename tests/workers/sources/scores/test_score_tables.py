"""Valid and refused settings of score tables."""

import pathlib
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from tests.support.lake import declared
from tests.support.score_tables import audited_scores, leaking_scores
from workers.lake.manifest import Privacy
from workers.sources.scores.score_tables import ScoreTables
from workers.sources.scores.supplied import SuppliedScores

GIVEN: dict[str, Any] = {"table": "t", "label": "y", "target": "p", "proxy": "q"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"proxy": "p"}, "proxy is the target"),
        ({"classes": (0, 0)}, "names one twice"),
        ({"target": ("a", "b", "c")}, "3 columns for 2 classes"),
        ({"holdout": "x > 1"}, "is not a rule"),
        ({"time_zone": "Mars"}, "is not a time zone"),
        ({"proxy": {"table": "u", "column": "q"}}, "give record"),
        ({"tables": "t"}, "Extra inputs"),
        ({"earlier": ("r",), "context": ("age",)}, "earlier beside context"),
        ({"scale": "number"}, "'probability' or 'log_odds'"),
        ({"earlier": ("r", "q")}, "names the target or the proxy"),
        ({"earlier": (("a", "b", "c"),)}, "earlier 1 has 3 columns for 2 classes"),
        ({"earlier": ({"table": "u", "column": "q"},)}, "give record"),
    ],
)
def test_a_mistake_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ScoreTables.model_validate(GIVEN | changes)


def test_a_record_keeps_all_that_is_needed_to_read_the_same_again() -> None:
    other = {"table": "u", "column": ["a", "b"], "day": "ds"}
    given = GIVEN | {"proxy": other, "record": "id", "holdout": "bucket(id, 5) = 0"}
    tables = ScoreTables.model_validate(given).pinned({"": 7, "proxy": 3})
    supplied = SuppliedScores(tables, Privacy.model_validate(declared()))
    again = SuppliedScores.from_json(supplied.to_json())
    assert again == supplied
    assert again.tables.version == 7
    assert again.tables.others["proxy"].version == 3
    before = {"table": "u", "column": "r", "days_before": 2}
    tables = ScoreTables.model_validate(given | {"earlier": ("p_2", before)})
    pinned = tables.pinned({"": 7, "proxy": 3, "earlier 2": 5})
    supplied = SuppliedScores(pinned, None)
    assert SuppliedScores.from_json(supplied.to_json()) == supplied
    assert pinned.others["earlier 2"].version == 5
    assert (pinned.earlier[0], pinned.earlier_roles) == ("p_2", ("earlier 1", "earlier 2"))


def test_where_a_table_lies_changes_no_number_and_what_it_means_does() -> None:
    def meaning(**changes: Any) -> dict[str, Any]:
        return ScoreTables.model_validate(GIVEN | changes).meaning()

    assert meaning() == meaning(table="elsewhere", version=3, catalog="c")
    for changes in ({"target": "r"}, {"scale": "log_odds"}, {"classes": (1, 0)}, {"unit": "u"}):
        assert meaning() != meaning(**changes)
    assert "earlier" not in meaning()
    before = {"table": "u", "column": "r", "days_before": 2}
    said = meaning(record="id", earlier=("p_2", before))
    assert said == meaning(record="id", earlier=("p_2", before | {"table": "v", "version": 3}))
    assert said != meaning(record="id", earlier=("p_2", before | {"days_before": 1}))


def test_an_earlier_model_that_is_the_target_is_refused(tmp_path: pathlib.Path) -> None:
    """Bets against the mean of both could not win: 5.6 became 0."""
    copies = {f"e{place}": pl.col("new") for place in range(4)}
    row = audited_scores(
        tmp_path, leaking_scores(leak=2.0).with_columns(**copies), earlier=[*copies]
    )
    assert (row.status, row.detail) == ("not_evaluable", "proxy_is_target"), row.reason
    assert "earlier 1" in row.reason
