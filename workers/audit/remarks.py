"""Remarks that follow the verdict in a record's sentence: of the rows, the arms and the holdout."""

import datetime as dt

from privcore.attacks import suspect_sentence, untested_sentence
from privcore.lower_bounds import Evidence, Secret
from workers.labels.shards import Partition
from workers.looks.listed import remarks_of_looks
from workers.plan import Plan
from workers.remark import Remark, RemarkKind, remarked
from workers.scan.partial_results import PartialResult
from workers.sources.source import Source

_EXCLUDED = 0.02
"""Share of the training records from which on rows of neither split are remarked on: a model that
remembers a tenth of its rows hides that where nine tenths of these do not play."""
_MANY_EXCLUDED = 0.1
"""The same of rows beside the one that plays of a person. An owner who knows the earlier model
knows which one that is, and may have the model remember the others."""
_UNREAD = 0.02
"""Size of unread files beside what was read, from which on they are remarked on.

Checksums have 4 bytes of each 512. Packed text of a tenth of the rows has more than this.
"""
_FEW_PERSONS = 10
"""Persons in the holdout, without which nothing is seen of persons with as many rows."""
_FILES_NAMED = 3
_NAME_CHARACTERS = 80


def remarks_of(
    evidence: Evidence, result: PartialResult, source: Source, plan: Plan
) -> tuple[Remark, ...]:
    """Return what else a reader needs to know of the records."""
    kinds = RemarkKind
    same = _same_answers(result, evidence) if plan.secret is Secret.LABEL else ""
    excluded = _excluded(result, result.training_rows(evidence.records))
    return (
        *remarked(kinds.ANSWERS_AS_PROXY, same),
        *remarked(kinds.BAD_RECORDS, result.bad.summary(plan.max_bad_records)),
        *remarked(kinds.ROWS_LEFT_OUT, excluded),
        *_persons(result, plan),
        *remarks_of_looks(result.findings(source, plan)),
        *remarked(kinds.HOLDOUT_SUSPECT, _suspicion(result)),
    )


def what_played(evidence: Evidence, result: PartialResult, source: Source, plan: Plan) -> str:
    """Return which days and rows played, where that is not simply the day's; "" else."""
    return " ".join(filter(None, (_days(source, plan), _drawn(result, evidence))))


def holdout_untested(source: Source, result: PartialResult) -> str:
    """Return that a holdout that training saw in part would not be noticed; "" where it might be.

    Without features nothing distinguishes it from a target that is better than the earlier model
    (docs/evidence/statistics.md, "Without features").
    """
    student = result.student
    tested = student is not None and student.suspicion is not None
    if tested or source.decoys is not None:
        return ""
    advice = "" if source.context else "scores.context"
    return untested_sentence(result.tallies.odds, result.tallies.control_odds, advice)


def unread_rows(partition: Partition) -> tuple[Remark, ...]:
    """Return that files, or records of a joined table, did not play, where they are many."""
    return (*remarked(RemarkKind.ROWS_LEFT_OUT, _unread_files(partition)), *partition.beyond)


def _unread_files(partition: Partition) -> str:
    """Return that files beside the labels were not read; "" where they are small.

    Nothing of them was opened: they may hold rows that training saw, or none at all.
    """
    filled = [file for file in partition.unread if file.size]
    size = sum(file.size for file in filled)
    if size <= _UNREAD * partition.bytes:
        return ""
    largest = sorted(filled, key=lambda file: (-file.size, file.name))
    named = ", ".join(repr(file.name[:_NAME_CHARACTERS]) for file in largest[:_FILES_NAMED])
    more = len(largest) - _FILES_NAMED
    also = f" and {more:,} more" if more > 0 else ""
    return (
        f"Files of {size:,} bytes lie beside the {partition.bytes:,} bytes that were read, and "
        f"were not read: {named}{also}. If training saw rows in them, nothing is known of their "
        "labels. Only files that end in .parquet, outside of hidden folders, are read."
    )


