-- The models and days without a figure, and why: from a model's first record to the latest day that
-- any model has a record of. A run of days without any record is one row.
-- first_day: First day of the run; the day of the record where there is one.
-- last_day: Last day of the run.
-- days: How many days.
-- status: not_evaluable or error as recorded, or missing: there is no record at all.
-- secret: What of a record was, or was not, told.
-- reason_code: The record's word for it, or no_record.
with neighbours as (
    select
        model,
        secret,
        day,
        lead(day) over (
            partition by model, secret order by day
        ) as next_day,
        max(day) over () as newest_day
    from latest_audits
),

-- The days between a record and the model's next one, or the newest of all.
gaps as (
    select
        model,
        secret,
        cast(day + interval '1' day as date) as first_day,
        case
            when next_day is null then newest_day
            else cast(next_day - interval '1' day as date)
        end as last_day
    from neighbours
)

select
    model,
    secret,
    first_day,
    last_day,
    date_diff('day', first_day, last_day) + 1 as days,
    'missing' as status,
    'no_record' as reason_code,
    'No audit of these days was ever recorded.' as reason,
    cast(null as varchar) as audit_id
from gaps
where first_day <= last_day

union all

select
    model,
    secret,
    day as first_day,
    day as last_day,
    1 as days,
    status,
    reason_code,
    reason,
    audit_id
from latest_audits
where status <> 'evaluated'
