"""`privaudit memorization`: which training sequences a language model would generate."""

import datetime as dt
import math
import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.options import JsonOption, day_option
from flows.commands.printing import form_of, print_study, shown_progress

if TYPE_CHECKING:
    from privcore.guarantees import DpSgd
    from workers.labels.shards import Partition
    from workers.lake.layout import Lake

app = typer.Typer(no_args_is_help=True, help="Find what a language model memorised.")

LakeOption = Annotated[str, typer.Option(help="Path or URI of the lake of the sequences.")]
RayOption = Annotated[
    str,
    typer.Option(metavar="auto|ray://HOST:PORT|local", help="Ray that does the work."),
]
DatasetOption = Annotated[str, typer.Option(help="Dataset of the sequences, in the lake.")]
SequencesDayOption = Annotated[dt.date, day_option("Day of the sequences, in the lake.", "--day")]
ColumnOption = Annotated[
    str, typer.Option(help="Column of the sequences: text, or lists of token ids.")
]


NoiseOption = Annotated[
    float | None, typer.Option(help="Noise multiplier of the target's DP-SGD, for the bound.")
]
SamplingRateOption = Annotated[
    float | None, typer.Option(help="DP-SGD sampling rate of the target.")
]
StepsOption = Annotated[int | None, typer.Option(help="Number of DP-SGD steps of the target.")]


@app.command()
def audit(
    lake: LakeOption,
    dataset: DatasetOption,
    day: SequencesDayOption,
    target: Annotated[
        str, typer.Option(help="Model that was trained on them (.json n-gram or .onnx).")
    ],
    reference: Annotated[str, typer.Option(help="Model that saw none of the training sequences.")],
    output: Annotated[pathlib.Path, typer.Option(help="Folder for tables and drawings.")],
    column: ColumnOption = "text",
    temperature: Annotated[
        list[float] | None,
        typer.Option(
            min=0.001,
            help="Sampling temperature. Repeat the option to set it per step; the last value "
            "applies to all remaining steps. Default 1.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(min=1, help="Sample from the N most probable tokens (default: all)."),
    ] = None,
    tries: Annotated[
        float, typer.Option(min=1.0, help="Samples that an attacker can afford to draw.")
    ] = 1e6,
    begin: Annotated[
        int, typer.Option(min=0, help="Token that ONNX models are given before a sequence.")
    ] = 0,
    max_bad_records: Annotated[
        int, typer.Option(min=0, help="Maximum number of unreadable or too long sequences.")
    ] = 0,
    noise_multiplier: NoiseOption = None,
    sampling_rate: SamplingRateOption = None,
    steps: StepsOption = None,
    ray_address: RayOption = "local",
    *,
    as_json: JsonOption = False,
) -> None:
    """Compute how probable it is that sampling from a model gives each training sequence.

    Nothing is sampled: the probability is exact, also with temperature and top-k. Listed are the
    places of training sequences that come within reach and that the target knows better than a
    reference model does.

    Example: privaudit memorization audit --lake LAKE --dataset mails --day 2026-03-02
    --target target.json --reference reference.json --output memorization
    """
    form = form_of(as_json=as_json)
    from flows.memorization import run_memorization, write_memorization
    from privcore.attacks import Sampling
    from workers.executors import on_ray
    from workers.memorization.language_models import read_model
    from workers.memorization.scan import MemorizationPass

    training = _training(noise_multiplier, sampling_rate, steps)
    shared = MemorizationPass(
        *_find(lake, dataset, day),
        column,
        read_model(target, begin=begin),
        read_model(reference, begin=begin),
        Sampling(tuple(temperature or (1.0,)), top),
        math.log10(tries),
    )
    with on_ray(ray_address) as executor, shown_progress():
        found = run_memorization(
            shared, max_bad_records=max_bad_records, training=training, executor=executor
        )
    print_study(write_memorization(found, output), form)


def _find(lake: str, dataset: str, day: dt.date) -> "tuple[Lake, Partition]":
    """Return the lake, and a day's sequences in it."""
    from workers.labels.shards import find_partition
    from workers.lake.layout import Lake

    place = Lake(lake)
    return place, find_partition(place, dataset, day)


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


@app.command()
def fit(
    lake: LakeOption,
    dataset: DatasetOption,
    day: SequencesDayOption,
    output: Annotated[pathlib.Path, typer.Option(help="File for the model (.json).")],
    column: ColumnOption = "text",
    split: Annotated[str, typer.Option(help="Sequences of this split.")] = "train",
    order: Annotated[int, typer.Option(min=1, max=12, help="Maximum n-gram length.")] = 6,
    ray_address: RayOption = "local",
) -> None:
    """Count an n-gram model of a day's text: a reference model, or a target to try.

    Example: privaudit memorization fit --lake LAKE --dataset mails --day 2026-03-02
    --split calibration --output reference.json
    """
    from flows.files import replace_file
    from workers.executors import on_ray
    from workers.memorization.scan import count_ngrams

    found = *_find(lake, dataset, day), column
    with on_ray(ray_address) as executor:
        counts = count_ngrams(*found, order=order, split=split, executor=executor)
    replace_file(output, counts.to_json())
    typer.echo(str(output))
