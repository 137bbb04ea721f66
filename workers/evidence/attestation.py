"""Attestations: in-toto Statements v1 about a public statement, or about an exact record.

The predicate's type says which of the two it is. The predicate holds all of its columns, and what
follows from these in words; of a statement also PASSED, WARNED or FAILED, as
in-toto's `test-result` has it.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
"""

import datetime as dt
import hashlib
from typing import Any

from privcore.lower_bounds.verdicts import Verdict
from workers.evidence.envelope import canonical_json
from workers.publication.statement_row import Statement, sentence_of
from workers.warehouse.schema import AuditRecord

IN_TOTO = "https://in-toto.io/Statement/v1"
LABEL_STATEMENT = "urn:uuid:572f2cd3-9d1a-4660-be36-cbea48ec87bf#label-statement/v1"
"""Type of the predicate of a statement. A UUID's URN is unique, and needs no host name."""
EXACT_RECORD = "urn:uuid:572f2cd3-9d1a-4660-be36-cbea48ec87bf#exact-record/v1"
"""Type of the predicate of an exact record: for people who may read results about labels."""
PAYLOAD_TYPE = "application/vnd.in-toto+json"
LIFETIME = dt.timedelta(days=90)
"""Time that an attestation is evidence, from the publication or the audit on.

A model that is trained every night is another model after a quarter, attacks improve, and reviews
of models are commonly held once a quarter. An expired attestation is still authentic.
"""
_OF_STATEMENT = (
    "The holdout was drawn like the training records, by chance or by a rule that reads no label.",
    "The labels of different records are independent, given the features.",
    "Models, features and the choice of training records depend on a label through training alone.",
    "The key of the noise is secret and random.",
)
"""Assumptions of the test and of the statement's own privacy; the second figure tests some."""
_NOT_TESTED = (
    "Another epsilon, delta, relation or unit than the claim's.",
    "Other secrets than labels: membership, attributes, features.",
    "Parts of the data: a leak that touches few records can stay below the noise.",
    "Attacks that see more than predictions, for example gradients or several versions of a model.",
    "Whether the declared mechanism runs as its parameters say.",
)
"""Subjects that a statement says nothing about."""
_RESULTS = {
    Verdict.VIOLATED: "FAILED",
    Verdict.NOT_REFUTED: "PASSED",
    Verdict.INCONCLUSIVE: "WARNED",
}
_OF_RECORD = "Another attack, which may prove more: a lower bound is not the loss."
_DISTRIBUTE = "This is an exact record: give it only to people who may read results about labels."


def result_of(made: Statement) -> str:
    """Return a statement's verdict in in-toto's words."""
    return _RESULTS[made.verdict]


def expiry(made: Statement | AuditRecord) -> dt.datetime:
    """Return when a statement, or a record, stops being evidence."""
    begun = made.published_at if isinstance(made, Statement) else made.audit.recorded_at
    return begun + LIFETIME


def attest(made: Statement | AuditRecord) -> bytes:
    """Return the in-toto statement about a public statement or an exact record, to be signed."""
    if isinstance(made, Statement):
        predicate_type, audited = LABEL_STATEMENT, made
        columns = made.model_dump(mode="json")
        predicate: dict[str, Any] = {"statement": columns, "result": result_of(made)}
        subject = "statement", hashlib.sha256(canonical_json(columns)).hexdigest()
    else:
        predicate_type, audited = EXACT_RECORD, made.audit  # type: ignore[assignment]
        predicate = {"record": made.model_dump(mode="json")}
        subject = "record", made.audit.record_digest or ""
    predicate |= {"expires_at": expiry(made).isoformat(), "words": words_of(made)}
    digests = (subject, ("target", audited.target_sha256), ("proxy", audited.proxy_sha256))
    return canonical_json({
        "_type": IN_TOTO,
        "subject": [
            {"name": name, "digest": {"sha256": digest}} for name, digest in digests if digest
        ],
        "predicateType": predicate_type,
        "predicate": predicate,
    })  # fmt: skip


def words_of(made: Statement | AuditRecord) -> dict[str, Any]:
    """Return what follows in words: a text, and two lists of texts."""
    if isinstance(made, Statement):
        words = sentence_of(made), list(_OF_STATEMENT), list(_NOT_TESTED)
    else:
        words = (
            f"{made.audit.reason} {_DISTRIBUTE}",
            [made.audit.assumption] if made.audit.assumption else [],
            [_OF_RECORD],
        )
    return dict(zip(("verdict", "assumptions", "not_tested"), words, strict=True))
