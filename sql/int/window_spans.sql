-- One row a window: from when to when it reaches, as far as the lake has requests, and when its newest one was made.
with bounds as (
    select
        min(ts) as oldest_ts,
        max(ts) as last_ts,
        max(
            case
                when getvariable('until') is null or ts < cast(getvariable('until') as timestamp with time zone) then ts
            end
        ) as newest_ts
    from lake.requests
    where getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), client)
)

select
    newest_ts,
    greatest(oldest_ts, cast(getvariable('since') as timestamp with time zone)) as from_ts,
    least(last_ts, cast(getvariable('until') as timestamp with time zone)) as to_ts
from bounds
