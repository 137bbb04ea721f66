"""Definitions whose neighbors depend on the actual table, and what their hint gives away.

"Reconstruction Attacks on Aggressive Relaxations of Differential Privacy", section 5.2. An
*empirical neighbors* definition (Definition 5.2) protects the pairs of tables NPairs(actual), and
lets a mechanism be chosen by a hint h(actual). Whatever h is, the mechanism that ignores its table
and outputs h(actual) gives the same output on all tables, so it satisfies the definition at every
epsilon, and the hint is public (Lemma 5.3). Only a hint of nothing leaves differential privacy.

Tables are tuples of records in any order, records are tuples: these functions enumerate, and are
for tables of a few records over a small domain.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from itertools import combinations_with_replacement

Record = Hashable
Table = tuple[Record, ...]
Pair = tuple[Table, Table]


def individual_pairs(table: Table, domain: Iterable[Record], k: int = 1) -> frozenset[Pair]:
    """Return group IDP's pairs: the table itself, and each table with 1 to k records replaced."""
    actual = _sorted(table)
    others = {other for other in _tables(domain, len(table)) if 0 < _replaced(actual, other) <= k}
    return frozenset({(actual, other) for other in others} | {(other, actual) for other in others})


def bootstrap_pairs(table: Table) -> frozenset[Pair]:
    """Return BDP's pairs: tables of the table's own records that differ in one (Definition 4.1)."""
    resampled = list(_tables(set(table), len(table)))
    return frozenset(
        (one, other) for one in resampled for other in resampled if _replaced(one, other) == 1
    )


def table_from_individual_pairs(pairs: frozenset[Pair]) -> Table | None:
    """Return the table that group IDP protects, read from the pairs: the one in all of them.

    None where two tables are in every pair, as where only one neighbor exists.
    """
    common = set.intersection(*({one, other} for one, other in pairs)) if pairs else set()
    return common.pop() if len(common) == 1 else None


def records_from_bootstrap_pairs(pairs: frozenset[Pair]) -> frozenset[Record]:
    """Return the distinct records of the table that BDP protects: all that occur in its pairs."""
    return frozenset(record for pair in pairs for table in pair for record in table)


def differential_privacy_pairs(domain: Iterable[Record], records: int) -> frozenset[Pair]:
    """Return all pairs that differ in one record: what a hint of nothing has to protect."""
    tables = list(_tables(domain, records))
    return frozenset(
        (one, other) for one in tables for other in tables if _replaced(one, other) == 1
    )


def _tables(domain: Iterable[Record], records: int) -> Iterator[Table]:
    """Yield every table of this many records, each in one order."""
    return combinations_with_replacement(sorted(domain, key=repr), records)


def _sorted(table: Table) -> Table:
    return tuple(sorted(table, key=repr))


def _replaced(one: Table, other: Table) -> int:
    """Return how many records of one table must be replaced to get the other."""
    return (Counter(one) - Counter(other)).total()
