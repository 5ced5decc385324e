-- One row a text that a session carried, and what no text explains: in how many requests of the window, at what price.
-- Sessions go by numbers here: most work is joining and sorting by them.
with keys as (
    select
        client,
        session_id,
        row_number() over (order by client, session_id) as session_key
    from lake.requests
    where
        session_id is not null
        and (getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), client))
    group by client, session_id
),

windowed as (
    select
        keys.session_key,
        requests.seq,
        requests.file_seq,
        requests.ts,
        requests.model_id,
        requests.context_tokens,
        requests.n_requests as responses,
        case
            when
                (
                    getvariable('since') is null
                    or requests.ts >= cast(getvariable('since') as timestamp with time zone)
                )
                and (
                    getvariable('until') is null
                    or requests.ts < cast(getvariable('until') as timestamp with time zone)
                )
                then requests.n_requests
            else 0
        end as n_requests,
        requests.context_token_usd
    from int.priced_requests as requests
    inner join keys
        on requests.client = keys.client and requests.session_id = keys.session_id
),

counts as (
    select
        session_key,
        count(*) as requests
    from windowed
    group by session_key
),

sessions as (
    select
        keys.session_key,
        keys.client,
        keys.session_id,
        sessions.project,
        coalesce(sessions.client_version, 'version not recorded') as client_version,
        coalesce(sessions.is_subagent, false) as is_subagent,
        counts.requests
    from keys
    inner join counts on keys.session_key = counts.session_key
    left join stg.sessions as sessions
        on keys.client = sessions.client and keys.session_id = sessions.session_id
),

-- Up to and with each request of a session: how many of the window, and at what price.
through as (
    select
        -- One key, so that no plan joins the requests of a session to each other.
        session_key * 4294967296 + seq as request_key,
        requests,
        usd,
        unpriced,
        sum(requests) over session_so_far as through_requests,
        sum(usd) over session_so_far as through_usd,
        sum(unpriced) over session_so_far as through_unpriced
    from (
        select
            session_key,
            seq,
            cast(n_requests as double) as requests,
            coalesce(context_token_usd, 0) * n_requests as usd,
            cast(case when context_token_usd is null then n_requests else 0 end as double) as unpriced
        from windowed
    ) as costed
    window session_so_far as (
        partition by session_key
        order by seq
        rows between unbounded preceding and current row
    )
),

intervals as (
    select
        sessions.session_key,
        item_intervals.client,
        item_intervals.event_id,
        item_intervals.event = 'loaded'
        and item_intervals.cause <> 'compaction'
        and not item_intervals.is_copied as is_load,
        item_intervals.item_kind,
        item_intervals.item,
        item_intervals.path,
        item_intervals.sha256,
        item_intervals.scope,
        item_intervals.evidence,
        item_intervals.is_copied,
        item_intervals.is_split,
        item_intervals.chars,
        item_intervals.ts,
        item_intervals.from_seq,
        least(item_intervals.until_seq, sessions.requests) as to_seq
    from int.item_intervals as item_intervals
    inner join sessions
        on item_intervals.client = sessions.client and item_intervals.session_id = sessions.session_id
    where item_intervals.from_seq < least(item_intervals.until_seq, sessions.requests)
),

-- Where a text has another size with another model, its interval is cut at the change. Without exact counts, and
-- without calibration, no text has, nothing is cut, and nothing is sorted.
counted as (
    select distinct sha256
    from stg.exact_counts
),

rates as (
    select *
    from int.model_rates
),

cut as (
    select
        session_key,
        event_id,
        sha256,
        from_seq,
        to_seq
    from intervals
    where
        sha256 in (select counted.sha256 from counted)
        or client in (select rates.client from rates)
),

numbered as (
    select
        session_key,
        seq,
        ts,
        model_id,
        row_number() over (partition by session_key order by seq)
        - row_number() over (partition by session_key, model_id order by seq) as run
    from windowed
    where session_key in (select cut.session_key from cut)
),

runs as (
    select
        numbered.session_key,
        numbered.model_id,
        min(numbered.seq) as from_seq,
        max(numbered.seq) + 1 as to_seq,
        min(numbered.ts) as ts,
        min(rates.chars_per_token) as chars_per_token
    from numbered
    inner join keys on numbered.session_key = keys.session_key
    left join rates
        on keys.client = rates.client and numbered.model_id = rates.model_id
    group by numbered.session_key, numbered.model_id, numbered.run
),

