"""A model's published nights: each with all its statements, and what all nights prove together."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from privcore.lower_bounds import Verdict
from privcore.publication.statement import DOUBTFUL
from workers.publication.statement_row import Statement
from workers.warehouse.standings import standings

STANDING_SHARE = 0.25
"""Of a night's significance: one fifth of the plan's significance against four fifths."""


@dataclass(frozen=True, slots=True)
class PublishedNight:
    """The statements about one model's day.

    Attributes:
        statements: all of them, in the order of publication.
        standing: whether this night and those before it refute together that every declaration
            was true, each night held against its own.
    """

    statements: tuple[Statement, ...]
    standing: bool

    @property
    def first(self) -> Statement:
        """The statement that counts.

        Who asks for another one knows what the first concluded. If a later one counted, that person
        could ask again until the noise acquits, or accuses.
        """
        return self.statements[0]


def nights_of(statements: Sequence[Statement], model: str) -> list[PublishedNight]:
    """Return a model's nights in the order of their days.

    **Nights together.** The e-value of each night's first statement is multiplied by those of other
    nights (`declarations_refuted`): noise of different statements is independent, and each e-value
    has an expectation of at most 1 under its night's claim, whatever came before, delta's price
    included (`NoisyWealth.log_evalue`). Revisions do not count, since they can be asked for after
    the first one was read. A doubtful night counts with at most 1, so it can only weaken. A night
    with too few records has no e-value and does not count. The chance that the standing of a model
    whose declarations are all true is ever violated is at most `STANDING_SHARE` times the
    significance, for each standing of 128 nights. It costs no privacy: it is computed from what is
    published.

    Args:
        statements: of all models, in the order of publication.
        model: name of the model.
    """
    of_day: dict[dt.date, list[Statement]] = {}
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
    return [
        PublishedNight(tuple(night), standing[place] == Verdict.VIOLATED)
        for place, night in enumerate(days)
    ]


def _night(first: Statement) -> dict[str, object]:
    """Return the columns that `standings` reads; delta is paid in the e-value itself."""
    wealth = first.log_evalue
    if wealth is not None and first.premises_pvalue <= DOUBTFUL:
        wealth = min(wealth, 0.0)
    return {
        "epsilon_declared": first.epsilon_declared,
        "standing_price": 0.0,
        "claimed_log_wealth": None if wealth is None else [wealth],
        "labels_recur": first.labels_recur,
        "method_version": first.method_version,
    }
