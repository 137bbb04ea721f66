"""The page of public statements: made of these alone, so nothing else can be shown by mistake."""

import dataclasses
import datetime as dt
import pathlib
from collections.abc import Sequence

import jinja2

from flows.report.signs import SIGNS, Sign
from flows.report.templating import environment
from privcore.lower_bounds import Verdict
from workers.plain_text import plain_text
from workers.publication.statement_conclusion import conclusion_of
from workers.publication.statement_row import PublicVerdict, Statement
from workers.versions import CODE_VERSION

_FOLDER = pathlib.Path(__file__).with_name("templates")
_SHOWN = dt.timedelta(days=28)
"""The page shows the last statement of each model, and all of this time before the newest."""
_SIGNS: dict[PublicVerdict, Sign] = {
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


def statements_page(statements: Sequence[Statement]) -> str:
    """Return the page of all statements, given in the order of publication."""
    newest = max((one.day for one in statements), default=None)
    last = {one.model: one.statement_id for one in sorted(statements, key=lambda one: one.day)}
    shown = [
        one
        for one in statements
        if last[one.model] == one.statement_id or (newest and one.day > newest - _SHOWN)
    ]
    shown.sort(key=lambda one: (-one.day.toordinal(), _SIGNS[one.verdict].rank, one.model))
    pages = environment()
    own = pages.overlay(
        loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(_FOLDER), pages.loader])  # type: ignore[list-item]
    )
    return own.get_template("statements.html.j2").render(
        day=newest,
        count_all=len(statements),
        statements=[
            (one, plain_text(one.model), _SIGNS[one.verdict], plain_text(conclusion_of(one)))
            for one in shown
        ],
        signs=sorted(_SIGNS.values(), key=lambda sign: sign.rank),
        version=CODE_VERSION,
    )
