"""Sentences on the figures. Every sentence claims at most what its figure proves."""

import datetime as dt
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from flows.report.history import AuditedNight, History
from flows.report.signs import SIGNS
from privcore.lower_bounds.verdicts import Verdict
from privcore.rounding import (
    ABSENT,
    at_least,
    down,
    exact,
    guarantee,
    odds_at_least,
    odds_at_most,
    up,
)
from workers.remark import doubts_among
from workers.warehouse.schema import AuditRow

NAMED_AT_MOST = 3
"""The most models that are named in the night's sentence; the others are counted."""


def night_sentence(latest: Mapping[str, AuditedNight], night: dt.date | None = None) -> str:
    """Return how all models stand in one sentence, each by its own last record.

    For example "1 of 3 models consistent; delays-broken leaks at least 0.9, declared 0.5;
    delays-plain declares nothing and leaks at least 1.1".

    Args:
        latest: each model's last record, the worst first.
        night: the newest night; models that were not audited on it are named as late.
    """
    if not latest:
        return "No audit has been recorded yet"
    verdicts = {model: Verdict(last.verdict) for model, last in latest.items()}
    violated = [
        f"{model} {_leaks(last)}"
        for model, last in latest.items()
        if verdicts[model] is Verdict.VIOLATED
    ]
    standing = [
        f"{model} is violated over all nights: together they refute what was declared for them"
        for model, last in latest.items()
        if last.stands_violated and verdicts[model] is not Verdict.VIOLATED
    ]
    undeclared = [
        f"{model} declares nothing{_and_leaks(last)}"
        for model, last in latest.items()
        if verdicts[model] is Verdict.UNDECLARED
    ]
    late = [
        f"{model} was last audited on {long_day(last.day)}"
        for model, last in latest.items()
        if night is not None and last.day < night
    ]
    parts = [_calm(latest, verdicts)]
    if violated:
        parts.append("; ".join(_shortened(violated, "more leak beyond what was declared")))
    if standing:
        parts.append("; ".join(_shortened(standing, "more stand violated")))
    if undeclared:
        parts.append("; ".join(_shortened(undeclared, "more declare nothing")))
    parts += _told(verdicts, (Verdict.PRIVATISED, Verdict.NOT_A_GUARANTEE, Verdict.VACUOUS))
    parts += _told(verdicts, (Verdict.DOUBTFUL, Verdict.PROXY_UNFAITHFUL, Verdict.NOT_EVALUABLE))
    if late:
        parts.append("; ".join(_shortened(late, "more were not audited on the newest night")))
    return "; ".join(parts)


def _told(verdicts: dict[str, Verdict], wanted: Sequence[Verdict]) -> list[str]:
    """Say of each of these verdicts which models have it."""
    words = {
        Verdict.PRIVATISED: "the labels of {} were privatised before training saw them",
        Verdict.NOT_A_GUARANTEE: "the declaration of {} is not a guarantee",
        Verdict.VACUOUS: "what {} declared says nothing",
        Verdict.DOUBTFUL: "no conclusion about {}, where a leak may be hidden",
        Verdict.PROXY_UNFAITHFUL: "no conclusion about {}, whose proxy is wrong",
        Verdict.NOT_EVALUABLE: "no figure for {}",
    }
    named = ((verdict, _named(verdicts, verdict)) for verdict in wanted)
    return [words[verdict].format(models) for verdict, models in named if models]


def model_sentence(night: AuditRow) -> str:
    """Return what one night says of its model, in one sentence without a full stop."""
    if night.epsilon_lower is None:
        return "No figure, and so no verdict"
    verdict, bound = Verdict(night.verdict), night.epsilon_lower
    declared = guarantee(night.epsilon_declared, night.delta_declared)
    stands = "nothing was declared" if night.epsilon_declared is None else f"declared {declared}"
    if verdict is Verdict.NOT_A_GUARANTEE:
        stands = "the declaration is not a guarantee"
    if verdict is Verdict.VACUOUS:
        stands = f"the declared {declared} says nothing"
    if verdict is Verdict.PRIVATISED:
        stands = "the labels were privatised before training saw them, so nothing is refuted"
    if verdict is Verdict.VIOLATED:
        return f"Leaks at least {_bound(night)}, more than the declared {declared}"
    if why := _inconclusive(night):
        return f"No conclusion: {why}; {stands}"
    if bound == 0.0:
        return f"No leak was proved, which does not prove that there is none; {stands}"
    if verdict is Verdict.CONSISTENT:
        return f"Leaks at least {_bound(night)}, which does not refute the declared {declared}"
    return f"Leaks at least {_bound(night)}; {stands}"


