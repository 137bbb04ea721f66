"""The report for a wider audience: pages that are made of public statements, and of nothing else.

No function here takes a record or a warehouse: what labels decide cannot be shown by mistake.
"""

import dataclasses
import datetime as dt
import logging
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from flows.next_steps import Card, statement_card
from flows.report.drawn import LIST
from flows.report.known_windows import WINDOWS
from flows.report.pages import (
    INDEX,
    MARK,
    MODELS,
    page_names,
    remove_others,
    remove_unfinished,
    replace_page,
    report_folder,
)
from flows.report.signs import SIGNS, Sign
from flows.report.study_page import STUDIES, find_studies
from flows.report.templating import rendered
from privcore.lower_bounds import Verdict
from privcore.publication.statement import DOUBTFUL
from workers.plain_text import plain_text
from workers.publication.erased import Entry, ErasedStatement, Published
from workers.publication.published_nights import PublishedNight, nights_of
from workers.publication.statement_conclusion import conclusion_of
from workers.publication.statement_row import PublicVerdict
from workers.publication.threshold_night import ThresholdNight
from workers.versions import CODE_VERSION

_log = logging.getLogger(__name__)
PUBLIC_SIGNS: dict[PublicVerdict, Sign] = {
    PublicVerdict.VIOLATED: dataclasses.replace(
        SIGNS[Verdict.VIOLATED],
        meaning="The statement refutes the declared epsilon, if the holdout was drawn at random "
        "from the rows trained on, and no earlier model saw it.",
    ),
    PublicVerdict.DOUBTFUL: dataclasses.replace(
        SIGNS[Verdict.NOT_EVALUABLE],
        word="doubtful",
        meaning="What the test assumes is doubtful: no conclusion.",
    ),
    PublicVerdict.VACUOUS: SIGNS[Verdict.VACUOUS],
    PublicVerdict.NOT_REFUTED: dataclasses.replace(
        SIGNS[Verdict.UNDECLARED],  # no sign of approval: noise can hide a violation
        word="not refuted",
        meaning="The statement does not refute the declaration. That is no proof of it: few "
        "records and the statement's own noise can hide a violation.",
    ),
}


ERASED = dataclasses.replace(
    SIGNS[Verdict.NOT_EVALUABLE],
    word="erased",
    meaning="The statement was erased after it was published. Nothing is concluded: an erased "
    "statement may have refuted the declaration.",
)
_TOGETHER = (
    "All nights together refute that every declaration was true, each night held against its own."
)
_INCOMPLETE = (
    "Nothing is concluded of all nights together, because a statement among them was erased."
)


@dataclass(frozen=True, slots=True)
class ShownStatement:
    """A model's day as pages show it, by its first statement, which counts.

    Attributes:
        statement: what was published first, or what stays of it.
        sign: how its verdict looks.
        conclusion: what it concludes, in words.
        card: what that allows, and what to try next.
        later: the statements after it about the same day, each in words.
        together: what all nights prove together, in words; "" where they refute nothing.
        standing: whether they refute together; None where one of them was erased.
        erased: whether the statement was erased.
        asked: whether it is an answer of a test over nights, which has no figures.
        acknowledged: last day until which a person acknowledged the violation; None if nobody did.
        href: the page of its model.
        latest: whether it is of the newest day of all.
    """

    statement: Entry
    sign: Sign
    conclusion: str
    card: Card
    later: tuple[str, ...]
    together: str
    standing: bool | None
    erased: bool
    asked: bool
    acknowledged: dt.date | None
    href: str
    latest: bool


