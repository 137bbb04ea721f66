"""`privaudit explain`."""

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import LEARN, CsvOption, JsonOption
from flows.commands.printing import Form, console, form_of, print_rows, print_table

if TYPE_CHECKING:
    from flows.learn.explain import Answer
    from privcore.upper_bounds import Promised

app = typer.Typer()


@app.command(rich_help_panel=LEARN)
def explain(
    epsilon: Annotated[float | None, typer.Option(help="The guarantee's epsilon.")] = None,
    delta: Annotated[float, typer.Option(help="The guarantee's delta.")] = 0.0,
    neighbors: Annotated[
        str | None, typer.Option(help="replace (the default), add_remove or simulate.")
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Account for a mechanism, by a manifest's name for it.")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="One of its parameters.")
    ] = None,
    prior: Annotated[
        float | None, typer.Option(help="Probability that a blind guess is right.")
    ] = None,
    records: Annotated[
        int | None, typer.Option(help="Records that an attacker guesses on.")
    ] = None,
    guesses: Annotated[int | None, typer.Option(help="How many of them; all by default.")] = None,
    secret_bits: Annotated[float | None, typer.Option(help="Length of a random secret.")] = None,
    advantage: Annotated[
        float, typer.Option(help="Advantage over a blind guess that is still fine.")
    ] = 0.05,
    confidence: Annotated[
        float, typer.Option(help="Confidence of the limit on correct guesses.")
    ] = 0.95,
    *,
    as_csv: CsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say what a guarantee promises: the most that any attacker can achieve.

    Examples: privaudit explain --epsilon 4 --delta 1e-5;
    privaudit explain --epsilon 1 --records 10000 --prior 0.5;
    privaudit explain --epsilon 4 --secret-bits 20;
    privaudit explain --mechanism dp_sgd --parameter noise_multiplier=1.1
    --parameter sampling_rate=0.01 --parameter steps=1000 --delta 1e-5
    """
    form = form_of(as_csv=as_csv, as_json=as_json)
    from flows.learn import explain as words

    promised = words.promised_by(
        epsilon=epsilon,
        delta=delta,
        neighbors=neighbors,
        mechanism=mechanism,
        parameters=parameter or [],
    )
    question = words.Question(
        promised,
        prior=prior,
        records=records,
        guesses=guesses,
        secret_bits=secret_bits,
        advantage=advantage,
        confidence=confidence,
    )
    _print(promised, words.explain(question), form)


def _print(promised: "Promised", answers: "list[Answer]", form: Form) -> None:
    from flows.learn import explain as words

    if form is Form.JSON:
        typer.echo(words.as_json(promised, answers))
        return
    if form is Form.CSV:
        import polars as pl

        print_rows(pl.DataFrame([dataclasses.asdict(one) for one in answers]), form)
        return
    out = console()
    out.print(words.guarantee_sentence(promised), highlight=False)
    print_table(words.answers_table(answers), out)
    for answer in answers:
        if answer.sentence:
            out.print(f"- {answer.sentence}", highlight=False)
