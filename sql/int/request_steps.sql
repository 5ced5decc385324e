-- One row a response of known context that follows another one of its session, beside what is known of that one.
with requests as (
    select
        client,
        session_id,
        seq,
        ts,
        project,
        model,
        cache_read_tokens,
        cache_write_tokens,
        context_tokens,
        -- Of several responses in one row it is not known what the last one left in the cache, or put out.
        case when n_requests = 1 and not is_output_partial then output_tokens end as final_output_tokens,
        -- Of several inner calls in one response, the last one's context tells what is in the cache at the end.
        case
            when n_requests = 1 and cache_read_tokens is not null and cache_write_tokens is not null
                then least(cache_read_tokens + cache_write_tokens, context_tokens)
        end as cached_tokens
    from stg.requests
    where context_tokens is not null
),

paired as (
    select
        *,
        lag(seq) over (partition by client, session_id order by seq) as previous_seq,
        lag(ts) over (partition by client, session_id order by seq) as previous_ts,
        lag(model) over (partition by client, session_id order by seq) as previous_model,
        lag(context_tokens) over (partition by client, session_id order by seq) as previous_context_tokens,
        lag(final_output_tokens) over (partition by client, session_id order by seq) as previous_output_tokens,
        lag(cached_tokens) over (partition by client, session_id order by seq) as previous_cached_tokens
    from requests
),

-- From each compaction to the next one, so that a request finds the last one before it alone.
compactions as (
    select
        client,
        session_id,
        seq,
        lead(seq, 1, 9223372036854775807) over (partition by client, session_id order by seq) as to_seq
    from (
        select distinct
            client,
            session_id,
            seq
        from stg.context_events
        where event in ('compacted', 'cleared')
    ) as moments
)

select
    paired.*,
    coalesce(compactions.seq > paired.previous_seq, false) as is_compacted
from paired
left join compactions
    on
        paired.client = compactions.client
        and paired.session_id = compactions.session_id
        and paired.seq >= compactions.seq
        and paired.seq < compactions.to_seq
where paired.previous_seq is not null