def write_public_report(
    statements: Sequence[Entry],
    folder: str | pathlib.Path,
    *,
    acknowledged: Mapping[tuple[str, dt.date], dt.date] | None = None,
) -> pathlib.Path:
    """Write the report of all statements into a folder and return the path of its first page.

    The same statements give the same files. Pages of an exact report that lie there are taken away.

    Of several statements about one model and day the first counts, and all of them are shown. Who
    asks again knows what the first one concluded, and could ask until the noise is kind.

    Args:
        statements: all of them, in the order of publication, erased ones too.
        folder: where the report goes; it is made if need be.
        acknowledged: last day of an acknowledgement, by model and day. It is shown only where a
            statement refutes the declaration, so it tells nothing that no statement tells.
    """
    root = report_folder(folder, mode=0o755)
    for exact in (LIST, WINDOWS):  # digests of exact pages tell who guesses them
        (root / exact).unlink(missing_ok=True)
    remove_unfinished(root)
    remove_unfinished(root / MODELS)
    pages = page_names({made.model for made in statements})
    newest = max((made.day for made in statements), default=None)
    shown = [
        _shown(night, f"{MODELS}/{page}", newest, acknowledged or {})
        for model, page in sorted(pages.items())
        for night in nights_of(statements, model)
    ]
    for model, page in pages.items():
        of_model = [one for one in shown if one.statement.model == model]
        drawn = rendered(
            "public_model.html.j2",
            model=plain_text(model),
            nights=of_model[::-1],
            doubtful=DOUBTFUL,
            version=CODE_VERSION,
        )
        replace_page(root / MODELS / page, drawn)
    last = {one.statement.model: one for one in shown}
    worst_first = sorted(
        last.values(), key=lambda one: (not one.latest, not one.standing and one.sign.rank)
    )
    replace_page(
        root / INDEX,
        rendered(
            "public_index.html.j2",
            day=newest,
            nights=worst_first,
            sentence=_sentence([one for one in worst_first if one.latest]),
            signs=sorted((*PUBLIC_SIGNS.values(), ERASED), key=lambda sign: sign.rank),
            version=CODE_VERSION,
        ),
    )
    remove_others(root / MODELS, set(pages.values()))
    remove_others(root, {INDEX})
    if studies := find_studies(root, mark=MARK):
        _log.warning(
            "The public report's folder holds studies (%d in %s), which no statement covers: take "
            "them away, unless everybody may read their figures.",
            len(studies),
            root / STUDIES,
        )
    return root / INDEX


def _shown(
    night: PublishedNight,
    href: str,
    newest: dt.date | None,
    acknowledged: Mapping[tuple[str, dt.date], dt.date],
) -> ShownStatement:
    made = night.first
    refuted = isinstance(made, Published) and made.verdict == PublicVerdict.VIOLATED
    erased = isinstance(made, ErasedStatement)
    return ShownStatement(
        made,
        ERASED if isinstance(made, ErasedStatement) else PUBLIC_SIGNS[made.verdict],
        plain_text(conclusion_of(made)),
        statement_card(made, stands_violated=bool(night.standing)),
        tuple(
            plain_text(f"Statement {one.statement_id}, published later: {conclusion_of(one)}")
            for one in night.statements[1:]
        ),
        " ".join(_together(night)),
        night.standing,
        erased,
        isinstance(made, ThresholdNight),
        acknowledged.get((made.model, made.day)) if refuted else None,
        href,
        made.day == newest,
    )


def _together(night: PublishedNight) -> Iterator[str]:
    """Say what nights prove together: all of them, and those of the last days."""
    if night.standing is not False:
        yield _INCOMPLETE if night.standing is None else _TOGETHER
    for span in night.windows:
        yield f"The nights of the last {span} days refute it together, by themselves."


def _sentence(nights: Sequence[ShownStatement]) -> str:
    """Return what the newest day came to, in one sentence without its full stop."""
    if not nights:
        return "Nothing was published yet"
    refuting = PUBLIC_SIGNS[PublicVerdict.VIOLATED]
    violated = sum(one.sign is refuting or bool(one.standing) for one in nights)
    erased = sum(one.erased for one in nights)
    models = f"{len(nights)} model{'s' if len(nights) > 1 else ''}"
    gone = f", and {erased} statement{'s were' if erased > 1 else ' was'} erased" if erased else ""
    if not violated:
        return f"No declaration of {models} is refuted{gone}"
    return f"The declarations of {violated} of {models} are refuted{gone}"
