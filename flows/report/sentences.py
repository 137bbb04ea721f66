"""Sentences on the figures. Every sentence claims at most what its figure proves."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence

from flows.report.canvas import SIGNS
from flows.report.history import History, worst_first
from privcore.lower_bounds.question import refutes
from privcore.lower_bounds.verdicts import ReasonCode, Verdict
from privcore.rounding import ABSENT, down, exact, guarantee, up
from workers.audit.declaration import family_of
from workers.plan import Plan
from workers.warehouse.schema import AuditRow, BoundRow, PromiseRow, SliceRow

_VIOLATED_NAMED = 10
_NAMED = 3
"""The most models of one kind that are named; the others are counted."""


def headline(histories: Sequence[History], night: dt.date | None) -> list[str]:
    """Return how all models stand, in sentences, the worst first.

    Every violated model comes first, by its name and whatever the night (up to ten). Failed models
    and those with a doubt are named up to three, and the others are counted by their verdict.
    Models without a record of the newest night are named.
    """
    if not histories:
        return ["No audit has been recorded yet."]
    ordered = worst_first(histories)
    of = {word: [one for one in ordered if one.card.verdict is word] for word in Verdict}
    by_size = [one for one in of[Verdict.INCONCLUSIVE] if _is_by_size(one)]
    doubted = [one for one in of[Verdict.INCONCLUSIVE] if not _is_by_size(one)]
    nothing = not of[Verdict.VIOLATED] and not of[Verdict.NOT_REFUTED]
    parts = [_lead(of, by_size, len(ordered))]
    if nothing:
        parts.append(_listed("", [f"{one.model}: {_step(one)}" for one in by_size], "; "))
    parts += [
        _listed("Failed: ", [_because(one) for one in of[Verdict.FAILED]]),
        _listed("Inconclusive: ", [_because(one) for one in doubted]),
        _counted(of, [] if nothing else by_size),
        _listed(
            "Without a record of this night: ",
            [f"{one.model} (last on {long_day(one.latest.day)})"
             for one in ordered if night is not None and one.latest.day < night],
        ),
    ]  # fmt: skip
    return [part for part in parts if part]


def _lead(of: dict[Verdict, list[History]], by_size: Sequence[History], models: int) -> str:
    """Name what is violated, or say that nothing is refuted, and whether anything could be."""
    if of[Verdict.VIOLATED]:
        named = [_violation(one) for one in of[Verdict.VIOLATED]]
        return _listed("VIOLATED: ", named, "; ", most=_VIOLATED_NAMED)
    if of[Verdict.NOT_REFUTED]:
        return "No declaration is refuted."
    found = len(of[Verdict.INCONCLUSIVE])
    are = f"{found} of {models} {'models are' if models > 1 else 'model is'} inconclusive"
    yet = " yet" if by_size else ""
    return f"No declaration is refuted, and none could be{yet}{f': {are}' if found else ''}."


def _violation(history: History) -> str:
    """Name a violated model, with what refutes its declaration."""
    night, card = history.latest, history.card
    declared = f"declared {guarantee(night.epsilon_declared, night.delta_declared)}"
    not_applied = card.code is ReasonCode.MECHANISM_NOT_APPLIED
    if card.code is ReasonCode.THIS_NIGHT or (
        not_applied and refutes(night.epsilon_lower or 0.0, night.epsilon_declared or 0.0)
    ):
        bound = down(night.epsilon_lower or 0.0, beyond=night.epsilon_declared or 0.0)
        said = f"{history.model} leaks at least {bound}, {declared}"
    elif not_applied:
        said = f"{history.model}'s file holds the table's labels unchanged, {declared}"
    elif card.code is ReasonCode.NIGHTS_TOGETHER:
        said = f"{history.model}, by its {night.nights_together} nights together, {declared}"
    else:
        said = f"{history.model}, by an earlier night, {declared}"
    first = history.violated_since
    since = f", since {long_day(first)}" if first and first < night.day else ""
    failed = night.verdict == Verdict.FAILED and night.reason_code
    return f"{said}{since}{f' (last night failed: {failed})' if failed else ''}"


def _is_by_size(history: History) -> bool:
    return history.card.code is not None and history.card.code.by_size


def _because(history: History) -> str:
    return f"{history.model} ({history.card.code})"


def _step(history: History) -> str:
    text = history.card.step.text
    return f"{text[0].lower()}{text[1:].removesuffix('.')}"


def _counted(of: dict[Verdict, list[History]], by_size: Sequence[History]) -> str:
    rest = (
        (len(by_size), "inconclusive by size"),
        *((len(of[word]), SIGNS[word].word) for word in (Verdict.NOT_REFUTED, Verdict.UNDECLARED)),
    )
    return _listed("", [f"{number} {words}" for number, words in rest if number])


def _listed(before: str, parts: Sequence[str], between: str = ", ", most: int = _NAMED) -> str:
    """Name the first few parts in a sentence and count the others; "" where there are none."""
    more = [f"and {len(parts) - most} more"] if len(parts) > most else []
    return f"{before}{between.join([*parts[:most], *more])}." if parts else ""


def tally_sentence(history: History) -> str:
    """Return how often each verdict was reached, the worst first."""
    counts = Counter(Verdict(night.verdict) for night in history.nights)
    ordered = [verdict for verdict in Verdict if counts[verdict]]
    nights = len(history.nights)
    if len(ordered) == 1:
        return f"{SIGNS[ordered[0]].word.capitalize()} on {_nights(nights, every=True)}."
    counted = enumeration([f"{SIGNS[verdict].word} on {counts[verdict]}" for verdict in ordered])
    return f"In {_nights(nights)}: {counted}."


def control_sentence(history: History) -> str:
    """Return on which days the control game leaked."""
    played = [night for night in history.nights if night.control_epsilon_lower is not None]
    if not played:
        return ""
    leaks = [night for night in played if night.control_epsilon_lower]
    if not leaks:
        return (
            "The same attack on the holdout, which training never saw, proved no leak on any night."
        )
    most = max(night.control_epsilon_lower or 0.0 for night in leaks)
    which = "" if len(leaks) > 7 else f" ({short_days([night.day for night in leaks])})"
    return (
        f"The same attack on the holdout, which training never saw, leaked on {len(leaks)} of "
        f"{_nights(len(played))}{which}, up to "
        f"{down(most, beyond=0.0)}: there, the earlier checkpoint does not know the day\u2019s "
        "labels, and figures that rely on it are no evidence. The bound does not rely on it."
    )


def _nights(number: int, *, every: bool = False) -> str:
    if number == 1:
        return "the one night" if every else "1 night"
    return f"all {number} nights" if every else f"{number} nights"


def count(value: int | None) -> str:
    """Return a whole number with its thousands apart; `ABSENT` for None."""
    return ABSENT if value is None else f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def percent(share: float) -> str:
    """Return a share as a percentage, without noise from binary fractions: 0.95 -> "95%"."""
    return f"{round(share * 100.0, 6):g}%"


def long_day(day: dt.date) -> str:
    """Return a day for a sentence: "14 January 2013"."""
    return f"{day.day} {day:%B %Y}"


def short_days(days: Sequence[dt.date]) -> str:
    """Return days for a list: "14, 15 Jan and 2 Feb"; the caller's order is kept."""
    parts: list[str] = []
    for position, day in enumerate(days):
        last_of_month = position + 1 == len(days) or days[position + 1].month != day.month
        parts.append(f"{day.day} {day:%b}" if last_of_month else str(day.day))
    return enumeration(parts)


