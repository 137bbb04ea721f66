"""Public statements to attest, whose conclusions follow from their figures."""

import datetime as dt
import hashlib
from fractions import Fraction
from typing import Any

from privcore.lower_bounds.verdicts import Verdict
from privcore.publication import NoisyWealth
from privcore.publication.statement import DOUBTFUL
from workers.publication.statements import Statement, verdict_of
from workers.versions import METHOD_VERSION

PUBLISHED = dt.datetime(2026, 11, 2, 4, 30, tzinfo=dt.UTC)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def statement(
    number: int = 0, *, evidence: int = 120, premises: int = 0, **changed: Any
) -> Statement:
    """Return a statement; 120 units of evidence refute nothing, some thousands do."""
    each = Fraction(1, 20)
    wealth = NoisyWealth(each, 0.02, evidence), NoisyWealth(each, 0.02, premises)
    pvalue, premises_pvalue = wealth[0].pvalue(0.05), wealth[1].pvalue(DOUBTFUL)
    columns = {
        "statement_id": digest(f"statement {number}")[:32],
        "published_at": PUBLISHED + dt.timedelta(minutes=number),
        "model": f"model-{number}",
        "day": dt.date(2026, 11, 1),
        "dataset": "clicks",
        "label_days": (dt.date(2026, 11, 1),),
        "labels_recur": False,
        "holdout_sketch": digest(f"holdout {number}"),
        "method_version": METHOD_VERSION,
        "code_version": "0.1.0",
        "target_sha256": digest(f"target {number}"),
        "proxy_sha256": digest(f"proxy {number}"),
        "family": "pure_dp",
        "epsilon_declared": 1.0,
        "delta_declared": 0.0,
        "neighbors": "replace",
        "unit": "record",
        "by_policy": False,
        "epsilon_accounted": None,
        "significance": 0.05,
        "records": 15000,
        "control_records": 5000,
        "epsilon_ceiling": 4.1,
        "sees_from": 1.2,
        "epsilon_public": 0.1,
        "evidence_gap": 0.02,
        "evidence_price": 0.0,
        "evidence_figure": evidence,
        "premises_gap": 0.02,
        "premises_figure": premises,
        "declaration_empty": False,
        "verdict": Verdict.INCONCLUSIVE,
        "pvalue": pvalue,
        "log_evalue": wealth[0].log_evalue,
        "premises_pvalue": premises_pvalue,
    }
    made = Statement(**columns | changed)
    verdict = changed.get("verdict", verdict_of(made, made.figures))
    return made.model_copy(update={"verdict": Verdict(verdict)})
