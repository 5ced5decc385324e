-- One row a day, client, model and project: requests, tokens and cost (--by another period, a session or a block).
with requests as (
    select
        *,
        timezone(coalesce(cast(getvariable('timezone') as varchar), 'UTC'), ts) as local_ts
    from int.window_requests
),

periods as (
    select
        requests.*,
        case coalesce(cast(getvariable('by') as varchar), 'day')
            when 'session' then requests.session_id
            when 'month' then strftime(requests.local_ts, '%Y-%m')
            when 'week' then strftime(date_trunc('week', requests.local_ts), '%Y-%m-%d')
            when 'block'
                then
                    strftime(
                        timezone(
                            coalesce(cast(getvariable('timezone') as varchar), 'UTC'),
                            timezone('UTC', block_hours.block_hour)
                        ),
                        '%Y-%m-%d %H:%M'
                    )
            else strftime(requests.local_ts, '%Y-%m-%d')
        end as period
    from requests
    left join int.block_hours as block_hours
        on
            requests.client = block_hours.client
            and date_trunc('hour', timezone('UTC', requests.ts)) = block_hours.started_hour
)

select
    period as day,
    client,
    model,
    project,
    cast(sum(n_requests) as bigint) as requests,
    cast(sum(case when has_usage then 0 else n_requests end) as bigint) as requests_without_usage,
    cast(sum(case when is_unpriced then n_requests else 0 end) as bigint) as unpriced_requests,
    cast(sum(case when is_output_partial then n_requests else 0 end) as bigint) as partial_output_requests,
    cast(sum(input_tokens) as bigint) as input_tokens,
    cast(sum(output_tokens) as bigint) as output_tokens,
    cast(sum(cache_read_tokens) as bigint) as cache_read_tokens,
    cast(sum(cache_write_tokens) as bigint) as cache_write_tokens,
    cast(sum(reasoning_tokens) as bigint) as reasoning_tokens,
    cast(sum(web_search_requests) as bigint) as web_search_requests,
    sum(premium_requests) as premium_requests,
    round(sum(measured_usd), 12) as measured_usd,
    round(sum(estimated_usd), 12) as estimated_usd
from periods
group by period, client, model, project
