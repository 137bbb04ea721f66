"""Checks that the scanned records are enough to be read."""

import datetime as dt
from collections.abc import Callable

from privcore.attacks import Tallies
from privcore.lower_bounds import Secret
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import SPLIT
from workers.looks.listed import check_looks
from workers.plan import Plan
from workers.scan.partial_results import Game, PartialResult


def check_scanned(
    game: Game,
    result: PartialResult,
    counted: Callable[[], Tallies],
    *,
    words: Callable[[], str] = lambda: "",
) -> Tallies:
    """Return what was scanned, once it is enough to be read; else `words` may say why it is not.

    `counted` returns what `countable` does.

    Raises:
        NotEvaluableError: too many records are bad, or too few are good, in either arm; or a look
            says that no figure would be right.
    """
    result.bad.check(game.plan.max_bad_records)
    try:
        tallies = counted()
    except NotEvaluableError as error:
        left_out = words() if result.excluded_records and SPLIT in game.source.columns else ""
        raise NotEvaluableError(error.reason, f"{error.sentence}{left_out}") from None
    check_looks(result.findings(game.source, game.plan))
    return tallies


def countable(game: Game, result: PartialResult, day: dt.date) -> Tallies:
    """Return what was scanned, once there are enough records, whatever their labels are.

    Raises:
        NotEvaluableError: too few records are good, in either arm, or a look says that none count.
    """
    check_looks(result.findings(game.source, game.plan), before_counting=True)
    tallies = game.tallies(result, day)
    _check_units_in_both_splits(tallies, game, result)
    _check_records(tallies, game.plan, game.source.where_rows_are(result.excluded_records))
    return tallies


def _check_units_in_both_splits(tallies: Tallies, game: Game, result: PartialResult) -> None:
    """Refuse a holdout of too few persons, where those who are missing have training rows too."""
    plan, control, both = game.plan, tallies.control_game.records, game.units_in_both_splits(result)
    if not both or control >= plan.minimum_control_records:
        return
    advice = f"hold out all rows of a person in {plan.privacy_unit!r}, or none."
    if control == 0:
        raise NotEvaluableError(
            Reason.NO_HOLDOUT,
            f"All of the holdout's {both:,} persons have rows in training too, so no person is "
            f"left to compare with: {advice}",
        )
    raise NotEvaluableError(
        Reason.TOO_FEW_HELD_OUT,
        f"{both:,} of the holdout's {both + control:,} persons have rows in training too, which "
        f"leaves {control:,}, fewer than minimum_control_records, {plan.minimum_control_records}: "
        f"{advice}",
    )


def _check_records(tallies: Tallies, plan: Plan, advice: str) -> None:
    training, control = tallies.game.records, tallies.control_game.records
    if plan.secret is Secret.MEMBERSHIP:  # its games are of pairs
        training, control = tallies.odds[0].records, tallies.control_odds[0].records
    if training < plan.minimum_records:
        raise NotEvaluableError(
            Reason.TOO_FEW_RECORDS,
            f"{training} training records are fewer than minimum_records, {plan.minimum_records}. "
            f"{advice}",
        )
    if control == 0:
        raise NotEvaluableError(
            Reason.NO_HOLDOUT,
            f"No row was held out, so there is no control game: hold some rows out of training. "
            f"{advice}",
        )
    if control < plan.minimum_control_records:
        raise NotEvaluableError(
            Reason.TOO_FEW_HELD_OUT,
            f"{control} holdout records are fewer than minimum_control_records, "
            f"{plan.minimum_control_records}. {advice}",
        )
    if not (tallies.game.records and tallies.control_game.records):
        raise NotEvaluableError(
            Reason.TOO_FEW_HELD_OUT,
            "No training record has a holdout record whose label is about as likely under the "
            "proxy, so no pair can be made: hold out more records.",
        )
