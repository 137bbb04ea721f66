"""One judgement of one night: the verdict, its reason, and what is remarked on beside it."""

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from privcore.attacks import (
    ArmsComparison,
    FidelityTally,
    Matched,
    OddsTally,
    Tallies,
    UnitChoices,
    generator,
    match,
    suspect_sentence,
    unlike_arms,
    untested_sentence,
)
from privcore.attacks.arms import MOST_COUNTED
from privcore.attacks.student import MOST_CLASSES
from privcore.lower_bounds import (
    Doubt,
    Evidence,
    Judged,
    Secret,
    judge,
    not_a_guarantee,
    privatised,
    refutes,
)
from workers.audit.declaration import (
    label_column_holds,
    label_column_warning,
    names_holder,
    other_unit,
    said_of_labels_in,
    says_nothing_of,
)
from workers.audit.request import Inputs
from workers.lake.manifest import OutputCorrection, Privacy, PrivatisedBy, guarantee_of
from workers.looks.listed import remarks_of_looks
from workers.plan import Plan
from workers.remark import Remark, RemarkKind, remarked
from workers.scan.partial_results import PartialResult
from workers.sources.secrets import checkpoints_of, correction_of
from workers.sources.source import Source

_EXCLUDED = 0.02
"""Share of the training records from which on rows of neither split are remarked on: a model that
remembers a tenth of its rows hides that where nine tenths of these do not play."""
_MANY_EXCLUDED = 0.1
"""The same of rows beside the one that plays of a person. An owner who knows the earlier model
knows which one that is, and may have the model remember the others."""
_FEW_PERSONS = 10
"""Persons in the holdout, without which nothing is seen of persons with as many rows."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a night's judgement rests on.

    Attributes:
        privacy: the guarantee that the bound is held against; None where there is none.
        arms: how training and holdout compare; None where nothing rests on it.
    """

    inputs: Inputs
    result: PartialResult
    tallies: Tallies
    privacy: Privacy | None
    evidence: Evidence
    arms: ArmsComparison | None = None

    @property
    def source(self) -> Source:
        """Where the night comes from."""
        return self.inputs.source

    @property
    def plan(self) -> Plan:
        """How the game was played."""
        return self.inputs.plan

    @property
    def proxy_doubtful(self) -> bool:
        """True if bets against the proxy could not win."""
        return (self.arms is not None and self.arms.doubtful) or self.evidence.misled

    @property
    def refuted(self) -> bool:
        """True if the bound refutes the guarantee that it is held against."""
        held_against = self.privacy
        return held_against is not None and refutes(
            self.evidence.epsilon_lower, held_against.epsilon
        )

    @property
    def rows(self) -> int:
        """The day's training rows."""
        return self.result.training_rows(self.evidence.records)


def judged(grounds: Grounds) -> tuple[Judged, tuple[RemarkKind, ...]]:
    """Return the verdict with its sentences, and the words of what these remark on."""
    source, plan, result = grounds.source, grounds.plan, grounds.result
    remarks = tuple(remarks_of(grounds))
    # Classes in another order make other signs, too.
    first = sorted(remarks, key=lambda each: each.kind is not RemarkKind.CLASSES_EXCHANGED)
    signs = [Doubt(str(each.kind), each.sentence, each.kind.code) for each in first]
    found = _of_its_state(grounds, signs) or judge(
        grounds.evidence,
        epsilon_declared=grounds.privacy.epsilon if grounds.privacy else None,
        by_policy=source.privacy is None,
        undeclared=other_unit(source, plan, result),
        empty=says_nothing_of(source, grounds.privacy, plan, grounds.rows),
        held_back="" if grounds.arms is None else grounds.arms.doubt_sentence,
        signs=signs,
    )
    played, evidence = [_days(source, plan)], grounds.evidence
    if result.draw is not None:
        played += [result.draw.sentence(evidence.records, evidence.control_game.records)]
    reason = " ".join(filter(None, (found.reason, *played)))
    kinds = tuple(dict.fromkeys(each.kind for each in remarks))
    return Judged(found.verdict, found.code, reason, found.detail), kinds


