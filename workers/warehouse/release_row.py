"""The row that an attack on answers leaves behind, column by column."""

import datetime as dt

from workers.warehouse.table_row import TableRow


class ReleaseRow(TableRow):
    """One row per audit of a table whose answers claim individual or bootstrap privacy.

    The table is attacked behind the mechanism that the definition recommends, or behind a live
    interface; `labels_digest` is the table's, or that of all answers of the interface. No value of
    the table is kept.
    """

    recorded_at: dt.datetime
    """Time at which the record was committed, UTC."""
    table: str
    """Name of the table's file; of the interface without a file."""
    interface: str | None = None
    """The live interface that answered, as module:callable. Null where the table was put behind the
    mechanism that its definition recommends."""
    definition: str
    """Definition that answers claim: idp, group_idp, bdp, or dp (honest control)."""
    group_size: int
    """Number of records that may change under group_idp; 1 for other definitions."""
    epsilon_declared: float
    """Budget that all answers together may claim."""
    epsilon_per_query: float
    """Budget that each query claimed."""
    claimed_budget: float
    """Budget that all queries together claimed, by the definition's own accounting."""
    queries: int
    """Number of queries that were answered."""
    records: int
    """Records of the table; distinct ones for bdp."""
    columns: int
    """Columns of the table."""
    cells_reconstructed: float
    """Share of the table's values that were read correctly. A value counts only if all values of
    its record that were read before it are correct, too."""
    records_reconstructed: float
    """Share of records that were read whole."""
    records_asked_again: int | None = None
    """Records that the live interface was asked about again, to see whether they were read right.
    Null where there was the table to compare with."""
    targets: int
    """Number of persons who were attacked one by one."""
    targets_told: int
    """Number of these persons of whom the attack said correctly whether they are in the table."""
    targets_reconstructed: int
    """Number of these persons whose remaining values were all read correctly."""
    targets_queries: int
    """Queries that the attacks on single persons took."""
    progress_budget: tuple[float, ...]
    """Budget claimed when each column was read, in the order of reading."""
    progress_cells: tuple[float, ...]
    """Share of all values that the attack had read correctly by then."""
    stopped: str | None = None
    """Reason why the attack ended early. Null where it did not."""
    verdict: str
    """reconstructed, partly or resisted."""
    reason: str
    """The verdict in one sentence."""
