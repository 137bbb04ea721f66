"""The rows that come to a record after its commit: what people and reruns add to it."""

import datetime as dt

from workers.warehouse.table_row import Moment, TableRow


class ConfirmationRow(TableRow):
    """One row for each time that a committed audit was computed again from the same inputs.

    The record is not written again. It becomes the current one, also where another came between.
    """

    confirmed_at: Moment
    """Time at which the same audit was committed again, UTC."""
    revision: int | None = None
    """Number of this commit for the model and day, as in audits."""


class WithdrawalRow(TableRow):
    """One row for each audit that somebody took back (`privaudit withdraw`).

    Its record stays, and is never the current one of its model and day.
    """

    withdrawn_at: Moment
    """Time of the withdrawal, UTC."""
    why: str
    """Reason, in the words of the person who withdrew it."""


class AcknowledgementRow(TableRow):
    """One row for each time that somebody acknowledged a violation (`privaudit acknowledge`).

    It changes no verdict and no record. Until it ends, the same violation notifies nobody again.
    """

    acknowledged_at: Moment
    """Time of the acknowledgement, UTC."""
    acknowledged_by: str | None
    """Who acknowledged it: the operating system's user, or the deployment. It is no proof. Null
    where it is unknown."""
    why: str
    """Reason, in the words of the person who acknowledged it."""
    until: dt.date
    """Last day (UTC) on which the violation notifies nobody again."""
    epsilon_acknowledged: float
    """Largest bound of the violation that was known: of the night, or of all nights together. A
    larger one is a new alert."""