def _of_its_state(grounds: Grounds, signs: Sequence[Doubt]) -> Judged | None:
    """Return the verdict on labels that were privatised, or on what is no guarantee.

    No sign changes it; what was seen is said beside it.
    """
    source = grounds.source
    if isinstance(source.label_state, PrivatisedBy):
        declared = guarantee_of(source.privacy)
        empty = says_nothing_of(source, declared, grounds.plan, grounds.rows)
        name = source.label_state.privatised_by.name
        found = Judged(empty[0].verdict, *empty) if empty else privatised(grounds.evidence, name)
    elif source.privacy and not guarantee_of(source.privacy):
        found = not_a_guarantee(grounds.evidence, source.privacy.definition)
    else:
        return None
    return replace(found, reason=" ".join([found.reason, *(sign.sentence for sign in signs)]))


def remarks_of(grounds: Grounds) -> Iterator[Remark]:
    """Yield what else a reader needs to know: of the rows, the arms, the holdout and the files."""
    kinds, source, plan, result = RemarkKind, grounds.source, grounds.plan, grounds.result
    of_labels, looks = plan.secret is Secret.LABEL, result.findings(source, plan)
    if grounds.privacy is not None and not grounds.refuted:
        yield from remarked(kinds.HOLDOUT_UNTESTED, _untested(source, result))
    if of_labels:
        same = same_answers(result.fidelity, grounds.evidence.epsilon_lower)
        yield from remarked(kinds.ANSWERS_AS_PROXY, same)
    yield from remarked(kinds.BAD_RECORDS, result.bad.summary(plan.max_bad_records))
    yield from remarked(kinds.ROWS_LEFT_OUT, excluded(result.excluded_records, grounds.rows))
    if result.units is not None:
        yield from persons(result.units, plan)
    yield from remarks_of_looks(looks)
    yield from remarked(kinds.HOLDOUT_SUSPECT, suspect_sentence(result.suspicion or 0.0))
    yield from remarks_of_looks(looks, after_files=True)
    models = checkpoints_of(source)
    unserved = _unserved_rounds(0 if models is None else models.target.described.unserved_rounds)
    yield from remarked(kinds.SERVED_OTHERWISE, unserved)
    if of_labels:
        yield from _of_answers(grounds)
        yield from _of_the_declaration(grounds)


def _of_answers(grounds: Grounds) -> Iterator[Remark]:
    """Yield what the target's answers to labels look like."""
    kinds, source, tallies = RemarkKind, grounds.source, grounds.tallies
    classes, correction = len(source.label.classes), correction_of(source)
    random = generator(grounds.plan.seed, source.model, str(source.day), "reversed")
    yield from remarked(kinds.CLASSES_EXCHANGED, reversed_labels(tallies, random))
    yield from remarked(kinds.ARMS_UNLIKE, unlike_arms(tallies))
    yield from remarked(kinds.SERVED_OTHERWISE, _corrected(correction))
    yield from remarked(kinds.POWER_LOST, _classes_without_labels(classes, tallies))
    if not grounds.refuted and correction is None:  # which makes honest answers worse, too
        yield from remarked(kinds.ANSWERS_WORSE_THAN_SHARES, worse_than_shares(tallies))


def _of_the_declaration(grounds: Grounds) -> Iterator[Remark]:
    """Yield what to ask of a declaration: of which labels it is, and of whose rows."""
    source, privacy = grounds.source, grounds.privacy
    if privacy is None:
        return
    if grounds.refuted:
        asked = label_column_warning(
            privacy.mechanism.name if privacy.mechanism else None,
            label_column_holds(source),
            said=said_of_labels_in(source.facts.get("source")),
            column=repr(source.label.column),
        )
        yield from remarked(RemarkKind.LABEL_COLUMN_ASKED, asked)
    if grounds.plan.privacy_unit is None and names_holder(privacy.unit):
        of_rows = _by_row(privacy.unit, violated=grounds.refuted)
        yield from remarked(RemarkKind.ROWS_OF_A_HOLDER, of_rows)


def _untested(source: Source, result: PartialResult) -> str:
    """Return that a holdout that training saw in part would not be noticed; "" where it might be.

    Without features nothing distinguishes it from a target that is better than the earlier model
    (docs/evidence/statistics.md, "Without features").
    """
    if result.suspicion is not None:
        return ""
    advice = "" if source.context else "scores.context"
    return untested_sentence(result.tallies.odds, result.tallies.control_odds, advice)


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


