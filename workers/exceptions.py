"""Reasons why an audit could not be evaluated: one class, one fixed word and one sentence each.

A docstring names the errors that its own module raises. What storage, workers and other modules
raise passes through their callers, and is named where it is raised.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from privcore.exceptions import InvalidInputError, TerminalError


class Reason(StrEnum):
    """The fixed words of `reason_code` in the warehouse."""

    MISSING_TARGET = "missing_target"
    MISSING_PROXY = "missing_proxy"
    MISSING_LABELS = "missing_labels"
    DIGEST_MISMATCH = "digest_mismatch"
    MANIFEST_INVALID = "manifest_invalid"
    CHECKPOINT_INVALID = "checkpoint_invalid"
    LABEL_INVALID = "label_invalid"
    FEATURE_INVALID = "feature_invalid"
    LABELS_UNREADABLE = "labels_unreadable"
    PROBABILITIES_INVALID = "probabilities_invalid"
    TOO_FEW_RECORDS = "too_few_records"
    NO_HOLDOUT = "no_holdout"
    PROXY_SAW_THE_DAY = "proxy_saw_the_day"
    TARGET_MISSED_THE_DAY = "target_missed_the_day"
    DECLARED_TOO_LITTLE = "declared_too_little"
    NAME_INVALID = "name_invalid"
    DEADLINE = "deadline"
    UNIT_INVALID = "unit_invalid"
    PATH_OUTSIDE = "path_outside"
    TOO_LARGE = "too_large"
    ACCOUNTING_LIMIT = "accounting_limit"
    PATH_UNREADABLE = "path_unreadable"
    LABELS_CHANGED = "labels_changed"
    TABLE_UNSUPPORTED = "table_unsupported"
    SCORES_MISSING = "scores_missing"
    RECORD_REPEATED = "record_repeated"
    RECORD_UNJOINED = "record_unjoined"
    PROXY_IS_TARGET = "proxy_is_target"
    DECOYS_CHANGED = "decoys_changed"
    LABEL_STATE = "label_state"
    ARMS_DIFFER = "arms_differ"
    HELD_OUT_TOGETHER = "held_out_together"


class NotEvaluableError(TerminalError):
    """The audit's inputs cannot give a figure; the record says why."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        self.reason = reason
        self.sentence = sentence
        super().__init__(sentence)


@contextmanager
def refusing_probabilities() -> Iterator[None]:
    """Say of input that privcore refuses that it is a model's probabilities that are wrong.

    Raises:
        NotEvaluableError: `probabilities_invalid`, with privcore's sentence.
    """
    try:
        yield
    except InvalidInputError as error:
        raise NotEvaluableError(Reason.PROBABILITIES_INVALID, str(error)) from None
