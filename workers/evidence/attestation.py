"""The attestation of a public statement: two in-toto Statements v1 about the same subjects.

The first has the predicate `test-result`, which tools that know no privacy can read: PASSED, WARNED
or FAILED. The second has a predicate of our own, with all columns of the statement, what was
assumed and what was not tested, in words. Its form is `schemas/label-statement.v1.json`.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
"""

import base64
import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from workers.evidence.envelope import canonical_json
from workers.publication.erased import Published
from workers.publication.statement_conclusion import conclusion_of
from workers.publication.statement_row import PublicVerdict, would_be_seen

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
TEST_RESULT_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
PREDICATE_TYPE = "urn:uuid:572f2cd3-9d1a-4660-be36-cbea48ec87bf#label-statement/v1"
"""Type of our predicate. A UUID's URN is unique, and needs no host name that we do not own."""
NIGHT_TYPE = "urn:uuid:aabdf87e-1699-40ce-86c8-bb17522d8f93#label-night/v1"
"""Type of our predicate for an answer of a test over nights."""
PAYLOAD_TYPE = "application/vnd.in-toto+json"
COMMITMENT = "hmac_sha256"
"""Name of a commitment's algorithm, in lowercase hexadecimal digits.

in-toto allows names of one's own, and a consumer ignores those that it does not know. That is right
here: a reader with the labels and not the nonce cannot match the commitment.
"""
LIFETIME = dt.timedelta(days=90)
"""Time that a statement is evidence, from its publication on.

A model that is trained every night is another model after a quarter, attacks improve, and reviews
of models are commonly held once a quarter. An expired statement is still authentic.
"""
SECTIONS = {
    "statement": ("statement_id", "revision", "published_at", "method_version", "code_version"),
    "audited": (
        "model",
        "day",
        "dataset",
        "label_days",
        "labels_recur",
        "holdout_sketch",
        "target_sha256",
        "proxy_sha256",
        "labels_commitment",
        "audit_commitment",
    ),
    "claim": (
        "family",
        "epsilon_declared",
        "delta_declared",
        "neighbors",
        "unit",
        "by_policy",
        "epsilon_accounted",
    ),
    "test": (
        "significance",
        "records",
        "control_records",
        "epsilon_ceiling",
        "epsilon_detectable",
        "epsilon_public",
    ),
    "figures": (
        "evidence_gap",
        "evidence_price",
        "evidence_figure",
        "premises_gap",
        "premises_figure",
    ),
    "conclusion": ("verdict", "pvalue", "log_evalue", "premises_pvalue"),
}
"""Places in the predicate of the statement's columns."""
NIGHT_SECTIONS = {
    **{name: SECTIONS[name] for name in ("statement", "audited", "claim")},
    "test": (*SECTIONS["test"], "test_id", "test_nights", "test_night", "threshold"),
    "figures": ("evidence_gap", "evidence_price", "alarm", "premises_gap", "premises_figure"),
    "conclusion": ("verdict", "premises_pvalue"),
}
"""Places in the predicate of the columns of an answer of a test over nights."""
ASSUMPTIONS = (
    "The holdout was drawn like the training records, by chance or by a rule that reads no label.",
    "The labels of different records are independent, given the features.",
    "Models, features and the choice of training records depend on a label through training alone.",
    "The key of the noise is secret and random.",
)
"""Assumptions of the test and of the statement's own privacy; the second figure tests some."""
NOT_TESTED = (
    "Another epsilon, delta, relation or unit than the claim's.",
    "Other secrets than labels: membership, attributes, features.",
    "Parts of the data: a leak that touches few records can stay below the noise.",
    "Attacks that see more than predictions, for example gradients or several versions of a model.",
    "Whether the declared mechanism runs as its parameters say.",
)
"""Subjects that a statement says nothing about."""
NOT_TESTED_BY_NIGHT = (
    "How large a leak is: the answer holds no figure, and no p-value or e-value follows from it.",
    "Nights that the log does not hold as answers of this test.",
)
"""Further subjects that an answer of a test over nights says nothing about."""


