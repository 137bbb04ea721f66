-- The current record of every model, day and secret: the latest that came to figures, or the latest
-- of all where none did. The latest is the one that was last committed or confirmed, whatever the
-- clocks said. Of audits of the same inputs by the same method the first counts, and an exploratory
-- one only where there is no other. One that refutes counts before later ones of other inputs by the
-- same method. What was withdrawn is passed over.
with confirmed as (
    select
        audit_id,
        max(confirmed_at) as confirmed_at,
        coalesce(max(revision), 0) as revision
    from audit_confirmations
    group by audit_id
),

known as (
    select
        audits.audit_id,
        audits.model,
        audits.day,
        audits.recorded_at,
        audits.method_version,
        audits.target_sha256,
        audits.proxy_sha256,
        audits.labels_digest,
        audits.target_manifest_sha256,
        audits.proxy_manifest_sha256,
        audits.secret,
        case when audits.status = 'evaluated' then 0 else 1 end as unevaluated,
        case when coalesce(audits.exploratory, false) then 0 else 1 end as configured,
        case
            when coalesce(audits.exploratory, false) then null
            when audits.status <> 'evaluated' then null
            when audits.verdict = 'violated' then audits.method_version
        end as refuted_by,
        audits.revision,
        case
            when confirmed.revision > audits.revision then confirmed.revision
            else audits.revision
        end as latest_revision,
        case
            when confirmed.confirmed_at > audits.recorded_at then confirmed.confirmed_at
            else audits.recorded_at
        end as latest_seen,
        -- What read nothing that is known is like no other.
        case
            when audits.labels_digest is null then audits.audit_id
            when audits.status <> 'evaluated' then audits.audit_id
        end as alone
    from audits
    left join confirmed on confirmed.audit_id = audits.audit_id
    where audits.audit_id not in (select withdrawn.audit_id from audit_withdrawals as withdrawn)
),

-- The first of the same inputs stands for all of these, and is as late as the last.
firsts as (
    select
        audit_id,
        model,
        day,
        secret,
        method_version,
        refuted_by,
        unevaluated,
        configured,
        max(latest_revision) over (
            partition by
                model, day, secret, configured, method_version, target_sha256, proxy_sha256,
                labels_digest, target_manifest_sha256, proxy_manifest_sha256, alone
        ) as latest_revision,
        max(latest_seen) over (
            partition by
                model, day, secret, configured, method_version, target_sha256, proxy_sha256,
                labels_digest, target_manifest_sha256, proxy_manifest_sha256, alone
        ) as latest_seen,
        row_number() over (
            partition by
                model, day, secret, configured, method_version, target_sha256, proxy_sha256,
                labels_digest, target_manifest_sha256, proxy_manifest_sha256, alone
            order by revision, recorded_at, audit_id
        ) as nth
    from known
),

placed as (
    select
        *,
        row_number() over (
            partition by model, day, secret
            order by
                configured desc, unevaluated, latest_revision desc, latest_seen desc, audit_id desc
        ) as place
    from firsts
    where nth = 1
),

methods as (
    select
        *,
        max(case when place = 1 then method_version end) over (
            partition by model, day, secret
        ) as newest_method
    from placed
),

ranked as (
    select
        audit_id,
        row_number() over (
            partition by model, day, secret
            order by
                configured desc, unevaluated, case when refuted_by = newest_method then 0 else 1 end,
                place
        ) as place
    from methods
)

select audits.*
from audits
inner join ranked on ranked.audit_id = audits.audit_id
where ranked.place = 1
