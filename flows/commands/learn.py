"""`privaudit demo`, and `explain`: a guarantee in words, or an audit with what to do next."""

import dataclasses
import datetime as dt
import pathlib

import typer

from flows.commands.options import LEARN, ConfigOption, JsonOption, command, open_warehouse
from flows.commands.printing import (
    begin_prefect,
    console,
    json_text,
    print_audits,
    print_table,
    say,
    shown_progress,
)

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
    read = f"{result.rows:,} labelled flights; {result.dropped:,} without an arrival delay dropped."
    say(read, f"Report: {result.report}", *sentences(result), aside=as_json)


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
        _explain_audit(audit_id, config, as_json=as_json)
        return
    from flows.learn import explain as words

    promised = words.promised_by(
        epsilon=epsilon,
        delta=delta,
        neighbors=neighbors,
        mechanism=mechanism,
        parameters=parameter or [],
    )
    answers = words.explain(promised, prior=prior, records=records)
    if as_json:
        content = {
            "epsilon": promised.epsilon,
            "delta": promised.delta,
            "neighbors": str(promised.neighbors),
            "promises": [dataclasses.asdict(answer) for answer in answers],
        }
        typer.echo(json_text(content))
        return
    from flows.commands.terminal_tables import text_table

    out, theorems = console(), list(dict.fromkeys(answer.source for answer in answers))
    columns = [("the most that any attacker can achieve", False), ("", True), ("by", True)]
    rows = [(one.subject, one.text, str(theorems.index(one.source) + 1)) for one in answers]
    say(words.guarantee_sentence(promised))
    print_table(text_table(columns, rows), out)
    say(*(f"{place} {theorem}" for place, theorem in enumerate(theorems, 1)))
    say(*(f"- {answer.sentence}" for answer in answers if answer.sentence))


def _explain_audit(audit_id: str, config: ConfigOption, *, as_json: bool) -> None:
    """Print the card of an audit, and whether it is not the day's."""
    from flows.commands.verify import not_the_days
    from flows.next_steps import cards_of
    from workers.warehouse.nights_together import audited_nights

    _, warehouse = open_warehouse(config)
    whole = warehouse.whole_id(audit_id)
    (card,) = cards_of(audited_nights(warehouse, [whole]))
    say(not_the_days(warehouse, whole), aside=as_json)
    if as_json:
        typer.echo(json_text(dataclasses.asdict(card)))
        return
    step = f"Next ({card.step.role}): {card.step.text}"
    say(f"{card.said}.", card.allows, card.stands_on, card.figures, card.odds, step)
