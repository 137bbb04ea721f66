"""Statements of the five papers, their code and their agreement: docs/evidence/papers.md.

Tests name what they hold with `@pytest.mark.paper(key, place, ...)`; `tests` names others.
"""

from tests.support.papers_observational import OBSERVATIONAL
from tests.support.papers_reidentification import REIDENTIFICATION
from tests.support.papers_relaxations import RELAXATIONS
from tests.support.papers_renyi import RENYI
from tests.support.papers_worst_case import WORST_CASE

PAPERS = {
    "observational": OBSERVATIONAL,
    "worst_case": WORST_CASE,
    "reidentification": REIDENTIFICATION,
    "renyi": RENYI,
    "relaxations": RELAXATIONS,
}