def enumeration(parts: Sequence[str]) -> str:
    """Return parts joined as in a sentence: "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


CONFIDENT = 0.1
"""The guess fraction that sentences are about; where the game had none such, the nearest."""


_FAMILIES = {"pure_dp": "pure", "approx_dp": "(epsilon, delta)", "gaussian": "Gaussian"}


def family_name(family: str) -> str:
    """Return how a family of guarantees is called in text."""
    return _FAMILIES.get(family, family)


def curve_sentence(night: AuditRow, bounds: Sequence[BoundRow]) -> str:
    """Return where the game's bound is largest, in the family that the claim is tested in."""
    family = family_of(night.delta_declared, night.mechanism).name
    best = {
        arm: max(
            (row for row in bounds if row.arm == arm and row.family == family),
            key=lambda row: row.epsilon_lower,
            default=None,
        )
        for arm in ("audit", "control")
    }
    audit, control = best["audit"], best["control"]
    if audit is None:
        return ""
    if audit.epsilon_lower == 0.0:
        found = "At no share of guesses does the game prove a leak"
    else:
        found = (
            f"The game proves most, {down(audit.epsilon_lower)}, where the adversary guesses on "
            f"{percent(audit.fraction)} of the records: {audit.correct:.1f} of "
            f"{count(audit.guesses)} guesses are right on average"
        )
    if control is None:
        return f"{found}."
    if control.epsilon_lower > 0.0:
        return f"{found}; on the holdout it proves {down(control.epsilon_lower)}."
    return f"{found}{', nor' if audit.epsilon_lower == 0.0 else '; it proves none'} on the holdout."


