-- One row a text that a session of the window carried: in how many requests, at what price, and which were its first.
with windowed as (
    select
        client,
        session_id,
        seq,
        ts,
        model_id,
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

-- A text that was counted exactly has a size for each model: its interval is cut where the model changes.
counted as (
    select distinct sha256
    from stg.exact_counts
),

counted_sessions as (
    select distinct
        intervals.client,
        intervals.session_id
    from intervals
    inner join counted on intervals.sha256 = counted.sha256
),

-- As int.model_runs, but of these sessions alone: where nothing was counted, nothing is sorted.
numbered as (
    select
        windowed.client,
        windowed.session_id,
        windowed.seq,
        windowed.ts,
        windowed.model_id,
        row_number() over (partition by windowed.client, windowed.session_id order by windowed.seq)
        - row_number()
            over (partition by windowed.client, windowed.session_id, windowed.model_id order by windowed.seq)
            as run
    from windowed
    inner join counted_sessions
        on windowed.client = counted_sessions.client and windowed.session_id = counted_sessions.session_id
),

runs as (
    select
        client,
        session_id,
        model_id,
        min(seq) as from_seq,
        max(seq) + 1 as to_seq,
        min(ts) as ts
    from numbered
    group by client, session_id, model_id, run
),

cuts as (
    select
        intervals.client,
        intervals.session_id,
        intervals.event_id,
        runs.ts,
        exact_counts.tokens,
        greatest(runs.from_seq, intervals.from_seq) as from_seq,
        least(runs.to_seq, intervals.to_seq) as to_seq
    from intervals
    inner join counted on intervals.sha256 = counted.sha256
    inner join runs
        on
            intervals.client = runs.client
            and intervals.session_id = runs.session_id
            and intervals.from_seq < runs.to_seq
            and intervals.to_seq > runs.from_seq
    left join stg.exact_counts as exact_counts
        on intervals.sha256 = exact_counts.sha256 and runs.model_id = exact_counts.model_id
),

pieces as (
    select
        intervals.client,
        intervals.session_id,
        intervals.event_id,
        intervals.event,
        intervals.cause,
        intervals.item_kind,
        intervals.item,
        intervals.path,
        intervals.scope,
        intervals.evidence,
        intervals.is_copied,
        intervals.is_split,
        intervals.from_seq as entered_seq,
        coalesce(cuts.from_seq, intervals.from_seq) as from_seq,
        coalesce(cuts.to_seq, intervals.to_seq) as to_seq,
        coalesce(cuts.tokens, intervals.tokens) as tokens,
        cuts.tokens is not null or intervals.tokens_measured as tokens_measured,
        greatest(intervals.uncounted_seq, coalesce(cuts.from_seq, intervals.from_seq)) as uncounted_seq,
        -- The size that it has under a later model is the newer one.
        case when cuts.from_seq > intervals.from_seq then coalesce(cuts.ts, intervals.ts) else intervals.ts end as ts
    from intervals
    left join cuts
        on
            intervals.client = cuts.client
            and intervals.session_id = cuts.session_id
            and intervals.event_id = cuts.event_id
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
    pieces.client,
    projects.project,
    pieces.session_id,
    pieces.event_id,
    pieces.event,
    pieces.cause,
    pieces.item_kind,
    pieces.item,
    pieces.path,
    pieces.scope,
    pieces.evidence,
    pieces.ts,
    pieces.from_seq,
    pieces.tokens,
    pieces.tokens_measured,
    pieces.event = 'loaded'
    and pieces.cause <> 'compaction'
    and not pieces.is_copied
    and coalesce(copies.copy, 1) = 1
    and pieces.from_seq = pieces.entered_seq as is_load,
    cast(last.through_requests - first.through_requests + first.n_requests as bigint) as requests,
    cast(
        case
            when pieces.uncounted_seq < pieces.to_seq
                then last.through_requests - uncounted.through_requests + uncounted.n_requests
            else 0
        end as bigint
    ) as distinct_requests,
    cast(first.n_requests as bigint) as first_requests,
    cast(last.through_unpriced - first.through_unpriced + first.unpriced as bigint) as unpriced_requests,
    last.through_usd - first.through_usd + first.usd as usd_per_token
from pieces
left join copies
    on
        pieces.is_split
        and pieces.client = copies.client
        and pieces.event_id = copies.event_id
        and pieces.session_id = copies.session_id
inner join carried as first
    on concat(pieces.client, ' ', pieces.session_id, ' ', cast(pieces.from_seq as varchar)) = first.request_key
inner join carried as last
    on concat(pieces.client, ' ', pieces.session_id, ' ', cast(pieces.to_seq - 1 as varchar)) = last.request_key
left join carried as uncounted
    on concat(pieces.client, ' ', pieces.session_id, ' ', cast(pieces.uncounted_seq as varchar)) = uncounted.request_key
left join stg.sessions as projects
    on pieces.client = projects.client and pieces.session_id = projects.session_id
where
    last.through_requests - first.through_requests + first.n_requests > 0
    and (
        getvariable('project') is null
        or projects.project = cast(getvariable('project') as varchar)
        or ends_with(projects.project, concat('/', cast(getvariable('project') as varchar)))
        or ends_with(projects.project, concat(chr(92), cast(getvariable('project') as varchar)))
    )
