-- One row a prefix that was written to the cache again: after which pause, how much, why, and what that cost.
with lost as (
    select
        *,
        previous_cached_tokens - cache_read_tokens as lost_tokens
    from int.request_steps
    where
        previous_cached_tokens - cache_read_tokens >= 1024
        and cache_write_tokens >= 1024
        and n_requests = 1
),

rewritten as (
    select
        *,
        least(cache_write_tokens, lost_tokens) as rewritten_tokens,
        date_diff('second', previous_ts, ts) as gap_seconds,
        case
            -- No more lost than the 5-minute part: those were the entries that ended. More: 1-hour ones, too.
            when newest_1h_tokens > 0 and lost_tokens > newest_5m_tokens then 3600
            when newest_1h_tokens + newest_5m_tokens > 0 then 300
            -- Without a split they are of the vendor's default; how long other vendors keep a cache is not known.
            when starts_with(lower(coalesce(model_id, model)), 'claude') then 300
        end as cache_life_seconds
    from lost
),

-- From each compaction to the next one, so that a request finds the last one before it alone.
compactions as (
    select
        client,
        session_id,
        seq,
        lead(seq, 1, 9223372036854775807) over (partition by client, session_id order by seq) as to_seq
    from stg.context_events
    where event in ('compacted', 'cleared')
),

explained as (
    select
        rewritten.*,
        case
            when rewritten.model <> rewritten.previous_model then 'model_switch'
            when rewritten.gap_seconds > rewritten.cache_life_seconds then 'idle'
            when rewritten.gap_seconds <= rewritten.cache_life_seconds then 'new_prefix'
        end as cause
    from rewritten
    left join compactions
        on
            rewritten.client = compactions.client
            and rewritten.session_id = compactions.session_id
            and rewritten.seq >= compactions.seq
            and rewritten.seq < compactions.to_seq
    where compactions.seq is null or compactions.seq <= rewritten.previous_seq
)

select
    client,
    session_id,
    seq,
    project,
    model,
    cause,
    gap_seconds,
    cast(cache_life_seconds as bigint) as cache_life_seconds,
    rewritten_tokens,
    round(rewritten_tokens * (cache_write_token_usd - cache_read_token_usd), 12) as extra_usd,
    ts
from explained
where
    -- Of a context that became shorter while the cache lived, nobody can tell what of the write was there before.
    (context_tokens >= previous_cached_tokens or cause <> 'new_prefix')
    and (getvariable('since') is null or ts >= cast(getvariable('since') as timestamp with time zone))
    and (getvariable('until') is null or ts < cast(getvariable('until') as timestamp with time zone))
    and (getvariable('clients') is null or list_contains(cast(getvariable('clients') as varchar[]), client))
    and (
        getvariable('project') is null
        or project = cast(getvariable('project') as varchar)
        or ends_with(project, concat('/', cast(getvariable('project') as varchar)))
        or ends_with(project, concat(chr(92), cast(getvariable('project') as varchar)))
    )
