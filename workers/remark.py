"""What a record's sentence remarks on beside the verdict, and which remarks are doubts.

A verdict rests on figures. A remark is a sign that they may not show all that the model remembers,
or a thing that the audit could not look at. A doubt is a sign of a mistake that may hide a leak:
beside one the verdict is `inconclusive` where it would be `not_refuted`. No remark accuses
anybody: an honest night may show any of these signs, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from privcore.lower_bounds.verdicts import ReasonCode


class RemarkKind(StrEnum):
    """What is remarked on: a fixed word of a record.

    Attributes:
        meaning: in a sentence.
        code: of a doubt, beside which nothing is concluded; None of a note: what the audit could
            not look at, and what honest teams do every night, is no doubt.
    """

    meaning: str
    code: ReasonCode | None

    def __new__(cls, word: str, meaning: str, code: ReasonCode | None) -> Self:
        """Return a word with its meaning."""
        kind = str.__new__(cls, word)
        kind._value_ = word
        kind.meaning, kind.code = meaning, code
        return kind

    ANSWERS_AS_PROXY = (
        "answers_as_proxy",
        "On the holdout the target answers exactly as the earlier model.",
        ReasonCode.ANSWERS_DOUBTFUL,
    )
    ANSWERS_WORSE_THAN_SHARES = (
        "answers_worse_than_shares",
        "The target's probabilities say less of the labels than the share of each class.",
        None,  # a model of labels that randomized response changed does so honestly
    )
    ARMS_UNLIKE = (
        "arms_unlike",
        "The earlier model answers otherwise of the holdout than of the training records.",
        ReasonCode.ARMS_UNLIKE,
    )
    BAD_RECORDS = ("bad_records", "Records could not play, within max_bad_records.", None)
    CLASSES_EXCHANGED = (
        "classes_exchanged",
        "The target's answers fit the labels far better in another order of the classes.",
        ReasonCode.ANSWERS_DOUBTFUL,
    )
    FEATURE_COPIES = (
        "feature_copies",
        "A feature tells the label, the split or the person.",
        ReasonCode.ANSWERS_DOUBTFUL,
    )
    HOLDOUT_RESEMBLES_TRAINING = (
        "holdout_resembles_training",
        "Holdout rows resemble training rows more often than random ones would.",
        ReasonCode.HOLDOUT_SUSPECT,
    )
    HOLDOUT_SUSPECT = (
        "holdout_suspect",
        "The target knows labels of the holdout as if training had seen them.",
        ReasonCode.HOLDOUT_SUSPECT,
    )
    HOLDOUT_UNTESTED = (
        "holdout_untested",
        "Without features, a holdout that training saw would not be noticed.",
        None,
    )
    LABEL_COLUMN_ASKED = (
        "label_column_asked",
        "Whether the column holds secret or privatised labels is to be answered first.",
        None,
    )
    PERSONS_IN_BOTH_ARMS = (
        "persons_in_both_arms",
        "Many persons have rows in both arms, and are compared with nobody.",
        ReasonCode.PERSONS_SPLIT,
    )
    POWER_LOST = (
        "power_lost",
        "Persons' rows, weights or listed classes make the bound smaller than it could be.",
        None,
    )
    ROWS_LEFT_OUT = (
        "rows_left_out",
        "Many rows did not play.",
        None,  # a table of labels may serve several models
    )
    ROWS_MISCOUNTED = (
        "rows_miscounted",
        "The model's file counts far more or fewer training rows than the table has.",
        ReasonCode.ROWS_UNACCOUNTED,
    )
    ROWS_OF_A_HOLDER = (
        "rows_of_a_holder",
        "The declaration is for all rows of a holder, and single rows were tested.",
        None,
    )
    ROWS_REPEATED = ("rows_repeated", "Rows may be logged twice.", ReasonCode.PERSONS_SPLIT)
    SERVED_OTHERWISE = (
        "served_otherwise",
        "The file holds answers, or rounds, that were not audited as they are.",
        None,
    )


@dataclass(frozen=True, slots=True)
class Remark:
    """One remark of a record: what is remarked on, and the sentence that says it."""

    kind: RemarkKind
    sentence: str


def remarked(kind: RemarkKind, sentence: str) -> tuple[Remark, ...]:
    """Return a remark, or nothing where there is no sentence."""
    return (Remark(kind, sentence),) if sentence else ()


def doubts_among(words: Iterable[str] | None) -> tuple[RemarkKind, ...]:
    """Return the doubts among a record's remarks; it has none where there are no figures.

    Words that are no remark's are passed over: whoever may write records could as well take a
    doubt out, and no command ends by one.
    """
    said = set(words or ())
    return tuple(kind for kind in RemarkKind if kind.code and kind in said)