def same_answers(known: FidelityTally, epsilon_lower: float) -> str:
    """Return that the target answers as the earlier model does, whatever bytes their files are."""
    sums = known.log_loss, known.right, known.predictions, known.predicted
    differ = any((target != proxy).any() for target, proxy in sums)
    if not known.records or differ:
        return ""
    if epsilon_lower > 0.0:
        return (
            "On the holdout the target answers exactly as the earlier model does, and not on the "
            "training records. No training changes answers about its own rows alone: see what made "
            "the target's answers."
        )
    return (
        "On the holdout the target answers exactly as the earlier model does, so this audit "
        "compares a model with itself: see whether its file is the earlier one, saved anew."
    )


def excluded(rows: int, records: int) -> str:
    """Return that many rows are of neither split or of no day: of these the audit says nothing."""
    if rows < max(1.0, _EXCLUDED * records):
        return ""
    return (
        f"{rows:,} rows are of neither split, or of no day, and did not play, "
        f"beside {records:,} training records: if training saw them, nothing is known of their "
        "labels."
    )


def persons(units: tuple[UnitChoices, UnitChoices], plan: Plan) -> tuple[Remark, ...]:
    """Return how many rows a person has, and that many are compared with nobody, or with few.

    A column of invented persons groups rows as one of true persons may: only its author knows.
    """
    training, control = (arm.doubted for arm in units)
    if not training.streams.size:
        return ()
    many_persons = training.streams.size
    alone, others = training.without(control), control.without(training)
    both, few = many_persons - alone.streams.size, max(1, _MANY_EXCLUDED * many_persons)
    groups = zip(alone.matched_within(1), others.matched_within(1), strict=True)
    rare = sum(one.streams.size for one, other in groups if other.streams.size < _FEW_PERSONS)
    rows = int(training.rows.sum())
    beside = 1.0 - many_persons / rows
    grouped = (
        f"The column {plan.privacy_unit!r} gives a person {rows / many_persons:.1f} training rows "
        f"on average, of which one is bet on, and {beside:.0%} of these rows are not: see that it "
        "names persons, since of other groups less is proved."
    )
    said = (Remark(RemarkKind.POWER_LOST, grouped),) if beside >= _MANY_EXCLUDED else ()
    return said + tuple(
        Remark(
            kind,
            f"{many:,} of the {many_persons:,} persons in training {why}: of their labels hardly "
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


def _corrected(correction: OutputCorrection | None) -> str:
    """Return that the audit saw corrected probabilities alone: a strong correction hides a leak."""
    if correction is None:
        return ""
    return (
        "The target's probabilities were audited after the output_correction of its manifest "
        f"(epsilon {correction.epsilon:g}, floor {correction.floor:g}). If anyone gets the "
        "probabilities from before it, they may give away more."
    )


def _unserved_rounds(rounds: int) -> str:
    """Return that the target's file holds rounds that were not audited: somebody may serve them."""
    if not rounds:
        return ""
    return (
        "The target's file says that it was stopped early, so its first rounds of boosting were "
        f"audited, up to the best one, as XGBClassifier serves it. It holds "
        f"{rounds:,} more, which Booster.predict serves: nothing is known "
        "of these. See that nobody serves them, or save the model without them."
    )


def _classes_without_labels(listed: int, tallies: Tallies) -> str:
    """Return that classes without labels cost the audit its student, or looks at the arms."""
    labels, control = tallies.labels, tallies.control_labels
    if labels is None or control is None:
        return ""
    counted = (labels + control).counts[..., 1].sum(axis=(0, 2))
    with_labels = np.count_nonzero(counted)
    if listed > MOST_COUNTED:
        return (
            f"{listed:,} classes are listed, of which the first {MOST_COUNTED:,} were compared "
            f"between the arms; {with_labels:,} of these have labels."
        )
    if listed <= MOST_CLASSES or with_labels > MOST_CLASSES:
        return ""
    return (
        f"{listed:,} classes are listed and {with_labels:,} have labels. With more than "
        f"{MOST_CLASSES} listed classes there is no student, and the bound may be smaller: list "
        "the classes that the model was trained on."
    )


def _by_row(unit: str, *, violated: bool) -> str:
    """Return what a bound for single rows says of a declaration for a holder of several rows."""
    advice = f"To test all rows of one {unit!r}, set plan.privacy_unit to the column that names it."
    if not violated:
        return (
            f"The declaration is for one {unit!r}, and single rows were tested: all rows of one "
            f"{unit!r} together may lose more. {advice}"
        )
    return (
        f"The declaration is for one {unit!r}, which implies the same for each of its rows. The "
        f"test of rows assumes that the labels of one {unit!r} are independent given the "
        f"features. {advice}"
    )


_REVERSED = 6.0
"""Standard errors; by chance more is seen in one of 10^9 audits."""


def reversed_labels(tallies: Tallies, random: np.random.Generator) -> str:
    """Return that the target seems to know labels the wrong way round, or "": no accusation.

    Its predictions must be right less often on training records than on matched holdout records,
    and less often than the proxy alone expects. The first by itself says nothing: an honest model
    that remembers noise predicts training records by that noise, and is right half of the time,
    where holdout records are predicted by what holds for all records. Noise is not wrong more often
    than the proxy expects of the same predictions. So bets on the opposite cannot be made, either:
    they would accuse that model.
    """
    beside = match(tallies.odds, tallies.control_odds, random=random, classes=tallies.classes)[0]
    right, expected, deviation = _against_proxy(tallies.odds)
    if right > expected - _REVERSED * deviation or _lead(beside) > -_REVERSED:
        return ""
    return (
        f"The target knows training labels the wrong way round: where the earlier model expects "
        f"{expected:,.0f} of its predictions to be right, {right:,.0f} are. What it remembers can "
        "be read by turning its answers round, and this bound does not see it. See that the "
        "classes are in the order of the model's probabilities, and that it was trained on the "
        "labels that are audited."
    )


def _against_proxy(odds: tuple[OddsTally, ...]) -> tuple[float, float, float]:
    """Return how many predictions are right, how many the proxy expects, and the deviation."""
    right = expected = variance = 0.0
    for one in odds:
        made = one.predictions()
        chance, records = expit(made.prior), made.right + made.wrong
        right += float(made.right.sum())
        expected += float(records @ chance)
        variance += float(records @ (chance * (1.0 - chance)))
    return right, expected, math.sqrt(variance)


def _lead(tables: Matched) -> float:
    """Return by how many standard errors training records are right more often than holdout's."""
    total = tables.records + tables.control
    share = (tables.right + tables.control_right) / np.maximum(total, 1)
    spread = tables.records * tables.control * share * (1.0 - share) / np.maximum(total - 1, 1)
    variance = float(spread.sum())
    more = float((tables.right - tables.records * share).sum())
    return more / math.sqrt(variance) if variance > 0.0 else 0.0


_WORSE = 0.03
"""Nats of log-loss by which the probabilities are worse, on average."""
_SURELY_WORSE = 3.5
"""Standard errors of that, in each arm: by chance both are seen in one of 10^7 audits."""


def worse_than_shares(tallies: Tallies) -> str:
    """Return that the target's probabilities are worse than constant ones, or "": no accusation.

    A model that fits the noise in privatised labels does the same honestly, so nothing can rest on
    it. Of more than two classes, the class that the target raised most is told from the others.
    """
    training, holdout = _losses(tallies.odds), _losses(tallies.control_odds)
    if training is None or holdout is None:
        return ""
    return (
        "The target's probabilities are further from the labels than the share of each class is, "
        f"on training records (log-loss {training[0]:.2f} beside {training[1]:.2f}) and on holdout "
        f"records ({holdout[0]:.2f} beside {holdout[1]:.2f}). A model that fits noise does so; but "
        "also one that reads other features here than in training (exchanged among rows, or in "
        "other units), and then this bound does not show what it remembers. See that the table "
        "holds the features that training read."
    )


def _losses(odds: tuple[OddsTally, ...]) -> tuple[float, float] | None:
    """Return mean log-loss of the target and of the shares; None unless the former is larger."""
    cells = [one.cells() for one in odds]
    target = np.concatenate([one.target for one in cells])
    log_odds = np.concatenate([target, -target])  # of what the label is: the class, or another
    counts = np.concatenate([one.ones for one in cells] + [one.zeros for one in cells])
    ones, records = counts[: target.size].sum(), counts.sum()
    if not 0 < ones < records:
        return None
    shares = np.repeat([ones / records, 1.0 - ones / records], target.size)
    loss, of_shares = np.logaddexp(0.0, -log_odds), -np.log(shares)
    mean = float(np.average(loss - of_shares, weights=counts))
    variance = float(np.average((loss - of_shares - mean) ** 2, weights=counts))
    if mean < max(_WORSE, _SURELY_WORSE * math.sqrt(variance / records)):
        return None
    return float(np.average(loss, weights=counts)), float(np.average(of_shares, weights=counts))
