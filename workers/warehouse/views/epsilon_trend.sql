-- What was audited, declared and possible, day by day: one row per model, secret and evaluated day.
-- Bounds over windows of nights are in `epsilon_windows`.
-- change: The headline less that of the model's evaluated day before. Null on its first.
select
    model,
    secret,
    day,
    verdict,
    epsilon_lower,
    epsilon_lower - lag(epsilon_lower) over (
        partition by model, secret order by day
    ) as change,
    epsilon_ceiling,
    epsilon_if_proxy_right,
    epsilon_paper,
    control_epsilon_lower,
    epsilon_declared,
    delta_declared,
    epsilon_accounted,
    records,
    control_records,
    audit_id
from latest_audits
where status = 'evaluated'
