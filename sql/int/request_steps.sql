-- One row a response of known context that follows another one of its session, beside what is known of that one.
with requests as (
    select
        client,
        session_id,
        seq,
        ts,
        project,
        model,
        model_id,
        n_requests,
        cache_read_tokens,
        cache_write_tokens,
        context_tokens,
        cache_read_token_usd,
        cache_write_token_usd,
        -- Of several responses in one row it is not known what the last one left in the cache, or put out.
        case when n_requests = 1 and not is_output_partial then output_tokens end as final_output_tokens,
        -- Of several inner calls in one response, the last one's context tells what is in the cache at the end.
        case
            when n_requests = 1 and cache_read_tokens is not null and cache_write_tokens is not null
                then least(cache_read_tokens + cache_write_tokens, context_tokens)
        end as cached_tokens,
        case when cache_write_5m_tokens + cache_write_1h_tokens > 0 then cache_write_5m_tokens end as written_5m_tokens,
        case when cache_write_5m_tokens + cache_write_1h_tokens > 0 then cache_write_1h_tokens end as written_1h_tokens
    from int.priced_requests
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
        lag(cached_tokens) over (partition by client, session_id order by seq) as previous_cached_tokens,
        -- The newest writes before: most requests write a little, a few nothing.
        last_value(written_5m_tokens ignore nulls) over (
            partition by client, session_id
            order by seq
            rows between unbounded preceding and 1 preceding
        ) as newest_5m_tokens,
        last_value(written_1h_tokens ignore nulls) over (
            partition by client, session_id
            order by seq
            rows between unbounded preceding and 1 preceding
        ) as newest_1h_tokens
    from requests
)

select *
from paired
where previous_seq is not null
