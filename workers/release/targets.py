"""Single persons under attack: are they in the table, and what else does their record hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from privcore.attacks import (
    Adversary,
    EveryCell,
    any_record,
    confirm_unique,
    find_bounds,
    infer_attribute,
    infer_membership,
    probe_column,
)
from privcore.exceptions import INTERFACE_ERRORS, InvalidInputError
from privcore.mechanisms import Groups
from workers.release.table import Table


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
        told += _is_member(adversary, person) == bool(len(records))
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


def _is_member(adversary: Adversary, person: Groups) -> bool:
    if adversary.k:
        return bool(infer_membership(adversary, person)[0])
    return bool(any_record(adversary, person.members())[0])


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
