-- One row a text that a session of the window carried: in how many requests, at what price, and which were its first.
with windowed as (
    select
        client,
        session_id,
        seq,
        case
            when
                (getvariable('since') is null or ts >= cast(getvariable('since') as timestamp with time zone))
                and (getvariable('until') is null or ts < cast(getvariable('until') as timestamp with time zone))
                then n_requests
            else 0
        end as n_requests,
        context_token_usd
    from int.priced_requests
    where
        getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), client)
),

-- Up to and with each request of a session: how many of the window, and at what price.
carried as (
    select
        client,
        session_id,
        -- One key, so that no plan joins the requests of a session to each other.
        concat(client, ' ', session_id, ' ', cast(seq as varchar)) as request_key,
        n_requests,
        count(*) over (partition by client, session_id) as session_requests,
        sum(n_requests) over (partition by client, session_id order by seq) as through_requests,
        sum(coalesce(context_token_usd, 0) * n_requests)
            over (partition by client, session_id order by seq)
            as through_usd,
        sum(case when context_token_usd is null then n_requests else 0 end)
            over (partition by client, session_id order by seq) as through_unpriced,
        coalesce(context_token_usd, 0) * n_requests as usd,
        case when context_token_usd is null then n_requests else 0 end as unpriced
    from windowed
),

sessions as (
    select
        client,
        session_id,
        max(session_requests) as requests
    from carried
    group by client, session_id
),

ended as (
    select
        item_intervals.*,
        least(item_intervals.until_seq, sessions.requests) as to_seq
    from int.item_intervals as item_intervals
    inner join sessions
        on item_intervals.client = sessions.client and item_intervals.session_id = sessions.session_id
),

intervals as (
    select
        ended.*,
        -- Where an item has two texts at once, the requests that carried it are still counted once.
        greatest(
            from_seq,
            coalesce(
                max(to_seq) over (
                    partition by client, session_id, item_kind, item
                    order by from_seq, to_seq, event_id
                    rows between unbounded preceding and 1 preceding
                ),
                0
            )
        ) as uncounted_seq
    from ended
    where from_seq < to_seq
),

-- An event that stands in several sessions is a load in the one that it came from.
copies as (
    select
        client,
        event_id,
        session_id,
        row_number() over (
            partition by client, event_id
            order by is_copied, ts, session_id
        ) as copy
    from intervals
    where is_split
)

select
    intervals.client,
    projects.project,
    intervals.session_id,
    intervals.event_id,
    intervals.event,
    intervals.cause,
    intervals.item_kind,
    intervals.item,
    intervals.path,
    intervals.scope,
    intervals.evidence,
    intervals.ts,
    intervals.from_seq,
    intervals.tokens,
    intervals.tokens_measured,
    intervals.event = 'loaded' and intervals.cause <> 'compaction' and not intervals.is_copied and coalesce(copies.copy, 1) = 1
        as is_load,
    cast(last.through_requests - first.through_requests + first.n_requests as bigint) as requests,
    cast(
        case
            when intervals.uncounted_seq < intervals.to_seq
                then last.through_requests - uncounted.through_requests + uncounted.n_requests
            else 0
        end as bigint
    ) as distinct_requests,
    cast(first.n_requests as bigint) as first_requests,
    cast(last.through_unpriced - first.through_unpriced + first.unpriced as bigint) as unpriced_requests,
    last.through_usd - first.through_usd + first.usd as usd_per_token
from intervals
left join copies
    on
        intervals.is_split
        and intervals.client = copies.client
        and intervals.event_id = copies.event_id
        and intervals.session_id = copies.session_id
inner join carried as first
    on concat(intervals.client, ' ', intervals.session_id, ' ', cast(intervals.from_seq as varchar)) = first.request_key
inner join carried as last
    on concat(intervals.client, ' ', intervals.session_id, ' ', cast(intervals.to_seq - 1 as varchar)) = last.request_key
left join carried as uncounted
    on concat(intervals.client, ' ', intervals.session_id, ' ', cast(intervals.uncounted_seq as varchar)) = uncounted.request_key
left join stg.sessions as projects
    on intervals.client = projects.client and intervals.session_id = projects.session_id
where
    last.through_requests - first.through_requests + first.n_requests > 0
    and (
        getvariable('project') is null
        or projects.project = cast(getvariable('project') as varchar)
        or ends_with(projects.project, concat('/', cast(getvariable('project') as varchar)))
        or ends_with(projects.project, concat(chr(92), cast(getvariable('project') as varchar)))
    )
