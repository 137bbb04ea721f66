"""Attacks that stayed after six rounds, and are closed or told since 2026-11-27."""

import pathlib
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from flows.settings import load_settings
from flows.settings.problems import SettingsError
from tests.support.lake import DAY, PLAN, write_settings
from workers.audit.label_state import check_privatised
from workers.audit.remarks import _persons
from workers.exceptions import NotEvaluableError
from workers.executors import InProcess
from workers.labels.columns import Batch
from workers.labels.shards import find_partition, write_labels
from workers.lake import limits
from workers.lake.layout import Lake
from workers.lake.manifest import PrivatisedBy
from workers.memorization.scan import _tokens, count_ngrams
from workers.plan import Plan
from workers.remark import sentences_of


def refusal(mechanism: dict[str, Any], *, classes: int, allowed: Any = True) -> str:
    """Return why a manifest's word that its labels were privatised is not taken."""
    state = PrivatisedBy.model_validate({"privatised_by": mechanism})
    source = SimpleNamespace(
        label_state=state, facts={"scores": "computed"}, model="good", day=DAY, privacy=None,
        label=SimpleNamespace(classes=tuple(range(classes))),
    )  # fmt: skip
    plan = PLAN.model_copy(update={"privatised_labels": allowed})
    with pytest.raises(NotEvaluableError) as refused:
        check_privatised(cast("Any", source), cast("Any", None), plan)
    assert refused.value.reason == "label_state"
    return refused.value.sentence


@pytest.mark.parametrize("allowed", [False, True, ("randomized_response",)])
@pytest.mark.parametrize("name", ["randomized_response_with_prior", "laplace_one_hot"])
def test_a_mechanism_that_cannot_be_tested_is_allowed_by_name_alone(
    name: str, allowed: Any
) -> None:
    """It acquitted a model that knows secret labels by heart, and no alert came."""
    given = {"name": name, "parameters": {}}
    assert f"privatised_labels = ['{name}']" in refusal(given, classes=2, allowed=allowed)


def test_responses_among_fewer_classes_than_the_label_has_are_refused() -> None:
    """The fewer there are, the more often a response may be predicted."""
    given = {"name": "randomized_response", "parameters": {"epsilon": 1.0, "classes": 2}}
    assert "have 10 classes" in refusal(given, classes=10)


def test_a_plan_allows_mechanisms_by_name() -> None:
    assert Plan.model_validate({"privatised_labels": ["laplace_one_hot"]}).privatised_labels == (
        "laplace_one_hot",
    )


def test_a_total_of_datasets_that_owners_name_is_refused(tmp_path: pathlib.Path) -> None:
    """A copy of the dataset under another name had a total of its own, and no alert came."""
    total = "[together]\nepsilon = 8.0\n"
    with pytest.raises(SettingsError, match="name the dataset of good"):
        load_settings(write_settings(tmp_path, ["good"], more=total))
    path = write_settings(tmp_path, ["good"], more=total)
    named = path.read_text("utf-8").replace('name = "good"', 'name = "good"\ndataset = "flights"')
    path.write_text(named, "utf-8")
    assert load_settings(path).together is not None


def test_a_row_group_of_huge_sequences_is_refused_before_it_is_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 43 kB took 5 GB."""
    lake = Lake(str(tmp_path))
    rows = pl.DataFrame({"text": ["a" * 500, "b" * 500], "split": ["train", "holdout"]})
    write_labels(lake, "mails", DAY, rows.to_arrow(), row_group_size=10)

    def counted() -> int:
        partition = find_partition(lake, "mails", DAY)
        return len(
            count_ngrams(
                lake, partition, "text", order=2, split="train", executor=InProcess()
            ).counts
        )

    assert counted() > 0
    monkeypatch.setattr(limits, "SEQUENCE_BYTES", 500)
    with pytest.raises(NotEvaluableError, match="write smaller row groups"):
        counted()


@pytest.mark.parametrize(("rows", "told"), [(1, False), (4, True)])
def test_how_many_rows_a_person_has_is_told(rows: int, told: bool) -> None:
    """Invented persons of four rows each: 1.7 became 0.1 to 0.5, and nothing was said."""
    none = SimpleNamespace(streams=np.arange(0), rows=np.arange(0))
    persons = SimpleNamespace(streams=np.arange(400), rows=np.full(400, rows))
    for one in (none, persons):
        one.without = lambda _, one=one: one
        one.matched_within = lambda _: ()
    arms = tuple(SimpleNamespace(doubted=one) for one in (persons, none))
    result = cast("Any", SimpleNamespace(units=arms))
    plan = PLAN.model_copy(update={"privacy_unit": "who"})
    assert (
        "'who' gives a person 4.0 training rows" in sentences_of(_persons(result, plan))
    ) is told


@pytest.mark.parametrize(
    ("values", "tokens"),
    [
        (pa.array([[-1], [1, 2]]), [None, [1, 2]]),
        (pa.array([[2**62], [1, 2]]), [None, [1, 2]]),
        (pa.array([[2**64 - 1], [1, 2]], pa.list_(pa.uint64())), [None, [1, 2]]),
        (pa.array([b"\xff", b"a"]).cast(pa.string(), safe=False), [[255, 256], [97, 256]]),
    ],
    ids=["negative", "huge", "unsigned", "no UTF-8"],
)
def test_sequences_that_are_none_are_bad_records(values: pa.Array, tokens: list[Any]) -> None:
    """They ended `privaudit memorization` with unexpected errors."""
    batch = Batch(pa.table({"text": values}), "p", ("f", 0, 0))
    found = _tokens(batch, "text", np.arange(2))
    assert [None if one is None else one.tolist() for one in found] == tokens
