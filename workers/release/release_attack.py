"""An audit of a table whose answers claim a relaxation: attack it, and count what was read.

The table is put behind the mechanism that the definition recommends, and an adversary who sees only
answers reconstructs it. Single persons may be attacked, too: are they in the table, and what else
does their record hold.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, model_validator

from privcore.attacks import (
    Adversary,
    Disagreement,
    EveryCell,
    NotZeroOrOne,
    any_record,
    confirm_unique,
    find_bounds,
    infer_attribute,
    infer_membership,
    probe_column,
    probe_records,
    reconstruct_table,
    table_match,
)
from privcore.attacks.query_adversary import NoiseRule
from privcore.exceptions import INTERFACE_ERRORS, InvalidInputError
from privcore.mechanisms import (
    BootstrapLaplace,
    Column,
    Groups,
    KLaplace,
    NoisyCountThreshold,
    Predicates,
    ProtectedTable,
    QueryInterface,
    QueryMechanism,
)
from workers.strict_model import StrictModel

Definition = Literal["idp", "group_idp", "bdp", "dp"]
_SMALL_EPSILON = 1e-10
_QUERIES_PER_CELL = 256  # far above what a search asks: all are paid for beforehand


class ReleasePlan(StrictModel):
    """Claim of the answers, and the attack on them."""

    definition: Definition
    """What the answers claim: idp, group_idp, bdp, or dp (the honest control)."""
    k: int = Field(default=1, ge=1)
    """Group size of group_idp; 1 for idp."""
    epsilon: float = Field(gt=0.0, allow_inf_nan=False)
    """Budget that all answers together may claim."""
    precision: float = Field(default=0.01, gt=0.0)
    """Width to which floating-point columns are read."""
    targets: tuple[dict[str, str], ...] = ()
    """Persons, each by some columns' values, to be attacked singly."""
    seed: int = Field(default=0, ge=0)
    """Seed of the mechanism's noise."""

    @model_validator(mode="after")
    def _check_group_size(self) -> "ReleasePlan":
        if self.definition != "group_idp" and self.k != 1:
            raise ValueError(f"k is {self.k}, but only group_idp has a group size: leave it out.")
        return self

    def mechanism(self) -> QueryMechanism:
        """Return the mechanism that the definition recommends."""
        if self.definition == "bdp":
            return BootstrapLaplace()
        return NoisyCountThreshold() if self.definition == "dp" else KLaplace(self.k)

    def rule(self) -> NoiseRule:
        """Return how an attacker tells noise from none in the mechanism's answers."""
        return Disagreement() if self.definition == "dp" else NotZeroOrOne()

    def adversary_k(self) -> int:
        """Return the group size that the adversary reckons with."""
        return 0 if self.definition == "bdp" else self.k

    def epsilon_per_query(self, shape: tuple[int, ...]) -> float:
        """Return a budget for each query at which all of them cannot spend more than `epsilon`."""
        cells = (shape[0] + len(self.targets)) * shape[1]
        share = min(_SMALL_EPSILON, self.epsilon / (_QUERIES_PER_CELL * cells))
        return share / self.rule().repetitions


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table as cells, with the schema that an analyst may know.

    Args:
        columns: the schema; numeric columns have bounds only where they were given.
        cells: shape (records, columns), in Fortran order.
        digest: of the schema and the cells, as sha256.
    """

    columns: tuple[Column, ...]
    cells: NDArray[np.int64]
    digest: str

    @property
    def records(self) -> int:
        """Number of rows."""
        return len(self.cells)

    def index(self, name: str) -> int:
        """Return the place of the column of this name.

        Raises:
            InvalidInputError: there is none.
        """
        names = [column.name for column in self.columns]
        if name not in names:
            raise InvalidInputError("column", name, f"the table's columns are {', '.join(names)}")
        return names.index(name)


def as_table(
    frame: pl.DataFrame,
    *,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    precision: float = 0.01,
) -> Table:
    """Return the frame as cells.

    Whole numbers and dates (days since 1970) are cells of width 1, floating-point numbers of width
    `precision`; text, truth values and categories are cells in the order of their names.

    Raises:
        InvalidInputError: no rows or columns, a missing or infinite value, a value outside its
            bounds, or a column of another type.
    """
    if not frame.height or not frame.width:
        raise InvalidInputError("table", frame.shape, "it has at least one row and one column")
    bounds = bounds or {}
    if strange := sorted(set(bounds) - set(frame.columns)):
        raise InvalidInputError("bounds", strange, "they name columns of the table")
    columns, cells = [], []
    for series in frame:
        if missing := series.null_count():
            rule = f"{missing} of its values are missing: fill them, or leave the column out"
            raise InvalidInputError(series.name, None, rule)
        column, encoded = _encoded(series, bounds.get(series.name), precision)
        columns.append(column)
        cells.append(encoded)
    array = np.asfortranarray(np.column_stack(cells))
    digest = hashlib.sha256(repr(columns).encode())
    digest.update(array.tobytes(order="F"))
    return Table(tuple(columns), array, digest.hexdigest())


def _encoded(
    series: pl.Series, bounds: tuple[float, float] | None, precision: float
) -> tuple[Column, NDArray[np.int64]]:
    if series.dtype == pl.Date:
        series = series.to_physical()
    if series.dtype.is_integer() or series.dtype.is_float():
        width = 1.0 if series.dtype.is_integer() else precision
        column = Column.numeric(series.name, *(bounds or ()), precision=width)
        return column, column.encode(series.to_numpy())
    if series.dtype.base_type() in {pl.String, pl.Boolean, pl.Categorical, pl.Enum, pl.Datetime}:
        text = series.cast(pl.String)
        column = Column.categorical(series.name, sorted(text.unique()))
        # No array gives each row the room of the longest word.
        places = text.cast(pl.Enum(column.categories)).to_physical()
        return column, places.cast(pl.Int64).to_numpy()
    rule = "a column holds whole or floating-point numbers, dates, text or truth values"
    raise InvalidInputError(series.name, str(series.dtype), rule)


@dataclass(frozen=True, slots=True)
class TargetsFound:
    """Result of the attack on single persons."""

    targets: int = 0
    told: int = 0
    reconstructed: int = 0
    queries: int = 0


def attack_targets(
    adversary: Adversary, table: Table, targets: Sequence[Mapping[str, str]]
) -> TargetsFound:
    """Attack each target: membership, uniqueness, and then every other attribute.

    Raises:
        InvalidInputError: a target that names no column, an unknown one, or a value that cannot be
            in its column.
    """
    told = reconstructed = 0
    before = adversary.queries
    for target in targets:
        person = _person(table, target)
        mine = np.all(table.cells[:, list(person.columns)] == person.cells[0], axis=1)
        records = np.unique(table.cells[mine], axis=0)
        if adversary.k:
            member = infer_membership(adversary, person)[0]
        else:
            member = any_record(adversary, person.members())[0]
        told += bool(member) == bool(len(records))
        rest = [c for c in range(len(table.columns)) if c not in person.columns]
        try:
            found = _attributes(adversary, person, rest)
        except INTERFACE_ERRORS:
            found = None
        reconstructed += len(records) == 1 and found == records[0, rest].tolist()
    return TargetsFound(len(targets), told, reconstructed, adversary.queries - before)


def _person(table: Table, target: Mapping[str, str]) -> Groups:
    if not target:
        raise InvalidInputError("target", dict(target), "it has at least one column=value")
    cells = []
    for name, text in target.items():
        column = table.columns[table.index(name)]
        if column.categories:
            cells.append(column.encode(np.array([text])))
            continue
        try:
            cells.append(column.encode([float(text)]))
        except ValueError:
            raise InvalidInputError(f"target's {name}", text, "the column is numeric") from None
    columns = tuple(table.index(name) for name in target)
    return Groups(columns, np.array([[int(cell[0]) for cell in cells]]))


def _attributes(adversary: Adversary, person: Groups, rest: Sequence[int]) -> list[int] | None:
    """Return the cells of the other columns; None where others fit the person, too."""
    if adversary.k:
        if not confirm_unique(adversary, person)[0]:
            return None
        return [int(infer_attribute(adversary, person, column)[0]) for column in rest]
    # Bootstrap differential privacy tells which records exist, so all that fit are looked for.
    cells: list[int] = []
    for column in rest:
        domain = EveryCell.of(find_bounds(adversary, column))
        _, found = probe_column(adversary, column, person, domain)
        if len(found) != 1:
            return None
        cells.append(int(found[0]))
    return cells


CLAIMS = {
    "idp": "individual differential privacy",
    "group_idp": "group individual differential privacy",
    "bdp": "bootstrap differential privacy",
    "dp": "differential privacy",
}
_STANDARD_ERRORS = 5.0


@dataclass(frozen=True, slots=True)
class ReleaseAudit:
    """Result of an attack on a table behind a definition's noise; no value of the table is kept.

    Attributes:
        table: name of the table's file.
        epsilon_per_query: budget that each query claimed.
        table_queries: that reading all records took.
        records: of the table; distinct ones for bdp.
        cells_read: share of values that were read correctly. A value counts only if all values of
            its record that were read before it are correct, too.
        records_read: share of records that were read whole.
        stopped: why the attack ended early; "" where it did not.
        verdict: reconstructed, partly or resisted.
    """

    table: str
    plan: ReleasePlan
    epsilon_per_query: float
    table_queries: int
    records: int
    cells_read: float
    records_read: float
    targets: TargetsFound
    stopped: str
    verdict: str

    @property
    def queries(self) -> int:
        """Number of queries that were answered."""
        return self.table_queries + self.targets.queries

    @property
    def claimed_budget(self) -> float:
        """Budget that all queries claimed, by the definition's own accounting."""
        return self.queries * self.epsilon_per_query

    @property
    def reason(self) -> str:
        """The verdict in one sentence for people who know nothing of differential privacy."""
        definition = self.plan.definition
        many = f"{self.records:,} {'distinct records' if definition == 'bdp' else 'records'}"
        asked = (
            f"{self.table_queries:,} questions that {CLAIMS[definition]} counts as a privacy cost "
            f"of only {self.claimed_budget:.2g}"
        )
        if self.verdict == "reconstructed":
            return f"All {many} were read, every value of them, with {asked}."
        if self.verdict == "partly":
            return f"{self.records_read:.1%} of the {many} were read whole, with {asked}."
        return f"The attack read no more of the {many} than guessing would, with {asked}."