def result_of(columns: dict[str, Any]) -> str:
    """Return PASSED, WARNED or FAILED for the columns of a statement.

    FAILED is a refuted declaration. PASSED is one that the first statement does not refute although
    a false one would probably have been refuted (`would_be_seen`). WARNED is everything else: an
    assumption that is doubtful, a declaration that says nothing, an audit too small, or a revision,
    since revisions can be asked for until noise acquits.
    """
    if columns["verdict"] == PublicVerdict.VIOLATED:
        return "FAILED"
    first = columns["revision"] == 1
    kept = columns["verdict"] == PublicVerdict.NOT_REFUTED
    return "PASSED" if kept and would_be_seen(columns) and first else "WARNED"


def predicate_type_of(columns: Mapping[str, Any]) -> str:
    """Return the type of our predicate for the columns of an entry of the log."""
    return NIGHT_TYPE if "test_id" in columns else PREDICATE_TYPE


def sections_of(predicate_type: str) -> dict[str, tuple[str, ...]]:
    """Return where a predicate of ours has each column."""
    return NIGHT_SECTIONS if predicate_type == NIGHT_TYPE else SECTIONS


def expiry(statement: Published) -> dt.datetime:
    """Return when a statement stops being evidence."""
    return statement.published_at + LIFETIME


def attest_result(statement: Published) -> bytes:
    """Return the in-toto statement with the predicate `test-result`, as bytes to be signed."""
    columns = json.loads(statement.content())
    return _in_toto(columns, TEST_RESULT_TYPE, result_predicate(columns))


def result_predicate(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the predicate `test-result` of a statement's columns."""
    claim = canonical_json({name: columns[name] for name in SECTIONS["claim"]})
    result = result_of(columns)
    named = f"label privacy of {columns['model']} on {columns['day']}"
    listed = {"PASSED": "passedTests", "WARNED": "warnedTests", "FAILED": "failedTests"}
    configuration = {
        "name": "claim",
        "mediaType": "application/json",
        "content": base64.standard_b64encode(claim).decode(),
        "digest": {"sha256": hashlib.sha256(claim).hexdigest()},
    }
    return {
        "result": result,
        "configuration": [configuration],
        **{field: [named] if field == listed[result] else [] for field in listed.values()},
    }


def attest_statement(statement: Published) -> bytes:
    """Return the in-toto statement with our predicate, as bytes to be signed.

    Its `content` is the text of the statement as it is stored and as the log hashes it; the
    sections hold the same columns for reading.
    """
    columns = json.loads(statement.content())
    predicate_type = predicate_type_of(columns)
    sections = {
        section: {name: columns[name] for name in names if name in columns}
        for section, names in sections_of(predicate_type).items()
    }
    predicate = {
        **sections,
        "words": words_of(statement),
        "expires_at": expiry(statement).isoformat(),
        "content": statement.content(),
    }
    return _in_toto(columns, predicate_type, predicate)


def words_of(statement: Published) -> dict[str, Any]:
    """Return what follows from a statement in words: a text, and two lists of texts."""
    by_night = predicate_type_of(json.loads(statement.content())) == NIGHT_TYPE
    return {
        "conclusion": conclusion_of(statement),
        "assumptions": list(ASSUMPTIONS),
        "not_tested": [*NOT_TESTED, *(NOT_TESTED_BY_NIGHT if by_night else ())],
    }


def _in_toto(columns: dict[str, Any], predicate_type: str, predicate: dict[str, Any]) -> bytes:
    return canonical_json(
        {
            "_type": STATEMENT_TYPE,
            "subject": subjects_of(columns),
            "predicateType": predicate_type,
            "predicate": predicate,
        }
    )


def subjects_of(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is attested: both models where their digests are known, and the commitments."""
    digests = (
        ("target", "sha256", columns["target_sha256"]),
        ("proxy", "sha256", columns["proxy_sha256"]),
        ("labels-commitment", COMMITMENT, columns["labels_commitment"]),
        ("audit-commitment", COMMITMENT, columns["audit_commitment"]),
    )
    return [
        {"name": name, "digest": {algorithm: digest}}
        for name, algorithm, digest in digests
        if digest is not None
    ]
