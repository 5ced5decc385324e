-- One row a prefix that was written to the cache again: after which pause, how much, why, and what that cost.
with steps as (
    select *
    from int.request_steps
    where previous_cached_tokens - cache_read_tokens >= 1024 and cache_write_tokens >= 1024 and not is_compacted
),

-- Which life the newest writes before the request had: most requests write a little, a few nothing.
lives as (
    select
        client,
        session_id,
        seq,
        lead(seq, 1, 9223372036854775807) over (partition by client, session_id order by seq) as to_seq,
        cache_write_5m_tokens,
        cache_write_1h_tokens
    from stg.requests
    where cache_write_1h_tokens + cache_write_5m_tokens > 0
),

lost as (
    select
        steps.*,
        priced.model_id,
        priced.cache_write_token_usd - priced.cache_read_token_usd as extra_token_usd,
        lives.cache_write_5m_tokens as newest_5m_tokens,
        lives.cache_write_1h_tokens as newest_1h_tokens,
        steps.previous_cached_tokens - steps.cache_read_tokens as lost_tokens
    from steps
    inner join int.priced_requests as priced
        on steps.client = priced.client and steps.session_id = priced.session_id and steps.seq = priced.seq
    left join lives
        on
            steps.client = lives.client
            and steps.session_id = lives.session_id
            and steps.previous_seq >= lives.seq
            and steps.previous_seq < lives.to_seq
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

explained as (
    select
        *,
        case
            when model <> previous_model then 'model_switch'
            when gap_seconds > cache_life_seconds then 'idle'
            when gap_seconds <= cache_life_seconds then 'new_prefix'
        end as cause
    from rewritten
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
    round(rewritten_tokens * extra_token_usd, 12) as extra_usd,
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
