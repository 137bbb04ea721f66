"""Tables that two studies attack: Bank Marketing, and a survey or fire calls with their network."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from privcore import attacks
from privcore.exceptions import InvalidInputError
from workers.release.release_attack import Table, as_table
from workers.sources.tables.table_files import read_rows

BANK_RECORDS = 45_211
BANK_BOUNDS: dict[str, tuple[float, float]] = {
    "balance": (-1e5, 1e6), "duration": (0, 1e4), "pdays": (-1, 2000), "previous": (0, 2000),
    "age": (0, 125), "day": (0, 31), "campaign": (0, 100),
}  # fmt: skip
"""What the attacker believes of numbers, by section 6.1."""
# Binary columns first, then by domain; ties as the authors' program has them.
BANK = (
    "y", "default", "housing", "loan", "marital", "contact", "poutcome", "education", "job",
    "month", "day", "previous", "campaign", "age", "pdays", "duration", "balance",
)  # fmt: skip
ACS = (
    "AGEP", "SCHL", "MAR", "RELP", "DIS", "ESP", "CIT", "MIG", "MIL", "ANC", "NATIVITY", "DEAR",
    "DEYE", "DREM", "SEX", "RAC1P",
)  # fmt: skip
"""The 16 attributes of the paper's American Community Survey."""
FIRE = (
    "Call Type", "Call Final Disposition", "City", "Zipcode of Incident", "Battalion",
    "Station Area", "Priority", "ALS Unit", "Call Type Group", "Number of Alarms",
)  # fmt: skip
"""The 10 attributes of San Francisco's fire calls, as the code that the paper cites names them."""


def read_bank(uri: str) -> Table:
    """Return the Bank Marketing table of the paper.

    Raises:
        InvalidInputError: it is another table.
        NotEvaluableError: the file cannot be read.
    """
    frame = read_rows(uri)
    if set(frame.columns) != set(BANK) or frame.height != BANK_RECORDS:
        rule = f"bank-full has {BANK_RECORDS:,} rows and the columns {', '.join(BANK)}"
        raise InvalidInputError("--table", uri, rule)
    return as_table(frame, bounds=BANK_BOUNDS)


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """A table's network, its attributes in order, and a digest of the table as it was read."""

    names: tuple[str, ...]
    network: attacks.BayesianNetwork
    digest: str


def read_survey(uri: str, *, degree: int) -> Survey:
    """Return the survey or the fire calls with a network of a degree.

    Age is cut into tens, as the paper has ten values of it. What a call lacks is its own value.

    Raises:
        InvalidInputError: it has not all attributes, or the survey has missing values.
        NotEvaluableError: the file cannot be read.
    """
    frame = read_rows(uri)
    names = FIRE if set(FIRE) <= set(frame.columns) else ACS
    if not frame.height or not set(names) <= set(frame.columns):
        rule = f"it has rows and the survey's columns {', '.join(ACS)}, or {', '.join(FIRE)}"
        raise InvalidInputError("--table", uri, rule)
    frame, codes = frame.select(names), []
    if names == FIRE:
        frame = frame.cast(pl.String).fill_null("")
    for series in frame:
        if series.null_count():
            raise InvalidInputError("--table", series.name, "a column has no missing values")
        kept = series if series.dtype.is_numeric() else series.cast(pl.String)
        tens = series.name == "AGEP"
        codes.append(kept.to_numpy() // 10 if tens else np.unique(kept, return_inverse=True)[1])
    cells = np.column_stack(codes).astype(np.int64)
    network = attacks.fit_network(
        cells, [int(column.max()) + 1 for column in cells.T], degree=degree
    )
    return Survey(tuple(frame.columns), network, str(frame.hash_rows(seed=0).sum()))
