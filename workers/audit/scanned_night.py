"""One model's night as it was scanned, and whether it may be read."""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass

from privcore.attacks import ArmsComparison, Tallies, generator
from privcore.attacks.known_labels import proxy_sentence
from privcore.lower_bounds import Secret
from workers.exceptions import NotEvaluableError, Reason
from workers.labels.columns import SPLIT
from workers.looks.listed import check_looks
from workers.scan.partial_results import Game, PartialResult


@dataclass(frozen=True)
class ScannedNight:
    """What was scanned of one model.

    Attributes:
        game: that was played.
        result: what was counted.
        words: called where too few records play, for why they may not.
    """

    game: Game
    result: PartialResult
    words: Callable[[], str] = str

    @functools.cached_property
    def tallies(self) -> Tallies:
        """What was scanned, once there are enough records, whatever their labels are.

        Raises:
            NotEvaluableError: too few records are good, in either arm, or a look says that none
                count.
        """
        self._check_looks(before_counting=True)
        tallies = self.game.tallies(self.result)
        self._check_units_in_both_splits(tallies)
        self._check_records(tallies)
        return tallies

    @property
    def in_public(self) -> "ScannedNight":
        """The night as the public sees it (`PartialResult.in_public`)."""
        public = self.result.in_public()
        return self if public is self.result else dataclasses.replace(self, result=public)

    def checked(self) -> Tallies:
        """Return what was scanned, once it is enough to be read; else `words` may say why not.

        Raises:
            NotEvaluableError: too many records are bad, or too few are good, in either arm; or a
                look says that no figure would be right.
        """
        self.result.bad.check(self.game.plan.max_bad_records)
        try:
            tallies = self.tallies
        except NotEvaluableError as error:
            by_split = self.result.excluded_records and SPLIT in self.game.source.columns
            words = self.words() if by_split else ""
            raise NotEvaluableError(error.reason, f"{error.sentence}{words}") from None
        self._check_looks()
        return tallies

    def compared(self) -> tuple[Tallies, ArmsComparison | None]:
        """Return what was scanned, once it may be read, and how its arms compare (E1).

        The comparison is None where nothing rests on it.

        Raises:
            NotEvaluableError: too few records, a proxy that knows the labels, or arms that chance
                did not divide.
        """
        source, plan, tallies, arms = self.game.source, self.game.plan, self.checked(), None
        if plan.secret is not Secret.MEMBERSHIP:
            arms = tallies.compare_arms(generator(plan.seed, source.model, str(source.day), "arms"))
        # Sampling by labels looks like a proxy that knows those of training: base rates come first.
        if not source.proxy_is_earlier and not (
            arms is not None and arms.differ and not arms.leans
        ):
            fits = self.game.proxy_fits(self.result)
            # What it knows would be taken for what the target knows.
            if sentence := proxy_sentence(fits, str(source.day)):
                raise NotEvaluableError(Reason.PROXY_SAW_THE_DAY, sentence)
        if arms is not None and arms.differ:
            place = arms.place if tallies.labels is not None else 1
            raise NotEvaluableError(
                Reason.ARMS_DIFFER, arms.sentence(repr(source.label.classes[place]))
            )
        return tallies, arms

    def _check_looks(self, *, before_counting: bool = False) -> None:
        found = self.result.findings(self.game.source, self.game.plan)
        check_looks(found, before_counting=before_counting)

    def _check_units_in_both_splits(self, tallies: Tallies) -> None:
        """Refuse a holdout of too few persons, where those who are missing have training rows."""
        plan, control = self.game.plan, tallies.control_game.records
        both = self.game.units_in_both_splits(self.result)
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
            f"{both:,} of the holdout's {both + control:,} persons have rows in training too, "
            f"which leaves {control:,}, fewer than minimum_control_records, "
            f"{plan.minimum_control_records}: {advice}",
        )

    def _check_records(self, tallies: Tallies) -> None:
        plan = self.game.plan
        advice = self.game.source.where_rows_are(self.result.excluded_records)
        training, control = tallies.game.records, tallies.control_game.records
        if plan.secret is Secret.MEMBERSHIP:  # its games are of pairs
            training, control = tallies.odds[0].records, tallies.control_odds[0].records
        if training < plan.minimum_records:
            raise NotEvaluableError(
                Reason.TOO_FEW_RECORDS,
                f"{training} training records are fewer than minimum_records, "
                f"{plan.minimum_records}. {advice}",
            )
        if control == 0:
            raise NotEvaluableError(
                Reason.NO_HOLDOUT, f"No row was held out: hold some rows out of training. {advice}"
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
                "earlier model, so no pair can be made: hold out more records.",
            )
