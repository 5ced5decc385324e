-- One row a client and UTC hour with requests, and when its block of five hours began (only where `by` is block).
with recursive hours as (
    select distinct
        client,
        date_trunc('hour', timezone('UTC', ts)) as started_hour
    from stg.requests
    where ts is not null and coalesce(cast(getvariable('by') as varchar), 'day') = 'block'
),

-- Were a block to begin in this hour, the next one would begin in that.
followed as (
    select
        client,
        started_hour,
        min(started_hour) over (
            partition by client
            order by started_hour
            range between interval 5 hours following and unbounded following
        ) as next_hour
    from hours
),

-- A block begins with the hour of a request; the first request after its end begins another one.
blocks as (
    select
        client,
        min(started_hour) as block_hour
    from hours
    group by client
    union all
    select
        followed.client,
        followed.next_hour as block_hour
    from blocks
    inner join followed on blocks.client = followed.client and blocks.block_hour = followed.started_hour
    where followed.next_hour is not null
)

select
    hours.client,
    hours.started_hour,
    blocks.block_hour
from hours
inner join blocks
    on
        hours.client = blocks.client
        and hours.started_hour >= blocks.block_hour
        and hours.started_hour < blocks.block_hour + interval 5 hours
