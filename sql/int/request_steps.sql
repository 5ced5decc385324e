-- One row a response of known context that follows another one of its session: the two of them side by side.
with compactions as (
    select
        client,
        session_id,
        seq,
        count(*) as compactions
    from stg.context_events
    where event in ('compacted', 'cleared')
    group by client, session_id, seq
),

numbered as (
    select
        requests.client,
        requests.session_id,
        requests.seq,
        requests.ts,
        requests.project,
        requests.model,
        requests.model_id,
        requests.input_tokens,
        requests.output_tokens,
        requests.cache_read_tokens,
        requests.cache_write_tokens,
        requests.cache_write_5m_tokens,
        requests.cache_write_1h_tokens,
        requests.context_tokens,
        requests.n_requests,
        requests.is_output_partial,
        requests.cache_read_token_usd,
        requests.cache_write_token_usd,
        sum(coalesce(compactions.compactions, 0)) over (
            partition by requests.client, requests.session_id
            order by requests.seq
        ) as compactions
    from int.priced_requests as requests
    left join compactions
        on
            requests.client = compactions.client
            and requests.session_id = compactions.session_id
            and requests.seq = compactions.seq
),

paired as (
    select
        *,
        lag(seq) over (partition by client, session_id order by seq) as previous_seq,
        lag(ts) over (partition by client, session_id order by seq) as previous_ts,
        lag(model) over (partition by client, session_id order by seq) as previous_model,
        lag(context_tokens) over (partition by client, session_id order by seq) as previous_context_tokens,
        lag(output_tokens) over (partition by client, session_id order by seq) as previous_output_tokens,
        lag(cache_read_tokens) over (partition by client, session_id order by seq) as previous_cache_read_tokens,
        lag(cache_write_tokens) over (partition by client, session_id order by seq) as previous_cache_write_tokens,
        lag(n_requests) over (partition by client, session_id order by seq) as previous_n_requests,
        lag(is_output_partial) over (partition by client, session_id order by seq) as is_previous_output_partial,
        lag(compactions) over (partition by client, session_id order by seq) as previous_compactions
    from numbered
    where context_tokens is not null
)

select *
from paired
where previous_seq is not null
