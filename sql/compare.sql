-- One row a group of requests (--by), or two that you choose (--a, --b) and their difference: what they used and cost.
with loads as (
    select
        *,
        concat(client, ' ', session_id) as session_key,
        strftime(
            date_trunc('week', timezone(coalesce(cast(getvariable('timezone') as varchar), 'UTC'), ts)), '%Y-%m-%d'
        ) as week
    from int.request_loads
),

sides as (
    select
        1 as place,
        'A' as side,
        cast(getvariable('a') as varchar) as filter
    where getvariable('a') is not null
    union all
    select
        2 as place,
        'B' as side,
        cast(getvariable('b') as varchar) as filter
    where getvariable('b') is not null
),

chosen as (
    select
        place,
        side,
        filter,
        substr(filter, length(split_part(filter, '=', 1)) + 2) as wanted
    from sides
),

-- Without two sides every request is in one group; with them it is in none, one or both.
grouped as (
    select
        0 as place,
        case coalesce(cast(getvariable('by') as varchar), 'client')
            when 'model' then loads.model
            when 'project' then loads.project
            when 'week' then loads.week
            when 'machine' then loads.machine
            when 'session' then loads.session_id
            else loads.client
        end as group_name,
        loads.*
    from loads
    where getvariable('a') is null and getvariable('b') is null
    union all
    select
        chosen.place,
        concat(chosen.side, ': ', chosen.filter) as group_name,
        loads.*
    from chosen
    left join loads
        on
            case split_part(chosen.filter, '=', 1)
                when 'client' then chosen.wanted = loads.client
                when 'model' then chosen.wanted = loads.model
                when 'machine' then chosen.wanted = loads.machine
                when 'session' then starts_with(loads.session_id, chosen.wanted)
                when 'week' then chosen.wanted = loads.week
                when 'project'
                    then
                        chosen.wanted = loads.project
                        or ends_with(loads.project, concat('/', chosen.wanted))
                        or ends_with(loads.project, concat(chr(92), chosen.wanted))
            end
),

totals as (
    select
        place,
        group_name,
        count(distinct session_key) as sessions,
        cast(coalesce(sum(n_requests), 0) as bigint) as requests,
        cast(coalesce(sum(case when has_usage then 0 else n_requests end), 0) as bigint) as requests_without_usage,
        cast(coalesce(sum(case when is_unpriced then n_requests else 0 end), 0) as bigint) as unpriced_requests,
        cast(coalesce(sum(case when is_output_partial then n_requests else 0 end), 0) as bigint)
            as partial_output_requests,
        cast(sum(input_tokens) as bigint) as input_tokens,
        cast(sum(output_tokens) as bigint) as output_tokens,
        cast(sum(cache_read_tokens) as bigint) as cache_read_tokens,
        cast(sum(cache_write_tokens) as bigint) as cache_write_tokens,
        quantile_disc(context_tokens, 0.5) as median_context_tokens,
        max(context_tokens) as max_context_tokens,
        cast(coalesce(sum(tool_calls), 0) as bigint) as tool_calls,
        cast(coalesce(sum(tool_errors), 0) as bigint) as tool_errors,
        cast(sum(skill_overhead) as bigint) as skill_overhead,
        sum(measured_usd) as measured_usd,
        sum(estimated_usd) as estimated_usd,
        coalesce(bool_and(is_skill_measured) filter (where skill_overhead is not null), false)
            as skill_overhead_measured
    from grouped
    group by place, group_name
),

