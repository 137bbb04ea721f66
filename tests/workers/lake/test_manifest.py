"""A manifest that contradicts itself is refused, and what weakens its audit is told."""

import pytest

from tests.support.audits import audited
from tests.support.lake import DAY, EVE, copied, declared, edit_manifest
from tests.support.tiers import rest_slow
from tests.support.verdicts import nothing_wrong
from workers.exceptions import NotEvaluableError
from workers.lake.manifest import parse_manifest


@pytest.fixture
def lake(remembered, tmp_path):
    """Return a copy of it for one attempt."""
    return copied(remembered, tmp_path)


@pytest.mark.parametrize("times", rest_slow([0.99, 0.5, 0.1]))
def test_a_delta_just_below_one_over_the_records_keeps_no_declaration(lake, times):
    """Such a delta is not empty by itself, and bets against it are small."""
    records = audited(lake).records or 0
    edit_manifest(lake, "good", DAY, privacy=declared(0.5, delta=times / records))
    row = audited(lake)
    assert row.reason_code == ("this_night" if times == 0.1 else "delta_decides"), row.reason
    if times > 0.1:
        assert row.reason.startswith("The declared epsilon of 0.5 stands by its delta of")


def test_a_correction_of_the_outputs_is_told(lake):
    """One of epsilon 0.01 makes every probability 0 or 1: a bound of 1.70 became 0.65."""
    edit_manifest(
        lake, "good", DAY,
        output_correction={"name": "noise_correction", "epsilon": 0.01, "floor": 0.0},
        privacy=declared(1.0),
    )  # fmt: skip
    row = audited(lake)
    assert nothing_wrong(row)
    assert "after the output_correction of its manifest (epsilon 0.01, floor 0)" in row.reason


def test_invented_classes_are_told(lake):
    """Before, the arms were compared by the first 32 classes alone."""
    classes = [*(f"x{n}" for n in range(33)), 0, 1]
    for day in (EVE, DAY):
        edit_manifest(lake, "good", day, label={"column": "late", "classes": classes})
    row = audited(lake)
    assert row.verdict == "violated", row.reason
    assert "35 classes are listed and 2 have labels." in row.reason


@pytest.mark.parametrize(
    "content",
    [
        b'"x"', b"\0" * 100, "{}".encode("utf-16"), b'{"dataset": "\xff\xfe"}',
        b'{"schema_version": 1, "model": "eig', b'{"dataset": Infinity}',
        b'{"schema_version": ' + b"9" * 5_000 + b"}", b'{"a": 1' + b', "b": 1' * 100_000 + b"}",
    ],
    ids=["text", "zeros", "utf-16", "not-utf-8", "cut-off", "infinite", "digits", "many-keys"],
)  # fmt: skip
def test_bytes_that_are_no_manifest_are_refused(content):
    with pytest.raises(NotEvaluableError) as refused:
        parse_manifest(content, where="here")
    assert refused.value.reason == "manifest_invalid"