def _inconclusive(night: AuditRow) -> str:
    """Say why a night concludes nothing; else nothing."""
    if night.verdict == Verdict.PROXY_UNFAITHFUL:
        return "too few records are held out, and the proxy is wrong"
    if night.verdict != Verdict.DOUBTFUL:
        return ""
    doubts = doubts_among(night.remarks)
    # Stored rows may be forged: of a doubtful one without doubts nothing more is known.
    return doubts[0].meaning[0].lower() + doubts[0].meaning[1:-1] if doubts else "it is doubtful"


def meaning(night: AuditRow) -> str:
    """Return what a night's bound means for a person who is to guess a label."""
    if night.epsilon_lower is None:
        return night.reason
    parts = [_odds_sentence(night)] if night.epsilon_lower > 0.0 else []
    if night.epsilon_declared is not None:
        odds = f"become at most {odds_at_most(night.epsilon_declared)}"
        parts.append(
            f"Under the declared {exact(night.epsilon_declared)}, even odds "
            f"{odds if night.epsilon_declared else 'stay even'}"
            f"{_except_delta(night.delta_declared)}."
        )
    if night.epsilon_ceiling is not None and night.records is not None:
        ceiling = up(night.epsilon_ceiling, decimals=1)
        parts.append(
            f"With {count(night.records)} training and {count(night.control_records)} holdout "
            "records, even a perfect attack could not have proved "
            f"{f'more than {ceiling}' if night.epsilon_ceiling else 'anything'}."
        )
    return " ".join(parts)


def tally_sentence(history: History) -> str:
    """Return how often each verdict was reached, the worst first."""
    counts = Counter(Verdict(night.verdict) for night in history.nights)
    ordered = sorted(counts, key=lambda verdict: SIGNS[verdict].rank)
    nights = len(history.nights)
    if len(ordered) == 1:
        return f"{SIGNS[ordered[0]].word.capitalize()} on {_nights(nights, every=True)}."
    counted = enumeration([f"{SIGNS[verdict].word} on {counts[verdict]}" for verdict in ordered])
    return f"In {_nights(nights)}: {counted}."


def paper_sentence(history: History) -> str:
    """Return how the paper's uncorrected figure differs from what is proved; "" without one."""
    both = [night for night in history.evaluated if night.epsilon_paper is not None]
    if not both:
        return ""
    paper = [night.epsilon_paper for night in both if night.epsilon_paper is not None]
    proved = [night.epsilon_lower for night in both if night.epsilon_lower is not None]
    sentence = (
        f"The paper\u2019s figure, not corrected for choosing the best of many thresholds, "
        f"reads {_range(paper)} where {_range(proved) if any(proved) else 'nothing'} is proved"
    )
    return f"{sentence}{_paper_beyond(both)}. {_paper_on_control(both)}".strip()


def control_sentence(history: History) -> str:
    """Return on which days the control game leaked."""
    played = [night for night in history.nights if night.control_epsilon_lower is not None]
    if not played:
        return ""
    leaks = history.control_leaks
    if not leaks:
        return (
            "The control, played on records that training never saw, proved no leak on any night."
        )
    most = max(night.control_epsilon_lower or 0.0 for night in leaks)
    return (
        f"The control, played on records that training never saw, leaked on {len(leaks)} of "
        f"{_nights(len(played))}{_which(leaks)}, up to "
        f"{at_least(most)}: there, the earlier checkpoint does not know the day\u2019s labels, and "
        "figures that rely on it are no evidence. The bound does not rely on it."
    )


def _which(nights: Sequence[AuditRow]) -> str:
    """Name the days of a few nights."""
    return "" if len(nights) > 7 else f" ({short_days([night.day for night in nights])})"


