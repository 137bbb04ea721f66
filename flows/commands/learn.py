"""`privaudit demo`, and `explain`: a guarantee in words, or an audit with what to do next."""

import dataclasses
import datetime as dt
import pathlib
from typing import TYPE_CHECKING

import typer

from flows.commands.options import LEARN, ConfigOption, JsonOption, command, open_warehouse
from flows.commands.printing import (
    begin_prefect,
    console,
    json_text,
    print_audits,
    print_table,
    shown_progress,
)

if TYPE_CHECKING:
    from flows.learn.explain import Answer
    from flows.next_steps import Card
    from privcore.upper_bounds import Promised

app = typer.Typer()


@command(app, panel=LEARN)
def demo(
    *,
    start: dt.date = dt.date(2013, 2, 1),
    days: int = 14,
    folder: pathlib.Path = pathlib.Path("demo"),
    as_json: JsonOption = False,
) -> None:
    """Audit three models on real days: lake, training, nightly audits, report.

    One declares nothing, one keeps its epsilon of 2, and one drops its privatisation in the middle,
    which is found the same night. Interrupted, the same command goes on where it was.

    Example: privaudit demo --start 2013-06-01 --days 21

    Options:
        start: First audited day of 2013.
        days: Number of consecutive days to audit.
        folder: Folder for the lake, the warehouse and the report.
    """
    begin_prefect()
    from flows.learn.demo import run_demo, sentences

    with shown_progress():
        result = run_demo(folder=folder, start=start, days=days)
    print_audits(result.audits, as_json=as_json)
    aside = as_json
    typer.echo(
        f"{result.rows:,} labelled flights; {result.dropped:,} without an arrival delay dropped.",
        err=aside,
    )
    typer.echo(f"Report: {result.report}", err=aside)
    for sentence in sentences(result):
        typer.echo(sentence, err=aside)


@command(app, panel=LEARN)
def explain(
    audit_id: str | None = None,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    neighbors: str | None = None,
    mechanism: str | None = None,
    parameter: list[str] | None = None,
    prior: float | None = None,
    records: int | None = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a guarantee promises: the most that any attacker can achieve.

    With an AUDIT_ID, say what that audit's verdict allows, and what to do next.

    Examples: privaudit explain 0f3c2a91; privaudit explain --epsilon 4 --delta 1e-5;
    privaudit explain --epsilon 1 --records 10000 --prior 0.5;
    privaudit explain --mechanism dp_sgd --parameter noise_multiplier=1.1
    --parameter sampling_rate=0.01 --parameter steps=1000 --delta 1e-5

    Options:
        audit_id: An audit's id, or how it begins: explain it instead of a guarantee.
        epsilon: The guarantee's epsilon.
        delta: The guarantee's delta.
        neighbors: replace (the default), add_remove or simulate.
        mechanism: Account for a mechanism, by a manifest's name for it.
        parameter (NAME=VALUE): One of its parameters.
        prior: Probability that a blind guess is right.
        records: Number of records that an attacker guesses on.
    """
    if audit_id is not None:
        if epsilon is not None or mechanism is not None or parameter:
            raise typer.BadParameter("Give an AUDIT_ID, or a guarantee, and not both.")
        _print_card(*_card(audit_id, config), as_json=as_json)
        return
    from flows.learn import explain as words

    promised = words.promised_by(
        epsilon=epsilon,
        delta=delta,
        neighbors=neighbors,
        mechanism=mechanism,
        parameters=parameter or [],
    )
    _print(promised, words.explain(promised, prior=prior, records=records), as_json=as_json)


def _card(audit_id: str, config: ConfigOption) -> "tuple[Card, str]":
    """Return the card of an audit, and whether it is not the day's."""
    from flows.commands.verify import not_the_days
    from flows.next_steps import cards_of
    from workers.warehouse.nights_together import audited_nights

    _, warehouse = open_warehouse(config)
    whole = warehouse.whole_id(audit_id)
    shown = audited_nights(warehouse, [whole])
    return next(card for _, card in cards_of(shown)), not_the_days(warehouse, whole)


def _print_card(card: "Card", remark: str, *, as_json: bool) -> None:
    if remark:
        typer.echo(remark, err=as_json)
    if as_json:
        typer.echo(json_text(dataclasses.asdict(card)))
        return
    for sentence in (f"{card.said}.", card.allows, card.stands_on, card.figures, card.odds):
        if sentence:
            typer.echo(sentence)
    typer.echo(f"Next ({card.step.role}): {card.step.text}")


def _print(promised: "Promised", answers: "list[Answer]", *, as_json: bool) -> None:
    from flows.learn import explain as words

    if as_json:
        content = {
            "epsilon": promised.epsilon,
            "delta": promised.delta,
            "neighbors": str(promised.neighbors),
            "promises": [dataclasses.asdict(answer) for answer in answers],
        }
        typer.echo(json_text(content))
        return
    out = console()
    out.print(words.guarantee_sentence(promised), highlight=False)
    print_table(words.answers_table(answers), out)
    for answer in answers:
        if answer.sentence:
            out.print(f"- {answer.sentence}", highlight=False)
