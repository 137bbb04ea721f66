"""Public statements to attest, whose conclusions follow from their figures."""

import datetime as dt
import hashlib
import hmac
from fractions import Fraction
from typing import Any

from privcore.publication import NightAnswer, NoisyWealth, RecurringTest
from privcore.publication.statement import DOUBTFUL
from workers.publication.statement_row import PublicVerdict, Statement
from workers.publication.threshold_night import ThresholdNight, night_verdict
from workers.versions import METHOD_VERSION

PUBLISHED = dt.datetime(2026, 11, 2, 4, 30, tzinfo=dt.UTC)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def commitment(text: str) -> str:
    return hmac.new(b"nonce", text.encode(), hashlib.sha256).hexdigest()


def statement(
    number: int = 0, *, evidence: int = 120, premises: int = 0, **changed: Any
) -> Statement:
    """Return a statement; 120 units of evidence refute nothing, some thousands do."""
    each = Fraction(1, 20)
    wealth = NoisyWealth(each, 0.02, evidence), NoisyWealth(each, 0.02, premises)
    pvalue, premises_pvalue = wealth[0].pvalue(0.05), wealth[1].pvalue(DOUBTFUL)
    verdict = PublicVerdict.VIOLATED if pvalue <= 0.05 else PublicVerdict.NOT_REFUTED
    if premises_pvalue <= DOUBTFUL:
        verdict = PublicVerdict.DOUBTFUL
    columns = {
        "statement_id": digest(f"statement {number}")[:32],
        "revision": 1,
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
        "labels_commitment": commitment(f"labels {number}"),
        "audit_commitment": commitment(f"audit {number}"),
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
        "epsilon_detectable": 1.2,
        "epsilon_public": 0.1,
        "evidence_gap": 0.02,
        "evidence_price": 0.0,
        "evidence_figure": evidence,
        "premises_gap": 0.02,
        "premises_figure": premises,
        "verdict": verdict,
        "pvalue": pvalue,
        "log_evalue": wealth[0].log_evalue,
        "premises_pvalue": premises_pvalue,
    }
    return Statement(**columns | changed)


def night(
    number: int = 0, *, alarm: bool = False, premises: int = 0, **changed: Any
) -> ThresholdNight:
    """Return an answer of a test over 30 nights, silent unless told."""
    test = RecurringTest(Fraction(1, 10), 0.05, 30)
    answer = NightAnswer(alarm, NoisyWealth(test.each, 0.02, premises) if alarm else None)
    shared = statement(number).model_dump(include=set(ThresholdNight.model_fields))
    columns = shared | {
        "labels_recur": True,
        "test_id": digest(f"test {number}")[:32],
        "test_nights": 30,
        "test_night": 3,
        "threshold": test.alarms.threshold(0.02),
        "alarm": alarm,
        "premises_figure": premises if alarm else None,
        "premises_pvalue": answer.premises_pvalue,
        "verdict": night_verdict(alarm=alarm, doubtful=answer.doubtful, vacuous=False),
    }
    return ThresholdNight(**columns | changed)
