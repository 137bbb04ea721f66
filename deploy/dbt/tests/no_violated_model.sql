-- Fails with one row for each model and secret that is violated on its latest night with figures, by
-- that night, by all nights together, or by an earlier one that none resolved since.
select
    audits.model,
    audits.day,
    audits.secret,
    windows.reason_code_together,
    windows.epsilon_standing,
    audits.epsilon_declared,
    audits.audit_id
from {{ source('privaudit', 'latest_audits') }} as audits
join {{ source('privaudit', 'epsilon_windows') }} as windows on windows.audit_id = audits.audit_id
where windows.verdict_together = 'violated'
    and audits.day = (
        select max(later.day)
        from {{ source('privaudit', 'latest_audits') }} as later
        join {{ source('privaudit', 'epsilon_windows') }} as counted on counted.audit_id = later.audit_id
        where later.model = audits.model and later.secret = audits.secret
    )
