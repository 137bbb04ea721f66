"""An audit of a live system that answers queries: attack it, and see how much was read right.

What was read is compared with the table, where that is at hand. Where it is not, the system itself
is asked again about records drawn at random: a reading that is right is confirmed, and one that is
wrong is not (`privcore.attacks.confirm_groups`).

First it is seen what the system does (`workers.release.approach`). The attack reads noise where
the claimed definition puts it, rounded or not; where there is none at all, it takes answers as they
are. It does not read through noise that is in every answer: telling more of that from less takes a
thousand questions each (section 5.1 of the paper).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privcore.attacks import (
    Adversary,
    Noise,
    TableReconstruction,
    confirm_counts,
    confirm_groups,
    learn_columns,
    probe_records,
    reconstruct_groups,
    table_match,
)
from privcore.exceptions import INTERFACE_ERRORS
from privcore.mechanisms import Groups, QueryInterface
from workers.release.approach import Approach, find_approach
from workers.release.interface import Coin, LiveInterface
from workers.release.release_plan import ReleasePlan
from workers.release.release_record import release_row
from workers.release.table import Table
from workers.release.targets import TargetsFound, attack_targets
from workers.release.verdict import Found, release_verdict
from workers.warehouse.release_row import ReleaseRow

_ASKED_AGAIN = 1_000
_REMARKS: dict[Noise | None, str] = {
    Noise.NOWHERE: "No answer had any noise: the system does not do what it claims.",
    Noise.EVERYWHERE: "Every answer had noise, through which this attack does not read.",
}
_FEWEST = 10
_TOO_FEW = (
    f"Of fewer than {_FEWEST} distinct records it cannot be seen by asking again whether they were "
    "read right: give the table to compare them with."
)


@dataclass(frozen=True, slots=True)
class _Judged:
    """Number of some records that are right in all columns that were read."""

    right: int
    of: int
    distinct: int

    @property
    def share(self) -> float:
        return self.right / self.of


_Judge = Callable[[Groups, NDArray[np.int64]], _Judged]


def audit_interface(
    interface: QueryInterface,
    plan: ReleasePlan,
    *,
    name: str,
    table: Table | None = None,
    table_name: str | None = None,
    done: Callable[[int, int], None] = lambda *_: None,
) -> ReleaseRow:
    """Attack a live interface under a plan and return the record.

    Where it refuses, fails or answers garbage, the attack ends there, and the record has what was
    learned by then.
    """
    live = LiveInterface(interface)
    columns = len(live.columns)
    approach = find_approach(live, plan)
    adversary, stopped = approach.adversary, approach.stopped
    rows = None if table is None else approach.rows(table)
    judge = _compared(rows) if rows is not None else _asked_again(approach, plan.seed)
    targets = TargetsFound()
    queries, cells = list[int](), list[float]()
    judged = _Judged(0, 1, 0)
    try:
        if table is not None and not stopped:
            targets = attack_targets(adversary, table, plan.targets)
        for found in () if stopped else _readings(approach):
            stopped = found.stopped
            read = len(found.groups.columns)
            if read == len(cells):
                break
            judged = judge(found.groups, found.counts)
            # Of columns that were read together, each is right at least where all of them are.
            new = read - len(cells)
            queries += [_asked(approach, targets)] * new
            before = cells[-1] if cells else 0.0
            cells += [before + judged.share * place / columns for place in range(1, new + 1)]
            done(read, columns)
    except INTERFACE_ERRORS as error:
        stopped = str(error)
    whole, by_chance = _Judged(0, 1, 0), 0
    if len(cells) == columns:
        whole, by_chance, why_not = _whole(judged, approach, plan, rows)
        stopped = stopped or why_not
    return release_row(
        plan,
        Found(
            records=live.records if rows is None else len(rows),
            columns=columns,
            queries=(*queries, *[_asked(approach, targets)] * (columns - len(queries))),
            cells=(*cells, *[cells[-1] if cells else 0.0] * (columns - len(cells))),
            whole=whole.share,
            asked_again=judged.of if rows is None and cells else None,
            stopped=stopped,
            ended_after=None if len(cells) == columns else len(cells),
            targets=targets,
            remark=_REMARKS.get(approach.noise, ""),
        ),
        table=table_name or name,
        digest=live.digest,
        epsilon=approach.epsilon,
        verdict=release_verdict(
            found=whole.right, by_chance=by_chance, records=whole.of, targets=targets
        ),
        interface=name,
    )


def _asked(approach: Approach, targets: TargetsFound) -> int:
    """Return how many queries reading the table took so far, those on single persons left out."""
    return approach.asked + approach.adversary.queries - targets.queries


def _whole(
    judged: _Judged, approach: Approach, plan: ReleasePlan, rows: NDArray[np.int64] | None
) -> tuple[_Judged, int, str | None]:
    """Return what was read whole, how much of it chance would read, and why it proves nothing."""
    if rows is not None:
        partly = 0 < judged.right < judged.of
        return judged, _by_chance(approach, plan, rows) if partly else 0, None
    if judged.distinct < _FEWEST:
        return _Judged(0, 1, 0), judged.of // 4, _TOO_FEW
    return judged, judged.of // 4, None


def _readings(approach: Approach) -> Iterator[TableReconstruction]:
    """Yield what is known after each column; of distinct records, after the last alone."""
    adversary = approach.adversary
    if approach.existence:
        yield probe_records(adversary)
        return
    known = learn_columns(adversary, range(len(adversary.interface.columns)))
    groups, counts = Groups.everyone(), np.array([adversary.records])
    if known.stopped:
        yield TableReconstruction(groups, counts, known.marginals, (), known.stopped)
        return
    for column in sorted(known.domains, key=known.distinct):
        found = reconstruct_groups(adversary, groups, counts, [column], known)
        yield found
        groups, counts = found.groups, found.counts


def _by_chance(approach: Approach, plan: ReleasePlan, rows: NDArray[np.int64]) -> int:
    """Return how many records the same attack gets right where a coin answers."""
    asking = approach.adversary
    random = np.random.default_rng([plan.seed, 1])
    coin = Coin(asking.interface.columns, asking.records, random)
    blind = Adversary(coin, asking.rule, k=asking.k, epsilon=asking.epsilon)
    *_, last = _readings(replace(approach, adversary=blind))
    return table_match(rows, last.groups, last.counts).records


def _compared(rows: NDArray[np.int64]) -> _Judge:
    """Return a judge who has the table."""

    def judge(groups: Groups, counts: NDArray[np.int64]) -> _Judged:
        match = table_match(rows, groups, counts)
        return _Judged(match.by_column[-1], len(rows), groups.size)

    return judge


def _asked_again(approach: Approach, seed: int) -> _Judge:
    """Return a judge who asks about records drawn at random, at most a thousand."""
    random, adversary = np.random.default_rng(seed), approach.adversary

    def judge(groups: Groups, counts: NDArray[np.int64]) -> _Judged:
        total = int(counts.sum())
        drawn = random.choice(total, min(total, _ASKED_AGAIN), replace=False)
        owner = np.searchsorted(np.cumsum(counts), drawn, side="right")
        asked, times = np.unique(owner, return_counts=True)
        if approach.noise is Noise.NOWHERE:
            right = confirm_counts(adversary, groups, counts, asked=asked, random=random)
        else:
            some = Groups(groups.columns, groups.cells[asked])
            right = confirm_groups(adversary, some, counts[asked])
        return _Judged(int(times[right].sum()), len(drawn), len(asked))

    return judge
