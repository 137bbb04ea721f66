"""Cost of each countermeasure of the reconstruction paper to an attacker, on one column.

"Reconstruction Attacks on Aggressive Relaxations of Differential Privacy", sections 3.2.1, 3.6 and
5.1. The paper names them and prints no figure; these are counted here.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from flows.report.study_page import StudyTable
from flows.study.cells import CellRow
from flows.study.tables import table_of
from privcore.attacks import (
    Adversary,
    Disagreement,
    NotZeroOrOne,
    VarianceAbove,
    reconstruct_table,
    table_match,
)
from privcore.attacks.noise_detection import NoiseRule
from privcore.mechanisms import (
    Column,
    KLaplace,
    NoisyCountThreshold,
    ProtectedTable,
    QueryInterface,
    QueryMechanism,
    RestrictedInterface,
    RoundedToBit,
    RoundedToInteger,
    Unprotected,
)
from workers.release.table import Table

COLUMN = "age"
_EPSILON = 1e-10
_LEAST_EPSILON = 0.01
_MOST_QUERIES = 100.0


@dataclass(frozen=True, slots=True)
class Countermeasure:
    """Protection of answers, and the way of an attacker who knows it.

    Attributes:
        title: what it is called.
        mechanism: what answers.
        rule: how noise is recognised.
        k: what the adversary reckons with; 0 where nothing is protected.
        epsilon: what each decision claims.
        queries: the most that are answered.
        least_epsilon: the least that a query claims.
    """

    title: str
    mechanism: QueryMechanism
    rule: NoiseRule
    k: int = 1
    epsilon: float = _EPSILON
    queries: float = float("inf")
    least_epsilon: float = 0.0


COUNTERMEASURES = {
    "none": Countermeasure("no protection", Unprotected(), NotZeroOrOne(), k=0),
    "recommended": Countermeasure("noise as IDP recommends it", KLaplace(), NotZeroOrOne()),
    "integers": Countermeasure(
        "answers rounded to integers", RoundedToInteger(KLaplace()), NotZeroOrOne()
    ),
    "bits": Countermeasure("answers rounded to 0 or 1", RoundedToBit(KLaplace()), Disagreement(45)),
    "always": Countermeasure(
        "noise in every answer", KLaplace(added_sensitivity=1.0), VarianceAbove(1000)
    ),
    "least-epsilon": Countermeasure(
        f"at least epsilon {_LEAST_EPSILON:g} a query",
        KLaplace(),
        NotZeroOrOne(),
        epsilon=_LEAST_EPSILON,
        least_epsilon=_LEAST_EPSILON,
    ),
    "limit": Countermeasure(
        f"at most {_MOST_QUERIES:g} queries", KLaplace(), NotZeroOrOne(), queries=_MOST_QUERIES
    ),
    "noisy-count": Countermeasure(
        "noise on the count (differential privacy)", NoisyCountThreshold(), Disagreement(15)
    ),
}


def play_countermeasure(table: Table, random: np.random.Generator, *, name: str) -> list[CellRow]:
    """Attack one column behind one countermeasure; its domain is known to the attacker."""
    played, place = COUNTERMEASURES[name], table.index(COLUMN)
    cells = np.asfortranarray(table.cells[:, [place]])
    interface: QueryInterface = RestrictedInterface(
        ProtectedTable(cells, (Column(COLUMN),), played.mechanism, random),
        queries=played.queries,
        minimum_epsilon=played.least_epsilon,
    )
    adversary = Adversary(interface, played.rule, k=played.k, epsilon=played.epsilon)
    found = reconstruct_table(adversary, bounds=[table.columns[place]])
    match = table_match(cells, found.groups, found.counts)
    row: CellRow = {
        "name": name,
        "queries": adversary.queries,
        "claimed_budget": adversary.claimed_budget if played.k else 0.0,
        "share": match.share_of_cells,
    }
    return [row]


def countermeasures_table(found: pl.DataFrame) -> StudyTable:
    """Return what each countermeasure costs an attacker."""
    free = found["queries"][0]
    return table_of(
        f"What countermeasures cost an attacker: the column {COLUMN} alone",
        found.to_dicts(),
        {
            "countermeasure": lambda row: COUNTERMEASURES[row["name"]].title,
            "queries": "{queries:,}",
            "times": lambda row: f"{row['queries'] / free:,.3g}",
            "claimed budget": "{claimed_budget:.2g}",
            "read right": "{share:.1%}",
        },
        text=("countermeasure",),
    )


COUNTERMEASURES_SENTENCE = (
    "Of the countermeasures only noise on the count is one: it is differential privacy. A limit on "
    "queries ends this attack and not those on single persons, which take 2 queries for membership "
    "and some 30 for an attribute; a least epsilon multiplies what is claimed, not what is asked; "
    "and where neighbors depend on the table, a mechanism may name the table by its hint, at any "
    "epsilon and without a query (Lemma 5.3)."
)
