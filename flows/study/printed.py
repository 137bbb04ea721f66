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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flows.study.tables import Point, StudyTable, printed_at, table_of

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
        value: None where it is not computed.
        error: its standard error; of a mean over repetitions, their deviation, as papers print it.
        repetitions: over how many repetitions `error` is the deviation.
        of: what tells values apart that one printed statement is about.
        control: the same value of the attack's control, as text.
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
        own = self.error / math.sqrt(self.repetitions)
        room = 2.0 * math.hypot(printed.error, own) + 1e-9
        if printed.low - room <= self.value <= printed.high + room:
            return "agrees"
        return f"differs: {self.remark}" if self.remark else "differs"


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """What a paper prints at one place, and where our values of it stand in a study's rows.

    Attributes:
        place: of the table, figure or section.
        quantity: as in the file, as a format of a row.
        value: the column of our value.
        error: the column of its error; a row without it has none.
        repetitions: over how many repetitions that is the deviation; 1 where it is no deviation.
        of: what tells values apart that one printed statement is about, as a format of a row.
        control: the column of the same value of the attack's control; a row without it has none.
        unit: what values are multiplied by.
        exact: whether values are the same with any setting.
        missing: why a printed quantity of which there is no row is not computed.
    """

    paper: str
    place: str
    quantity: str = "{quantity}"
    value: str = "value"
    error: str = ""
    of: str = ""
    repetitions: int = 1
    control: str = ""
    form: str = ".2f"
    unit: float = 1.0
    exact: bool = False
    missing: str = "this model is not trained"

    def beside(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Ours]:
        """Yield our values of everything that is printed there, in the file's order.

        A row's own `form`, `repetitions`, `exact` and `remark` (why its value may differ) come
        before the table's.
        """
        found: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            found.setdefault(self.quantity.format(**row), []).append(row)
        for quantity in printed_values(self.paper, self.place):
            if quantity not in found:
                yield Ours(self.paper, self.place, quantity, None, remark=self.missing)
            for row in found.get(quantity, ()):
                form, control = row.get("form", self.form), row.get(self.control)
                yield Ours(
                    *(self.paper, self.place, quantity, self.unit * row[self.value]),
                    error=self.unit * row.get(self.error, 0.0),
                    repetitions=row.get("repetitions", self.repetitions),
                    of=self.of.format(**row),
                    control="" if control is None else f"{control:{form}}",
                    form=form,
                    remark=row.get("remark", ""),
                    exact=row.get("exact", self.exact),
                )


def beside_each(tables: Iterable[PrintedTable], rows: Iterable[Mapping[str, Any]]) -> list[Ours]:
    """Return all that is printed beside the rows, whose `place` says where each is printed."""
    by_place: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_place.setdefault(row["place"], []).append(row)
    return [ours for table in tables for ours in table.beside(by_place.get(table.place, ()))]


def printed_points(paper: str, place: str, panel: str, *, unit: float = 1.0) -> list[Point]:
    """Return what a table prints of models ("mechanism at epsilon"), in a unit of ours."""
    points = []
    for quantity, value in printed_values(paper, place).items():
        model, at, epsilon = quantity.partition(" at ")
        if at:
            points.append(printed_at(epsilon, value.middle * unit, model, panel))
    return points


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