def release_verdict(*, found: int, by_chance: int, records: int, targets: TargetsFound) -> str:
    """Return `reconstructed`, `partly` or `resisted`.

    Args:
        found: records that were reconstructed whole.
        by_chance: how many the same attack gets right where a coin answers every query.
        records: records of the table; distinct ones for bootstrap differential privacy.
        targets: what was read of single persons.

    An attack that gets no more than five standard errors above chance was resisted, unless it read
    most of its targets.
    """
    if found == records:
        return "reconstructed"
    margin = _STANDARD_ERRORS * (2.0 * (by_chance + 1.0)) ** 0.5
    if found > by_chance + margin or 2 * targets.reconstructed > targets.targets:
        return "partly"
    return "resisted"


@dataclass(frozen=True, slots=True)
class Coin:
    """An interface whose answers say nothing of any table: what chance alone gives an attacker."""

    columns: tuple[Column, ...]
    records: int
    random: np.random.Generator

    def answer(
        self,
        predicates: Predicates,  # noqa: ARG002  # it does not look
        thresholds: NDArray[np.int64],
        *,
        epsilon: float,  # noqa: ARG002  # a coin costs nothing
    ) -> NDArray[np.float64]:
        """Return 0.0 or 1.0 for each query, as a fair coin falls."""
        return self.random.integers(0, 2, thresholds.shape).astype(np.float64)


