-- Fails with one row for each model and secret that stands violated on its latest day: all nights together
-- refute what was declared, also where no single night does.
select
    audits.model,
    audits.day,
    audits.secret,
    windows.epsilon_standing,
    audits.epsilon_declared,
    audits.audit_id
from {{ source('privaudit', 'latest_audits') }} as audits
join {{ source('privaudit', 'epsilon_windows') }} as windows on windows.audit_id = audits.audit_id
where windows.standing = 'violated'
    and audits.day = (
        select max(later.day)
        from {{ source('privaudit', 'latest_audits') }} as later
        where later.model = audits.model and later.secret = audits.secret
    )
