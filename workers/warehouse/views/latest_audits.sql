-- The current record of every model, day and secret: the latest that came to figures, or the latest
-- of all where none did. The latest is the one that was last committed or confirmed, whatever the
-- clocks said. What was withdrawn is passed over.
with confirmed as (
    select
        audit_id,
        max(confirmed_at) as confirmed_at,
        coalesce(max(revision), 0) as revision
    from audit_confirmations
    group by audit_id
),

ranked as (
    select
        audits.audit_id,
        row_number() over (
            partition by audits.model, audits.day, coalesce(audits.secret, 'label')
            order by
                case when audits.status = 'evaluated' then 0 else 1 end,
                -- Records from before there were revisions come first.
                case
                    when confirmed.revision > coalesce(audits.revision, 0) then confirmed.revision
                    else coalesce(audits.revision, 0)
                end desc,
                case
                    when confirmed.confirmed_at > audits.recorded_at then confirmed.confirmed_at
                    else audits.recorded_at
                end desc,
                audits.audit_id desc
        ) as place
    from audits
    left join confirmed on confirmed.audit_id = audits.audit_id
    where audits.audit_id not in (select withdrawn.audit_id from audit_withdrawals as withdrawn)
)

select audits.*
from audits
inner join ranked on ranked.audit_id = audits.audit_id
where ranked.place = 1