def _calm(latest: Mapping[str, AuditedNight], verdicts: Mapping[str, Verdict]) -> str:
    """Say of how many models neither the last night nor the standing is against the declaration."""
    calm = sum(
        verdicts[model] is Verdict.CONSISTENT and not last.stands_violated
        for model, last in latest.items()
    )
    models = "model" if len(latest) == 1 else "models"
    return f"{calm} of {len(latest)} {models} {SIGNS[Verdict.CONSISTENT].word}"


def _and_leaks(night: AuditRow) -> str:
    """Word what is proved of a model that declares nothing."""
    return f" and leaks at least {_bound(night)}" if night.epsilon_lower else ""


def _leaks(night: AuditRow) -> str:
    """Word a violation for the night's sentence."""
    declared = guarantee(night.epsilon_declared, night.delta_declared)
    return f"leaks at least {_bound(night)}, declared {declared}"


def _named(verdicts: dict[str, Verdict], wanted: Verdict) -> str:
    """Name the models of one verdict, and count those beyond the first few."""
    return enumeration(
        _shortened([model for model, verdict in verdicts.items() if verdict is wanted], "more")
    )


def _shortened(parts: list[str], rest: str) -> list[str]:
    """Keep the first few parts and count the others."""
    if len(parts) <= NAMED_AT_MOST:
        return parts
    return [*parts[:NAMED_AT_MOST], f"{len(parts) - NAMED_AT_MOST} {rest}"]


def _bound(night: AuditRow) -> str:
    """Word the headline with as many decimals as show on which side of the declaration it is."""
    bound, declared = night.epsilon_lower or 0.0, night.epsilon_declared
    return at_least(bound, beyond=declared if declared is not None and bound > declared else 0.0)


def _odds_sentence(night: AuditRow) -> str:
    """Translate the bound into odds, which the reader can picture."""
    confidence = (
        "" if night.significance is None else f", at {percent(1.0 - night.significance)} confidence"
    )
    return (
        f"For some training label, seeing the model can turn even odds into at least "
        f"{odds_at_least(night.epsilon_lower or 0.0)}{confidence}."
    )


def _except_delta(delta: float | None) -> str:
    """Word the declaration's delta."""
    return "" if not delta else f", except with probability {exact(delta)}"


def believing_sentence(night: AuditRow) -> str:
    """Say what would be proved if the proxy were right, and whether it is; "" without a figure."""
    if night.epsilon_if_proxy_right is None:
        return ""
    control = night.control_epsilon_if_proxy_right or 0.0
    believed = night.epsilon_if_proxy_right
    proved = f"If the proxy were right, at least {at_least(believed)} would be proved"
    if believed == 0.0:
        proved = "Even if the proxy were right, nothing would be proved"
    if control == 0.0:
        return f"{proved}; the holdout does not show that it is wrong."
    return (
        f"{proved}; but it is not right: the same calculation gives at least {at_least(control)} "
        "for records that training never saw."
    )


def _nights(number: int, *, every: bool = False) -> str:
    """Word a number of nights."""
    if number == 1:
        return "the one night" if every else "1 night"
    return f"all {number} nights" if every else f"{number} nights"


def _range(values: Sequence[float]) -> str:
    """Word the span of some bounds."""
    low, high = down(min(values), decimals=1), down(max(values), decimals=1)
    return low if low == high else f"{low} to {high}"


def _paper_beyond(nights: Sequence[AuditRow]) -> str:
    """Say how often the paper's figure would have refuted the declaration, and the bound did."""
    declared = [night for night in nights if night.epsilon_declared is not None]
    if not declared:
        return ""
    beyond = sum((n.epsilon_paper or 0.0) > (n.epsilon_declared or 0.0) for n in declared)
    proved = sum((n.epsilon_lower or 0.0) > (n.epsilon_declared or 0.0) for n in declared)
    return (
        f"; it stands above the declaration on {beyond} of {_nights(len(declared))}, "
        f"the corrected bound on {proved}"
    )


def _paper_on_control(nights: Sequence[AuditRow]) -> str:
    """Say what the paper's figure reads where there is nothing to find."""
    values = [n.control_epsilon_paper for n in nights if n.control_epsilon_paper is not None]
    if not values:
        return ""
    return (
        f"On the control\u2019s records, where nothing can have been memorised, it reads "
        f"{down(statistics.median(values), decimals=1)} in the median."
    )


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
