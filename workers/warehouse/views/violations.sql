-- The refuted declarations: one row per model, day and secret whose current verdict is `violated`.
-- excess: How far the headline lies above what was declared.
select
    model,
    secret,
    day,
    epsilon_lower,
    epsilon_declared,
    epsilon_lower - epsilon_declared as excess,
    epsilon_if_proxy_right,
    control_epsilon_lower,
    epsilon_ceiling,
    epsilon_accounted,
    delta_declared,
    claim_pvalue,
    mechanism,
    declared_by,
    declared_at,
    reason,
    recorded_at,
    audit_id
from latest_audits
where verdict = 'violated'
