"""What a record's sentence remarks on beside the verdict, and which remarks are doubts.

A verdict rests on figures. A remark is a sign that they may not show all that the model remembers,
or a thing that the audit could not look at. Beside a doubt the verdict is `doubtful` where it would
be `consistent`: that would be an acquittal which an owner can arrange, by what the audit is shown.
No remark accuses anybody, since an honest night may show any of these signs, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from privcore.lower_bounds.verdicts import Verdict


class RemarkKind(StrEnum):
    """What is remarked on: a fixed word of a record.

    Attributes:
        meaning: in a sentence.
        is_doubt: whether nothing is concluded beside it. What the audit could not look at, and
            what honest teams do every night, is no doubt.
    """

    meaning: str
    is_doubt: bool

    def __new__(cls, word: str, meaning: str, is_doubt: bool) -> Self:  # noqa: FBT001  # a table
        """Return a word with its meaning."""
        kind = str.__new__(cls, word)
        kind._value_ = word
        kind.meaning, kind.is_doubt = meaning, is_doubt
        return kind

    ANSWERS_AS_PROXY = (
        "answers_as_proxy",
        "On the holdout the target answers exactly as the earlier model.",
        True,
    )
    ANSWERS_REVERSED = (
        "answers_reversed",
        "The target knows training labels the wrong way round.",
        True,
    )
    ANSWERS_UNCOUNTED = (
        "answers_uncounted",
        "Answers differ in digits alone that the audit does not count, or lie on one side.",
        True,
    )
    ANSWERS_WORSE_THAN_SHARES = (
        "answers_worse_than_shares",
        "The target's probabilities say less of the labels than the share of each class.",
        False,  # a model of labels that randomized response changed does so honestly
    )
    ARMS_UNLIKE = (
        "arms_unlike",
        "The earlier model answers otherwise of the holdout than of the training records.",
        True,
    )
    BAD_RECORDS = ("bad_records", "Records could not play, within max_bad_records.", False)
    CLASSES_UNUSED = (
        "classes_unused",
        "Classes are listed that have hardly any label, so that less is looked at.",
        False,
    )
    CLASSES_EXCHANGED = (
        "classes_exchanged",
        "Supplied probabilities fit the labels far better in another order of the classes.",
        True,
    )
    DECOYS_CONTRADICTED = (
        "decoys_contradicted",
        "Decoys refute nothing, and the other training records do, or were not judged.",
        True,
    )
    FEATURE_COPIES = (
        "feature_copies",
        "A feature tells the label, the split, the decoys or the person.",
        True,
    )
    FILES_UNREAD = ("files_unread", "Files that may hold rows of the day were not read.", True)
    GAME_SHOWS_MORE = (
        "game_shows_more",
        "Of several classes, the game shows more than the bound and the declaration.",
        True,
    )
    HOLDOUT_KNOWN = (
        "holdout_known",
        "The target knows holdout labels that the earlier model held unlikely.",
        True,
    )
    HOLDOUT_RESEMBLES_TRAINING = (
        "holdout_resembles_training",
        "Holdout rows resemble training rows more often than random ones would.",
        True,
    )
    HOLDOUT_SUSPECT = (
        "holdout_suspect",
        "The target knows labels of the holdout as if training had seen them.",
        True,
    )
    HOLDOUT_UNTESTED = (
        "holdout_untested",
        "Without features, a holdout that training saw in part would not be noticed.",
        False,
    )
    LABEL_COLUMN_ASKED = (
        "label_column_asked",
        "Whether the column holds secret or privatised labels is to be answered first.",
        False,
    )
    KNOWN_ANEW = (
        "known_anew",
        "The target knows holdout labels that the earlier model held unlikely, as features tell.",
        False,
    )
    LABELS_COPIED = (
        "labels_copied",
        "Labels of the holdout jump where the target's answer turns.",
        True,
    )
    LABELS_CORRECTED = (
        "labels_corrected",
        "Many records had another label before the one that played.",
        True,
    )
    LABELS_REWRITTEN = (
        "labels_rewritten",
        "Labels of training records jump where the target's answer turns.",
        True,
    )
    LABELS_WRITTEN_SINCE = (
        "labels_written_since",
        "Label files are newer than the model that they accuse.",
        False,
    )
    LEAVES_DIFFER = (
        "leaves_differ",
        "The model's file counts training rows in other leaves, or words, than the table has.",
        True,
    )
    OLDER_VERSION = (
        "older_version",
        "Settings name an older version of a table than the newest.",
        True,
    )
    OUTPUT_CORRECTED = ("output_corrected", "The audit saw corrected probabilities alone.", False)
    PERSONS_IN_BOTH_ARMS = (
        "persons_in_both_arms",
        "Many persons have rows in both arms, and are compared with nobody.",
        True,
    )
    PERSONS_UNMATCHED = (
        "persons_unmatched",
        "Many persons have numbers of rows that hardly any in the holdout have.",
        True,
    )
    RECORDS_LEFT_OUT = (
        "records_left_out",
        "Records of a joined table are not in the first one.",
        False,  # a table of labels may serve several models
    )
    ROUNDS_UNSERVED = (
        "rounds_unserved",
        "The file holds rounds of boosting that were not audited.",
        False,
    )
    ROWS_EXCLUDED = (
        "rows_excluded",
        "Many rows are of neither split, or of no day.",
        False,
    )
    ROWS_MIXED = (
        "rows_mixed",
        "The model's file may answer otherwise about a row beside other rows.",
        True,
    )
    ROWS_NOT_BET_ON = (
        "rows_not_bet_on",
        "Persons have several rows, of which one is bet on.",
        False,
    )
    ROWS_NOT_COUNTED = (
        "rows_not_counted",
        "The model's file does not tell which rows it was trained on.",
        False,
    )
    ROWS_OF_A_HOLDER = (
        "rows_of_a_holder",
        "The declaration is for all rows of a holder, and single rows were tested.",
        False,
    )
    ROWS_REPEATED = ("rows_repeated", "Rows may be logged twice.", True)
    ROWS_UNPLAYED = (
        "rows_unplayed",
        "The model's file counts more training rows than played.",
        True,
    )
    ROWS_UNTRAINED = (
        "rows_untrained",
        "The model's file counts fewer training rows than played.",
        True,
    )
    SCORES_ROUNDED = ("scores_rounded", "Supplied probabilities have few digits.", True)
    SUMS_VARY = ("sums_vary", "Probabilities of a row do not add up to one.", True)
    WEIGHTS_CONTRADICT = (
        "weights_contradict",
        "The arms' sampling weights contradict each other.",
        True,
    )


@dataclass(frozen=True, slots=True)
class Remark:
    """One remark of a record: what is remarked on, and the sentence that says it."""

    kind: RemarkKind
    sentence: str


def remarked(kind: RemarkKind, sentence: str) -> tuple[Remark, ...]:
    """Return a remark, or nothing where there is no sentence."""
    return (Remark(kind, sentence),) if sentence else ()


def sentences_of(remarks: Iterable[Remark]) -> str:
    """Return what remarks say, one sentence after the other."""
    return " ".join(each.sentence for each in remarks)


def same_but_for_doubts(one: str, other: str) -> bool:
    """Return whether two verdicts may be the same audit's: a doubt has no version of the method."""
    return one == other or {one, other} == {Verdict.CONSISTENT, Verdict.DOUBTFUL}


def doubts_among(words: Iterable[str] | None) -> tuple[RemarkKind, ...]:
    """Return the doubts among a record's remarks; it has none where there are no figures.

    Words that are no remark's are passed over: whoever may write records could as well take a
    doubt out, and no command ends by one.
    """
    said = set(words or ())
    return tuple(kind for kind in RemarkKind if kind.is_doubt and kind in said)
