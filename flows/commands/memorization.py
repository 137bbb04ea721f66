"""`privaudit memorization`: which training sequences a language model would generate."""

import math
import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import JsonOption, command
from flows.commands.printing import print_study, shown_progress

if TYPE_CHECKING:
    from privcore.guarantees import DpSgd

app = typer.Typer(no_args_is_help=True, help="Find what a language model memorised.")

_TableOption = Annotated[
    str,
    typer.Option(
        help="The sequences and their column `split` (train, holdout, any other): path or URI of "
        "a Parquet or CSV file, a folder of them, or a Delta table."
    ),
]
_ColumnOption = Annotated[
    str, typer.Option(help="Column of the sequences: text, or lists of token ids.")
]


@command(app)
def audit(
    *,
    table: _TableOption,
    target: str,
    reference: str,
    output: pathlib.Path,
    column: _ColumnOption = "text",
    temperature: Annotated[list[float] | None, {"min": 0.001}] = None,
    top: Annotated[int | None, {"min": 1}] = None,
    tries: Annotated[float, {"min": 1.0}] = 1e6,
    begin: Annotated[int, {"min": 0}] = 0,
    max_bad_records: Annotated[int, {"min": 0}] = 0,
    noise_multiplier: float | None = None,
    sampling_rate: float | None = None,
    steps: int | None = None,
    as_json: JsonOption = False,
) -> None:
    """Compute how probable it is that sampling from a model gives each training sequence.

    Nothing is sampled: the probability is exact, also with temperature and top-k. Listed are the
    places of training sequences that come within reach and that the target knows better than a
    reference model does.

    Example: privaudit memorization audit --table mails.parquet --target target.json --reference
    reference.json --output memorization

    Options:
        target: Model that was trained on them (.json n-gram or .onnx).
        reference: Model that saw none of the training sequences.
        output: Folder for tables and drawings.
        temperature: Sampling temperature. Repeat the option to set it per step; the last value
            applies to all remaining steps. Default 1.
        top: Sample from the N most probable tokens (default: all).
        tries: Samples that an attacker can afford to draw.
        begin: Token that ONNX models are given before a sequence.
        max_bad_records: Maximum number of unreadable or too long sequences.
        noise_multiplier: Noise multiplier of the target's DP-SGD, for the bound.
        sampling_rate: DP-SGD sampling rate of the target.
        steps: Number of DP-SGD steps of the target.
    """
    from flows.memorization import run_memorization, write_memorization
    from privcore.attacks import Sampling
    from workers.executors import on_ray
    from workers.lake import limits
    from workers.memorization.language_models import read_model
    from workers.memorization.scan import MemorizationPass
    from workers.sources.tables.table_files import read_rows

    training = _training(noise_multiplier, sampling_rate, steps)
    shared = MemorizationPass(
        column,
        read_model(target, begin=begin),
        read_model(reference, begin=begin),
        Sampling(tuple(temperature or (1.0,)), top),
        math.log10(tries),
    )
    with on_ray() as executor, shown_progress():
        found = run_memorization(
            read_rows(table, most=limits.SEQUENCE_BYTES),
            shared,
            max_bad_records=max_bad_records,
            training=training,
            executor=executor,
        )
    print_study(write_memorization(found, output), as_json=as_json)


def _training(
    noise_multiplier: float | None, sampling_rate: float | None, steps: int | None
) -> "DpSgd | None":
    """Return how the target was trained, if that is known."""
    from privcore.guarantees import DpSgd

    if noise_multiplier is not None and sampling_rate is not None and steps is not None:
        return DpSgd(noise_multiplier, sampling_rate, steps)
    if any(value is not None for value in (noise_multiplier, sampling_rate, steps)):
        raise typer.BadParameter("give --noise-multiplier, --sampling-rate and --steps together")
    return None


@command(app)
def fit(
    *,
    table: _TableOption,
    output: pathlib.Path,
    column: _ColumnOption = "text",
    split: str = "train",
    order: Annotated[int, {"min": 1, "max": 12}] = 6,
) -> None:
    """Count an n-gram model of text: a reference model, or a target to try.

    Example: privaudit memorization fit --table mails.parquet --split calibration --output
    reference.json

    Options:
        output: File for the model (.json).
        split: Sequences of this split.
        order: Maximum n-gram length.
    """
    from flows.files import replace_file
    from workers.lake import limits
    from workers.memorization.scan import count_ngrams
    from workers.sources.tables.table_files import read_rows

    rows = read_rows(table, most=limits.SEQUENCE_BYTES)
    counts = count_ngrams(rows, column, order=order, split=split)
    replace_file(output, counts.to_json())
    typer.echo(str(output))
