-- What the guarantees promise against any attack, beside what the audit's attack achieved: the rows
-- of `audit_promises` that belong to current records.
-- share: `achieved` over `value`: how near the attack came to the limit. Null where one is missing.
select
    latest_audits.model,
    latest_audits.day,
    audit_promises.guarantee,
    audit_promises.quantity,
    audit_promises.parameter,
    audit_promises.value,
    audit_promises.guesses,
    audit_promises.achieved,
    audit_promises.achieved / nullif(audit_promises.value, 0) as share,
    audit_promises.source,
    audit_promises.audit_id
from latest_audits
inner join audit_promises on audit_promises.audit_id = latest_audits.audit_id