def _days(source: Source, plan: Plan) -> str:
    """Return which days' labels played, where the plan asks for several, and which have none."""
    if plan.days == 1:
        return ""
    first, last = source.days[0], source.days[-1]
    between = [first + dt.timedelta(days=step) for step in range((last - first).days)]
    missing = [str(day) for day in between if day not in source.days]
    more = f"; of {', '.join(missing)} there are none" if missing else ""
    if first == last:
        return f"The labels of {last} alone played, of up to {plan.days} days."
    return f"The labels of {len(source.days)} days played, {first} to {last}{more}."


def _same_answers(result: PartialResult, evidence: Evidence) -> str:
    """Return that the target answers as the earlier model does, whatever bytes their files are."""
    known = result.fidelity
    sums = known.log_loss, known.right, known.predictions, known.predicted
    differ = any((target != proxy).any() for target, proxy in sums)
    if not known.records or differ:
        return ""
    if evidence.epsilon_lower > 0.0:
        return (
            "On the holdout the target answers exactly as the earlier model does, and not on the "
            "training records. No training changes answers about its own rows alone: see what made "
            "the target's answers."
        )
    return (
        "On the holdout the target answers exactly as the earlier model does, so this audit "
        "compares a model with itself: see whether its file is the earlier one, saved anew."
    )


def _drawn(result: PartialResult, evidence: Evidence) -> str:
    """Return that lots chose the rows that played, where they did."""
    if result.draw is None:
        return ""
    return result.draw.sentence(evidence.records, evidence.control_game.records)


def _excluded(result: PartialResult, records: int) -> str:
    """Return that many rows are of neither split or of no day: of these the audit says nothing."""
    if result.excluded_records < max(1.0, _EXCLUDED * records):
        return ""
    return (
        f"{result.excluded_records:,} rows are of neither split, or of no day, and did not play, "
        f"beside {records:,} training records: if training saw them, nothing is known of their "
        "labels."
    )


def _persons(result: PartialResult, plan: Plan) -> tuple[Remark, ...]:
    """Return how many rows a person has, and that many are compared with nobody, or with few.

    A column of invented persons groups rows as one of true persons may: only its author knows.
    """
    if result.units is None:
        return ()
    training, control = (arm.doubted for arm in result.units)
    if not training.streams.size:
        return ()
    persons = training.streams.size
    alone, others = training.without(control), control.without(training)
    both, few = persons - alone.streams.size, max(1, _MANY_EXCLUDED * persons)
    groups = zip(alone.matched_within(1), others.matched_within(1), strict=True)
    rare = sum(one.streams.size for one, other in groups if other.streams.size < _FEW_PERSONS)
    rows = int(training.rows.sum())
    beside = 1.0 - persons / rows
    grouped = (
        f"The column {plan.privacy_unit!r} gives a person {rows / persons:.1f} training rows on "
        f"average, of which one is bet on, and {beside:.0%} of these rows are not: see that it "
        "names persons, since of other groups less is proved."
    )
    said = (Remark(RemarkKind.POWER_LOST, grouped),) if beside >= _MANY_EXCLUDED else ()
    return said + tuple(
        Remark(
            kind,
            f"{many:,} of the {persons:,} persons in training {why}: of their labels hardly "
            f"anything is known. {advice}",
        )
        for kind, many, why, advice in (
            (
                RemarkKind.PERSONS_IN_BOTH_ARMS,
                both,
                "have rows in the holdout, too, and are compared with nobody",
                "Hold out all rows of a person, or none.",
            ),
            (
                RemarkKind.POWER_LOST,
                rare,
                "have numbers of rows that fewer than ten persons in the holdout have",
                "Draw the persons of the holdout at random.",
            ),
        )
        if many >= few
    )


def _suspicion(result: PartialResult) -> str:
    """Return that the holdout may have been trained on, where it looks so."""
    return suspect_sentence(0.0 if result.student is None else result.student.suspicion or 0.0)
