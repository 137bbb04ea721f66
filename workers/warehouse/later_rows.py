"""The rows that come to a record after its commit: confirmations and withdrawals."""

from pydantic import Field

from workers.warehouse.table_row import Moment, TableRow


class ConfirmationRow(TableRow):
    """One row for each time that a committed audit was computed again from the same inputs.

    The record is not written again. It becomes the current one, also where another came between.
    """

    confirmed_at: Moment = Field(description="When the same audit was committed again, UTC.")
    revision: int | None = Field(
        default=None,
        description="Which commit of the model and day this is, as in audits.",
    )


class WithdrawalRow(TableRow):
    """One row for each audit that somebody took back (`privaudit withdraw`).

    Its record stays, and is never the current one of its model and day.
    """

    withdrawn_at: Moment = Field(description="When it was withdrawn, UTC.")
    why: str = Field(description="Why, in the words of who withdrew it.")
