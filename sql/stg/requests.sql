-- One row a response, each once over all files, numbered in the order that its session made them.
with fates as (
    select *
    from int.request_fates
),

-- The copy that has more of the usage than the owner's own row.
fuller as (
    select
        fates.source_id as owner_source_id,
        fates.session_id as owner_session_id,
        fates.file_seq as owner_seq,
        requests.*
    from lake.requests as requests
    inner join fates
        on
            requests.source_id = fates.fullest_source_id
            and requests.session_id = fates.fullest_session_id
            and requests.seq = fates.fullest_seq
    where fates.is_own and fates.fullest_source_id <> fates.source_id
)

select
    requests.client,
    requests.machine,
    requests.source_id,
    requests.session_id,
    requests.request_id,
    requests.response_id,
    coalesce(fates.seq, requests.seq) as seq,
    requests.seq as file_seq,
    requests.ts,
    requests.project,
    requests.is_subagent,
    case
        when fuller.source_id is null then requests.n_requests else fuller.n_requests
    end as n_requests,
    case
        when fuller.source_id is null then requests.model else fuller.model
    end as model,
    case
        when fuller.source_id is null then requests.provider else fuller.provider
    end as provider,
    case
        when fuller.source_id is null then requests.input_tokens else fuller.input_tokens
    end as input_tokens,
    case
        when fuller.source_id is null then requests.output_tokens else fuller.output_tokens
    end as output_tokens,
    case
        when fuller.source_id is null then requests.cache_read_tokens else fuller.cache_read_tokens
    end as cache_read_tokens,
    case
        when fuller.source_id is null then requests.cache_write_tokens else fuller.cache_write_tokens
    end as cache_write_tokens,
    case
        when fuller.source_id is null then requests.cache_write_5m_tokens else fuller.cache_write_5m_tokens
    end as cache_write_5m_tokens,
    case
        when fuller.source_id is null then requests.cache_write_1h_tokens else fuller.cache_write_1h_tokens
    end as cache_write_1h_tokens,
    case
        when fuller.source_id is null then requests.reasoning_tokens else fuller.reasoning_tokens
    end as reasoning_tokens,
    case
        when fuller.source_id is null then requests.context_tokens else fuller.context_tokens
    end as context_tokens,
    case
        when fuller.source_id is null then requests.reported_usd else fuller.reported_usd
    end as reported_usd,
    case
        when fuller.source_id is null then requests.service_tier else fuller.service_tier
    end as service_tier,
    case
        when fuller.source_id is null then requests.speed else fuller.speed
    end as speed,
    case
        when fuller.source_id is null then requests.inference_geo else fuller.inference_geo
    end as inference_geo,
    case
        when fuller.source_id is null then requests.web_search_requests else fuller.web_search_requests
    end as web_search_requests,
    case
        when fuller.source_id is null then requests.premium_requests else fuller.premium_requests
    end as premium_requests,
    case
        when fuller.source_id is null then requests.stop_reason else fuller.stop_reason
    end as stop_reason,
    case
        when fuller.source_id is null then requests.is_error else fuller.is_error
    end as is_error,
    case
        when fuller.source_id is null then requests.is_output_partial else fuller.is_output_partial
    end as is_output_partial,
    case
        when fuller.source_id is null then requests.duration_ms else fuller.duration_ms
    end as duration_ms
from lake.requests as requests
left join fates
    on
        requests.source_id = fates.source_id
        and requests.session_id = fates.session_id
        and requests.seq = fates.file_seq
left join fuller
    on
        requests.source_id = fuller.owner_source_id
        and requests.session_id = fuller.owner_session_id
        and requests.seq = fuller.owner_seq
where fates.source_id is null or fates.is_own
