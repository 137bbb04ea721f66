"""One message about a week: what stands, is new, is resolved, is acknowledged, and ends soon."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

from flows.notify.alerts import Alert, Event, digest_text, report_link
from flows.notify.incidents import REACH, Course
from flows.notify.naming import named
from flows.settings import Settings
from privcore.rounding import down, guarantee
from workers.publication.erased import Entry, ErasedStatement
from workers.publication.published_nights import PublishedNight, nights_of
from workers.publication.statement_row import PublicVerdict

WEEK = dt.timedelta(days=6)
"""Time from a week's first day to its last."""
_SOON = dt.timedelta(days=7)
_NOTHING = "none"


def week_sentences(
    courses: Sequence[Course], *, audited: Iterable[str], settings: Settings, today: dt.date
) -> list[str]:
    """Return a week's digest in sentences, for people who may read the labels."""
    known = [
        (one, one.acknowledged)
        for one in courses
        if one.is_open and one.acknowledged and one.acknowledged.row.until >= today
    ]
    ending = [one for one, made in known if made.row.until <= today + _SOON]
    return [
        _listed("Refuted and not resolved", (_said(one) for one in courses if one.is_open)),
        _listed("New", (_said(one) for one in courses if one.refuted and not one.was_open)),
        _listed(
            "Resolved",
            (_name(one) for one in courses if (one.was_open or one.refuted) and not one.is_open),
        ),
        _listed("Doubtful", (_doubted(one) for one in courses if _is_doubtful(one))),
        _listed("Acknowledged", (made.sentence() for _, made in known)),
        _listed("Acknowledgement ends within a week", (_name(one) for one in ending)),
        _missed(audited, settings),
    ]


def public_week_sentences(
    statements: Sequence[Entry],
    *,
    first: dt.date,
    last: dt.date,
    acknowledged: Mapping[tuple[str, dt.date], dt.date],
    settings: Settings,
) -> list[str]:
    """Return a week's digest of statements alone."""
    stands, new, known, seen = [], [], [], set[str]()
    for model in sorted({one.model for one in statements}):
        nights = [one for one in nights_of(statements, model) if one.first.day <= last]
        week = [one for one in nights if one.first.day >= first]
        if not week:
            continue
        seen.add(model)
        refuting = [one.first.day for one in week if _refutes(one)]
        if not refuting:
            continue
        stands.append(f"{model} (statement of {refuting[-1]})")
        since = first - dt.timedelta(days=REACH)
        if not any(_refutes(one) for one in nights if since <= one.first.day < first):
            new.append(model)
        known += [
            f"{model} until {acknowledged[model, day]}"
            for day in refuting[-1:]
            if (model, day) in acknowledged
        ]
    return [
        _listed("Refuted by a statement", stands),
        _listed("New", new),
        _listed("Acknowledged", known),
        _missed(seen, settings),
    ]


def digest_alert(sentences: Sequence[str], *, day: dt.date, settings: Settings) -> Alert:
    """Return the message about the week that ends with `day`; it is about no single model."""
    who = (name for model in settings.models for name in model.notify)
    return Alert(
        event=Event.DIGEST,
        model="",
        day=day,
        subject=f"week {day - WEEK} to {day}",
        reason=digest_text(sentences),
        notify=tuple(dict.fromkeys(who)),
        report=report_link(settings),
    )


def _refutes(night: PublishedNight) -> bool:
    """Return whether a statement refutes, alone or with those before it."""
    made = night.first
    alone = not isinstance(made, ErasedStatement) and made.verdict == PublicVerdict.VIOLATED
    return alone or bool(night.standing)


def _is_doubtful(course: Course) -> bool:
    """Return whether a night concludes nothing, for what its sentence remarks on.

    Any night of the week: an owner may leave its last one without a doubt.
    """
    return not course.is_open and course.doubtful > 0


def _doubted(course: Course) -> str:
    nights = "night" if course.doubtful == 1 else "nights"
    return f"{_name(course).removesuffix(')')}, on {course.doubtful} {nights})"


def _name(course: Course) -> str:
    night = course.night
    declared = guarantee(night["epsilon_declared"], night["delta_declared"])
    return f"{named(night['model'], night['secret'])} (declared {declared})"


def _said(course: Course) -> str:
    proved = f", proved at least {down(course.bound)} on {course.night['day']}"
    return f"{_name(course).removesuffix(')')}{proved})"


def _missed(audited: Iterable[str], settings: Settings) -> str:
    there = set(audited)
    return _listed(
        "Without a result all week", (one.name for one in settings.models if one.name not in there)
    )


def _listed(what: str, items: Iterable[str]) -> str:
    said = "; ".join(item.removesuffix(".") for item in items)
    return f"{what}: {said or _NOTHING}."
