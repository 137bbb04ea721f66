"""The next question of a test over nights, from what was asked before.

The state of a test is the entries of the log of statements: its name, its settings, which nights
were asked, and whether it has ended. So two writers cannot ask at once, and a question that is
repeated has the answer that is stored.
"""

from dataclasses import dataclass

from privcore.exceptions import TerminalError
from workers.publication.erased import Entry, ErasedStatement, subject_of
from workers.publication.statement_row import Statement
from workers.publication.threshold_night import ThresholdNight
from workers.warehouse.exact_statement_row import ExactStatementRow


class AskedError(TerminalError):
    """A test over nights was asked about a model's day before, of another audit."""


@dataclass(frozen=True, slots=True)
class NightOfTest:
    """The place of a night in its test.

    Attributes:
        test_id: name of a test that runs; None where the night begins one.
        test_night: which question of the test it is, from 1 on.
        tests_before: how many tests of the model's labels were begun before this one.
    """

    test_id: str | None
    test_night: int
    tests_before: int


def answer_before(exact: ExactStatementRow, known: list[Entry]) -> Entry | None:
    """Return what was published of the same audit, as far as the public can know.

    A test is asked once about a model and a day. Otherwise a person who changes labels, a model's
    file or a declaration could look again and again, and use up the test's nights.

    Raises:
        AskedError: the test was asked about the day, of another audit.
    """
    for one in known:
        if subject_of(one) == subject_of(exact):
            return one
    for one in known:
        of_day = (one.model, one.day) == (exact.model, exact.day)
        if of_day and _test_id(one) is not None:
            raise AskedError(
                f"The test over nights of {exact.model} was asked about {exact.day} before, of "
                "another model file, declaration or version of the method. It is asked once a day, "
                "and the first answer counts, so nothing is published of this audit."
            )
    return None


def next_question(exact: ExactStatementRow, known: list[Entry]) -> NightOfTest:
    """Return the place of a new night: in the test that runs, or in a new one, charged anew.

    A test goes on while the model, its dataset, the test's loss, significance and number of nights
    are the same. It ends with its first alarm and its last night. Erasing one of its nights ends
    it, too: what is left of an erased night does not say whether it was the alarm.
    """
    begun = [
        one
        for one in known
        if (one.model, one.dataset) == (exact.model, exact.dataset) and _test_id(one) is not None
    ]
    names = list(dict.fromkeys(_test_id(one) for one in begun))
    for name in reversed(names):
        nights = [one for one in begun if _test_id(one) == name]
        last = nights[-1]
        if any(isinstance(one, ErasedStatement) for one in nights):
            continue
        assert isinstance(last, ThresholdNight)  # noqa: S101
        if _same_test(last, exact) and not last.ends_test:
            return NightOfTest(name, last.test_night + 1, len(names) - 1)
    return NightOfTest(None, 1, len(names))


def _test_id(entry: Entry) -> str | None:
    """Return the test that an entry is an answer of; None of a statement."""
    return None if isinstance(entry, Statement) else entry.test_id


def _same_test(last: ThresholdNight, exact: ExactStatementRow) -> bool:
    columns = ("epsilon_public", "significance", "test_nights")
    return all(getattr(last, name) == getattr(exact, name) for name in columns)
