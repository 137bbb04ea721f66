"""Audit: `privaudit release`, for tables whose answers claim a relaxation of privacy."""

import pathlib
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.commands.options import AUDIT, JsonOption
from flows.commands.printing import print_study, working
from workers.plain_text import plain_text

if TYPE_CHECKING:
    from flows.study.runner import Shown
    from workers.release.release_attack import ReleaseAudit

app = typer.Typer()

_DEFINITIONS: dict[str, Literal["idp", "group_idp", "bdp", "dp"]] = {
    "idp": "idp",
    "group-idp": "group_idp",
    "bdp": "bdp",
    "dp": "dp",
}

DefinitionOption = Annotated[
    Literal["idp", "group-idp", "bdp", "dp"],
    typer.Option(
        help="Claim of the answers: individual, group individual or bootstrap differential "
        "privacy; dp is the honest control."
    ),
]
TargetOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=VALUE,...",
        help="A person to attack singly, by what is known; repeat it for more.",
    ),
]


@app.command(rich_help_panel=AUDIT)
def release(
    definition: DefinitionOption,
    table: Annotated[str, typer.Option(help="The table: path or URI of a Parquet or CSV file.")],
    k: Annotated[int, typer.Option(min=1, help="Group size of group-idp.")] = 1,
    epsilon: Annotated[
        float, typer.Option(help="Privacy budget that all answers together may claim.")
    ] = 0.01,
    precision: Annotated[
        float, typer.Option(help="Width to which floating-point columns are read.")
    ] = 0.01,
    target: TargetOption = None,
    output: Annotated[
        pathlib.Path,
        typer.Option(help="Folder for the page."),
    ] = pathlib.Path("release"),
    *,
    as_json: JsonOption = False,
) -> None:
    """Attack a table behind the noise of individual or bootstrap differential privacy.

    Says how many of its records can be read, with how many queries, at what claimed budget, and
    writes a page. No value that was read is printed or kept.

    Exit code: 0 resisted, 1 reconstructed or partly, 3 error.

    Example: privaudit release --table bank.parquet --definition group-idp --k 1 --epsilon 0.01
    --target age=41,job=retired
    """
    from flows.study.runner import write_shown
    from workers.release.release_attack import ReleasePlan, as_table, audit_release
    from workers.sources.tables.table_files import read_rows

    plan = ReleasePlan(
        definition=_DEFINITIONS[definition],
        k=k,
        epsilon=epsilon,
        precision=precision,
        targets=tuple(_parsed(text) for text in target or ()),
    )
    attacked, name = as_table(read_rows(table), precision=precision), table.rpartition("/")[2]
    with working(f"Attacking {name}"):
        found = audit_release(attacked, plan, name=name)
    print_study(write_shown(_shown(found), output, title=f"Attack on {name}"), as_json=as_json)
    raise typer.Exit(0 if found.verdict == "resisted" else 1)


def _parsed(text: str) -> dict[str, str]:
    """Return a person's known values by column."""
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not (column.strip() and equals) for column, equals, _ in pairs):
        raise typer.BadParameter(f"{text!r} is not a target: write column=value,column=value.")
    return {column.strip(): value.strip() for column, _, value in pairs}


def _shown(found: "ReleaseAudit") -> "Shown":
    from flows.report.study_page import StudyTable
    from flows.study.runner import Shown
    from workers.release.release_attack import CLAIMS

    plan = found.plan
    size = f", groups of {plan.k}" if plan.definition == "group_idp" else ""
    rows = [
        ("claimed", f"{CLAIMS[plan.definition]}{size}, epsilon {plan.epsilon:g}"),
        ("records read whole", f"{found.records_read:.2%} of {found.records:,}"),
        ("values read", f"{found.cells_read:.2%}"),
        ("queries", f"{found.queries:,}"),
        ("budget claimed", f"{found.claimed_budget:.3g} of {plan.epsilon:g}"),
    ]
    if found.targets.targets:
        told = f"{found.targets.told} of {found.targets.targets} correctly classified"
        read = f"{found.targets.reconstructed} read whole, {found.targets.queries:,} queries"
        rows.append(("single persons", f"{told}; {read}"))
    if found.stopped:
        rows.append(("ended early", plain_text(found.stopped)))
    columns = (("what", False), ("result", False))
    name = plain_text(found.table)
    return Shown([found.reason], [StudyTable(f"{name}: {found.verdict}", columns, rows)])
