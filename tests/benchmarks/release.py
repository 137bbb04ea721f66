"""Reading whole tables behind individual differential privacy, beside a bare sort of them.

    python -m tests.benchmarks.release [--json] [--quick]

The Bank table (45,211 x 17) on one core by both searches, every query answered and counted; then a
table of 10,000,000 x 20 whole numbers on Ray, one task for each value of one column, as `privaudit
release` does it. The limit that both are measured against is a sort: of the table's rows by all
columns (`np.lexsort`), which a reconstruction cannot do without, since its answers are the table in
that order. With `--quick`, 500,000 rows in this process.
"""

from contextlib import nullcontext
from typing import Any

import numpy as np

from flows.study.relaxations import ORDER
from privcore.attacks import (
    Adversary,
    NotZeroOrOne,
    PublishedSearch,
    reconstruct_table,
    table_match,
)
from privcore.attacks.query_reconstruction import ColumnSearch
from privcore.mechanisms import Column, KLaplace, ProtectedTable
from tests.benchmarks.measure import arguments, beside, report, run
from tests.support.queries import bank
from workers.executors import InProcess, on_ray
from workers.release.attack import audit_release
from workers.release.release_plan import ReleasePlan
from workers.release.table import Table

ROWS, QUICK_ROWS, COLUMNS = 10_000_000, 500_000, 20
EPSILON = 1e-10


def read_bank(search: ColumnSearch | None) -> tuple[int, float]:
    """Return how many queries the Bank table took, and the share of cells that were right."""
    cells, columns = bank()
    schema = tuple(Column(column.name) for column in columns)
    table = ProtectedTable(cells, schema, KLaplace(), np.random.default_rng(0))
    adversary = Adversary(table, NotZeroOrOne(), k=1, epsilon=EPSILON)
    names = [column.name for column in columns]
    order = [names.index(name) for name in ORDER] if search else None
    found = reconstruct_table(adversary, order=order, bounds=columns, search=search)
    share = table_match(cells, found.groups, found.counts).share_of_cells
    return adversary.queries, share


def bank_rows() -> list[dict[str, Any]]:
    cells, _ = bank()
    found = []
    for name, search in (("ours", None), ("published", PublishedSearch())):
        pair = beside(lambda search=search: read_bank(search), lambda: np.lexsort(cells.T), pairs=5)
        queries, share = pair.mine.value
        found.append(
            {
                "table": "Bank, 45,211 x 17",
                "search": name,
                "queries": queries,
                "share right": share,
                "seconds": pair.mine.seconds,
                "sort": pair.peer.seconds,
                "times a sort": 1.0 / pair.ratio,
            }
        )
    return found


def large_table(rows: int) -> Table:
    """Return a table of columns with 2 to 10,000 values, half of them as skewed as a power law."""
    random = np.random.default_rng(19)
    sizes = np.geomspace(2, 10_000, COLUMNS).astype(int)
    cells = np.empty((rows, COLUMNS), dtype=np.int64, order="F")
    for place, size in enumerate(sizes.tolist()):
        values = random.random(rows)
        cells[:, place] = size * (values**4 if place % 2 else values)
    return Table(tuple(Column(f"c{place}") for place in range(COLUMNS)), cells, "made up")


def large_row(rows: int, *, quick: bool) -> dict[str, Any]:
    table = large_table(rows)
    sort = run(lambda: np.lexsort(table.cells.T))
    plan = ReleasePlan(definition="idp", epsilon=1.0)
    with nullcontext(InProcess()) if quick else on_ray() as executor:
        attack = run(lambda: audit_release(table, plan, name="large", executor=executor))
    row = attack.value
    return {
        "table": f"{rows:,} x {COLUMNS}",
        "search": "ours, in process" if quick else "ours, on Ray",
        "queries": row.queries,
        "share right": row.cells_reconstructed,
        "claimed": row.claimed_budget,
        "wall seconds": attack.wall,
        "sort": sort.wall,
        "times a sort, by the clock": attack.wall / sort.wall,
        "megabytes added": attack.megabytes,
    }


def main() -> None:
    quick = arguments(__doc__).quick
    rows = QUICK_ROWS if quick else ROWS
    report([*bank_rows(), large_row(rows, quick=quick)], description=__doc__)


if __name__ == "__main__":
    main()
