"""Labels that a platform released, beside the true ones: `[models.released_labels]`."""

from privcore.lower_bounds.verdicts import Trust
from workers.lake.manifest import Name, Privacy
from workers.sources.tables.day_tables import TablePlace
from workers.strict_model import StrictModel

EVERY_ROW = "row"
"""In place of a record's column: every row is a record of its own."""


class ReleasedLabels(TablePlace):
    """A table with the true label of each record, and the one that a mechanism made of it."""

    day: Name | None = "day"
    """Column, or folder, of the day."""
    true: Name
    """Column of the label that the mechanism read, not of one that was corrected later."""
    released: Name
    """Column of the label that it released."""
    record: Name
    """Column that says whose label it is; row where every row is a record of its own."""
    reads: tuple[Name, ...] = ()
    """Columns that the mechanism reads beside the label and its coin."""
    time: Name | None = None
    """Column that orders the rows, in which neighbours may share a coin."""


class ReleasedNight(StrictModel):
    """Place of a model's released labels, and what is declared of them."""

    released_labels: ReleasedLabels
    privacy: Privacy | None
    """The declaration, of the settings or of the day's manifest."""
    trust: Trust = Trust.SELF
    """Who supplied both labels, as the settings say."""
    target: str | None
    """Digest of the model's file, where a manifest names it."""

    def to_json(self) -> str:
        """Return it as the record keeps it."""
        return self.model_dump_json()
