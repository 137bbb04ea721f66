"""What papers print beside ours: one file of printed values, and one rule of agreement.

`printed.csv` has a line for each printed value that a study is held against: as it is printed, and
what that leaves open. A number leaves open its last digit; words leave open a range (`low`, `high`;
none is no limit). `error` is the standard error of a share of as many trials as the paper has; a
deviation that is printed is that.
"""

import csv
import functools
import math
import pathlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flows.report.study_page import StudyTable

GAME = "Observational Auditing of Privacy"
WORST_CASE = "Beyond the Worst Case"
REIDENTIFICATION = "Provable Re-identification Privacy"
RENYI = "Defending against Reconstruction Attacks with Renyi DP"
RELAXATIONS = "Reconstruction Attacks on Aggressive Relaxations of Differential Privacy"

RULE = (
    "One rule of agreement: our value agrees with a printed one where it is within two standard "
    "errors, printed and ours together, of what is printed. A number stands for all that rounds to "
    "it, words for the range that flows/study/printed.csv gives. A deviation over repetitions "
    "counts as a standard error. A value is judged only where no setting that it depends on "
    "differs from the paper's, or where it is the same with any setting."
)
_FILE = pathlib.Path(__file__).with_name("printed.csv")
_NUMBER = re.compile(r"(-?[0-9]*\.?([0-9]*))%?(?: ± ([0-9.]+))?")


@dataclass(frozen=True, slots=True)
class PrintedValue:
    """One printed value: its words, and what they leave open (`low` to `high`), and its error."""

    words: str
    low: float
    high: float
    error: float

    @property
    def middle(self) -> float:
        """The printed number."""
        return (self.low + self.high) / 2.0


@functools.cache
def printed_values(paper: str, place: str) -> dict[str, PrintedValue]:
    """Return what a paper prints at one place, by quantity."""
    with _FILE.open(encoding="utf-8", newline="") as file:
        return {
            row["quantity"]: _value(row)
            for row in csv.DictReader(file)
            if (row["paper"], row["place"]) == (paper, place)
        }


def _value(row: dict[str, str]) -> PrintedValue:
    words, error = row["printed"], float(row["error"] or 0.0)
    if row["low"] or row["high"]:
        low, high = float(row["low"] or -math.inf), float(row["high"] or math.inf)
        return PrintedValue(words, low, high, error)
    found = _NUMBER.fullmatch(words)
    assert found is not None, row  # noqa: S101  # a test reads every line
    number, digits, deviation = found.groups()
    half = 0.5 * 10.0 ** -len(digits)
    return PrintedValue(
        words, float(number) - half, float(number) + half, float(deviation or error)
    )


@dataclass(frozen=True, slots=True)
class Setting:
    """What the paper, or the code that it cites, fixes, and what it is here.

    `of` limits it to the quantities that have these words: the others do not depend on it.
    """

    name: str
    paper: str
    here: str
    of: str = ""

    def differs_for(self, quantity: str) -> bool:
        """Return whether a quantity is computed with another setting than the paper's."""
        return self.paper != self.here and self.of in quantity


@dataclass(frozen=True, slots=True)
class Ours:
    """Our value of a printed quantity.

    Attributes:
        paper: its title.
        place: of the table, figure or section.
        quantity: as in the file.
        value: None where it is not computed.
        error: its standard error, or its deviation over repetitions.
        of: what tells values apart that one printed statement is about.
        control: the same value of the attack's control, as text.
        form: how a value is written.
        remark: why it may differ, or what it would take to compute it.
        exact: whether it is the same with any setting.
    """

    paper: str
    place: str
    quantity: str
    value: float | None
    error: float = 0.0
    of: str = ""
    control: str = ""
    form: str = ".2f"
    remark: str = ""
    exact: bool = False

    @property
    def named(self) -> str:
        """The quantity, and what it is of."""
        return f"{self.quantity}: {self.of}" if self.of else self.quantity

    @property
    def written(self) -> str:
        """The value with its error."""
        if self.value is None:
            return ""
        error = f" ± {self.error:{self.form}}" if self.error else ""
        return f"{self.value:{self.form}}{error}"

    def verdict(self, settings: Sequence[Setting]) -> str:
        """Return the judgement: the one rule, where the settings let it be judged."""
        if self.value is None:
            return f"not computed: {self.remark}"
        differing = [setting.name for setting in settings if setting.differs_for(self.named)]
        if differing and not self.exact:
            more = f" and {len(differing) - 1} more" if differing[1:] else ""
            return f"not judged: {differing[0]}{more}"
        printed = printed_values(self.paper, self.place)[self.quantity]
        room = 2.0 * math.hypot(printed.error, self.error) + 1e-9
        if printed.low - room <= self.value <= printed.high + room:
            return "agrees"
        return f"differs: {self.remark}" if self.remark else "differs"


def judged_rows(ours: Iterable[Ours], settings: Sequence[Setting]) -> list[dict[str, str]]:
    """Return every printed value beside ours, its control, and the judgement."""
    return [
        {
            "paper": each.paper,
            "place": each.place,
            "quantity": each.named,
            "printed": printed_values(each.paper, each.place)[each.quantity].words,
            "here": each.written,
            "control": each.control,
            "verdict": each.verdict(settings),
        }
        for each in ours
    ]


def judged_tables(rows: Sequence[dict[str, str]]) -> list[StudyTable]:
    """Return a table for each printed table or figure; without controls, no column of them."""
    tables = []
    for paper, place in dict.fromkeys((row["paper"], row["place"]) for row in rows):
        own = [row for row in rows if (row["paper"], row["place"]) == (paper, place)]
        columns = ["quantity", "printed", "here", "control", "verdict"]
        if not any(row["control"] for row in own):
            columns.remove("control")
        tables.append(
            StudyTable(
                f"{place} of {paper}: printed, and ours",
                [(name, name not in {"quantity", "verdict"}) for name in columns],
                [tuple(row[name] for name in columns) for row in own],
            )
        )
    return tables


def settings_table(settings: Sequence[Setting]) -> StudyTable:
    """Return what the paper fixes beside what it is here."""
    return StudyTable(
        "Settings",
        [("setting", False), ("paper, or the code that it cites", False), ("here", False)],
        [
            (each.name, each.paper, "the same" if each.paper == each.here else each.here)
            for each in settings
        ],
    )
