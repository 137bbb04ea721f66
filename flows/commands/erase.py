"""`privaudit erase-statement`: a signed tombstone takes a public statement's place."""

import datetime as dt
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.attest import KeyOption, PublicOption, statements_of
from flows.commands.options import OPERATE, ConfigOption
from flows.commands.printing import working

if TYPE_CHECKING:
    from securesystemslib.signer import Signer

    from workers.publication.erased import ErasedStatement, Published

app = typer.Typer()
_LONGEST = 500


@app.command(rich_help_panel=OPERATE)
def erase_statement(
    statement_id: Annotated[str, typer.Argument(help="Id of the statement.")],
    *,
    reason: Annotated[
        str, typer.Option(help=f"Reason, in at most {_LONGEST} characters; it is public.")
    ],
    key: KeyOption,
    public: PublicOption = None,
    config: ConfigOption = None,
) -> None:
    """Erase a public statement and put a signed tombstone in its place, for good.

    The log of statements keeps its root, so other bundles and proofs stay valid. The privacy loss
    stays charged. Bundles and pages that others hold stay as they are. Run privaudit report
    afterwards: it writes the pages anew.

    Example: privaudit erase-statement 0123456789abcdef0123456789abcdef --reason "Court order 7" \
--key evidence.pem
    """
    from workers.plain_text import plain_text

    said = plain_text(reason.strip())
    if not 0 < len(said) <= _LONGEST:
        raise typer.BadParameter(f"--reason has 1 to {_LONGEST} characters.")
    with working("Erasing the statement"):
        from flows.settings import load_settings
        from workers.evidence.envelope import signer_for

        statements = statements_of(load_settings(config))
        signer = signer_for(key, public)
        entry = statements.erase(statement_id, lambda made: _buried(made, said, signer))
    typer.echo(
        f"The statement {entry.statement_id} about {entry.model} on {entry.day} is erased since "
        f"{entry.erased_at:%Y-%m-%d %H:%M} UTC: {entry.reason}"
    )
    typer.echo(
        "Run privaudit report to write the pages anew, and delete backups and copies of the "
        "statements' table yourself."
    )


def _buried(made: "Published", reason: str, signer: "Signer") -> "ErasedStatement":
    from workers.evidence.log_heads import bury
    from workers.publication.erased import erased

    time = dt.datetime.now(dt.UTC)
    stone = bury(
        made.content().encode(), made.statement_id, reason=reason, time=time, signer=signer
    )
    return erased(made, tombstone=stone.model_dump_json(), reason=reason, time=time)