cuts as (
    select
        cut.session_key,
        cut.event_id,
        runs.ts,
        runs.chars_per_token,
        exact_counts.tokens,
        greatest(runs.from_seq, cut.from_seq) as from_seq,
        least(runs.to_seq, cut.to_seq) as to_seq
    from cut
    inner join runs
        on
            cut.session_key = runs.session_key
            and cut.from_seq < runs.to_seq
            and cut.to_seq > runs.from_seq
    left join stg.exact_counts as exact_counts
        on cut.sha256 = exact_counts.sha256 and runs.model_id = exact_counts.model_id
),

pieces as (
    select
        intervals.session_key,
        intervals.event_id,
        intervals.is_load and coalesce(cuts.from_seq, intervals.from_seq) = intervals.from_seq as is_load,
        intervals.item_kind,
        intervals.item,
        intervals.path,
        intervals.scope,
        intervals.evidence,
        intervals.is_split,
        coalesce(cuts.from_seq, intervals.from_seq) as from_seq,
        coalesce(cuts.to_seq, intervals.to_seq) as to_seq,
        coalesce(cuts.tokens, cast(ceil(intervals.chars / coalesce(cuts.chars_per_token, 4.0)) as bigint)) as tokens,
        cuts.tokens is not null as tokens_measured,
        -- The size that it has under a later model is the newer one.
        case when cuts.from_seq > intervals.from_seq then coalesce(cuts.ts, intervals.ts) else intervals.ts end as ts
    from intervals
    left join cuts
        on intervals.session_key = cuts.session_key and intervals.event_id = cuts.event_id
),

-- Many texts of a session are carried by the same requests. What no text explains is carried by all of them.
stretches as (
    select
        session_key,
        from_seq,
        to_seq
    from pieces
    union
    select
        session_key,
        0 as from_seq,
        requests as to_seq
    from sessions
    where not is_subagent
),

sums as (
    select
        stretches.session_key,
        stretches.from_seq,
        stretches.to_seq,
        cast(first.requests as bigint) as first_requests,
        cast(last.through_requests - first.through_requests + first.requests as bigint) as requests,
        cast(last.through_unpriced - first.through_unpriced + first.unpriced as bigint) as unpriced_requests,
        last.through_usd - first.through_usd + first.usd as usd_per_token
    from stretches
    inner join through as first
        on stretches.session_key * 4294967296 + stretches.from_seq = first.request_key
    inner join through as last
        on stretches.session_key * 4294967296 + stretches.to_seq - 1 = last.request_key
),

-- Where a session carries two texts of an item at once, the requests that carried it are still counted once.
-- Hashes only narrow the search.
crowded as (
    select hash(session_key, item_kind, item) as item_key
    from pieces
    group by hash(session_key, item_kind, item)
    having count(*) > 2 or sum(to_seq - from_seq) > max(to_seq) - min(from_seq)
),

reached as (
    select
        session_key,
        event_id,
        from_seq,
        to_seq,
        max(to_seq) over (
            partition by session_key, item_kind, item
            order by from_seq, to_seq, event_id
            rows between unbounded preceding and 1 preceding
        ) as reached_seq
    from pieces
    where hash(session_key, item_kind, item) in (select crowded.item_key from crowded)
),

counted_before as (
    select
        reached.session_key,
        reached.event_id,
        reached.from_seq,
        cast(last.through_requests - first.through_requests + first.requests as bigint) as requests
    from reached
    inner join through as first
        on reached.session_key * 4294967296 + reached.from_seq = first.request_key
    inner join through as last
        on reached.session_key * 4294967296 + least(reached.reached_seq, reached.to_seq) - 1 = last.request_key
    where reached.reached_seq > reached.from_seq
),

-- An event that stands in several sessions is a load in the one that it came from.
copies as (
    select
        session_key,
        event_id,
        row_number() over (
            partition by client, event_id
            order by is_copied, ts, session_key
        ) as copy
    from intervals
    where is_split
),

