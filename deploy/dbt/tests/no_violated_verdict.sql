-- Fails with one row for each model, day and secret whose current verdict is `violated`.
-- An acknowledgement changes no verdict, so an acknowledged violation fails as well.
select
    model,
    day,
    secret,
    epsilon_lower,
    epsilon_declared,
    audit_id
from {{ source('privaudit', 'latest_audits') }}
where verdict = 'violated'
