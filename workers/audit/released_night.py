"""One night of released labels held against true ones, as a record beside the model's audits.

It is a record of the secret `released_labels`, so that nights add up, and are read and told of, as
those of all other records. No model is asked.
"""

import datetime as dt
import hashlib
import hmac
import math

import numpy as np
from numpy.typing import NDArray

from privcore.lower_bounds.released_labels import Declared
from workers.audit.declaration import family_of
from workers.audit.label_check import AskedLabels, JudgedLabels, judge_labels
from workers.audit.proving import failure_record
from workers.audit.record import declared_columns, digest_of, flat, identity_of
from workers.audit.request import Request
from workers.exceptions import NotEvaluableError, Reason
from workers.lake.manifest import Privacy, guarantee_of
from workers.sources.tables.day_tables import ReleasedLabels, ReleasedNight, days_of
from workers.sources.tables.table_files import find_day, rows_of
from workers.warehouse.schema import AuditRecord, AuditRow, Status, WealthRow


def released_night(day: dt.date, request: Request) -> AuditRecord:
    """Return the record of a day's released labels, also where there are no figures.

    Raises:
        TransientError: storage kept failing.
    """
    try:
        return _evaluated(day, request)
    except BaseException as error:  # noqa: BLE001  # a failed audit is a record too
        return failure_record(request, day, error)


def _evaluated(day: dt.date, request: Request) -> AuditRecord:
    given, plan = request.external_inputs, request.plan
    assert isinstance(given, ReleasedNight)  # noqa: S101  # by its caller
    privacy, table = _declared(given, request.model, day), given.released_labels
    declared = Declared(privacy.epsilon, privacy.delta, plan.night_significance)
    judged, version = _judged(table, day, declared, seed=plan.seed)
    found, night, doubtful = judged.found, judged.night, judged.doubtful
    if night is None or found is None:
        raise NotEvaluableError(Reason.TOO_FEW_RECORDS, judged.reason)
    pinned = table.model_copy(update={"version": version})
    read = given.model_copy(update={"released_labels": pinned})
    digest, key = judged.digest, request.digest_key
    if key:  # so that no reader can try a label
        digest = hmac.new(key, digest.encode(), hashlib.sha256).hexdigest()
    meaning = read.model_dump_json(exclude={"released_labels": {"table", "catalog", "version"}})
    audit_id = digest_of(request.model, day, plan, {"labels": digest, "meaning": meaning})
    identity = identity_of(audit_id, labels=digest) | {"target_sha256": read.target}
    identity |= {"model": request.model, "day": day}

    def told(values: NDArray[np.float64]) -> tuple[float, ...]:
        """Return evidence for a column: none in doubt, which voids other nights, too."""
        return flat(np.zeros_like(values) if doubtful else values)

    audit = AuditRow(
        **identity,
        **declared_columns(privacy, None),
        verdict=judged.verdict,
        reason_code=judged.code,
        reason=" ".join([judged.reason, *judged.remarks]),
        records=judged.records,
        epsilon_lower=0.0 if doubtful else found.epsilon_lower,
        epsilon_ceiling=0.0 if doubtful else night.epsilon_ceiling,
        sees_from=found.sees_from if math.isfinite(found.sees_from) else None,
        claim_pvalue=1.0 if doubtful else found.pvalue,
        claim_evalue=1.0 if doubtful else float(np.exp(night.claimed.log_wealth).mean()),
        recorded_at=dt.datetime.now(dt.UTC),
        status=Status.EVALUATED,
        source=read.to_json(),
        trust=given.trust,
        secret=plan.secret_name,
        label_column=table.true,
        significance=plan.night_significance,
        plan=plan.model_dump_json(),
    )
    wealth = WealthRow(
        **identity,
        family=family_of(privacy.delta, None).name,
        delta=privacy.delta,
        neighbors=privacy.neighbors,
        epsilon_declared=privacy.epsilon,
        classes=judged.classes,
        labels_recur=plan.labels_recur,
        holdout_sketch=judged.sketch,
        window_log_wealth=told(night.window.log_wealth),
        window_price=0.0,
        standing_price=0.0,
        ceiling_log_wealth=told(night.ceiling),
        claimed_log_wealth=told(night.claimed.log_wealth),
        imagined_mean=told(night.imagined.mean),
        imagined_variance=told(night.imagined.variance),
    )
    return AuditRecord(audit=audit, wealth=(wealth,))


def _judged(
    table: ReleasedLabels, day: dt.date, declared: Declared, *, seed: int
) -> tuple[JudgedLabels, int | None]:
    """Return what a day's rows say, and the table's version that holds them."""
    found = find_day(table, day)
    rows = rows_of(found)
    if found.day_in_files and table.day is not None:
        days = days_of(rows[table.day], day, "UTC", found.name, said="released_labels.day")
        rows = rows.filter(days == day)
    named = table.model_dump(include={"true", "released", "record", "reads", "time"})
    return judge_labels(rows, AskedLabels(declared=declared, seed=seed, **named)), found.version


def _declared(given: ReleasedNight, model: str, day: dt.date) -> Privacy:
    """Return what is declared of one label.

    Raises:
        NotEvaluableError: nothing is, or nothing that one mechanism on labels can be held against.
    """
    privacy = guarantee_of(given.privacy)
    if privacy is None or privacy.epsilon == 0.0 or privacy.neighbors != "replace":
        raise NotEvaluableError(
            Reason.MANIFEST_INVALID,
            f"The released labels of {model} for {day} are held against the model's declaration, "
            "and there is none with neighbors = 'replace' and an epsilon above 0: declare one, in "
            "its manifest or in [models.privacy].",
        )
    return privacy
