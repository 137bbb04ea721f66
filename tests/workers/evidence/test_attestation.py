import datetime as dt
import json
import pathlib
from collections import Counter
from typing import Any

import jsonschema
import pytest

from privcore.exceptions import TerminalError
from tests.support.statements import night, statement
from workers.evidence import attestation
from workers.evidence.attestation import (
    LIFETIME,
    NIGHT_TYPE,
    PREDICATE_TYPE,
    SECTIONS,
    attest_result,
    attest_statement,
    expiry,
    result_of,
    sections_of,
)
from workers.evidence.envelope import canonical_json
from workers.publication.statement_row import PublicVerdict, Statement
from workers.publication.threshold_night import ThresholdNight

SCHEMAS = pathlib.Path(attestation.__file__).with_name("schemas")
KINDS = {
    "kept": (statement(), "PASSED"),
    "refuted": (statement(evidence=20000), "FAILED"),
    "doubtful": (statement(premises=9000), "WARNED"),
    "doubtful and refuted": (statement(evidence=20000, premises=9000), "WARNED"),
    "vacuous": (statement(verdict=PublicVerdict.VACUOUS), "WARNED"),
    "too small": (statement(epsilon_ceiling=0.99), "WARNED"),
    "at the ceiling": (statement(epsilon_ceiling=1.0), "WARNED"),
    "sees twice the declared": (statement(epsilon_detectable=2.0), "PASSED"),
    "sees less": (statement(epsilon_detectable=2.01), "WARNED"),
    "sees no leak, under a high ceiling": (statement(epsilon_detectable=None), "WARNED"),
    "a silent night": (night(), "PASSED"),
    "a silent night that would see nothing": (night(epsilon_detectable=None), "WARNED"),
    "an alarm": (night(alarm=True), "FAILED"),
    "a doubtful alarm": (night(alarm=True, premises=90_000), "WARNED"),
    "relation simulate": (statement(neighbors="simulate"), "PASSED"),
    "refuted above the ceiling": (statement(evidence=20000, epsilon_ceiling=0.5), "FAILED"),
    "a table of scores": (statement(target_sha256=None, proxy_sha256=None), "PASSED"),
    "a revision": (statement(revision=2), "WARNED"),
    "a revision that refutes": (statement(revision=2, evidence=20000), "FAILED"),
    "by policy": (statement(by_policy=True, epsilon_accounted=0.7), "PASSED"),
}


def predicate_schema(predicate_type: str = PREDICATE_TYPE) -> dict[str, Any]:
    name = predicate_type.partition("#")[2].replace("/", ".")
    return parsed((SCHEMAS / f"{name}.json").read_bytes())


def parsed(payload: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(payload)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_result_is_passed_only_if_the_audit_could_have_refuted(kind: str) -> None:
    made, expected = KINDS[kind]
    found = parsed(attest_result(made))
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert found["predicate"]["result"] == expected
    assert result_of(json.loads(made.content())) == expected
    lists = {name: found["predicate"][f"{name}Tests"] for name in ("passed", "warned", "failed")}
    assert [name for name, tests in lists.items() if tests] == [expected.lower()]


@pytest.mark.parametrize("kind", KINDS)
def test_the_predicate_has_the_form_of_its_schema(kind: str) -> None:
    found = parsed(attest_statement(KINDS[kind][0]))
    expected = NIGHT_TYPE if isinstance(KINDS[kind][0], ThresholdNight) else PREDICATE_TYPE
    assert found["predicateType"] == expected
    schema = predicate_schema(expected)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(
        found["predicate"], schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


@pytest.mark.parametrize(
    ("kind", "predicate_type"), [(Statement, PREDICATE_TYPE), (ThresholdNight, NIGHT_TYPE)]
)
def test_every_column_has_one_place_and_a_description(kind: Any, predicate_type: str) -> None:
    sections = sections_of(predicate_type)
    placed = Counter(name for names in sections.values() for name in names)
    assert placed == Counter([*kind.model_fields])
    properties = predicate_schema(predicate_type)["properties"]
    for section, names in sections.items():
        assert set(properties[section]["properties"]) == set(names)
        for name in names:
            assert properties[section]["properties"][name]["description"]


def test_the_schema_refuses_another_column_and_another_verdict() -> None:
    predicate = parsed(attest_statement(statement()))["predicate"]
    for section, name, value in (
        ("conclusion", "verdict", "fine"),
        ("figures", "exact", 1),
        ("audited", "labels_commitment", "0x12"),
    ):
        wrong = predicate | {section: predicate[section] | {name: value}}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, predicate_schema())


def test_the_schema_is_named_by_the_predicate_and_lies_in_the_package() -> None:
    for predicate_type in (PREDICATE_TYPE, NIGHT_TYPE):
        assert predicate_schema(predicate_type)["$id"] == predicate_type.partition("#")[0]


def test_subjects_are_the_models_and_the_commitments() -> None:
    made = statement()
    for payload in (attest_result(made), attest_statement(made)):
        assert parsed(payload)["subject"] == [
            {"name": "target", "digest": {"sha256": made.target_sha256}},
            {"name": "proxy", "digest": {"sha256": made.proxy_sha256}},
            {"name": "labels-commitment", "digest": {"hmac_sha256": made.labels_commitment}},
            {"name": "audit-commitment", "digest": {"hmac_sha256": made.audit_commitment}},
        ]


def test_a_model_without_a_file_is_no_subject() -> None:
    made = statement(target_sha256=None, proxy_sha256=None)
    names = [subject["name"] for subject in parsed(attest_statement(made))["subject"]]
    assert names == ["labels-commitment", "audit-commitment"]


def test_the_predicate_holds_the_statement_twice_alike_and_its_expiry() -> None:
    made = statement()
    predicate = parsed(attest_statement(made))["predicate"]
    assert predicate["content"] == made.content()
    merged = {name: value for section in SECTIONS for name, value in predicate[section].items()}
    assert merged == json.loads(made.content())
    assert dt.datetime.fromisoformat(predicate["expires_at"]) == expiry(made)
    assert expiry(made) - made.published_at == LIFETIME == dt.timedelta(days=90)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("kept", "is not refuted"),
        ("refuted", "is refuted"),
        ("doubtful", "doubtful"),
        ("too small", "could not refute it"),
    ],
)
def test_the_predicate_says_its_conclusion_in_words(kind: str, words: str) -> None:
    predicate = parsed(attest_statement(KINDS[kind][0]))["predicate"]
    assert words in predicate["words"]["conclusion"]
    assert len(predicate["words"]["assumptions"]) == 4
    assert len(predicate["words"]["not_tested"]) == 5


def test_attestations_are_the_same_bytes_each_time() -> None:
    assert attest_statement(statement()) == attest_statement(statement())
    assert attest_result(statement()) == attest_result(statement())


def test_a_number_that_json_lacks_is_refused_in_a_sentence() -> None:
    with pytest.raises(TerminalError, match="infinite or not a number"):
        canonical_json({"epsilon": float("inf")})