compared as (
    select
        *,
        cast(null as double) as sessions_change,
        cast(null as double) as requests_change,
        cast(null as double) as input_tokens_change,
        cast(null as double) as output_tokens_change,
        cast(null as double) as cache_read_tokens_change,
        cast(null as double) as cache_write_tokens_change,
        cast(null as double) as median_context_tokens_change,
        cast(null as double) as max_context_tokens_change,
        cast(null as double) as tool_calls_change,
        cast(null as double) as tool_errors_change,
        cast(null as double) as skill_overhead_change,
        cast(null as double) as measured_usd_change,
        cast(null as double) as estimated_usd_change
    from totals
    union all
    select
        3 as place,
        'difference' as group_name,
        b.sessions - a.sessions as sessions,
        b.requests - a.requests as requests,
        b.requests_without_usage - a.requests_without_usage as requests_without_usage,
        b.unpriced_requests - a.unpriced_requests as unpriced_requests,
        b.partial_output_requests - a.partial_output_requests as partial_output_requests,
        b.input_tokens - a.input_tokens as input_tokens,
        b.output_tokens - a.output_tokens as output_tokens,
        b.cache_read_tokens - a.cache_read_tokens as cache_read_tokens,
        b.cache_write_tokens - a.cache_write_tokens as cache_write_tokens,
        b.median_context_tokens - a.median_context_tokens as median_context_tokens,
        b.max_context_tokens - a.max_context_tokens as max_context_tokens,
        b.tool_calls - a.tool_calls as tool_calls,
        b.tool_errors - a.tool_errors as tool_errors,
        b.skill_overhead - a.skill_overhead as skill_overhead,
        b.measured_usd - a.measured_usd as measured_usd,
        b.estimated_usd - a.estimated_usd as estimated_usd,
        a.skill_overhead_measured and b.skill_overhead_measured as skill_overhead_measured,
        (b.sessions - a.sessions) / nullif(a.sessions, 0) as sessions_change,
        (b.requests - a.requests) / nullif(a.requests, 0) as requests_change,
        (b.input_tokens - a.input_tokens) / nullif(a.input_tokens, 0) as input_tokens_change,
        (b.output_tokens - a.output_tokens) / nullif(a.output_tokens, 0) as output_tokens_change,
        (b.cache_read_tokens - a.cache_read_tokens) / nullif(a.cache_read_tokens, 0) as cache_read_tokens_change,
        (b.cache_write_tokens - a.cache_write_tokens) / nullif(a.cache_write_tokens, 0) as cache_write_tokens_change,
        (b.median_context_tokens - a.median_context_tokens) / nullif(a.median_context_tokens, 0)
            as median_context_tokens_change,
        (b.max_context_tokens - a.max_context_tokens) / nullif(a.max_context_tokens, 0) as max_context_tokens_change,
        (b.tool_calls - a.tool_calls) / nullif(a.tool_calls, 0) as tool_calls_change,
        (b.tool_errors - a.tool_errors) / nullif(a.tool_errors, 0) as tool_errors_change,
        (b.skill_overhead - a.skill_overhead) / nullif(a.skill_overhead, 0) as skill_overhead_change,
        (b.measured_usd - a.measured_usd) / nullif(a.measured_usd, 0) as measured_usd_change,
        (b.estimated_usd - a.estimated_usd) / nullif(a.estimated_usd, 0) as estimated_usd_change
    from totals as a
    inner join totals as b on b.place = 2
    where a.place = 1
)

select
    group_name,
    sessions,
    requests,
    requests_without_usage,
    unpriced_requests,
    partial_output_requests,
    input_tokens,
    output_tokens,
    cache_read_tokens,
    cache_write_tokens,
    median_context_tokens,
    max_context_tokens,
    tool_calls,
    tool_errors,
    skill_overhead,
    round(sessions_change, 12) as sessions_change,
    round(requests_change, 12) as requests_change,
    round(input_tokens_change, 12) as input_tokens_change,
    round(output_tokens_change, 12) as output_tokens_change,
    round(cache_read_tokens_change, 12) as cache_read_tokens_change,
    round(cache_write_tokens_change, 12) as cache_write_tokens_change,
    round(median_context_tokens_change, 12) as median_context_tokens_change,
    round(max_context_tokens_change, 12) as max_context_tokens_change,
    round(tool_calls_change, 12) as tool_calls_change,
    round(tool_errors_change, 12) as tool_errors_change,
    round(skill_overhead_change, 12) as skill_overhead_change,
    round(measured_usd_change, 12) as measured_usd_change,
    round(estimated_usd_change, 12) as estimated_usd_change,
    round(measured_usd, 12) as measured_usd,
    round(estimated_usd, 12) as estimated_usd,
    skill_overhead_measured
from compared
