-- One row a response with the price that holds for it: what it cost, and what a token of its context cost.
with named as (
    select
        requests.client,
        requests.machine,
        requests.source_id,
        requests.session_id,
        requests.request_id,
        requests.response_id,
        requests.seq,
        requests.file_seq,
        requests.ts,
        requests.project,
        requests.n_requests,
        requests.model,
        requests.provider,
        requests.input_tokens,
        requests.output_tokens,
        requests.cache_read_tokens,
        requests.cache_write_tokens,
        requests.cache_write_5m_tokens,
        requests.cache_write_1h_tokens,
        requests.reasoning_tokens,
        requests.context_tokens,
        requests.reported_usd,
        requests.service_tier,
        requests.speed,
        requests.web_search_requests,
        requests.premium_requests,
        requests.stop_reason,
        requests.is_subagent,
        requests.is_error,
        requests.is_output_partial,
        requests.duration_ms,
        model_ids.model_id,
        requests.inference_geo,
        cast(timezone('UTC', requests.ts) as date) as day,
        isodow(timezone('UTC', requests.ts)) as weekday,
        hour(timezone('UTC', requests.ts)) * 60 + minute(timezone('UTC', requests.ts)) as minute_of_day,
        -- Of several responses in one row no prompt is known; of one, the whole prompt is the sum of its parts.
        coalesce(
            requests.context_tokens,
            case
                when requests.n_requests = 1
                    then
                        coalesce(requests.input_tokens, 0)
                        + coalesce(requests.cache_read_tokens, 0)
                        + coalesce(requests.cache_write_tokens, 0)
            end
        ) as prompt_tokens,
        lower(
            coalesce(
                nullif(requests.speed, 'standard'),
                model_ids.service_tier,
                nullif(requests.service_tier, ''),
                'standard'
            )
        ) as recorded_tier
    from stg.requests as requests
    left join int.model_ids as model_ids on requests.model = model_ids.model
),

-- The tier that the list calls it by; where a vendor has hours, the hour of the request says which.
tiered as (
    select
        named.*,
        coalesce(peak_hours.service_tier, service_tiers.service_tier, named.recorded_tier) as price_tier
    from named
    left join ref.service_tiers as service_tiers
        on named.model_id = service_tiers.model_id and named.recorded_tier = service_tiers.recorded
    left join ref.peak_hours as peak_hours
        on
            named.model_id = peak_hours.model_id
            and coalesce(service_tiers.service_tier, named.recorded_tier) = 'standard'
            and named.day >= peak_hours.effective_from
            and (peak_hours.effective_to is null or named.day < peak_hours.effective_to)
            and named.minute_of_day >= peak_hours.start_minute
            and named.minute_of_day < peak_hours.end_minute
            and contains(peak_hours.iso_weekdays, cast(named.weekday as varchar))
),

-- A request without a time, or of an unknown prompt, has a price only where one holds at all times, for all sizes.
rated as (
    select
        tiered.*,
        price_cells.from_day is not null as is_listed,
        coalesce(geo.value, 1) as factor,
        searches.value as web_search_usd,
        price_cells.input_usd,
        price_cells.output_usd,
        price_cells.cache_read_usd,
        price_cells.cache_write_5m_usd,
        price_cells.cache_write_1h_usd,
        coalesce(tiered.cache_write_1h_tokens, 0) as written_1h_tokens,
        coalesce(tiered.cache_write_tokens, 0) - coalesce(tiered.cache_write_1h_tokens, 0) as written_5m_tokens
    from tiered
    left join int.price_cells as price_cells
        on
            tiered.model_id = price_cells.model_id
            and tiered.price_tier = price_cells.service_tier
            and coalesce(tiered.prompt_tokens, 0) >= price_cells.from_tokens
            and coalesce(tiered.prompt_tokens, 9223372036854775806) < price_cells.to_tokens
            and coalesce(tiered.day, date '0001-01-01') >= price_cells.from_day
            and coalesce(tiered.day, date '9999-12-30') < price_cells.to_day
    left join ref.price_modifiers as geo
        on
            tiered.model_id = geo.model_id
            and geo.kind = 'inference_geo_factor'
            and lower(tiered.inference_geo) = geo.recorded
            and (geo.effective_from is null or tiered.day >= geo.effective_from)
            and (geo.effective_to is null or tiered.day < geo.effective_to)
    left join ref.price_modifiers as searches
        on
            tiered.web_search_requests > 0
            and tiered.model_id = searches.model_id
            and searches.kind = 'web_search_usd'
            and (searches.effective_from is null or tiered.day >= searches.effective_from)
            and (searches.effective_to is null or tiered.day < searches.effective_to)
),

-- A part of the usage that has tokens and no price makes the whole request unpriced.
priced as (
    select
        rated.*,
        is_listed
        and (coalesce(input_tokens, 0) = 0 or input_usd is not null)
        and (coalesce(cache_read_tokens, 0) = 0 or cache_read_usd is not null)
        and (written_5m_tokens = 0 or cache_write_5m_usd is not null)
        and (written_1h_tokens = 0 or cache_write_1h_usd is not null) as has_context_price,
        (coalesce(output_tokens, 0) = 0 or output_usd is not null)
        and (coalesce(web_search_requests, 0) = 0 or web_search_usd is not null) as has_output_price,
        input_tokens is not null and output_tokens is not null as has_usage,
        factor * (
            coalesce(input_tokens * input_usd, 0)
            + coalesce(cache_read_tokens * cache_read_usd, 0)
            + coalesce(written_5m_tokens * cache_write_5m_usd, 0)
            + coalesce(written_1h_tokens * cache_write_1h_usd, 0)
        ) as prompt_usd,
        factor * coalesce(output_tokens * output_usd, 0)
        + coalesce(web_search_requests * web_search_usd, 0) as answer_usd
    from rated
)

select
    client,
    machine,
    source_id,
    session_id,
    request_id,
    response_id,
    seq,
    file_seq,
    ts,
    project,
    n_requests,
    model,
    provider,
    input_tokens,
    output_tokens,
    cache_read_tokens,
    cache_write_tokens,
    cache_write_5m_tokens,
    cache_write_1h_tokens,
    reasoning_tokens,
    context_tokens,
    reported_usd,
    service_tier,
    speed,
    web_search_requests,
    premium_requests,
    stop_reason,
    is_subagent,
    is_error,
    is_output_partial,
    duration_ms,
    model_id,
    has_usage,
    reported_usd as measured_usd,
    case
        when reported_usd is null and has_usage and has_context_price and has_output_price then prompt_usd + answer_usd
    end as estimated_usd,
    reported_usd is null and has_usage and not (has_context_price and has_output_price) as is_unpriced,
    case
        when has_usage and has_context_price and prompt_tokens > 0 then prompt_usd / prompt_tokens
    end as context_token_usd,
    factor * cache_read_usd as cache_read_token_usd,
    -- What a token of its writes cost, 5-minute and 1-hour ones together.
    case
        when has_context_price and cache_write_tokens > 0
            then
                factor * (
                    coalesce(written_5m_tokens * cache_write_5m_usd, 0)
                    + coalesce(written_1h_tokens * cache_write_1h_usd, 0)
                ) / cache_write_tokens
    end as cache_write_token_usd
from priced
