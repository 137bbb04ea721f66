"""Reasons why an audit could not be evaluated: one class, one fixed word and one sentence each.

A docstring names the errors that its own module raises. What storage, workers and other modules
raise passes through their callers, and is named where it is raised.
"""

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Self

from privcore.exceptions import InvalidInputError, TerminalError
from privcore.lower_bounds.verdicts import ReasonCode


class Reason(StrEnum):
    """Fixed words for why an audit came to no figure: a record's `detail`.

    Attributes:
        code: of the record's verdict.
    """

    code: ReasonCode

    def __new__(cls, word: str, code: ReasonCode = ReasonCode.NOT_RUN) -> Self:
        """Return a word with its code; a stored word is looked up without it."""
        reason = str.__new__(cls, word)
        reason._value_ = word
        reason.code = code
        return reason

    MISSING_TARGET = "missing_target", ReasonCode.MODEL_MISSING
    MISSING_PROXY = "missing_proxy", ReasonCode.PROXY_UNUSABLE
    MISSING_LABELS = "missing_labels", ReasonCode.LABELS_MISSING
    DIGEST_MISMATCH = "digest_mismatch", ReasonCode.MODEL_UNREADABLE
    MANIFEST_INVALID = "manifest_invalid", ReasonCode.MANIFEST_WRONG
    CHECKPOINT_INVALID = "checkpoint_invalid", ReasonCode.MODEL_UNREADABLE
    LABEL_INVALID = "label_invalid", ReasonCode.SETUP_WRONG
    FEATURE_INVALID = "feature_invalid", ReasonCode.SETUP_WRONG
    LABELS_UNREADABLE = "labels_unreadable", ReasonCode.LABELS_MISSING
    PROBABILITIES_INVALID = "probabilities_invalid", ReasonCode.SCORES_WRONG
    TOO_FEW_RECORDS = "too_few_records", ReasonCode.TOO_SMALL
    TOO_FEW_HELD_OUT = "too_few_held_out", ReasonCode.FEW_HELD_OUT
    NO_HOLDOUT = "no_holdout", ReasonCode.SETUP_WRONG
    PROXY_SAW_THE_DAY = "proxy_saw_the_day", ReasonCode.PROXY_UNUSABLE
    TARGET_MISSED_THE_DAY = "target_missed_the_day", ReasonCode.MODEL_MISSING
    DECLARED_TOO_LITTLE = "declared_too_little", ReasonCode.MANIFEST_WRONG
    NAME_INVALID = "name_invalid", ReasonCode.SETUP_WRONG
    DEADLINE = "deadline", ReasonCode.NOT_RUN
    UNIT_INVALID = "unit_invalid", ReasonCode.SETUP_WRONG
    PATH_OUTSIDE = "path_outside", ReasonCode.MODEL_UNREADABLE
    TOO_LARGE = "too_large", ReasonCode.MODEL_UNREADABLE
    ACCOUNTING_LIMIT = "accounting_limit", ReasonCode.MANIFEST_WRONG
    PATH_UNREADABLE = "path_unreadable", ReasonCode.MODEL_UNREADABLE
    LABELS_CHANGED = "labels_changed", ReasonCode.LABELS_MISSING
    TABLE_UNSUPPORTED = "table_unsupported", ReasonCode.LABELS_MISSING
    SCORES_MISSING = "scores_missing", ReasonCode.SCORES_WRONG
    RECORD_REPEATED = "record_repeated", ReasonCode.SCORES_WRONG
    RECORD_UNJOINED = "record_unjoined", ReasonCode.SCORES_WRONG
    PROXY_IS_TARGET = "proxy_is_target", ReasonCode.PROXY_UNUSABLE
    ARMS_DIFFER = "arms_differ", ReasonCode.ARMS_UNLIKE
    HELD_OUT_TOGETHER = "held_out_together", ReasonCode.PERSONS_SPLIT


class NotEvaluableError(TerminalError):
    """The audit's inputs cannot give a figure; the record says why."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        self.reason = reason
        self.sentence = sentence
        super().__init__(sentence)


def too_late(deadline: dt.datetime | None, before: str) -> NotEvaluableError:
    """Return that the deadline passed before something was done; `before` ends the sentence."""
    passed = f"The deadline, {deadline:%Y-%m-%d %H:%M:%S %Z}, passed before {before}."
    return NotEvaluableError(Reason.DEADLINE, passed)


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