def fidelity_sentence(night: AuditRow) -> str:
    """Return how well both models predict labels that neither was trained on; "" without it."""
    target, proxy = night.target_log_loss, night.proxy_log_loss
    if target is None or proxy is None:
        return ""
    than = "less well than" if proxy > target else "no worse than"
    return (
        f"On holdout records the earlier model\u2019s log-loss is {proxy:.3f} nats and the "
        f"target\u2019s {target:.3f} (lower is better): it predicts them {than} the target."
    )


def slices_sentence(slices: Sequence[SliceRow]) -> str:
    """Return in which slice most is proved; "" where none has enough records to be shown."""
    if not slices:
        return ""
    worst = max(slices, key=lambda row: row.epsilon_lower)
    where = f"{worst.column} is {worst.value or 'empty'}"
    most = f"Most is proved where {where}: {down(worst.epsilon_lower)}."
    return (
        f"{most if worst.epsilon_lower > 0.0 else 'In no slice is a leak proved.'} The "
        "significance is shared by all slices, so one of them proves less than the whole."
    )


def assumed(night: AuditRow) -> str:
    """Return what the bound of a night assumes."""
    if night.secret == "released_labels":  # noqa: S105
        return "It holds if the mechanism reads nothing but the label and a coin for each record."
    if night.secret == "membership":  # noqa: S105
        return "It holds if the rows were split into training and holdout at random."
    return (
        "It holds if the holdout was drawn at random from the rows trained on, no earlier model "
        "saw it, and fresh labels would have been predicted no better than those of matched "
        "holdout records."
    )


def guessing_sentence(night: AuditRow) -> str:
    """Say what becomes of "not above guessing", which can be refuted and never proven."""
    bound, ceiling = night.epsilon_lower, up(night.epsilon_ceiling)
    if bound is None:
        return "Nothing was measured."
    could = f"this night could have proved at most {ceiling}, its ceiling"
    if bound > 0.0:
        return f"Refuted: the loss is at least {down(bound)}; {could}."
    return (
        f"Not refuted, and never proven: another attack may win more, and {could}. Nothing here "
        "proves that the model is safe."
    )


def played(night: AuditRow) -> str:
    """Return how often the game was played, from which seed, and at which delta."""
    plan = Plan.model_validate_json(night.plan)
    delta = plan.delta if night.delta_declared is None else night.delta_declared
    return f"{count(plan.repetitions)} repetitions, seed {plan.seed}, delta {exact(delta)}"


def nearness_sentence(night: AuditRow, promises: Iterable[PromiseRow]) -> str:
    """Say how near the attack's surest guesses came to what is declared; "" where it is unknown."""
    games = [
        row for row in promises if row.guarantee == "declared" and row.quantity == "correct_guesses"
    ]
    if not games:
        return ""
    game = min(games, key=lambda row: abs((row.parameter or 0.0) - CONFIDENT))
    confidence = "" if night.significance is None else f" ({percent(1.0 - night.significance)})"
    achieved = game.achieved or 0.0
    beside = "more than that" if achieved > game.value else "within that"
    return (
        f"Of its {count(game.guesses)} surest guesses, an attacker has at most "
        f"{count(int(game.value))} right, with high confidence{confidence}; the audit\u2019s "
        f"attack had {achieved:.1f} on average, {beside}."
    )
