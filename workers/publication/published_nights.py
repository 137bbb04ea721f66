"""A model's published nights: each with all its statements, and what all nights prove together."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privcore.lower_bounds import STANDING_NIGHTS, ClaimedNight, Verdict, declarations_refuted
from privcore.publication.statement import DOUBTFUL
from workers.publication.erased import Entry, ErasedStatement
from workers.publication.threshold_night import ThresholdNight
from workers.warehouse.night_columns import WINDOWS
from workers.warehouse.standings import recurs_from, standings

STANDING_SHARE = 0.25
"""Share of a night's significance: one fifth of the plan's significance against four fifths."""


@dataclass(frozen=True, slots=True)
class PublishedNight:
    """The statements about one model's day.

    Attributes:
        statements: all of them, in the order of publication, erased ones too.
        standing: whether this night and those before it refute together that every declaration
            was true, each night held against its own; None where an erased one may be among them.
        windows: of `WINDOWS`, how many days up to this one refute together that every declaration
            was true. A window that holds an erased statement, or whose nights were not audited
            alike, refutes nothing.
    """

    statements: tuple[Entry, ...]
    standing: bool | None
    windows: tuple[int, ...]

    @property
    def first(self) -> Entry:
        """The statement that counts, also if it was erased.

        Who asks for another one knows what the first concluded. If a later one counted, that person
        could ask again until the noise acquits, or accuses.
        """
        return self.statements[0]


def nights_of(statements: Sequence[Entry], model: str) -> list[PublishedNight]:
    """Return a model's nights in the order of their days.

    **Nights together.** The e-value of each night's first statement is multiplied by those of other
    nights (`declarations_refuted`): noise of different statements is independent, and each e-value
    has an expectation of at most 1 under its night's claim, whatever came before, delta's price
    included (`NoisyWealth.log_evalue`). Revisions do not count, since they can be asked for after
    the first one was read. A doubtful night counts with at most 1, so it can only weaken. A night
    with too few records has no e-value and does not count, nor has an answer of a test over nights.
    The chance that the standing of a model
    whose declarations are all true is ever violated is at most `STANDING_SHARE` times the
    significance, for each standing of 128 nights. It costs no privacy: it is computed from what is
    published.

    **Windows.** The same product over the nights of the last 7 and 28 days, from the first of them
    on, each tested at the nights' own significance. A leak of the last days is seen sooner than in
    the standing, where later starts have small stakes. Each window is right with that confidence
    by itself: a reader who watches many windows adds their chances of an error.

    **Holdouts that come again.** From the first night on whose holdout is an earlier night's, the
    nights' e-values are averaged instead of multiplied, as in exact records (`recurs_from`): a draw
    of the holdout that is unlucky for a model is so on each of these nights.

    **Erased nights.** Erasing nights that favour a model makes the product of the others
    larger, and erasing nights against it makes that smaller. So nothing is said of a night
    whose standing an erased one may belong to: an erased first statement of an earlier night, at
    most `STANDING_NIGHTS` nights before. An erased night keeps its place, so that erasing cannot
    choose where a later standing begins.
    """
    of_day: dict[dt.date, list[Entry]] = {}
    for one in statements:
        if one.model == model:
            of_day.setdefault(one.day, []).append(one)
    days = [of_day[day] for day in sorted(of_day)]
    if not days:
        return []
    standing = standings(
        [_night(night[0]) for night in days],
        significance=STANDING_SHARE * min(night[0].significance for night in days),
        wanted=range(len(days)),
    )
    found = []
    said_from = 0  # place of the first night of which no erased one is in reach
    for place, night in enumerate(days):
        if isinstance(night[0], ErasedStatement) and night[0].evaluated:
            said_from = place + STANDING_NIGHTS
        said = standing[place] == Verdict.VIOLATED if place >= said_from else None
        found.append(PublishedNight(tuple(night), said, _refuting_windows(days[: place + 1])))
    return found


def _refuting_windows(nights: Sequence[Sequence[Entry]]) -> tuple[int, ...]:
    """Return the windows, in days, that end with the last night and refute by its evidence."""
    last = nights[-1][0]
    found = []
    for span in WINDOWS:
        start = last.day - dt.timedelta(days=span - 1)
        firsts = [night[0] for night in nights[-span:] if night[0].day >= start]
        alike = {(one.method_version, one.labels_recur) for one in firsts}
        if len(alike) > 1 or any(isinstance(one, ErasedStatement) for one in firsts):
            continue
        used = [(one, wealth) for one in firsts if (wealth := _log_wealth(one)) is not None]
        if not used:
            continue
        recurs = recurs_from([one.holdout_sketch for one, _ in used], recurring=last.labels_recur)
        refuted = declarations_refuted(
            [ClaimedNight(one.epsilon_declared, np.array(wealth), 0.0) for one, wealth in used],
            significance=min(one.significance for one in firsts),
            recurring=bool(recurs[-1]),
        )
        if refuted.any():
            found.append(span)
    return tuple(found)


def _night(first: Entry) -> dict[str, object]:
    """Return the columns that `standings` reads; delta is paid in the e-value itself."""
    return {
        "epsilon_declared": first.epsilon_declared,
        "standing_price": 0.0,
        "claimed_log_wealth": _log_wealth(first),
        "labels_recur": first.labels_recur,
        "holdout_sketch": first.holdout_sketch,
        "method_version": first.method_version,
    }


def _log_wealth(first: Entry) -> list[float] | None:
    """Return the log of a night's e-value; of an erased one only whether it had one is left."""
    if isinstance(first, ErasedStatement):
        return [0.0] if first.evaluated else None
    if isinstance(first, ThresholdNight) or first.log_evalue is None:
        return None
    return [min(first.log_evalue, 0.0) if first.premises_pvalue <= DOUBTFUL else first.log_evalue]
