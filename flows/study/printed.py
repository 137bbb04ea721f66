"""What papers print beside ours: one file of printed values, and one rule of agreement.

`printed.csv` has a line for each printed value that a study is held against: as it is printed, and
what that leaves open. A number leaves open its last digit; words leave open a range (`low`, `high`;
none is no limit). `error` is the standard error of a share of as many trials as the paper has. A
mean ± a deviation that is printed is over 100 repetitions of the game (`REPETITIONS`).
"""

import csv
import functools
import math
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flows.study.tables import StudyTable, table_of

GAME = "Observational Auditing of Privacy"
WORST_CASE = "Beyond the Worst Case"
REIDENTIFICATION = "Provable Re-identification Privacy"
RENYI = "Defending against Reconstruction Attacks with Renyi DP"
RELAXATIONS = "Reconstruction Attacks on Aggressive Relaxations of Differential Privacy"

RULE = (
    "One rule of agreement: our value agrees with a printed one where it is within two standard "
    "errors, printed and ours together, of what is printed. A number stands for all that rounds to "
    "it, words for the range that flows/study/printed.csv gives. The standard error of a mean over "
    "repetitions of the game is their deviation over the root of their number: it says how much "
    "the game's coins matter, and nothing of another training. A value is judged only where no "
    "setting that it depends on differs from the paper's, or where it is the same with any setting."
)
REPETITIONS = 100
"""Over which the game's paper gives means and deviations."""
_FILE = pathlib.Path(__file__).with_name("printed.csv")
_NUMBER = re.compile(r"(-?[0-9]*\.?([0-9]*))%?(?: ± ([0-9.]+))?")


@dataclass(frozen=True, slots=True)
class PrintedValue:
    """One printed value: its words, what they leave open (`low` to `high`), its standard error."""

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
    if deviation:
        error = float(deviation) / math.sqrt(REPETITIONS)
    return PrintedValue(words, float(number) - half, float(number) + half, error)


@dataclass(frozen=True, slots=True)
class Setting:
    """What the paper, or the code that it cites, fixes, and what it is here.

    Only quantities that have the words `of` depend on it.
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
        value: None where it is not computed.
        error: its standard error; of a mean over repetitions, their deviation, as papers print it.
        repetitions: over how many repetitions `error` is the deviation.
        of: what tells values apart that one printed statement is about.
        of_control: the same value of the attack's control, if it has one.
        remark: why it may differ, or what it would take to compute it.
        exact: whether it is the same with any setting.
    """

    paper: str
    place: str
    quantity: str
    value: float | None
    error: float = 0.0
    repetitions: int = 1
    of: str = ""
    of_control: float | None = None
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

    @property
    def control(self) -> str:
        """The control's value."""
        return "" if self.of_control is None else f"{self.of_control:{self.form}}"

    def verdict(self, settings: Sequence[Setting]) -> str:
        """Return the judgement: the one rule, where the settings let it be judged."""
        if self.value is None:
            return f"not computed: {self.remark}"
        differing = [setting.name for setting in settings if setting.differs_for(self.named)]
        if differing and not self.exact:
            more = f" and {len(differing) - 1} more" if differing[1:] else ""
            return f"not judged: {differing[0]}{more}"
        printed = printed_values(self.paper, self.place)[self.quantity]
        own = self.error / math.sqrt(self.repetitions)
        room = 2.0 * math.hypot(printed.error, own) + 1e-9
        if printed.low - room <= self.value <= printed.high + room:
            return "agrees"
        return f"differs: {self.remark}" if self.remark else "differs"


def beside(
    paper: str,
    places: Iterable[str],
    rows: Iterable[Mapping[str, Any]],
    *,
    missing: str = "this model is not trained",
    **shared: Any,
) -> list[Ours]:
    """Return our values of everything that a paper prints at some places, in the file's order.

    Rows have fields of `Ours`, and `shared` those that are the same for all; `missing` says why a
    printed quantity without a row is not computed.
    """
    given: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        given.setdefault((row["place"], row["quantity"]), []).append(row)
    found = []
    for place, quantity in ((at, name) for at in places for name in printed_values(paper, at)):
        none = {"place": place, "quantity": quantity, "value": None, "remark": missing}
        own = given.get((place, quantity), [none])
        found += [Ours(**{"paper": paper, **shared, **row}) for row in own]
    return found


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
        title = f"{place} of {paper}: printed, and ours"
        shown = {name: f"{{{name}}}" for name in columns}
        tables.append(table_of(title, own, shown, text=("quantity", "verdict")))
    return tables


def settings_table(settings: Sequence[Setting]) -> StudyTable:
    """Return what the paper fixes beside what it is here."""
    columns = ("setting", "paper, or the code that it cites", "here")
    return StudyTable(
        "Settings",
        [(name, False) for name in columns],
        [
            (each.name, each.paper, "the same" if each.paper == each.here else each.here)
            for each in settings
        ],
    )
