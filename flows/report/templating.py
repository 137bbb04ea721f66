"""The templates' environment: everything escaped, nothing undefined, figures worded one way."""

import functools
import pathlib
from typing import Any

import jinja2
from markupsafe import Markup

from flows.next_steps import card_of, seen_from, with_answers, with_file
from flows.report import sentences
from flows.report.canvas import SIGNS
from privcore import rounding
from workers.plain_text import in_reading_order

FOLDER = pathlib.Path(__file__).with_name("templates")


def rendered(template: str, **content: Any) -> str:
    """Return one page as text."""
    return environment().get_template(template).render(**content)


def _shown(value: object) -> object:
    """Return what a page shows of a value; markup is ours, and stays as it is."""
    return in_reading_order(value) if type(value) is str else value


@functools.cache
def environment() -> jinja2.Environment:
    """Return the environment, made once."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "down": rounding.down,
        "up": rounding.up,
        "exact": rounding.exact,
        "significant_up": rounding.significant_up,
        "guarantee": rounding.guarantee,
        "count": sentences.count,
        "percent": sentences.percent,
        "percent_up": rounding.percent_up,
        "odds_at_most": rounding.odds_at_most,
        "long_day": sentences.long_day,
        "signs_of": SIGNS,
        "card_of": card_of,
        "seen_from": seen_from,
        "with_answers": with_answers,
        "with_file": with_file,
        "words": sentences,
        "style": Markup((FOLDER / "style.css").read_text(encoding="utf-8")),  # noqa: S704  # ours
    }
    return environment
