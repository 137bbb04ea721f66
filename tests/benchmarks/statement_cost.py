"""The cost of a public statement's noise: the largest declared epsilon that is refuted.

    python -m tests.benchmarks.statement_cost [--json] [--quick]

Randomized response at a true epsilon, a quarter of the records held out. Each figure is the median
over audits: of the exact bound that stakes all on all records, and of statements with an added
privacy loss of 0.1, 0.2 and 0.5, a half of which is for the refutation. With `--quick`, 11 audits
each.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from privcore.attacks import Matched
from privcore.guarantees import PureDP
from privcore.lower_bounds import Claim
from privcore.lower_bounds.stakes import stakes_for
from privcore.publication.noisy_wealth import GAP, log_wealth, with_noise
from privcore.publication.statement import Bet
from tests.benchmarks.measure import arguments, report

CELLS = ((1_000, 2.0), (20_000, 0.5), (20_000, 1.0), (20_000, 2.0), (20_000, 4.0), (10**6, 2.0))
LOSSES = (Fraction(1, 10), Fraction(1, 5), Fraction(1, 2))
SIGNIFICANCE = 0.05
_KEY = bytes(range(32))


def responses(random: np.random.Generator, records: int, epsilon: float) -> Matched:
    """Draw what randomized response gives away at most."""
    held = records // 4
    right = random.binomial(records - held, 1.0 / (1.0 + math.exp(-epsilon)))
    columns = (records - held, right, held, random.binomial(held, 0.5))
    return Matched(*(np.array([number]) for number in columns), offset=np.zeros(1))


def largest(refuted: Callable[[float], bool]) -> float:
    """Return the largest epsilon that is refuted, within 0.005."""
    low, high = 0.0, 8.0
    while high - low > 0.005:
        middle = (low + high) / 2.0
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def refuted_by(tables: Matched, loss: Fraction, audit: int) -> Callable[[float], bool]:
    """Return whether a statement about these tables refutes an epsilon."""
    records, control = int(tables.records.sum()), int(tables.control.sum())

    def refuted(epsilon: float) -> bool:
        claim = Claim(PureDP(), 0.0, SIGNIFICANCE, epsilon=epsilon)
        stakes = stakes_for(claim, records=records, classes=2, control=control)
        exact = Bet(stakes, loss / 2, SIGNIFICANCE).against(tables, epsilon)
        return with_noise(exact, _KEY, audit).pvalue(SIGNIFICANCE) <= SIGNIFICANCE

    return refuted


def found(records: int, truth: float, audit: int) -> list[float]:
    """Return what the exact bound and the statements of one audit refute."""
    tables = responses(np.random.default_rng([39, audit, records]), records, truth)
    gap = GAP / math.sqrt(tables.effective)

    def exact(epsilon: float) -> bool:
        return log_wealth(tables, epsilon=epsilon, gap=gap) >= -math.log(SIGNIFICANCE)

    return [largest(test) for test in (exact, *(refuted_by(tables, e, audit) for e in LOSSES))]


def measured(*, quick: bool) -> list[dict[str, Any]]:
    rows = []
    for records, truth in CELLS:
        audits = 11 if quick or records >= 10**6 else 101
        medians = np.median([found(records, truth, one) for one in range(audits)], axis=0)
        names = ("exact", *(f"e' = {float(loss):g}" for loss in LOSSES))
        rows.append(
            {"records": records, "truth": truth, "audits": audits}
            | {name: round(float(one), 2) for name, one in zip(names, medians, strict=True)}
        )
    return rows


def main() -> None:
    report(measured(quick=arguments(__doc__).quick), description=__doc__)


if __name__ == "__main__":
    main()