def audit_release(table: Table, plan: ReleasePlan, *, name: str) -> ReleaseAudit:
    """Attack a table under a plan and return what was read."""
    if plan.definition == "dp":
        table = _with_bounds(table)
    epsilon = plan.epsilon_per_query(table.cells.shape)
    targets = attack_targets(_adversary(plan, table, epsilon), table, plan.targets)
    probed, adversary = plan.definition == "bdp", _adversary(plan, table, epsilon)
    truth = np.unique(table.cells, axis=0) if probed else table.cells
    found = probe_records(adversary) if probed else reconstruct_table(adversary)
    match = table_match(truth, found.groups, found.counts)
    by_chance = 0
    if match.records < len(truth) and not probed:
        guessed = reconstruct_table(_adversary(plan, table, epsilon, blind=True))
        by_chance = table_match(truth, guessed.groups, guessed.counts).records
    verdict = release_verdict(
        found=match.records, by_chance=by_chance, records=len(truth), targets=targets
    )
    return ReleaseAudit(
        table=name,
        plan=plan,
        epsilon_per_query=epsilon,
        table_queries=adversary.queries,
        records=len(truth),
        cells_read=match.share_of_cells,
        records_read=match.records / len(truth),
        targets=targets,
        stopped=found.stopped or "",
        verdict=verdict,
    )


def _with_bounds(table: Table) -> Table:
    """Give away every column's range: the honest control shall be hard to resist."""
    lows, highs = table.cells.min(axis=0).tolist(), table.cells.max(axis=0).tolist()
    columns = [
        replace(column, lower=low, upper=high)
        for column, low, high in zip(table.columns, lows, highs, strict=True)
    ]
    return replace(table, columns=tuple(columns))


def _adversary(
    plan: ReleasePlan, table: Table, epsilon: float, *, blind: bool = False
) -> Adversary:
    rule, random = plan.rule(), np.random.default_rng([plan.seed, 0, blind])
    interface: QueryInterface = Coin(table.columns, table.records, random)
    if not blind:
        interface = ProtectedTable(table.cells, table.columns, plan.mechanism(), random)
    return Adversary(interface, rule, k=plan.adversary_k(), epsilon=epsilon * rule.repetitions)
