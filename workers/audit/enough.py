"""Checks that the scanned records are enough to be read."""

import datetime as dt
from collections.abc import Callable

from privcore.attacks import Tallies, distinct_sentence
from privcore.lower_bounds import Secret
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import SPLIT
from workers.plan import Plan
from workers.scan.partial_results import Game, PartialResult

_COPIES = 0.5
"""Share of rows that are copies, above which these are why a column's rows are in one arm."""


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
        NotEvaluableError: too many records are bad, or too few are good, in either arm.
    """
    result.bad.check(game.plan.max_bad_records)
    try:
        tallies = counted()
    except NotEvaluableError as error:
        left_out = words() if result.excluded_records and SPLIT in game.source.columns else ""
        raise NotEvaluableError(error.reason, f"{error.sentence}{left_out}") from None
    _check_held_together(game, result)
    _check_made_distinct(game, result)
    return tallies


def _check_hashed(game: Game, result: PartialResult) -> None:
    """Refuse a hash rule over text and integers: 7 and '7' have other hashes."""
    if len(result.hashed) > 1:
        raise NotEvaluableError(
            Reason.LABEL_INVALID,
            f"Some files of {game.source.model} store the column of scores.holdout or "
            "labels.holdout as integers and others as text, which have other hashes, so that rows "
            "that training saw may count as held out: store it in one kind, as training hashed it.",
        )


def countable(game: Game, result: PartialResult, day: dt.date) -> Tallies:
    """Return what was scanned, once there are enough records, whatever their labels are.

    Raises:
        NotEvaluableError: too few records are good, in either arm, or a hash has two meanings.
    """
    _check_hashed(game, result)
    tallies = game.tallies(result, day)
    _check_units_in_both_splits(tallies, game, result)
    _check_records(tallies, game.plan, game.source.where_rows_are(result.excluded_records))
    return tallies


def _check_held_together(game: Game, result: PartialResult) -> None:
    """Refuse to compare single rows of values that were held out whole and are alike, or near.

    The target then knows training rows by other rows of their value, and holdout rows by none: an
    honest model would be accused. Without the comparison there is no figure. Decoys need none.
    """
    if game.plan.privacy_unit is not None or game.source.decoys is not None:
        return
    column = result.alike.held_together()
    share = result.alike.twins.repeated()
    if column is not None and share > _COPIES:
        raise NotEvaluableError(
            Reason.HELD_OUT_TOGETHER,
            f"Rows are logged twice: {share:.0%} of the rows that were looked at have the features "
            f"and the label of another row, and all of one {column!r} are in one arm. Keep one row "
            f'of each event, or set plan.privacy_unit to "{column}".',
        )
    if column is not None:
        raise NotEvaluableError(
            Reason.HELD_OUT_TOGETHER,
            f"All rows of one value of {column!r} were held out together, or trained on together, "
            "and their labels agree more than the earlier model expects. The model knows training "
            "rows by other rows of their value, and holdout rows by none, so a comparison of "
            f'single rows would accuse it falsely. Set plan.privacy_unit to "{column}", and '
            "declare an epsilon for that unit; or hold out single rows at random.",
        )
    # Rows of a feature that tells the split are never in both arms: its own sentence says so.
    near = None if result.copies.tell_split else result.alike.near_held_together()
    if near is not None:
        crossing, expected = near
        raise NotEvaluableError(
            Reason.HELD_OUT_TOGETHER,
            "Rows with nearly the same features were held out together, or trained on together: "
            f"{crossing:,} groups of them have rows of both, and a holdout drawn row by row would "
            f"give {expected:,.0f}. So persons, hours or places seem to have been held out. The "
            "model may know training rows by others like them, and holdout rows by none: a "
            "comparison of single rows could accuse it falsely. Hold out single rows at random; or "
            "set plan.privacy_unit to the column of the persons, and declare an epsilon for them.",
        )


def _check_made_distinct(game: Game, result: PartialResult) -> None:
    """Refuse arms of which one has no equal rows, although both together have many.

    Labels of equal rows then differ between the arms, whatever the target knows.
    """
    plan, source = game.plan, game.source
    if (
        plan.secret is not Secret.LABEL
        or plan.privacy_unit is not None
        or source.decoys is not None
    ):
        return
    classes = len(source.label.classes)
    expected = result.alike.made_distinct(classes)
    if expected is not None:
        raise NotEvaluableError(Reason.ARMS_DIFFER, distinct_sentence(classes, expected))


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
