"""Attestations: what they say of a statement and of an exact record."""

import hashlib
import json
from typing import Any

import pytest

from privcore.exceptions import TerminalError
from tests.support.lake import DAY
from tests.support.statements import statement
from tests.support.warehouse import evaluated
from workers.evidence.attestation import (
    EXACT_RECORD,
    LABEL_STATEMENT,
    LIFETIME,
    attest,
    expiry,
    result_of,
    words_of,
)
from workers.evidence.envelope import canonical_json
from workers.publication.statement_row import Statement
from workers.warehouse.record_digest import seal

KINDS = {
    "kept": (statement(), "PASSED"),
    "refuted": (statement(evidence=20000), "FAILED"),
    "doubtful": (statement(premises=9000), "WARNED"),
    "says nothing": (statement(declaration_empty=True), "WARNED"),
    "too small": (statement(epsilon_ceiling=0.5), "WARNED"),
    "blind": (statement(sees_from=None), "WARNED"),
}


@pytest.mark.parametrize(("made", "result"), KINDS.values(), ids=KINDS)
def test_a_statement_passes_only_if_a_false_one_would_have_been_refuted(
    made: Statement, result: str
) -> None:
    assert result_of(made) == result
    content = json.loads(attest(made))
    assert content["predicateType"] == LABEL_STATEMENT
    assert content["predicate"]["result"] == result
    assert content["predicate"]["statement"] == json.loads(made.content())


def test_subjects_are_the_columns_and_both_models() -> None:
    made = statement(proxy_sha256=None)
    columns = canonical_json(json.loads(made.content()))
    assert json.loads(attest(made))["subject"] == [
        {"name": "statement", "digest": {"sha256": hashlib.sha256(columns).hexdigest()}},
        {"name": "target", "digest": {"sha256": made.target_sha256}},
    ]


def test_a_record_says_that_it_is_exact_and_for_whom() -> None:
    record = seal(evaluated("ads", DAY))
    content: dict[str, Any] = json.loads(attest(record))
    assert content["predicateType"] == EXACT_RECORD
    assert "result" not in content["predicate"]
    assert content["subject"][0] == {
        "name": "record", "digest": {"sha256": record.audit.record_digest},
    }  # fmt: skip
    assert "who may read results about labels" in words_of(record)["verdict"]
    assert expiry(record) - record.audit.recorded_at == LIFETIME


def test_a_number_that_json_has_not_is_refused() -> None:
    with pytest.raises(TerminalError, match="infinite or not a number"):
        attest(statement(sees_from=float("inf")))