-- The smallest context that a session began with. A fork begins with what it copied, and is none.
floors as (
    select
        *,
        row_number() over (
            partition by client, project, client_version
            order by context_tokens, session_id
        ) as place
    from (
        select
            sessions.session_key,
            sessions.client,
            sessions.project,
            sessions.client_version,
            sessions.session_id,
            windowed.context_tokens,
            rates.chars_per_token
        from windowed
        inner join sessions on windowed.session_key = sessions.session_key
        left join rates
            on sessions.client = rates.client and windowed.model_id = rates.model_id
        where
            windowed.seq = 0
            and windowed.file_seq = 0
            and windowed.responses = 1
            and windowed.context_tokens is not null
            and not sessions.is_subagent
    ) as firsts
),

-- What prompts and attachments of that first request come to. A session in two files has them in each.
asked as (
    select
        session_key,
        max(tokens) as tokens
    from (
        select
            floors.session_key,
            texts.source_id,
            sum(ceil(texts.chars / coalesce(floors.chars_per_token, 4.0))) as tokens
        from floors
        inner join (
            select
                client,
                source_id,
                session_id,
                chars
            from lake.prompts
            where seq = 0
            union all
            select
                client,
                source_id,
                session_id,
                chars
            from lake.context_events
            where seq = 0 and event in ('attachment', 'compacted')
        ) as texts
            on floors.client = texts.client and floors.session_id = texts.session_id
        where floors.place = 1
        group by floors.session_key, texts.source_id
    ) as by_file
    group by session_key
),

explained as (
    select
        floors.session_key,
        sum(pieces.tokens) as tokens
    from floors
    inner join pieces on floors.session_key = pieces.session_key
    where floors.place = 1 and pieces.from_seq = 0
    group by floors.session_key
),

unexplained as (
    select
        floors.client,
        floors.project,
        floors.client_version,
        floors.context_tokens,
        cast(
            greatest(floors.context_tokens - coalesce(explained.tokens, 0) - coalesce(asked.tokens, 0), 0) as bigint
        ) as tokens
    from floors
    left join explained on floors.session_key = explained.session_key
    left join asked on floors.session_key = asked.session_key
    where floors.place = 1
)

select
    sessions.client,
    sessions.project,
    sessions.session_id,
    sessions.session_key,
    pieces.event_id,
    pieces.item_kind,
    pieces.item,
    pieces.path,
    pieces.scope,
    pieces.evidence,
    pieces.ts,
    pieces.from_seq,
    pieces.to_seq,
    pieces.tokens,
    pieces.tokens_measured,
    cast(null as bigint) as first_request_tokens,
    pieces.is_load and copies.copy is null as is_load,
    sums.requests,
    sums.requests - coalesce(counted_before.requests, 0) as distinct_requests,
    sums.first_requests,
    sums.unpriced_requests,
    sums.usd_per_token
from pieces
inner join sums
    on
        pieces.session_key = sums.session_key
        and pieces.from_seq = sums.from_seq
        and pieces.to_seq = sums.to_seq
inner join sessions on pieces.session_key = sessions.session_key
left join counted_before
    on
        pieces.session_key = counted_before.session_key
        and pieces.event_id = counted_before.event_id
        and pieces.from_seq = counted_before.from_seq
left join copies
    on
        pieces.is_split
        and pieces.session_key = copies.session_key
        and pieces.event_id = copies.event_id
        and copies.copy > 1
where sums.requests > 0
union all
select
    sessions.client,
    sessions.project,
    sessions.session_id,
    sessions.session_key,
    'unexplained' as event_id,
    'unexplained' as item_kind,
    sessions.client_version as item,
    cast(null as varchar) as path,
    cast(null as varchar) as scope,
    'transcript' as evidence,
    cast(null as timestamp with time zone) as ts,
    0 as from_seq,
    sessions.requests as to_seq,
    unexplained.tokens,
    false as tokens_measured,
    unexplained.context_tokens as first_request_tokens,
    false as is_load,
    sums.requests,
    sums.requests as distinct_requests,
    sums.first_requests,
    sums.unpriced_requests,
    sums.usd_per_token
from sessions
inner join unexplained
    on
        sessions.client = unexplained.client
        and sessions.project is not distinct from unexplained.project
        and sessions.client_version = unexplained.client_version
inner join sums
    on
        sessions.session_key = sums.session_key
        and sums.from_seq = 0
        and sessions.requests = sums.to_seq
where not sessions.is_subagent and sums.requests > 0
